"""A problem from a TOML file and flags; flags win."""

import os
import stat
import tomllib
from collections.abc import Mapping
from typing import Any

from emergence.linear_problem import LINEAR_KINDS, LINEAR_OPTIONAL, LinearProblem
from emergence.problem import KINDS, RIVALS, Problem, check_values
from emergence.refusal import is_refusal, refuse
from emergence.values import Kind, shown

MODELS = ("additive", "linear")

#: Bytes of a configuration file, at most.
LARGEST = 1_000_000
#: The one table of a configuration file: what `emergence sweep` varies. Other commands pass it over.
SWEEP = "sweep"


def model(flag: str | None, path: str | None) -> str:
    """The model that a problem is about: the flag's, else the file's key ``model``, else the additive one."""
    if flag is not None:
        return flag
    named = "additive" if path is None else _read(path).get("model", "additive")
    if named not in MODELS:
        refuse(f"config {path}: model is {shown(named)}: use one of {', '.join(MODELS)}")
    return str(named)


def load(path: str, kinds: Mapping[str, Kind] = KINDS) -> dict[str, Any]:
    """Problem values (or those of other `kinds`) of a TOML file, by field name; `SWEEP` is left to `sweep`.

    Keys may be written with ``_`` or ``-``.

    Raises `InputError` for a file that cannot be read, an unknown key, a key given twice, or a value of the wrong kind.
    """
    values: dict[str, Any] = {}
    for key, value in _read(path).items():
        if key == SWEEP:
            continue
        name = key.replace("-", "_")
        if name == "model" and kinds is KINDS:  # says which options follow, is none of them
            if value != "additive":
                refuse(f"config {path}: model is {shown(value)}, but this is about the additive model: leave it out")
            continue
        if name not in kinds:
            from theory.core.errors import did_you_mean

            refuse(f"config {path}: unknown key {key!r}: {did_you_mean(name, kinds)}use {', '.join(kinds)}")
        if name in values:
            refuse(f"config {path}: key {key!r} is given twice, with - and with _: drop one")
        values[name] = kinds[name].check(f"config {path}: {key}", value)
    return values


def sweep(path: str) -> dict[str, Any]:
    """The table ``[sweep]`` of a TOML file: option → values, unchecked; empty if there is none. Raises `InputError`."""
    table = _read(path).get(SWEEP, {})
    if not isinstance(table, dict):
        refuse(f'config {path}: sweep is {shown(table)}: write a table [sweep] with lines such as seed = "0:10"')
    return table


def _read(path: str) -> dict[str, Any]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever, a device never end
            refuse(f"config {path!r} is no regular file: give the path of a TOML file")
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            refuse(f"config {path!r} is larger than {LARGEST} bytes: give the path of a TOML file")
        return tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        refuse(f"config {path!r} is nested too deeply: write lines such as dim = 1024")
    except OSError as problem:
        refuse(f"config {path!r} cannot be read ({problem.strerror}): give the path of a TOML file")
    except ValueError as problem:
        if is_refusal(problem):
            raise
        # not TOML, not UTF-8, or a path with a null character
        refuse(f"config {path!r} is not a TOML file ({shown(str(problem))}): write lines such as dim = 1024")


def build(flags: dict[str, Any], config: str | None = None, defaults: dict[str, Any] | None = None) -> Problem:
    """The problem of a configuration file with flags over it; `defaults` of a command stand below both.

    Raises `InputError`.
    """
    return Problem(**((defaults or {}) | values(flags, config)))


def values(flags: dict[str, Any], config: str | None = None) -> dict[str, Any]:
    """Values of a configuration file with flags over them, each good by itself.

    A flag sets aside its rivals in the file: ``--teacher-weights`` the file's exponent and width, ``--steps`` its time.
    """
    given = check_values(flags, prefix="--")
    base = load(config) if config is not None else {}
    for flag in given:
        for rival in RIVALS.get(flag, ()):
            base.pop(rival, None)
    return base | given


def build_linear(flags: dict[str, Any], config: str | None = None) -> LinearProblem:
    """The same for the linear network."""
    given = check_values(flags, "--", LINEAR_KINDS, LINEAR_OPTIONAL)
    base = load(config, LINEAR_KINDS) if config is not None else {}
    for one, other in (("noise", "label_flip"), ("label_flip", "noise")):
        if one in given:
            base.pop(other, None)
    return LinearProblem(**(base | given))
