"""Every mutant of a tree of files."""

import ast
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from mutants.mutant import Mutant
from mutants.operators import OPERATORS, Signatures
from mutants.sites import sites


def mutants_of(root: Path, paths: Iterable[str]) -> list[Mutant]:
    """All of them, in the order of the text; `paths` below `root`, with slashes."""
    sources = {path: (root / path).read_text(encoding="utf-8") for path in sorted(paths)}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    signatures = signatures_of(trees.values())
    return [one for path in sources for one in _of_file(path, sources[path], trees[path], signatures)]


def signatures_of(trees: Iterable[ast.Module]) -> Signatures:
    """Of functions, methods and dataclasses by name; a name with several signatures that differ is left out."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef):
            args = [*node.args.posonlyargs, *node.args.args]
            own = args[1:] if args and args[0].arg in ("self", "cls") else args
            types = tuple(ast.unparse(x.annotation) if x.annotation else "" for x in own)
            found.setdefault(node.name, set()).add(types)
        elif isinstance(node, ast.ClassDef):
            fields = tuple(ast.unparse(x.annotation) for x in node.body if isinstance(x, ast.AnnAssign))
            found.setdefault(node.name, set()).add(fields)
    return {name: types.pop() for name, types in found.items() if len(types) == 1}


def _of_file(path: str, source: str, tree: ast.Module, signatures: Signatures) -> list[Mutant]:
    text = _Text(source)
    found: dict[tuple[int, int, str], Mutant] = {}
    for node, place in sites(tree):
        for kind, operator in OPERATORS.items():
            for replaced, after in operator(node, place, text, signatures):
                start, end = text.span(replaced)
                whole = (place.lines[0], place.lines[1])
                mutant = Mutant(
                    path,
                    place.function,
                    text.line(start),
                    whole,
                    kind,
                    start,
                    end,
                    text.between(start, end),
                    after,
                    text.lines(*whole),
                )
                found.setdefault((start, end, after), mutant)
    return list(_counted(found.values()))


def _counted(mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """With copies told apart, so that no two have one digest."""
    seen: Counter[str] = Counter()
    for one in mutants:
        seen[one.digest] += 1
        yield replace(one, copy=seen[one.digest] - 1)


class _Text:
    """The bytes of a source, by nodes."""

    def __init__(self, source: str) -> None:
        self._content = source.encode()
        self._starts = [0]
        for line in self._content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Offsets of a node, or of the neighbours that a made-up tuple holds."""
        first, last = (node.elts[0], node.elts[-1]) if isinstance(node, ast.Tuple) else (node, node)
        if hasattr(node, "lineno"):
            first = last = node
        return self._at(first.lineno, first.col_offset), self._at(last.end_lineno, last.end_col_offset)  # type: ignore[attr-defined]

    def __call__(self, node: ast.AST) -> str:
        return self.between(*self.span(node))

    def between(self, start: int, end: int) -> str:
        return self._content[start:end].decode()

    def line(self, offset: int) -> int:
        """The number of the line that an offset is in."""
        return bisect_right(self._starts, offset)

    def lines(self, first: int, last: int) -> str:
        """Lines as one, with single spaces."""
        return " ".join(self.between(self._starts[first - 1], self._starts[last]).split())

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column
