"""What the claims of the catalogue promised, as digests that stand beside them: a changed expectation is a changed line there.

``python -m validation.judge.lock`` writes them anew, for a change that is meant.
"""

import ast
import hashlib
import io
import json
import sys
import tokenize
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import validation.claims
from dynamics.core.storage import write_atomically
from theory import InputError
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim
from validation.judge.selection import natural

PATH = Path(validation.claims.__path__[0]) / "lock.json"
LOCKED, UNLOCKED, EDITED = "locked", "unlocked", "edited after lock"
_DECLARED = ("id", "statement", "latex", "kind", "regime", "expected", "controls")


class Lock(NamedTuple):
    """Digests (SHA-256) of a claim.

    Attributes:
        declaration: of what it states, where, what is expected of it, and its controls.
        measurement: of its runner as it is written, and of every function and constant of its module that it uses: there
            predictions are asked for, and allowances, windows and the sizes of both presets stand. Comments, docstrings and
            layout do not count, nor does what is imported: theory and simulators are judged, not locked.
    """

    declaration: str
    measurement: str

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of both: what is kept of a claim elsewhere is of another version if they differ."""
        return hashlib.sha256("".join(self).encode()).hexdigest()[:16]


def lock(claim: Claim) -> Lock:
    """The lock of a claim as it is now."""
    declared = json.dumps({name: getattr(claim, name) for name in _DECLARED}, sort_keys=True)
    return Lock(*(hashlib.sha256(text.encode()).hexdigest() for text in (declared, measurement(claim))))


def measurement(claim: Claim) -> str:
    """The statements of its module that a claim's measurement rests on, by name, without comments, docstrings and spaces."""
    module = sys.modules.get(claim.runner.__module__)
    if not getattr(module, "__file__", None):  # typed
        return ""
    written = _written(module)
    left = [claim.runner.__qualname__.partition(".")[0], *(name for name, one in vars(module).items() if one is claim)]
    found: dict[str, str] = {}
    while left:
        name = left.pop()
        if name in written and name not in found:
            found[name], uses = written[name]
            left += uses
    return "\n".join(f"{name} {found[name]}" for name in sorted(found))


@lru_cache(maxsize=1024)
def _written(module: ModuleType) -> dict[str, tuple[str, frozenset[str]]]:
    """Each name that a module defines: the statement that does, and the names in it. Decorators are left aside."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for statement in ast.parse(source).body:
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
                said = node.body[0]
                lines[said.lineno - 1 : said.end_lineno] = [""] * (int(said.end_lineno or 0) - said.lineno + 1)
        text = "".join("".join(lines[statement.lineno - 1 : statement.end_lineno]).split())
        uses = frozenset(_names(statement, ast.Load))
        for name in _bound(statement):
            before, others = found.get(name, ("", frozenset()))
            found[name] = before + text, others | uses
    return found


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return set() if isinstance(statement, ast.Import | ast.ImportFrom) else _names(statement, ast.Store)


def _names(statement: ast.stmt, how: type[ast.expr_context]) -> set[str]:
    decorators = getattr(statement, "decorator_list", [])
    parts = [part for part in ast.iter_child_nodes(statement) if part not in decorators]
    nodes = [node for part in parts for node in ast.walk(part)]
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, how)}


def state(claim: Claim, locks: Mapping[str, Lock]) -> str:
    """``locked``, ``unlocked``, or ``edited after lock`` with what was: ``(declaration)``, ``(measurement)`` or both."""
    if claim.id not in locks:
        return UNLOCKED
    then, now = locks[claim.id], lock(claim)
    edited = [name for name in Lock._fields if getattr(then, name) != getattr(now, name)]
    return f"{EDITED} ({', '.join(edited)})" if edited else LOCKED


def write(path: Path, claims: Iterable[Claim]) -> Path:
    """Lock claims: one line each, by id. Raises `InputError` if the file cannot be written."""
    found = sorted(((claim.id, lock(claim)._asdict()) for claim in claims), key=lambda pair: natural(pair[0]))
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(digests)}" for name, digests in found)
    return write_atomically(path, lambda name: Path(name).write_text(f"{{\n{text}\n}}\n", encoding="utf-8"))


def read(path: Path) -> dict[str, Lock]:
    """Claim id → its lock; empty if there is no such file. Raises `InputError` for what holds no locks."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): Lock(str(one["declaration"]), str(one["measurement"])) for name, one in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        told = f"{str(path)!r} cannot be read ({type(problem).__name__}): run python -m validation.judge.lock"
        raise InputError(f"lock {told}") from None


@lru_cache(maxsize=1)
def of_catalogue() -> dict[str, Lock]:
    """The locks that stand beside the claims."""
    return read(PATH)


if __name__ == "__main__":
    sys.stdout.write(f"{write(PATH, catalogue())}\n")
