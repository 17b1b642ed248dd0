r"""Independent checks of the Riccati derivation at explicit points: rational matrices, plain differentiation.

Three teacher directions in $R^5$, two students: $M_*=3>N=2$, and a kernel of dimension 2. Nothing here uses the
noncommutative algebra that it checks.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import sympy as sp

from theory.additive import flow as additive
from theory.core.activation import Activation
from theory.core.gaussian import expectation
from theory.core.indexed import Sums, c, evaluate, j, k, p, q, t

_RATES = (sp.Rational(6, 7), sp.Rational(3, 7), sp.Rational(2, 7))
_DIM, _TEACHERS, _STUDENTS = 5, 3, 2
#: Digits of comparisons, and of differences in time.
_DIGITS, _FINE = 50, 120
_AT = sp.Rational(4, 3)
Rate = Callable[[sp.Matrix, sp.Matrix], sp.Matrix]
Path = Callable[[sp.Expr], sp.Matrix]


@cache
def target() -> sp.Matrix:
    """M = diag(ã, 0, 0), of unit norm."""
    return sp.diag(*_RATES, *[0] * (_DIM - _TEACHERS))


@cache
def weights() -> sp.Matrix:
    """W, generic and not small."""
    return sp.Matrix([[3, 1], [-1, 2], [2, 2], [1, -3], [-2, 1]]) / 5


def _entries() -> sp.Matrix:
    return sp.Matrix(_DIM, _STUDENTS, lambda i, h: sp.Symbol(f"w{i}{h}", real=True))


def _largest(matrix: sp.Matrix) -> sp.Expr:
    return max(abs(x) for x in matrix)


def _projector(w: sp.Matrix) -> sp.Matrix:
    return w * (w.T * w).inv() * w.T


def _velocity(w: sp.Matrix) -> sp.Matrix:
    """−∇ of ¼‖M − WWᵀ‖² by differentiation of the polynomial in the entries of W."""
    symbols = _entries()
    gap = target() - symbols * symbols.T
    loss = sum(x**2 for x in gap) / 4
    values = dict(zip(symbols, w, strict=True))
    return sp.Matrix(_DIM, _STUDENTS, lambda i, h: -sp.diff(loss, symbols[i, h]).subs(values))


def risk_residual(moment: Callable[[sp.Matrix], sp.Expr]) -> sp.Expr:
    r"""$E(x^\top Bx-\mathrm{tr}B)^2$, by Isserlis' theorem, less a `moment` of a symmetric 3 × 3 matrix B of symbols."""
    x = sp.symbols("x0:3", real=True)
    b = sp.Matrix(3, 3, lambda i, h: sp.Symbol(f"b{min(i, h)}{max(i, h)}", real=True))
    vector = sp.Matrix(x)
    form = sp.expand(((vector.T * b * vector)[0] - b.trace()) ** 2)
    return sp.expand(expectation(form, x, sp.eye(3)) - moment(b))


def velocity_residual(rate: Rate) -> sp.Expr:
    """A matrix expression for Ẇ against the gradient taken entry by entry."""
    return _largest(rate(target(), weights()) - _velocity(weights()))


@cache
def _projector_velocity() -> sp.Matrix:
    """Derivative of the explicit projector along the flow of W."""
    step = sp.Symbol("h")
    moving = _projector(weights() + step * _velocity(weights()))
    return moving.diff(step).subs(step, 0)


def projector_residual(rate: Rate) -> sp.Expr:
    """A matrix expression for Π̇ against the derivative of the explicit projector along the flow of W."""
    return _largest(rate(target(), _projector(weights())) - _projector_velocity())


def block_residual(rate: Rate) -> sp.Expr:
    """A matrix expression for Ġ against the teacher's block of that derivative."""
    overlap = _projector(weights())[:_TEACHERS, :_TEACHERS]
    return _largest(rate(sp.diag(*_RATES), overlap) - _projector_velocity()[:_TEACHERS, :_TEACHERS])


def factor_residual(rate: Callable[..., sp.Matrix], of_overlap: Rate) -> sp.Expr:
    """ŻZᵀ + ZŻᵀ of a factor of lower rank than G has rows, against a matrix expression for Ġ."""
    rates, factor = sp.diag(*_RATES), weights()[:_TEACHERS, :]
    velocity = rate(rates, factor * factor.T, factor)
    return _largest(velocity * factor.T + factor * velocity.T - of_overlap(rates, factor * factor.T))


def product_residual(rate: Rate) -> sp.Expr:
    """A matrix expression for Ṡ against ẆWᵀ + WẆᵀ."""
    w, velocity = weights(), _velocity(weights())
    return _largest(rate(target(), w * w.T) - velocity * w.T - w * velocity.T)


