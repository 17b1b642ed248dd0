"""``from emergence import claim``: a claim of one's own, its measurement a Python function."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from emergence.conjecture.conjecture import Function, of_table
from emergence.conjecture.judging import claim_of
from emergence.conjecture.runs import Runs
from emergence.refusal import refuse
from emergence.store.code_digest import own_digest
from validation.judge import claim as judge
from validation.judge.claim import Claim

__all__ = ["claim"]
#: Arguments beside those of the section [claim].
_SECTIONS = ("problem", "quantity", "data", "rivals")


def claim(**texts: Any) -> Callable[[Any], Claim]:
    """Decorator that makes a `Claim` of a function.

    With `problem` the function is of one run: it takes the dataset of one run (no axis of replicas) and returns a number.
    The arguments are the keys of a claim file:

    Args:
        id, statement, kind, source, title, expected: as in its section [claim].
        problem, rivals, data: sections, as mappings. predict: a formula.
        allowance, false_alarm_rate, power: as in its section [judge].

    Without `problem` it is a runner that takes a `Context` and yields measurements, as in the catalogue
    (`validation.claim`).

    Raises `InputError` as a claim file does.
    """
    if "problem" not in texts:
        return judge.claim(**texts)

    def made(function: Function) -> Claim:
        where, code = _origin(function)
        table: dict[str, Any] = {name: texts.pop(name) for name in _SECTIONS if name in texts}
        names = {"allowance": "allowance", "false_alarm_rate": "false-alarm-rate", "power": "power"}
        table["judge"] = {names[key]: texts.pop(key) for key in names if key in texts}
        if "predict" not in texts:
            refuse(f"{where}: predict is not given: give a formula")
        table |= {"predict": {"formula": texts.pop("predict")}, "claim": texts}
        return claim_of(of_table(_plain(table), where, function=function, code=code), Runs())

    return made


def _origin(function: Function) -> tuple[str, str]:
    """The name of the function's file, and the digest of its code."""
    try:
        path = Path(cast(str, inspect.getsourcefile(function))).resolve()
        return path.name, own_digest(path)
    except (OSError, TypeError):
        return getattr(function, "__name__", "claim"), ""


def _plain(value: Any) -> Any:
    """Tuples as lists, as a TOML file has them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
