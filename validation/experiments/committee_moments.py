r"""Mean loss of a committee beyond its map: whole steps in place of their second order, and fluctuations.

The map $y\mapsto y+\eta F(y)$ of `dynamics.steps.committee` leaves out two things. For rows of unit norm F stops at the second
order in η, while a real step saturates: the remainder $R(y)=\eta^{-1}E\Delta y-F(y)$ counts as soon as $\eta|\mathbf a_k|$
is not small on the inputs that carry $E|\mathbf a_k|^2$, which for a polynomial activation lie far out. And the mean of F
is not F of the mean. With D the covariance of one step over η², mean μ and covariance V of the order parameters obey

$$\dot\mu=F+R+\tfrac12F'':V,\qquad\dot V=F'V+VF'^\top+\eta D,\qquad EL=L(\mu)+\tfrac12L'':V.$$

Between two records R and ηD act at once and the map Φ of all the steps moves both moments,
$\mu\mapsto\Phi+\tfrac12\Phi'':V$, $V\mapsto\Phi'V\Phi'^\top$ (symmetric splitting, differences along the axes of V). R and D
come from real steps by quadrature in the few directions that a step sees: it knows the input's remaining directions by
their squared length alone.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.lowering import State
from dynamics.steps.committee import LoweredCommittee, losses, map_steps, sgd_step
from theory import Activation
from theory.core.quadrature import gauss_hermite, product_rule
from validation.experiments.one_step import derivatives_at_zero

#: Quadrature points for each field.
_NODES = 8
#: Step of the differences along the axes of V.
_DIFFERENCE = 1e-3


@dataclass(frozen=True)
class MeanLoss:
    """Mean loss at the end, and the part of it that is of second order in the strength of R and D.

    The closure holds that part incompletely (the third cumulant is left out), so that its size is that of the error.
    """

    value: float
    second_order: float


@dataclass(frozen=True)
class _Coordinates:
    """Order parameters as one row: T, and Q on and above the diagonal (above it for rows of unit norm)."""

    width: int
    directions: int
    rows: str

    @property
    def shape(self) -> tuple[int, int]:
        return self.width, self.directions

    @property
    def unit(self) -> bool:
        return self.rows != "free"

    @property
    def upper(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.width, 1 if self.unit else 0)

    def row(self, y: Any, module: Any = jnp) -> Any:
        """T and Q's entries in one row; by NumPy outside compiled code, where each operation of JAX is a program."""
        return module.concatenate([y["T"].ravel(), y["Q"][self.upper]])

    def state(self, row: np.ndarray) -> dict[str, np.ndarray]:
        width, directions = self.shape
        T, entries = row[: width * directions].reshape(self.shape), row[width * directions :]
        Q = np.eye(width)
        Q[self.upper] = entries
        Q.T[self.upper] = entries
        return {"T": T, "Q": Q}


@lru_cache(maxsize=4)
def _inputs(seen: int, rest: int) -> tuple[jax.Array, jax.Array]:
    """Points (n, seen + 1) and weights (n,) for the fields and the length of a Gaussian input's other `rest` directions."""
    # Gauss-Laguerre with two points for half the squared length, in closed form: exact up to its third power.
    middle, width = rest / 2 + 1, np.sqrt(rest / 2 + 1)
    length = np.sqrt(2 * np.array([middle - width, middle + width])), np.array([width + 1, width - 1]) / (2 * width)
    points, weights = product_rule(*[gauss_hermite(_NODES)] * seen, length)
    return jnp.asarray(points), jnp.asarray(weights)


@eqx.filter_jit
def _step_moments(
    activation: Activation,
    rule: str,
    where: _Coordinates,
    vectors: jax.Array,
    inputs: tuple[jax.Array, jax.Array],
    parameters: State,
) -> tuple[jax.Array, jax.Array]:
    """R, the mean of one step beyond its second order over η, and D, its covariance over η²."""
    directions, (x, weights), eta = where.shape[1], inputs, parameters["eta"]

    def after(x: jax.Array, eta: jax.Array) -> jax.Array:
        moved = sgd_step(activation, rule, {**parameters, "eta": eta}, vectors, x)
        return where.row({"T": moved[:, :directions], "Q": moved @ moved.T})

    def beyond(x: jax.Array) -> jax.Array:
        first, second = derivatives_at_zero(partial(after, x))
        return (after(x, eta) - after(x, jnp.zeros(()))) / eta - first - 0.5 * eta * second

    moves = jax.vmap(lambda x: after(x, eta) - after(x, jnp.zeros(())))(x) / eta
    spread = moves - weights @ moves
    # The mean of a step on free rows is exactly of second order.
    remainder = weights @ jax.vmap(beyond)(x) if where.unit else jnp.zeros(moves.shape[1])
    return remainder, (weights[:, None] * spread).T @ spread


