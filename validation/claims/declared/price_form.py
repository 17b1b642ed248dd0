"""M3: the population flow of declared models against finite differences in explicit coordinates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynamics.declared.population import LoweredPopulation, parameters_of
from theory import Activation
from theory.core.quadrature import gauss_legendre
from theory.declared.directions import Directions
from theory.declared.flow import integrals_of, population_system
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.student import Student, committee, two_homogeneous
from theory.declared.target import Additive
from validation.judge.claim import Control, Measurement, Part, claim
from validation.judge.context import Context

COST = 8

#: Eigenvalue of each coordinate of R⁵: two eigenspaces.
_SCALE = np.array([1.7, 1.7, 0.6, 0.6, 0.6])
_WEIGHTS, _SECOND = (0.8, -0.5), (0.7, -0.4)
#: Student, and the link of the teachers.
_CASES = {
    "erf.committee": ("erf", "erf(2*z)", False),
    "relu.committee": ("relu", "h2+h3", False),
    "polynomial.committee": ("h3+h1", "h2+h3", False),
    "tanh.committee": ("tanh", "softplus", False),
    "bump.committee": ("z*exp(-z**2/2)", "mish", False),
    "erf.homogeneous": ("erf", "h3+h1", True),
    "relu.homogeneous": ("relu", "abs(z)+z", True),
    "silu.homogeneous": ("silu", "h3+h1", True),
    "mish.homogeneous": ("mish", "relu", True),
    "waves.homogeneous": ("sin(z)", "sin(2*z)", True),
    "polynomial.homogeneous": ("h2+h1", "erf", True),
}
#: Spacing of the differences; those of twice the spacing say how wrong they are.
_SPACING = 4e-3


@dataclass(frozen=True)
class _Explicit:
    """Rows and directions as vectors of R⁵, and the population loss by quadrature."""

    student: Student
    target: Additive
    rows: np.ndarray
    directions: np.ndarray

    def loss(self, row: int, vector: np.ndarray) -> float:
        """What of ½E(f*−f)² depends on one row, that row being `vector` (5,); pairs are integrated in their fields' plane."""
        own = len(self.directions) + row
        frame = [*self.directions, *self.rows]
        frame[own] = vector
        weights = [-a for a in self.target.weights] + list(self.student.second)
        shares = [1.0 - 0.5 * (own == other) for other in range(len(frame))]
        terms = (share * weights[B] * self._product(own, vector, B, frame[B]) for B, share in enumerate(shares))
        return weights[own] * sum(terms)

    def _product(self, A: int, one: np.ndarray, B: int, two: np.ndarray) -> float:
        first, second = one * np.sqrt(_SCALE), two * np.sqrt(_SCALE)
        along = first / np.linalg.norm(first)
        # Coordinates of the two fields on an orthonormal basis of their plane.
        on = second @ along
        off = np.sqrt(max(second @ second - on * on, 0.0))
        u, weights = _plane(on, off)
        fields = np.linalg.norm(first) * u[0], on * u[0] + off * u[1]
        return float(weights @ (self._neuron(A, one, fields[0]) * self._neuron(B, two, fields[1])))

    @cached_property
    def _functions(self) -> tuple[Callable[[np.ndarray], np.ndarray], ...]:
        """The link and the activation."""
        return self.target.link.arrays(), self.student.activation.arrays()

    def _neuron(self, number: int, vector: np.ndarray, field: np.ndarray) -> np.ndarray:
        link, activation = self._functions
        if number < len(self.directions):
            return link(field)
        if not self.student.homogeneous:
            return activation(field)
        size = vector @ vector
        return size * activation(field / np.sqrt(size))

    def velocities(self) -> tuple[np.ndarray, np.ndarray]:
        """−∇ of the loss by five-point differences, (2, 5), at `_SPACING` and at twice that."""
        found = np.zeros((2, *self.rows.shape))
        for row, place in np.ndindex(*self.rows.shape):
            at = {n: self.loss(row, self.rows[row] + n * _SPACING * np.eye(5)[place]) for n in (-4, -2, -1, 1, 2, 4)}
            for wide in (1, 2):
                slope = 8 * (at[wide] - at[-wide]) - (at[2 * wide] - at[-2 * wide])
                found[wide - 1, row, place] = -slope / (12 * wide * _SPACING)
        return found[0], found[1]

    def flow(self, velocity: np.ndarray) -> np.ndarray:
        """Velocities of all products of rows with directions and rows, by eigenspace, in one array."""
        return np.concatenate([x.ravel() for x in _blocks(velocity, self.rows, self.directions)])


def _blocks(velocity: np.ndarray, rows: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [slice(0, 2), slice(2, 5)]
    T = np.stack([velocity[:, at] @ directions[:, at].T for at in parts])
    half = np.stack([velocity[:, at] @ rows[:, at].T for at in parts])
    return T, half + half.transpose(0, 2, 1)


def _plane(on: float, off: float) -> tuple[np.ndarray, np.ndarray]:
    """Points (2, n) and weights (n,) of E over a standard Gaussian of the plane, cut where u₁ or on·u₁ + off·u₂ is 0."""
    # (Of 20 angles a quarter 3e-9 is left of erf(2z), more than differences leave; of 28, 1e-12.)
    cuts = np.array([0.0, np.pi / 2, np.arctan2(-on, off)])
    cuts = np.sort(np.mod(np.concatenate([cuts, cuts + np.pi]), 2 * np.pi))
    angle, share = (x.ravel() for x in gauss_legendre(cuts, np.append(cuts[1:], cuts[0] + 2 * np.pi), 28))
    radius, along = (x.ravel() for x in gauss_legendre(np.zeros(1), np.full(1, 14.0), 56))
    along = along * radius * np.exp(-(radius**2) / 2) / (2 * np.pi)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)])[:, None, :]
    return points.reshape(2, -1), (along[:, None] * share).ravel()


