"""A problem from a TOML file and flags; flags win."""

import tomllib
from typing import Any

from emergence.problem import KINDS, RIVALS, Problem, check_values
from emergence.refusal import refuse
from emergence.values import shown


def load(path: str) -> dict[str, Any]:
    """Problem values of a TOML file, by field name. Keys may be written with ``_`` or ``-``.

    Raises `InputError` for a file that cannot be read, an unknown key, a key given twice, or a value of the wrong kind.
    """
    values: dict[str, Any] = {}
    for key, value in _read(path).items():
        name = key.replace("-", "_")
        if name not in KINDS:
            refuse(f"config {path}: unknown key {key!r}: use {', '.join(KINDS)}")
        if name in values:
            refuse(f"config {path}: key {key!r} is given twice, with - and with _: drop one")
        values[name] = KINDS[name].check(f"config {path}: {key}", value)
    return values


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as problem:
        refuse(f"config {path!r} cannot be read ({problem.strerror}): give the path of a TOML file")
    except ValueError as problem:  # not TOML, not UTF-8, or a path with a null character
        refuse(f"config {path!r} is not a TOML file ({shown(str(problem))}): write lines such as dim = 1024")


def build(flags: dict[str, Any], config: str | None = None) -> Problem:
    """The problem of a configuration file with flags over it.

    A flag sets aside its rivals in the file: ``--teacher-weights`` the file's exponent and width, ``--steps`` its time.
    """
    given = check_values(flags, prefix="--")
    base = load(config) if config is not None else {}
    for flag in given:
        for rival in RIVALS.get(flag, ()):
            base.pop(rival, None)
    return Problem(**(base | given))
