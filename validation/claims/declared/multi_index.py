"""M26: the population flow of targets of several directions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp

from dynamics.declared.flow import declared_flow
from theory import Activation
from theory.core.lowered import lower_numpy
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import Student, committee, two_homogeneous
from theory.declared.target import Polynomial, symbols
from validation.judge.claim import Control, Measurement, Part, claim
from validation.judge.context import Context

COST = 12

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
        sigma = self.student.activation
        return sigma.arrays(), sigma.arrays(1), lower_numpy(self.target.expression, _Z)

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