# ------------------------------------------------------------------------ wrong theories


@dataclass(frozen=True)
class _Changed:
    """Integrals of which something is wrong: `before` changes covariances (X, C), `after` the integrals."""

    right: Any
    before: Callable[[Any, Any, Any], tuple[Any, Any, Any]] | None = None
    after: Callable[[dict], dict] | None = None

    def at(self, lower: Any, X: Any, C: Any, rho: Any, constants: Any, square: bool) -> dict:
        """As `theory.declared.population.Integrals.at`: arrays (m, m), (m,) and (m, P)."""
        if self.before is not None:
            X, C, variance = self.before(X, C, constants["variance"])
            constants = {**constants, "variance": variance}
            rho = jnp.ones_like(rho)
        found = self.right.at(lower, X, C, rho, constants, square)
        return found if self.after is None else self.after(found)


def _at_unit_variance(X: Any, C: Any, variance: Any) -> tuple[Any, Any, Any]:
    size = jnp.sqrt(jnp.diagonal(C))
    return X / (size[:, None] * jnp.sqrt(variance)), C / (size[:, None] * size), jnp.ones_like(variance)


def _once(found: dict) -> dict:
    """The diagonal ∂ℒ/∂C_kk without its factor 2."""
    return {**found, "M1": found["M1"] / 2, "K1": found["K1"] / 2, "K2": found["K2"] * (1 - jnp.eye(2) / 2)}


def _twice(found: dict) -> dict:
    """∂ℒ/∂C_kl counted for (k, l) and for (l, k)."""
    return {**found, "K2": found["K2"] * (2 - jnp.eye(2))}


def _cases(context: Context) -> Iterator[tuple[str, DeclaredModel, _Explicit]]:
    for key, (text, link, homogeneous) in _CASES.items():
        rng = context.rng("M3", key)
        rows, directions = 0.5 * rng.standard_normal((2, 5)), 0.5 * rng.standard_normal((2, 5))
        activation = Activation.parse(text)
        student = two_homogeneous(activation, 2) if homogeneous else committee(activation, 2, _SECOND)
        target = Additive(Activation.parse(link), _WEIGHTS)
        gram = np.stack([directions[:, at] @ directions[:, at].T for at in (slice(0, 2), slice(2, 5))])
        inputs = Inputs((1.7, 0.6), (2, 3))
        model = DeclaredModel(Directions(inputs, gram), target, student, Rule(0.1))
        yield key, model, _Explicit(student, target, rows, directions)


def _derived(
    model: DeclaredModel, explicit: _Explicit, change: Callable[[Any], Any] = lambda right: right
) -> np.ndarray:
    """The derived velocities of T and Q in one array, with the integrals changed."""
    lowered = LoweredPopulation(population_system(model), change(integrals_of(model)), True)
    T, Q = _blocks(explicit.rows / 2, explicit.rows, 2 * explicit.directions)
    found = lowered.drift({"T": jnp.asarray(T), "Q": jnp.asarray(Q)}, parameters_of(model))
    return np.concatenate([np.asarray(found[name]).ravel() for name in ("T", "Q")])


@claim(
    id="M3",
    title="Population flow through the covariance of the fields",
    statement="The drift of all overlaps by eigenspace is that of the loss as a function of the fields' covariance.",
    latex=r"\dot V^i_{kB}=-\lambda_i\sum_A\mathcal L_{kA}V^i_{AB}+[k\leftrightarrow B],\quad"
    r"\mathcal L_{kA}=(1+\delta_{kA})\,\partial\mathcal L/\partial C_{kA}",
    source="derived",
    kind="exact",
    regime="Gaussian inputs, any covariance; any variances of the fields",
    controls=(
        "diagonal derivative without its factor 2",
        "pairs counted twice",
        "kernel at unit variance",
        "the student's activation as the teachers' link",
    ),
)
def run_price_form(context: Context) -> Iterator[Part]:
    """Derived drift against minus the gradient of a loss by quadrature, by finite differences of rows in R⁵."""
    for key, model, explicit in _cases(context):
        known, coarse = map(explicit.flow, explicit.velocities())
        size = np.abs(known).max()

        def gap(found: np.ndarray, known: np.ndarray = known, size: float = size) -> Control:
            return Control(0.0, float(np.abs(found - known).max() / size))

        same_link = replace(model, target=replace(explicit.target, link=model.student.activation))
        controls = {
            "diagonal": gap(_derived(model, explicit, lambda right: _Changed(right, after=_once))),
            "pairs": gap(_derived(model, explicit, lambda right: _Changed(right, after=_twice))),
            "kernel": gap(_derived(model, explicit, lambda right: _Changed(right, before=_at_unit_variance))),
            "the student's": gap(_derived(same_link, explicit)),
        }
        estimate = gap(_derived(model, explicit)).estimate
        assert estimate is not None
        allowance = float(np.abs(known - coarse).max() / size)
        text = f"largest relative gap of the drift, {key.replace('.', ', ')}, link {explicit.target.link.name}"
        yield Measurement(text, 0.0, estimate, 0.0, allowance, controls, "differences at twice the spacing", key)
