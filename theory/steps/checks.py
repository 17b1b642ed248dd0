r"""Independent checks of `theory.steps.finite_step`: one step written out in $R^2$ and $R^3$ and averaged monomial by
monomial.

The step is $v'=v+\eta G(x)$ with G the gradient of the sample loss in coordinates; the new coordinates are differentiated
twice by η, and the polynomials that result are averaged over independent Gaussians. Nothing of the decomposition into
radial and tangent parts, of the diagram formula, or of the dimension's role is used. One teacher, two students in a
common plane, at rational points. (In one dimension alone a coefficient such as d − 3 would not be seen.)
"""

import math
from functools import lru_cache

import mpmath
import numpy as np
import sympy as sp

from theory.core import diagrams, gaussian, hermite
from theory.core.activation import Activation
from theory.core.hermite import z
from theory.core.indexed import Sums, Term

_WEIGHT = sp.Rational(4, 5)
_DIMENSIONS, _DIGITS = (2, 3), 50
_UNITS = ((sp.Rational(3, 5), sp.Rational(4, 5)), (sp.Rational(12, 13), sp.Rational(-5, 13)))
_SIZES = (sp.Rational(1, 2), sp.Rational(1, 3))
_X = sp.symbols("x_0:3", real=True)
_ETA = sp.Symbol("eta", positive=True)


_LEGS = (3, 2, 2, 1)
_NAMES = sp.Matrix(4, 4, lambda i, h: sp.Symbol(f"C_{min(i, h) + 1}{max(i, h) + 1}"))


def four_legs() -> sp.Expr:
    """The diagram formula for four Gaussians of variance 1, in their covariances."""
    return diagrams.evaluate(diagrams.expectation([{n: sp.Integer(1)} for n in _LEGS]), _NAMES)


def diagram_residual(shown: sp.Expr) -> sp.Expr:
    """The diagram formula against Stein's lemma, for four correlated Gaussians."""
    names = sp.symbols("g_0:4")
    correlations = sp.Matrix(4, 4, lambda i, h: 1 if i == h else sp.Rational(i + h + 1, 9 + i * h))
    product = sp.Mul(*[hermite.hermite(n).subs(z, g) for n, g in zip(_LEGS, names, strict=True)])
    known = gaussian.expectation(sp.expand(product), names, correlations)
    return sp.expand(known - shown.xreplace(dict(zip(_NAMES, correlations, strict=True))))


#: A polynomial in the coordinates of x: powers → coefficient, to 50 digits.
_Polynomial = dict[tuple[int, ...], mpmath.mpf]


@lru_cache(maxsize=8)
def _moves(activation: Activation, dim: int) -> tuple[_Polynomial, ...]:
    """Coordinates of G_1 and G_2 (2·dim polynomials), −∇ of the sample loss ½(f* − f)² at the point."""
    sigma = activation.function
    slope = sp.diff(sigma, z)
    points = [sum(u * x for u, x in zip(unit, _X, strict=False)) for unit in _UNITS]
    output = sum(n**2 * sigma.subs(z, point) for n, point in zip(_SIZES, points, strict=True))
    delta = sp.expand(output - _WEIGHT * sigma.subs(z, _X[0]))
    found = []
    for unit, size, point in zip(_UNITS, _SIZES, points, strict=True):
        along = 2 * sigma.subs(z, point) - point * slope.subs(z, point)  # d/dv of ‖v‖²σ(⟨v,x⟩/‖v‖)
        for u, x in zip(_padded(unit, dim), _X[:dim], strict=True):
            found.append(_numeric(-sp.expand(delta * size * (along * u + slope.subs(z, point) * x)), dim))
    return tuple(found)


def _padded(unit: tuple[sp.Expr, ...], dim: int) -> tuple[sp.Expr, ...]:
    return (*unit, *[sp.Integer(0)] * (dim - len(unit)))


def _numeric(polynomial: sp.Expr, dim: int) -> _Polynomial:
    terms = sp.Poly(polynomial, *_X[:dim]).terms()
    with mpmath.workdps(_DIGITS):
        return {powers: _number(value) for powers, value in terms}


