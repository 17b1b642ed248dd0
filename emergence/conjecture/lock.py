"""Locks: the SHA-256 of a claim as it stood before the data, in a file ``ID.lock`` beside it.

The digest is of the claim and of whether there were data. Older locks, whose digest is of the claim alone, are read as they
were; nothing tells whether somebody has changed what they say about data.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamics.core.storage import write_atomically
from emergence import jsonio
from emergence.conjecture.conjecture import Conjecture
from emergence.conjecture.formula import Formula
from emergence.refusal import refuse
from emergence.store.folder import digest
from emergence.values import shown
from validation.judge.claim import Claim

LOCKED, UNLOCKED, EDITED, LATE = "locked", "unlocked", "edited after lock", "locked after data"
#: Said of an older lock beside that it is locked.
OLD = "before data or after is not under its digest"
#: Bytes of a lock, at most.
_LARGEST = 1_000_000


def canonical(conjecture: Conjecture) -> dict[str, Any]:
    """All that decides a verdict, in one form however it is written: prediction, rivals, window, data, seeds, rule."""
    allowances = [str(one.expression) if isinstance(one, Formula) else one for one in conjecture.allowances]
    content = {
        "id": conjecture.id,
        "kind": conjecture.kind,
        "expected": conjecture.expected,
        "model": conjecture.model.name,
        "simulation": conjecture.simulation.name,
        "problem": {
            **conjecture.fixed,
            **{name: list(values) for name, values in conjecture.axes.items()},
            **{name: str(one.expression) for name, one in conjecture.tied.items()},
        },
        "quantity": dict(conjecture.table.get("quantity", {})),
        "curve": conjecture.curve,
        "predict": str(conjecture.predict.expression),
        "rivals": {name: str(one.expression) for name, one in conjecture.rivals.items()},
        "seeds": list(conjecture.seeds),
        "replicas": conjecture.replicas,
        "allowance": allowances,
        "false_alarms": conjecture.false_alarms,
        "power": conjecture.power,
        "code": conjecture.code,
    }
    return dict(jsonio.plain(content))


def of_claim(claim: Claim, code: str) -> dict[str, Any]:
    """The same of a claim that is a function: its words, and the digest of its file."""
    return {
        "id": claim.id,
        "kind": claim.kind,
        "expected": claim.expected,
        "controls": list(claim.controls),
        "code": code,
    }


def place(file: str, name: str) -> Path:
    """The lock of a claim in a file."""
    return Path(file).resolve().parent / f"{name}.lock"


def status(path: Path, content: Mapping[str, Any]) -> str:
    """One of the four words above, with `OLD` where it applies. Raises `InputError` for a lock that is none."""
    if not path.exists():
        return UNLOCKED
    lock = _read(path)
    if digest(lock["canonical"]) != digest(content):
        return EDITED
    if lock.get("after_data"):
        return LATE
    return f"{LOCKED}, {OLD}" if _is_old(lock) else LOCKED


def check(path: Path, content: Mapping[str, Any]) -> None:
    """Raises `InputError` where another version of a claim is locked already."""
    if path.exists() and digest(_read(path)["canonical"]) != digest(content):
        refuse(f"lock {str(path)!r} is of another version of claim {content['id']}: remove it to lock this one")


def write(path: Path, content: Mapping[str, Any], after_data: bool) -> dict[str, Any]:
    """Lock a claim, of which there were data before or not; what the lock holds. One that is there stays.

    Raises `InputError` as `check` does.
    """
    check(path, content)
    if path.exists():
        return _read(path)
    under = {"canonical": dict(content), "after_data": after_data}
    lock = {"claim": content["id"], "sha256": digest(under), **under}
    text = json.dumps(lock, indent=2, sort_keys=True)
    write_atomically(path, lambda temporary: Path(temporary).write_text(f"{text}\n", encoding="utf-8"))
    return lock


def _is_old(lock: Mapping[str, Any]) -> bool:
    return bool(lock["sha256"] == digest(lock["canonical"]))


def _read(path: Path) -> dict[str, Any]:
    """A lock, whose digest must be that of what it says was locked."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(_LARGEST))
        under = {name: found[name] for name in ("canonical", "after_data") if name in found}
        whole = _is_old(found) or digest(under) == found["sha256"]
    except (OSError, ValueError, KeyError, RecursionError, TypeError) as problem:
        refuse(f"lock {str(path)!r} cannot be read ({shown(str(problem))}): remove it and lock the claim again")
    if not whole:
        refuse(f"lock {str(path)!r} has been edited: its sha256 is not that of its content: remove it and lock again")
    return dict(found)
