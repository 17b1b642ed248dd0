"""One change of one file, by the place that it has in the text."""

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from mutants.switch import NAME


@dataclass(frozen=True)
class Mutant:
    """A change of a file's text.

    Attributes:
        path: of the file, below the root, with slashes. function: its qualified name there, ``""`` outside any.
        line: where the change begins. lines: first and last line of the statement, or of a compound statement's head.
        kind: name of the operator. start, end: of what is replaced, as offsets into the file's bytes.
        before, after: what is replaced, and by what. statement: the text of `lines`, in one line.
        copy: counts mutants of one file that are alike in all this but the place.
    """

    path: str
    function: str
    line: int
    lines: tuple[int, int]
    kind: str
    start: int
    end: int
    before: str
    after: str
    statement: str
    copy: int = 0

    @property
    def digest(self) -> str:
        """Ten hexadecimal digits that stay the same when lines move."""
        parts = (self.path, self.function, self.kind, self.statement, self.before, self.after, str(self.copy))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]

    @property
    def site(self) -> tuple[str, str, str]:
        """The statement that it is in; of one statement at most one mutant is drawn."""
        return self.path, self.function, self.statement

    @property
    def change(self) -> str:
        """In words, for a table."""
        return f"{' '.join(self.before.split())} → {' '.join(self.after.split())}"


def switched(source: str, mutants: Sequence[Mutant]) -> str:
    """A file's text in which each of the mutants is there, but off until it is turned on.

    One may lie within another, which stands where it is off. Raises `ValueError` where two overlap otherwise, and for a text
    that is not the one that a mutant was made from.
    """
    content = source.encode()
    return _within(content, 0, len(content), sorted(mutants, key=lambda one: (one.start, -one.end))).decode()


def overlapping(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Those that overlap with an earlier one of their file, and neither lies within the other."""
    kept: dict[str, list[Mutant]] = {}
    left = []
    for one in mutants:
        before = kept.setdefault(one.path, [])
        if any(x.start < one.start < x.end < one.end or one.start < x.start < one.end < x.end for x in before):
            left.append(one)
        else:
            before.append(one)
    return left


def _within(content: bytes, start: int, end: int, mutants: Sequence[Mutant]) -> bytes:
    """The text from `start` to `end`."""
    done, at, left = b"", start, [*mutants]
    while left:
        outer, *others = left
        left = [one for one in others if one.start >= outer.end]
        inner = [one for one in others if one.end <= outer.end]
        if len(left) + len(inner) < len(others):
            raise ValueError(f"{outer.path}:{outer.line}: mutants overlap")
        if content[outer.start : outer.end].decode() != outer.before:
            raise ValueError(f"{outer.path}:{outer.line} is not what the mutant was made from")
        before = _within(content, outer.start, outer.end, inner)
        done += content[at : outer.start] + _choice(outer, before.decode()).encode()
        at = outer.end
    return done + content[at:end]


def _choice(mutant: Mutant, before: str) -> str:
    """The expression, or the neighbours ``b, a``, if the mutant is on, else what was there; for ``x -= a`` its value."""
    on = f"__import__({NAME!r}).on({mutant.digest!r})"
    match ast.parse(mutant.after).body[0]:
        case ast.AugAssign():
            target, value = (part.strip() for part in before.split("=", 1))
            return f"{target}= ((0 - ({value})) if {on} else ({value}))"
        case ast.Expr(value=ast.Tuple()):
            return f"*(({mutant.after}) if {on} else ({before}))"
        case ast.Expr():
            return f"(({mutant.after}) if {on} else ({before}))"
    raise ValueError(f"{mutant.after!r} is no change of an expression")
