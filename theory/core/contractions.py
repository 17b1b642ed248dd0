r"""What lowering has in common, whatever it lowers to: a sum of products of indexed symbols, term by term, as contractions.

Each product is split into groups of factors with equal index sets; a group becomes one elementwise array; a one-index group
is multiplied into a two-index group that contains its index; what is left is one contraction per term. `Contraction.inner`
and `outer` say which arrays are summed over and which multiply the result; `Contraction.operands` names what is summed up to
the names of its letters, so that a target computes the two halves of a symmetrised term once.

Targets: JAX (`dynamics.core.lowering`) and JavaScript (`theory.core.javascript`).
"""

from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from theory.core.indexed import Dual, Index, Sums, Term, free_indices


@dataclass(frozen=True)
class Factor:
    """One elementwise array: a product of indexed symbols and kernels, over an ordered tuple of index letters."""

    body: sp.Expr
    letters: tuple[sp.Symbol, ...]

    @cached_property
    def key(self) -> str:
        """Equal for factors that differ only by the names of their letters."""
        names = {x: sp.Symbol(f"i{place}") for place, x in enumerate(self.letters)}
        return sp.srepr(self.body.xreplace(names))

    @property
    def parts(self) -> list[tuple[sp.Expr, float | int]]:
        """Bases and powers of the product."""
        pairs = (part.as_base_exp() for part in sp.Mul.make_args(self.body))
        return [(base, int(power) if power.is_Integer else float(power)) for base, power in pairs]


@dataclass(frozen=True)
class Contraction:
    """coefficient × sum over the letters that are not `free` of the product of `factors`.

    Attributes:
        idle: letters that are summed over and stand in no factor: each counts as often as it runs.
    """

    coefficient: float
    factors: tuple[Factor, ...]
    free: tuple[sp.Symbol, ...]
    idle: tuple[Index, ...] = ()

    @property
    def inner(self) -> list[Factor]:
        """Factors with a letter that is summed over."""
        return [x for x in self.factors if not set(x.letters) <= set(self.free)]

    @property
    def outer(self) -> list[Factor]:
        """Factors of free letters alone."""
        return [x for x in self.factors if set(x.letters) <= set(self.free)]

    @property
    def kept(self) -> tuple[sp.Symbol, ...]:
        """Free letters that the sum depends on."""
        return tuple(i for i in self.free if any(i in x.letters for x in self.inner))

    @cached_property
    def renamed(self) -> dict[sp.Symbol, str]:
        """Letters of the sum by the order in which they come."""
        letters = dict.fromkeys(letter for factor in self.inner for letter in factor.letters)
        return {letter: chr(ord("a") + place) for place, letter in enumerate(letters)}

    @property
    def operands(self) -> tuple[tuple[tuple[str, str], ...], str]:
        """What is summed, with the renamed letters of each array, and those of the result in alphabetical order."""
        arrays = tuple((x.key, "".join(self.renamed[i] for i in x.letters)) for x in self.inner)
        return arrays, "".join(sorted(self.renamed[i] for i in self.kept))


def contractions(sums: Sums, *targets: sp.Symbol | sp.Indexed) -> list[Contraction]:
    """One contraction per term, its result over the indices of `targets` in order."""
    free = tuple(index for target in targets if isinstance(target, sp.Indexed) for index in target.indices)
    return [_contraction(term, free) for term in sums]


def name_of(symbol: sp.Symbol | sp.Indexed) -> str:
    """The name of the array that a symbol stands for."""
    return str(symbol.base) if isinstance(symbol, sp.Indexed) else symbol.name


def _contraction(term: Term, free: tuple[sp.Symbol, ...]) -> Contraction:
    coefficient, factors = _split(term.body)
    idle = tuple(index for index in term.bound if not any(index in x.letters for x in factors))
    return Contraction(float(coefficient), tuple(sorted(factors, key=lambda factor: factor.key)), free, idle)


def _split(body: sp.Expr) -> tuple[sp.Expr, list[Factor]]:
    """The numerical coefficient of a product and its factors, grouped by index set."""
    coefficient: sp.Expr = sp.Integer(1)
    groups: dict[frozenset[sp.Symbol], sp.Expr] = {}
    for factor in sp.Mul.make_args(body):
        letters = frozenset(free_indices(factor))
        if not letters and factor.is_number and not factor.has(Dual):
            coefficient *= factor
        else:
            groups[letters] = groups.get(letters, sp.Integer(1)) * factor
    return coefficient, _absorb([(_ordered(letters, product), product) for letters, product in groups.items()])


def _ordered(letters: frozenset[sp.Symbol], body: sp.Expr) -> tuple[sp.Symbol, ...]:
    """Letters in the order in which a two-index array carries them; alphabetical if arrays disagree."""
    orders = {x.indices for x in body.atoms(sp.Indexed) if len(x.indices) == len(letters)}
    return next(iter(orders)) if len(orders) == 1 else tuple(sorted(letters, key=str))


def _absorb(groups: list[tuple[tuple[sp.Symbol, ...], sp.Expr]]) -> list[Factor]:
    """Multiply each one-index (or index-free) group into a larger group that contains its letters.

    A group of letters that are all free stays outside: it multiplies the result of the contraction.
    """
    groups = sorted(groups, key=lambda group: len(group[0]))
    factors: list[Factor] = []
    for place, (letters, body) in enumerate(groups):
        host = next((h for h in range(place + 1, len(groups)) if set(letters) < set(groups[h][0])), None)
        if host is None:
            factors.append(Factor(body, letters))
        else:
            groups[host] = (groups[host][0], groups[host][1] * body)
    return factors