def _vectors(T: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Rows with these overlaps, and one empty direction for the rest of the input."""
    values, axes = np.linalg.eigh(Q - T @ T.T)
    rest = axes * np.sqrt(np.maximum(values, 0.0))
    return np.concatenate([T, rest, np.zeros((T.shape[0], 1))], axis=1)


def remainder_and_noise(
    activation: Activation, rows: str, parameters: State, T: np.ndarray, Q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """R and D at T (m, P), Q (m, m), over T and the entries of Q above the diagonal (for free rows, on it too)."""
    width, directions = T.shape
    where, seen = _Coordinates(width, directions, rows), width + directions
    inputs = _inputs(seen, int(parameters["d"]) - seen)
    found = _step_moments(activation, rows, where, jnp.asarray(_vectors(T, Q)), inputs, parameters)
    return np.asarray(found[0]), np.asarray(found[1])


class CommitteeMoments:
    """Mean and covariance of the order parameters of committee SGD over steps, to the order of the module."""

    def __init__(
        self, activation: Activation, rows: str, lowered: LoweredCommittee, parameters: State, shape: tuple[int, int]
    ) -> None:
        self._activation, self._rows, self._lowered, self._parameters = activation, rows, lowered, parameters
        self._where = _Coordinates(*shape, rows)

    def mean_loss(self, start: State, marks: np.ndarray) -> MeanLoss:
        """After marks[-1] steps from `start`, R and D taken at the steps `marks`, (n,), from 0 on."""
        none, half, whole = (self._closed(start, marks, strength) for strength in (0.0, 0.5, 1.0))
        return MeanLoss(whole, 2 * (whole - 2 * half + none))

    def _closed(self, start: State, marks: np.ndarray, strength: float) -> float:
        """Mean loss with `strength` times R and D."""
        mean = self._where.row(jax.device_get(start), np)
        spread = np.zeros((mean.size, mean.size))
        counts = np.diff(marks)
        # Half an interval's kick at both ends: a record between two intervals gets half of each.
        kicks = 0.5 * np.concatenate([counts[:1], counts[:-1] + counts[1:], counts[-1:]])
        for place, kick in enumerate(kicks):
            if place:
                mean, spread = self._moved(mean, spread, int(counts[place - 1]))
            if strength:
                y = self._where.state(mean)
                remainder, noise = remainder_and_noise(self._activation, self._rows, self._parameters, y["T"], y["Q"])
                time = strength * kick * float(self._parameters["eta"])
                mean, spread = mean + time * remainder, spread + time * float(self._parameters["eta"]) * noise
        values, axes = _axes(spread)
        points = _star(mean, axes, size=marks.size)
        stacked = jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *[self._where.state(point) for point in points])
        heights = np.asarray(losses(self._lowered, stacked, self._parameters))[: 1 + 2 * values.size]
        return float(heights[0] + 0.5 * values @ _bends(heights))

    def _moved(self, mean: np.ndarray, spread: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        values, axes = _axes(spread)
        found = np.array([self._after(point, count) for point in _star(mean, axes)])
        slopes = (found[1::2] - found[2::2]) / (2 * _DIFFERENCE)
        return found[0] + 0.5 * values @ _bends(found), (values * slopes.T) @ slopes

    def _after(self, row: np.ndarray, count: int) -> np.ndarray:
        state = jax.tree.map(jnp.asarray, self._where.state(row))
        after = jax.device_get(map_steps(self._lowered, state, self._parameters, count, self._where.unit))
        return np.asarray(self._where.row(after, np))


def _axes(spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, axes = np.linalg.eigh(spread)
    return np.maximum(values, 0.0), axes.T


def _star(mean: np.ndarray, axes: np.ndarray, size: int = 0) -> np.ndarray:
    """The mean, and steps ahead and back along each axis; repeated up to `size` points."""
    pairs = np.stack([mean + _DIFFERENCE * axes, mean - _DIFFERENCE * axes], axis=1).reshape(-1, mean.size)
    points = np.concatenate([mean[None], pairs])
    return np.concatenate([points, np.repeat(mean[None], max(size - len(points), 0), axis=0)])


def _bends(found: np.ndarray) -> np.ndarray:
    """Second derivatives along the axes."""
    return (found[1::2] + found[2::2] - 2 * found[0]) / _DIFFERENCE**2
