r"""Sums over indexed symbols: the small algebra in which the overlap dynamics are derived.

An `Index` is a symbol that carries its range: neurons $k, l, j$ run to the width $m$, directions $p, q, s$ to the
teacher width $P$, input coordinates $i, h$ to the dimension $d$. SymPy can differentiate sums over
`IndexedBase` but leaves range `Piecewise`s behind; here Kronecker deltas are contracted as soon as they arise.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.latex import LatexPrinter


class Index(sp.Symbol):
    """An integer symbol that runs from 1 to `length`. Two are equal if both name and length are."""

    __slots__ = ("length",)
    length: sp.Expr

    def __new__(cls, name: str, length: sp.Expr | int) -> "Index":
        index = cls.__xnew__(cls, name, integer=True)
        index.length = sp.sympify(length)
        return index

    def __getnewargs_ex__(self) -> tuple[tuple[str, sp.Expr], dict]:
        return (self.name, self.length), {}

    def _hashable_content(self) -> tuple:
        return (*super()._hashable_content(), self.length)


m, P, d = sp.symbols("m P d", integer=True, positive=True)
k, l, j = (Index(name, m) for name in "klj")
p, q, s = (Index(name, P) for name in "pqs")
i, h = (Index(name, d) for name in "ih")

#: Teacher weights, overlaps with the teacher, overlaps between students, squared norms.
a, t, c, r = sp.IndexedBase("a"), sp.IndexedBase("t"), sp.IndexedBase("c"), sp.IndexedBase("r")
#: Independent Brownian motions; in a `System`'s noise their Itô increments.
B = sp.IndexedBase("B")


class Dual(sp.Function):
    r"""$\varphi^{(n)}(x)$ of an unspecified activation: ``Dual(x, n)``, differentiated by raising `n`."""

    nargs = 2

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """The derivative by x. Raises `ArgumentIndexError` for the one by the order n."""
        x, order = self.args
        if argindex != 1:
            raise sp.ArgumentIndexError(self, argindex)
        return Dual(x, order + 1)

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        x, order = self.args
        mark = r"\varphi" + ("'" * int(order) if order <= 3 else f"^{{({order})}}")
        body = rf"{mark}\left({printer._print(x)}\right)"
        return body if exp is None else rf"{{{body}}}^{{{exp}}}"


def specialise(expression: sp.Expr, dual: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    r"""Replace every `Dual(x, n)` by the n-th derivative of the concrete kernel `dual(variable)` at x."""
    return expression.replace(Dual, lambda x, order: sp.diff(dual, variable, int(order)).subs(variable, x))


def free_indices(expression: sp.Expr) -> set[Index]:
    """The indices that occur in `expression` (bound ones too: bodies of terms carry no Sum)."""
    return {symbol for symbol in expression.free_symbols if isinstance(symbol, Index)}


@dataclass(frozen=True)
class Term:
    """`body` summed over the index symbols in `bound`."""

    body: sp.Expr
    bound: tuple[Index, ...] = ()

    def as_sympy(self) -> sp.Expr:
        """The term as a nested `Sum`, what does not depend on bound indices in front."""
        if not self.bound:
            return self.body
        outside, inside = self.body.as_independent(*self.bound, as_Add=False)
        return outside * sp.Sum(inside, *[(index, 1, index.length) for index in self.bound])

    def renamed(self, names: Mapping[Index, Index]) -> "Term":
        return Term(self.body.subs(list(names.items()), simultaneous=True), tuple(names.get(i, i) for i in self.bound))


class Sums(tuple[Term, ...]):
    """A finite sum of `Term`s. Like terms are collected by `collect`."""

    @classmethod
    def of(cls, *terms: sp.Expr | tuple) -> "Sums":
        """From bodies, each alone or followed by the indices that it is summed over: ``Sums.of(x[k], (y[k, p], p))``."""
        return cls(Term(term[0], term[1:]) if isinstance(term, tuple) else Term(term) for term in terms)

    def as_sympy(self) -> sp.Expr:
        return sp.Add(*[term.as_sympy() for term in self])

    @classmethod
    def read(cls, expression: sp.Basic) -> "Sums":
        """The terms of an expression as `as_sympy` writes it. Raises `ValueError` for sums in any other place."""
        return cls(_read(term) for term in sp.Add.make_args(expression))

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        return collect([*self, *other])

    def scaled(self, factor: sp.Expr) -> "Sums":
        return collect(Term(factor * term.body, term.bound) for term in self)

    def renamed(self, names: Mapping[Index, Index]) -> "Sums":
        return Sums(term.renamed(names) for term in self)


def reads(residual: Callable[[Sums], sp.Expr]) -> Callable[[sp.Basic], sp.Expr]:
    """A check of terms as a check of what is shown: see `Sums.read`."""
    return lambda shown: residual(Sums.read(shown))


def _read(expression: sp.Expr) -> Term:
    whole = [x for x in sp.Mul.make_args(expression) if isinstance(x, sp.Sum)]
    outside = sp.Mul(*[x for x in sp.Mul.make_args(expression) if x not in whole])
    limits = [limit for x in whole for limit in x.limits]
    if (
        len(whole) > 1
        or outside.has(sp.Sum)
        or any(limit != (limit[0], 1, limit[0].length) for limit in map(tuple, limits))
    ):
        raise ValueError(f"{expression} is no product of one sum over whole ranges and factors outside")
    return Term(outside * whole[0].function, whole[0].variables) if whole else Term(expression)


def collect(terms: Iterable[Term]) -> Sums:
    """Expand every body into products and add those with equal bound indices."""
    found: dict[tuple[Index, ...], sp.Expr] = {}
    for term in terms:
        bound = tuple(sorted(term.bound, key=str))
        found[bound] = found.get(bound, sp.Integer(0)) + term.body
    return Sums(
        Term(product, bound)
        for bound, body in found.items()
        for product in sp.Add.make_args(sp.expand(body))
        if product != 0
    )


def differentiate(sums: Sums, target: sp.Indexed) -> Sums:
    """Partial derivative by one component, e.g. `t[k, q]`; equal bases are independent, deltas are contracted.

    The target's indices must not be bound in `sums` (rename first).
    """
    result = []
    for term in sums:
        for occurrence in term.body.atoms(sp.Indexed):
            if occurrence.base != target.base:
                continue
            place = sp.Dummy()
            derivative = sp.diff(term.body.xreplace({occurrence: place}), place).xreplace({place: occurrence})
            delta = list(zip(occurrence.indices, target.indices, strict=True))
            result.append(_contract(derivative, term.bound, delta))
    return collect(result)


def _contract(body: sp.Expr, bound: tuple[Index, ...], delta: list[tuple[Index, Index]]) -> Term:
    """Body times the product of δ(index, value), each bound index of a delta being summed away."""
    for index, value in delta:
        if index in bound:
            body = body.subs(index, value)
            bound = tuple(i for i in bound if i != index)
        elif index != value:
            body = body * sp.KroneckerDelta(index, value)
    return Term(body, bound)


def symmetric_overlap(first: Index, second: Index) -> sp.Expr:
    r"""$c_{kl} = c_{lk}$, with $c_{kk} = 1$; written with the indices in alphabetical order."""
    return sp.Integer(1) if first == second else c[tuple(sorted((first, second), key=str))]


@dataclass(frozen=True)
class Vector:
    r"""A linear combination of $e_p$ and $\bar v_k$: terms (coefficient, "e" or "v", index, bound indices)."""

    terms: tuple[tuple[sp.Expr, str, Index, tuple[Index, ...]], ...]

    def __add__(self, other: "Vector") -> "Vector":
        return Vector(self.terms + other.terms)

    def scaled(self, factor: sp.Expr, bound: tuple[Index, ...] = ()) -> "Vector":
        return Vector(tuple((factor * x, kind, i, tuple({*b, *bound})) for x, kind, i, b in self.terms))

    def dot(self, other: "Vector") -> Sums:
        r"""$\langle\cdot,\cdot\rangle$, using $\langle e_p,e_q\rangle=\delta_{pq}$, $\langle\bar v_k,e_p\rangle=t_{kp}$.

        `other` must have no bound indices. Raises `ValueError` if it has.
        """
        result = []
        for x, kind, index, bound in self.terms:
            for y, other_kind, other_index, other_bound in other.terms:
                if other_bound:
                    raise ValueError("Vector.dot: the second vector must have no bound indices")
                result.append(_inner(x * y, (kind, index), (other_kind, other_index), bound))
        return collect(result)


def _inner(body: sp.Expr, left: tuple[str, Index], right: tuple[str, Index], bound: tuple[Index, ...]) -> Term:
    (kind, i), (other, h) = left, right
    if kind == other == "e":
        return _contract(body, bound, [(i, h)])
    if kind == other == "v":
        return Term(body * symmetric_overlap(i, h), bound)
    neuron, direction = (i, h) if kind == "v" else (h, i)
    return Term(body * t[neuron, direction], bound)


def e(index: Index) -> Vector:
    """The teacher direction $e_p$."""
    return Vector(((sp.Integer(1), "e", index, ()),))


def v(index: Index) -> Vector:
    r"""The student direction $\bar v_k$."""
    return Vector(((sp.Integer(1), "v", index, ()),))


def evaluate(
    sums: Sums, free: tuple[Index, ...], arrays: Mapping[str, Any], dual: Callable[[sp.Expr, int], sp.Expr]
) -> np.ndarray:
    """Slow, exact reference: loop over all indices and substitute SymPy numbers (arrays, or nested sequences, of them).

    Used to check derivations at exact points, and as the independent answer that fast code must reproduce. Plain
    symbols are looked up by name in `arrays` too. Raises `ValueError` if arrays disagree about the range of an index. The
    result has one axis per letter in `free`, in that order: its shape is that of their ranges.
    """
    arrays = {name: np.asarray(array, dtype=object) for name, array in arrays.items()}
    sizes = _sizes(sums, free, arrays)
    out = np.empty([sizes[index.length] for index in free], dtype=object)
    for place in np.ndindex(*out.shape):
        fixed = dict(zip(free, place, strict=True))
        out[place] = sp.Add(*[_evaluate_term(term, fixed, arrays, dual, sizes) for term in sums])
    return out


def _sizes(sums: Sums, free: tuple[Index, ...], arrays: Mapping[str, np.ndarray]) -> dict[sp.Expr, int]:
    """The length of every range that occurs: a number, or read off the arrays."""
    lengths = {index.length for index in (*free, *(index for term in sums for index in term.bound))}
    sizes: dict[sp.Expr, int] = {length: int(length) for length in lengths if length.is_Integer}
    for occurrence in {x for term in sums for x in term.body.atoms(sp.Indexed)}:
        for index, length in zip(occurrence.indices, arrays[str(occurrence.base)].shape, strict=True):
            if sizes.setdefault(index.length, length) != length:
                raise ValueError(f"{occurrence} has length {length}, but {index.length} is {sizes[index.length]}")
    return sizes


def _evaluate_term(
    term: Term,
    fixed: dict[Index, int],
    arrays: Mapping[str, np.ndarray],
    dual: Callable[[sp.Expr, int], sp.Expr],
    sizes: Mapping[Index, int],
) -> sp.Expr:
    scalars = {x: arrays[str(x)][()] for x in term.body.free_symbols if str(x) in arrays and not arrays[str(x)].ndim}
    occurring = [(x, arrays[str(x.base)]) for x in term.body.atoms(sp.Indexed)]
    total = sp.Integer(0)
    for values in np.ndindex(*[sizes[index.length] for index in term.bound]):
        where = fixed | dict(zip(term.bound, values, strict=True))
        numbers = {x: sp.sympify(array[tuple(where[index] for index in x.indices)]) for x, array in occurring}
        body = term.body.xreplace(numbers | scalars)
        total += body.xreplace({x: dual(*x.args) for x in body.atoms(Dual)})
    return total
