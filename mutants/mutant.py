"""One change of one file, by the place that it has in the text."""

import ast
import hashlib
from dataclasses import dataclass

#: Set in `builtins` when a mutant is evaluated, in whichever process.
CAME_BY = "_mutant_came_by"
_MARK = ast.parse(f"__import__('builtins').__dict__.__setitem__({CAME_BY!r}, True)", mode="eval").body


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

    def applied(self, source: str) -> str:
        """The file's text with the change, which tells when it is evaluated."""
        content = source.encode()
        if content[self.start : self.end].decode() != self.before:
            raise ValueError(f"{self.path}:{self.line} is not what the mutant was made from")
        return (content[: self.start] + _marked(self.after).encode() + content[self.end :]).decode()

    @property
    def change(self) -> str:
        """In words, for a table."""
        return f"{' '.join(self.before.split())} → {' '.join(self.after.split())}"


def _marked(text: str) -> str:
    """An expression, neighbours ``b, a`` or an ``x -= a``, of which the first value is preceded by the mark."""
    node = ast.parse(text).body[0]
    match node:
        case ast.AugAssign():
            node.value = _after_mark(node.value)
            return ast.unparse(node)
        case ast.Expr(value=ast.Tuple(elts=[first, *rest])):
            return ", ".join(map(ast.unparse, [_after_mark(first), *rest]))
        case ast.Expr():
            return f"({ast.unparse(_after_mark(node.value))})"
    raise ValueError(f"{text!r} is no change of an expression")


def _after_mark(value: ast.expr) -> ast.expr:
    """The mark is None, so that the value is what it was."""
    return ast.BoolOp(ast.Or(), [_MARK, value])
