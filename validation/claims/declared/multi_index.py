"""M26, M26-leaps: the population flow of targets of several directions, and the times of its leaps."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp

from dynamics.declared.flow import declared_flow
from theory import Activation
from theory.core.hermite import z
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import Student, committee, two_homogeneous
from theory.declared.target import Polynomial, symbols
from validation.judge.claim import Control, Measurement, Part, claim
from validation.judge.context import Context

COST = 20

_DIM, _ROWS = 12, 2
_Z = symbols(3)
#: Target, and the same without one of its terms.
_TARGETS = {
    "staircase": (_Z[0] + _Z[0] * _Z[1] + _Z[0] * _Z[1] * _Z[2], _Z[0] * _Z[1]),
    "squares": ((_Z[0] ** 2 - 1) * (1 + _Z[1]) / sp.sqrt(2) + _Z[2], (_Z[0] ** 2 - 1) * _Z[1] / sp.sqrt(2)),
}
_ACTIVATION = "h1+0.8*h2+0.6*h3"
#: Times at which overlaps are compared.
_TIMES = np.array([0.5, 1.0, 2.0])
#: Of both integrators; runs at a hundred times this say how wrong they are.
_RTOL = 1e-10
#: Points per coordinate, exact up to degree 7: slope, error and input have 6.
_NODES = 4


@dataclass(frozen=True)
class _Explicit:
    """Gradient flow of rows in R¹² with expectations by a tensor Gauss–Hermite rule, exact for polynomials.

    plain: rows move without their weight in the second layer (a mistake).
    """

    student: Student
    target: Polynomial
    start: np.ndarray
    plain: bool = False

    @cached_property
    def _functions(self) -> tuple:
        sigma = self.student.activation.function
        row = [sp.lambdify(z, x, modules="numpy") for x in (sigma, sp.diff(sigma, z))]
        return *row, sp.lambdify(_Z, self.target.expression, modules="numpy")

    def velocity(self, time: float, state: np.ndarray) -> np.ndarray:
        """Minus the gradient of the loss by rows and, if trained, the second layer; flat, both ways."""
        rows, second = state[: _ROWS * _DIM].reshape(_ROWS, _DIM), state[_ROWS * _DIM :]
        sigma, slope, target = self._functions
        # Everything lies in the span of three directions and the rows.
        basis = np.linalg.qr(np.vstack([np.eye(3, _DIM), rows]).T)[0]
        u, weights = product_rule(*[gauss_hermite(_NODES)] * (3 + _ROWS))
        x = u @ basis.T
        fields, size = x @ rows.T, np.sum(rows**2, axis=1)
        if self.student.homogeneous:
            root = np.sqrt(size)
            at = fields / root
            value, along_input = size * sigma(at), root * slope(at)
            along_self = 2 * sigma(at) - at * slope(at)
        else:
            value, along_input, along_self = sigma(fields), slope(fields), 0.0 * fields
        delta = weights * (value @ second - target(*x[:, :3].T))
        moves = -(np.einsum("n,nk,ni->ki", delta, along_input, x) + (delta @ along_self)[:, None] * rows)
        if self.student.rows != "free":
            moves -= np.sum(moves * rows, axis=1, keepdims=True) * rows
        if not self.plain:
            moves *= second[:, None]
        return np.concatenate([moves.ravel(), -delta @ value if self.student.trained else 0.0 * second])

    def overlaps(self, rtol: float) -> np.ndarray:
        """(times, row, direction)."""
        state = np.concatenate([self.start.ravel(), self.student.second])
        found = solve_ivp(self.velocity, (0.0, _TIMES[-1]), state, "DOP853", _TIMES, rtol=rtol, atol=1e-3 * rtol)
        return found.y[: _ROWS * _DIM].T.reshape(-1, _ROWS, _DIM)[:, :, :3]


def _model(student: Student, target: Polynomial) -> DeclaredModel:
    return DeclaredModel(Directions.orthonormal(Inputs.isotropic(_DIM), target.count), target, student, Rule(0.1))


def _derived(model: DeclaredModel, rows: np.ndarray, rtol: float) -> np.ndarray:
    """Overlaps of the derived flow, (times, row, direction)."""
    # In coordinates of which only the first on the directions matter: the rest by its triangular factor.
    rest = np.asarray(np.linalg.qr(rows[:, 3:].T, mode="r")).T
    start = Start((np.hstack([rows[:, :3], rest]),))
    flow = declared_flow(model, start, float(_TIMES[-1]), _TIMES, rtol=rtol, system=population_flow(model))
    return flow.dataset.overlap.values[:, 0]


@claim(
    id="M26",
    title="Flow of a target of several directions",
    statement="For a polynomial of several directions the overlaps follow a closed flow, any rows and second layer.",
    latex=r"E f_*\sigma(h)=\sum_\alpha\frac{t^\alpha}{\alpha!}\mu_{|\alpha|}(q)E\,\partial^\alpha f_*",
    source="derived",
    kind="exact",
    regime="Gaussian inputs, polynomial target, gradient flow",
    controls=("a term of the target left out", "rows without their weight in the second layer"),
)
def run_flow(context: Context) -> Iterator[Part]:
    """Overlaps of two rows with three directions against gradient flow of vectors of R¹²."""
    activation = Activation.parse(_ACTIVATION)
    students = {
        "homogeneous": two_homogeneous(activation, _ROWS),
        "sphere": committee(activation, _ROWS, (0.7, -0.4), True, "sphere"),
    }
    for name, (expression, term) in _TARGETS.items():
        for kind, student in students.items():
            rows = context.rng("M26", name, kind).standard_normal((_ROWS, _DIM))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            target = Polynomial(expression, 3)
            model, explicit = _model(student, target), _Explicit(student, target, rows)
            known, derived = explicit.overlaps(_RTOL), _derived(model, rows, _RTOL)
            rough = (explicit.overlaps(100 * _RTOL), _derived(model, rows, 100 * _RTOL))
            allowance = float(np.abs(known - rough[0]).max() + np.abs(derived - rough[1]).max())
            less = Polynomial(sp.expand(expression - term), 3)
            wrong = {"a term": replace(explicit, target=less)}
            if kind == "sphere":
                wrong["rows"] = replace(explicit, plain=True)
            # (Mistakes in the data, judged against the right prediction.)
            controls = {key: Control(0.0, float(np.abs(x.overlaps(_RTOL) - derived).max())) for key, x in wrong.items()}
            gap = float(np.abs(known - derived).max())
            text = f"largest gap of an overlap up to time {_TIMES[-1]:g}, {name}, {kind}"
            yield Measurement(
                text,
                0.0,
                gap,
                0.0,
                allowance,
                controls,
                "both integrators at a hundred times the tolerance",
                f"{name}.{kind}",
            )


# --------------------------------------------------------------------------------- leaps


def _h2(x: sp.Symbol) -> sp.Expr:
    return (x**2 - 1) / sp.sqrt(2)


@dataclass(frozen=True)
class _Leap:
    r"""A target, and how the time T grows with d at which a row on the sphere has found all its directions.

    Attributes:
        expression: f*, of `count` directions. growth: ``power``: d ln T / d ln d is `predicted`; ``log``: dT / d ln d is.
        end: a time by which it is over, for d. wrong: what wrong theories predict.
    """

    expression: sp.Expr
    count: int
    growth: str
    predicted: float
    end: Callable[[float], float]
    wrong: Mapping[str, float]


#: On the sphere a linear term that is learned pulls others back at its own rate, here 1.
_RATE = float(sp.sqrt(6)) - 1
_LEAPS = {
    "z1+z1z2": _Leap(_Z[0] + _Z[0] * _Z[1], 2, "power", 0.0, lambda d: 1.0, {"degree": np.log(6 / 5) / np.log(10)}),
    "z1+z1z2z3": _Leap(
        _Z[0] + _Z[0] * _Z[1] * _Z[2],
        3,
        "log",
        0.5 / _RATE,
        lambda d: 1.0 + np.log(d) / 2,
        {"lowest degree": 0.0, "no pull": 0.5 / float(sp.sqrt(6))},
    ),
    "z1z2z3": _Leap(_Z[0] * _Z[1] * _Z[2], 3, "power", 0.5, lambda d: 0.6 * np.sqrt(d), {"one leap less": 0.0}),
    "h2(z1)h2(z2)": _Leap(_h2(_Z[0]) * _h2(_Z[1]), 2, "power", 1.0, lambda d: 0.12 * d, {"factors": 0.0}),
}
#: Dimensions, a factor 10 apart; overlap at which a direction is found.
_DIMENSIONS, _FOUND = (10**4, 10**5, 10**6), 0.3
#: Records of a run, and runs, each within the interval that the one before has found.
_RECORDS, _PASSES = 9, 6


def _leap_time(leap: _Leap, dim: int) -> float:
    """When the smallest overlap of a row that begins with overlaps d^{-1/2} reaches `_FOUND`."""
    target = Polynomial(sp.expand(leap.expression), leap.count)
    student = committee(Activation.parse("h1+h2+h3+h4"), 1, 1.0, rows="sphere")
    directions = Directions.orthonormal(Inputs.isotropic(dim), leap.count)
    model = DeclaredModel(directions, target, student, Rule(0.1), Correlation())
    on = np.full(leap.count, dim**-0.5)
    start = Start((np.append(on, np.sqrt(1 - on @ on))[None],))
    begin, end = 0.0, leap.end(dim)
    for _ in range(_PASSES):
        times = np.linspace(begin, end, _RECORDS)
        flow = declared_flow(model, start, end, times, system=population_flow(model))
        least = flow.dataset.overlap.values[:, 0, 0].min(axis=1)
        after = int(np.argmax(least >= _FOUND))
        begin, end = times[after - 1], times[after]
    return float(np.interp(_FOUND, least[after - 1 : after + 1], times[after - 1 : after + 1]))


@claim(
    id="M26-leaps",
    title="Leaps of a target of several directions",
    statement="A term of degree l in directions not yet found takes flow time 1, ln d and d^{(l-2)/2} for l = 1, 2 and more.",
    latex=r"T\asymp 1,\ \tfrac{\ln d}{2\,\mathrm{rate}},\ d^{(\ell-2)/2}\quad(\ell=1,2,\ge3)",
    source="derived; leaps: arXiv:2302.11055",
    kind="asymptotic",
    regime="one row on the sphere, correlation loss, overlaps d^{-1/2} at the start, d → ∞",
    controls=(
        "degree of the whole monomial counts, the staircase does not",
        "lowest degree of the target (information exponent) for the leap",
        "no pull of a learned linear term",
        "one leap less",
        "factors counted without their degree",
    ),
)
def run_leaps(context: Context) -> Iterator[Part]:
    """Slopes over the last decade of d of the time at which all directions are found."""
    for name, leap in _LEAPS.items():
        times = np.array([_leap_time(leap, dim) for dim in _DIMENSIONS])
        values = np.log(times) if leap.growth == "power" else times
        before, last = np.diff(values) / np.diff(np.log(_DIMENSIONS))
        what = "d ln T / d ln d" if leap.growth == "power" else "dT / d ln d"
        yield Measurement(
            f"{what}, last decade to d = 10⁶, f* = {name}",
            leap.predicted,
            float(last),
            0.0,
            float(abs(last - before)),
            dict(leap.wrong),
            "change of the slope from the decade before",
            name.replace("+", "_").replace("(", "").replace(")", ""),
            details={f"T at d = {d:g}": float(T) for d, T in zip(_DIMENSIONS, times, strict=True)},
        )
