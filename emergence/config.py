"""Problems from TOML files."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from emergence.model import Model
from emergence.options import Problem, kind, merged, options
from emergence.reading import read
from emergence.refusal import is_refusal, refuse
from emergence.values import shown

#: Bytes of a configuration file, at most.
LARGEST = 1_000_000
#: Keys within keys within keys: no option is, at any depth.
_DEEP = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){17}""")
#: The one table of a configuration file: what `emergence sweep` varies. Other commands pass it over.
SWEEP = "sweep"
#: The key that names the model.
MODEL = "model"


def named_model(path: str) -> str | None:
    """The file's key ``model``. Raises `InputError`."""
    found = tables(path).get(MODEL)
    if found is not None and not isinstance(found, str):
        refuse(f"config {path}: model is {shown(found)}: give the name of a model, or of a Python file with one")
    return found


def activation(path: str) -> str | None:
    """The file's activation, if it is a text. Raises `InputError` for a file that is none."""
    found = tables(path).get("activation")
    return found if isinstance(found, str) else None


def load(path: str, problem: type[Problem]) -> dict[str, Any]:
    """Values of a problem from a TOML file, by field name; `SWEEP` and `MODEL` are left to others.

    Keys may be written with ``_`` or ``-``.

    Raises `InputError` for a file that cannot be read, an unknown key, a key given twice, or a value of the wrong kind.
    """
    values: dict[str, Any] = {}
    for key, value in tables(path).items():
        if key in (SWEEP, MODEL):
            continue
        name = key.replace("-", "_")
        if name not in options(problem):
            from theory.core.errors import did_you_mean

            known = options(problem)
            refuse(f"config {path}: unknown key {key!r}: {did_you_mean(name, known)}use {', '.join(known)}")
        if name in values:
            refuse(f"config {path}: key {key!r} is given twice, with - and with _: drop one")
        values[name] = kind(problem, name).check(f"config {path}: {key}", value)
    return values


def sweep(path: str) -> dict[str, Any]:
    """The table ``[sweep]`` of a TOML file: option → values, unchecked; empty if there is none. Raises `InputError`."""
    table = tables(path).get(SWEEP, {})
    if not isinstance(table, dict):
        refuse(f'config {path}: sweep is {shown(table)}: write a table [sweep] with lines such as seed = "0:10"')
    return table


def tables(path: str, what: str = "config", example: str = "dim = 1024") -> dict[str, Any]:
    """The tables of a TOML file. `what`: it is, in messages. Raises `InputError` for a file that is none."""
    try:
        content = read(path, LARGEST)
        if len(content) > LARGEST:
            refuse(f"{what} {path!r} is larger than {LARGEST} bytes: give the path of a TOML file")
        text = content.decode("utf-8")
        if _DEEP.search(text):  # the parser's time and memory grow with the square of the depth
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        refuse(f"{what} {path!r} is nested too deeply: write lines such as {example}")
    except OSError as problem:
        refuse(f"{what} {path!r} cannot be read ({problem.strerror}): give the path of a TOML file")
    except ValueError as problem:
        if is_refusal(problem):
            raise
        # not TOML, not UTF-8, or a path with a null character
        refuse(f"{what} {path!r} is not a TOML file ({shown(str(problem))}): write lines such as {example}")


def claim_tables(path: str) -> dict[str, Any]:
    """The tables of a claim file. Raises `InputError` for a file that is no TOML file."""
    return tables(path, "claim file", '[claim] and id = "X1"')


def values(model: Model, flags: Mapping[str, Any], path: str | None = None) -> dict[str, Any]:
    """Values of a configuration file with flags over them, each good by itself. Raises `InputError`."""
    return merged(model.problem, {} if path is None else load(path, model.problem), flags)


def build(model: Model, flags: Mapping[str, Any], path: str | None = None) -> Problem:
    """The problem of a configuration file with flags over it."""
    return model.problem(**values(model, flags, path))
