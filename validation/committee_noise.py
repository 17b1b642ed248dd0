r"""How far fluctuations move the mean loss of a committee: the linear noise approximation around the mean path.

Along $\dot y=F(y)$, with D the covariance of one step over η²,

$$\dot V=F'V+VF'^\top+\eta D,\qquad\dot s=F's+\tfrac12F'':V,\qquad
\Delta L=L'\cdot s+\tfrac12L'':V.$$

Derivatives are differences of the lowered drift; $F'':V$ is a sum of second differences along the axes of V. D is sampled
from real steps in coordinates, in the few directions that a step sees (a step knows the input's remaining directions by
their squared length alone).
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dynamics.committee import LoweredCommittee, State, sgd_step
from theory import Activation

#: Sampled steps for each covariance; difference of the derivatives.
_SAMPLES, _DIFFERENCE = 10_000, 1e-3


class _Coordinates:
    """Order parameters as one row: T, and Q on and above the diagonal (above it for rows of unit norm)."""

    def __init__(self, width: int, directions: int, rows: str) -> None:
        self.shape = (width, directions)
        self.unit = rows != "free"
        self.upper = np.triu_indices(width, 1 if self.unit else 0)

    def row(self, y: State) -> jax.Array:
        return jnp.concatenate([y["T"].ravel(), y["Q"][self.upper]])

    def state(self, row: jax.Array) -> State:
        width, directions = self.shape
        i, h = self.upper
        Q = jnp.eye(width) if self.unit else jnp.zeros((width, width))
        entries = row[width * directions :]
        return {"T": row[: width * directions].reshape(self.shape), "Q": Q.at[i, h].set(entries).at[h, i].set(entries)}


@eqx.filter_jit
def _drifts(lowered: LoweredCommittee, where: "_Coordinates", rows: jax.Array, parameters: State) -> jax.Array:
    return jax.lax.map(lambda y: where.row(lowered.drift(where.state(y), parameters)), rows)


@eqx.filter_jit
def _losses(lowered: LoweredCommittee, where: "_Coordinates", rows: jax.Array, parameters: State) -> jax.Array:
    return jax.lax.map(lambda y: lowered.loss(where.state(y), parameters), rows)


@eqx.filter_jit
def _step_covariance(
    activation: Activation, rule: str, where: "_Coordinates", vectors: jax.Array, x: jax.Array, parameters: State
) -> jax.Array:
    """Covariance of one step over η²."""
    directions = where.shape[1]

    def moved(x: jax.Array) -> jax.Array:
        after = sgd_step(activation, rule, parameters, vectors, x)
        return where.row({"T": after[:, :directions], "Q": after @ after.T})

    return jnp.cov(jax.vmap(moved)(x), rowvar=False) / parameters["eta"] ** 2


def _vectors(T: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Rows with these overlaps, and one empty direction for the rest of the input."""
    values, axes = np.linalg.eigh(Q - T @ T.T)
    rest = axes * np.sqrt(np.maximum(values, 0.0))
    return np.concatenate([T, rest, np.zeros((T.shape[0], 1))], axis=1)


def loss_shift(
    activation: Activation,
    rows: str,
    lowered: LoweredCommittee,
    parameters: State,
    path: dict[str, np.ndarray],
    times: np.ndarray,
    rng: np.random.Generator,
) -> float:
    """ΔL at the end of the mean path T (n, m, P), Q (n, m, m) at `times` (n,)."""
    width, directions = path["T"].shape[1:]
    where = _Coordinates(width, directions, rows)
    seen = width + directions
    x = rng.standard_normal((_SAMPLES, seen + 1))
    x[:, -1] = np.sqrt(rng.chisquare(int(parameters["d"]) - seen, _SAMPLES))
    covariance = partial(_step_covariance, activation, rows, where, x=jnp.asarray(x), parameters=parameters)
    points = np.asarray(jax.vmap(where.row)({name: jnp.asarray(value) for name, value in path.items()}))
    spread, shift = np.zeros((points.shape[1],) * 2), np.zeros(points.shape[1])
    for place, step in enumerate(np.diff(times)):
        y = points[place]
        noise = np.asarray(covariance(vectors=jnp.asarray(_vectors(path["T"][place], path["Q"][place]))))
        evaluate = lambda rows: np.asarray(_drifts(lowered, where, jnp.asarray(rows), parameters))  # noqa: E731
        slope, bend = _derivatives(evaluate, y, spread)
        shift = shift + step * (slope @ shift + 0.5 * bend)
        transfer = np.eye(y.size) + step * slope
        spread = transfer @ spread @ transfer.T + step * float(parameters["eta"]) * noise
    evaluate = lambda rows: np.asarray(_losses(lowered, where, jnp.asarray(rows), parameters))[:, None]  # noqa: E731
    slope, bend = _derivatives(evaluate, points[-1], spread)
    return float((slope @ shift + 0.5 * bend)[0])


def _derivatives(evaluate, y: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    """f′ (outputs, inputs) and f″:V at y by central differences, all points in one batch."""
    values, axes = np.linalg.eigh(spread)
    size, h = y.size, _DIFFERENCE
    moves = np.concatenate([h * np.eye(size), h * axes.T])
    found = evaluate(np.concatenate([y[None], y + moves, y - moves]))
    ahead, behind = found[1 : 1 + 2 * size], found[1 + 2 * size :]
    slope = (ahead - behind)[:size].T / (2 * h)
    bend = np.maximum(values, 0.0) @ (ahead + behind - 2 * found[0])[size:] / h**2
    return slope, bend