def _average(first: _Polynomial, second: _Polynomial) -> mpmath.mpf:
    """E of the product: double factorials of even powers."""
    total = mpmath.mpf(0)
    for powers, value in first.items():
        for others, other in second.items():
            both = [n + h for n, h in zip(powers, others, strict=True)]
            if not any(n % 2 for n in both):
                total += value * other * mpmath.mpf(math.prod(_double_factorial(n - 1) for n in both))
    return total


def _double_factorial(n: int) -> int:
    return math.prod(range(n, 0, -2))


def second_order_residual(name: str, sums: Sums, activation: Activation, batch: int) -> sp.Expr:
    """What the η²-coefficient of a coordinate's mean after one step differs by from `sums` (which carry one η); ≥ 0."""
    return sp.Add(*(abs(_gap(name, sums, activation, batch, dim)) for dim in _DIMENSIONS))


def _gap(name: str, sums: Sums, activation: Activation, batch: int, dim: int) -> sp.Expr:
    symbols = [sp.symbols(f"G{k}_0:{dim}") for k in range(2)]
    start = [[n * u for u in _padded(unit, dim)] for unit, n in zip(_UNITS, _SIZES, strict=True)]
    after = [[x + _ETA * g for x, g in zip(row, names, strict=True)] for row, names in zip(start, symbols, strict=True)]
    square = [sum(x**2 for x in row) for row in after]
    coordinate = {
        "t": after[0][0] / sp.sqrt(square[0]),
        "c": sum(x * y for x, y in zip(*after, strict=True)) / sp.sqrt(square[0] * square[1]),
        "r": square[0],
    }[name]
    bend = sp.expand(sp.diff(coordinate, _ETA, 2).subs(_ETA, 0) / 2)
    moves = _moves(activation, dim)
    constant: _Polynomial = {(0,) * dim: mpmath.mpf(1)}
    flat = [g for names in symbols for g in names]
    with mpmath.workdps(_DIGITS):
        known = mpmath.mpf(0)
        for powers, coefficient in sp.Poly(bend, *flat).terms():
            first, second = (moves[i] for i, n in enumerate(powers) for _ in range(n))
            mean = _average(first, constant) * _average(second, constant) if batch > 1 else mpmath.mpf(0)
            value = (_average(first, second) + (batch - 1) * mean) / batch
            known += _number(coefficient) * value
        return sp.Float(str(known - _at_point(sums, dim)), _DIGITS)


def _at_point(sums: Sums, dim: int) -> mpmath.mpf:
    """`sums` over η at the point, for the first student, the second student and the only teacher."""
    frame = [(sp.Integer(1), sp.Integer(0)), *_UNITS]
    cosines = np.array([[_number(x[0] * y[0] + x[1] * y[1]) for y in frame] for x in frame], dtype=object)
    masses = np.array([_number(x) for x in (-_WEIGHT, *[n**2 for n in _SIZES])], dtype=object)
    arrays = {"C": cosines, "t": cosines, "c": cosines, "w": masses, "r": masses}
    # Where each index letter stands in the frame: k is the first student, j the second, q the teacher.
    place = {"k": 1, "j": 2, "q": 0}
    total = mpmath.mpf(0)
    for term in sums:
        scalar, indexed = _factors(term, dim)
        letters = [str(i) for i in term.bound]
        for where in np.ndindex(*[len(frame)] * len(letters)):
            at = place | dict(zip(letters, where, strict=True))
            values = (arrays[name][tuple(at[i] for i in indices)] ** n for name, indices, n in indexed)
            total += math.prod(values, start=scalar)
    return total


def _factors(term: Term, dim: int) -> tuple[mpmath.mpf, list[tuple[str, tuple[str, ...], int]]]:
    """The numerical coefficient of a product (η = 1), and its indexed factors: name, index letters, power."""
    scalar, indexed = sp.Integer(1), []
    for factor in sp.Mul.make_args(term.body):
        base, power = factor.as_base_exp()
        if isinstance(base, sp.Indexed):
            indexed.append((str(base.base), tuple(str(i) for i in base.indices), int(power)))
        else:
            scalar *= factor
    return _number(scalar.subs({_ETA: 1, diagrams.d: dim})), indexed


def _number(value: sp.Expr) -> mpmath.mpf:
    return mpmath.mpf(str(sp.N(value, _DIGITS)))