def overlap_residual(rate: Rate) -> sp.Expr:
    r"""Ġ against its derivative along the additive model's overlap flow with φ = c², through $G=t^\top c^{-1}t$.

    The overlap flow runs in common time with unit φ(1), that is at twice the speed.
    """
    w = weights()
    norm2 = [sum(x**2 for x in w[:, h]) for h in range(_STUDENTS)]
    units = sp.Matrix.hstack(*[w[:, h] / sp.sqrt(norm2[h]) for h in range(_STUDENTS)])
    overlap, gram = units[:_TEACHERS, :].T, units.T * units
    arrays = {"a": _RATES, "r": norm2, "t": overlap.tolist(), "c": gram.tolist()}
    h2 = Activation.from_degree(2)
    drift = additive.overlap_drift()

    def moved(sums: Sums, free: tuple[sp.Symbol, ...]) -> sp.Matrix:
        return sp.Matrix(evaluate(sums, free, arrays, h2.kernel_at).tolist())

    t_dot, c_dot = moved(drift[t[k, q]], (k, q)), moved(drift[c[k, j]], (k, j))
    inverse = gram.inv()
    direct = t_dot.T * inverse * overlap + overlap.T * inverse * t_dot
    direct -= overlap.T * inverse * c_dot * inverse * overlap
    derived = rate(sp.diag(*_RATES), overlap.T * inverse * overlap)
    return _largest((direct / 2 - derived).applyfunc(lambda x: sp.N(x, _DIGITS)))


def component_residual(sums: Sums, names: tuple[str, ...], rate: Callable[..., sp.Matrix]) -> sp.Expr:
    """A drift in components against its matrix expression, at the point W, S = WWᵀ, G or a factor of it."""
    w = weights()
    factor = w[:_TEACHERS, :]
    point = {"w": w, "S": w * w.T, "G": _projector(w)[:_TEACHERS, :_TEACHERS], "z": factor}[names[0]]
    rates = _RATES if names[0] in "Gz" else [*_RATES, *[sp.Integer(0)] * (_DIM - _TEACHERS)]
    also = {"G": factor * factor.T} if names[0] == "z" else {}
    arrays = {
        "a": rates,
        "r": np.zeros(_STUDENTS, dtype=object),  # only its length, the number of students, is used
        names[0]: point.tolist(),
        **{name: value.tolist() for name, value in also.items()},
    }
    free = (p, k) if names[0] in "wz" else (p, q)
    found = sp.Matrix(evaluate(sums, free, arrays, lambda x, order: x).tolist())
    return _largest(found - rate(sp.diag(*rates), *also.values(), point))


def _exponential(time: sp.Expr, size: int = _DIM) -> sp.Matrix:
    return sp.diag(*[sp.exp(time * x).evalf(_FINE) for x in target().diagonal()[:size]])


def _solves(moving: Path, rate: Rate, start: sp.Matrix) -> sp.Expr:
    """How far `moving` is from solving Ẋ = rate(M, X), X(0) = start, by a central difference in high precision."""
    half, size = sp.Float(10, _FINE) ** -40, start.shape[0]
    slope = (moving(_AT + half) - moving(_AT - half)) / (2 * half)
    defect = slope - rate(target()[:size, :size], moving(_AT))
    return max(_largest(defect), _largest((moving(sp.Integer(0)) - start).evalf(_DIGITS)))


def closed_residual(form: Rate, rate: Rate) -> sp.Expr:
    """A closed form of G(t), from (e^{tÃ}, G₀), for N = 2 < M* = 3, against the equation and the start."""
    start = _projector(weights())[:_TEACHERS, :_TEACHERS]
    return _solves(lambda time: form(_exponential(time, _TEACHERS), start), rate, start)


def invertible_residual(form: Rate, rate: Rate) -> sp.Expr:
    """The same for the form that needs G₀ invertible."""
    start = sp.Matrix([[3, 1, 0], [1, 4, 1], [0, 1, 2]]) / 6
    return _solves(lambda time: form(_exponential(time, _TEACHERS), start), rate, start)


def symmetric_residual(form: Callable[[sp.Matrix, sp.Matrix, sp.Matrix], sp.Matrix], rate: Rate) -> sp.Expr:
    """A closed form of S(t) = WWᵀ, from (e^{tM}, Φ_t, W₀), against the equation and the start, kernel included."""

    def moving(time: sp.Expr) -> sp.Matrix:
        double = [(sp.exp(2 * time * x) - 1) / x if x else 2 * time for x in target().diagonal()]
        return form(_exponential(time), sp.diag(*double).evalf(_FINE), weights())

    return _solves(moving, rate, weights() * weights().T)


def radial_residual(value: Callable[[sp.Matrix, sp.Matrix], sp.Expr]) -> sp.Expr:
    """R_opt against the minimum of 2‖M − WKWᵀ‖² over all symmetric K, by solving its normal equations.

    Raises `ValueError` if the minimiser K is not positive definite at the check point.
    """
    w, symbols = weights(), sp.symbols("k00 k01 k11", real=True)
    middle = sp.Matrix([[symbols[0], symbols[1]], [symbols[1], symbols[2]]])
    risk = 2 * sum(x**2 for x in target() - w * middle * w.T)
    best = sp.solve([sp.diff(risk, x) for x in symbols], symbols, dict=True)[0]
    eigenvalues = middle.subs(best).eigenvals()
    if not all(x.is_positive for x in eigenvalues):
        raise ValueError("the best radial part is not positive definite at the check point")
    overlap = _projector(w)[:_TEACHERS, :_TEACHERS]
    return sp.expand(risk.subs(best) - value(sp.diag(*_RATES), overlap))
