r"""One real SGD step in $R^d$, sampled: what the derived means and covariances are judged against.

The step is plain SGD on the sample loss, its gradient by automatic differentiation in ambient coordinates, and its
derivatives by the step size too: nothing of the derivation is used. Products of gradients are polynomials of high degree
in Gaussians, whose averages converge badly; inputs are therefore drawn with their radius from an even mixture of the
χ law with d and with d + ν degrees of freedom and weighted by the exact ratio of densities. That is unbiased for any ν,
and with ν of the order of the degree the weighted values stay bounded along the radius.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from scipy.special import gammaln

from dynamics.lowering import lower_scalar
from theory import Activation, Teacher
from theory.hermite import z

#: Samples evaluated at a time.
BLOCK = 20_000


@dataclass(frozen=True)
class StepSamples:
    """Weighted sums of sampled values, one column for each quantity.

    Attributes:
        mean, stderr: (n,) averages and their standard errors. correlation: (n, n) of the averages.
    """

    mean: np.ndarray
    stderr: np.ndarray
    correlation: np.ndarray


def weighted_inputs(rng: np.random.Generator, count: int, dim: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (count, d) and weights (count,): E f(x) over N(0, I_d) is the mean of weight × f."""
    freedom = np.where(rng.random(count) < 0.5, dim, dim + degree)
    square = rng.chisquare(freedom)
    direction = rng.standard_normal((count, dim))
    x = direction * np.sqrt(square / np.sum(direction**2, axis=1))[:, None]
    # density of χ²_{d+ν} over that of χ²_d at `square`
    log_ratio = 0.5 * degree * np.log(square / 2) + gammaln(dim / 2) - gammaln((dim + degree) / 2)
    return x, 2.0 / (1.0 + np.exp(log_ratio))


def coordinates(vectors: jax.Array, width: int) -> jax.Array:
    """t, c (above the diagonal) and r of explicit vectors, in one row."""
    r = jnp.sum(vectors**2, axis=1)
    units = vectors / jnp.sqrt(r)[:, None]
    above = jnp.triu_indices(r.size, 1)
    return jnp.concatenate([units[:, :width].ravel(), (units @ units.T)[above], r])


def raw_coordinates(vectors: jax.Array, width: int) -> jax.Array:
    """T and Q (diagonal included) of explicit vectors, in one row."""
    upper = jnp.triu_indices(vectors.shape[0])
    return jnp.concatenate([vectors[:, :width].ravel(), (vectors @ vectors.T)[upper]])


@lru_cache(maxsize=16)
def _sample_loss(activation: Activation, weights: tuple[float, ...]):  # type: ignore[no-untyped-def]
    sigma = lower_scalar(z, sp.expand(activation.function))

    def loss(vectors: jax.Array, x: jax.Array) -> jax.Array:
        size2 = jnp.sum(vectors**2, axis=1)
        student = jnp.sum(size2 * sigma(vectors @ x / jnp.sqrt(size2)))
        return 0.5 * (student - jnp.asarray(weights) @ sigma(x[: len(weights)])) ** 2

    return loss


@partial(jax.jit, static_argnums=(0, 1))
def _expanded(
    activation: Activation, weights: tuple[float, ...], vectors: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """First and half the second derivative of (t, c, r) by the step size, one row per sample."""
    loss, width = _sample_loss(activation, weights), len(weights)

    def of_sample(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        descent = -jax.grad(loss)(vectors, x)
        after = lambda eta: coordinates(vectors + eta * descent, width)  # noqa: E731
        slope = lambda eta: jax.jvp(after, (eta,), (1.0,))[1]  # noqa: E731
        first, second = jax.jvp(slope, (0.0,), (1.0,))
        return first, 0.5 * second

    return jax.vmap(of_sample)(x)


@partial(jax.jit, static_argnums=(0, 1))
def _stepped(
    activation: Activation, weights: tuple[float, ...], vectors: jax.Array, x: jax.Array, step_size: jax.Array
) -> jax.Array:
    """Change of (T, Q) in one step, one row per sample."""
    loss, width = _sample_loss(activation, weights), len(weights)
    before = raw_coordinates(vectors, width)
    move = lambda x: raw_coordinates(vectors - step_size * jax.grad(loss)(vectors, x), width) - before  # noqa: E731
    return jax.vmap(move)(x)


class Averager:
    """Weighted averages of many columns with their errors, block by block.

    Correlations between columns (which only set the error of a mean square) are taken from the first block.
    """

    def __init__(self) -> None:
        self._count = 0
        self._sums: np.ndarray | float = 0.0
        self._squares: np.ndarray | float = 0.0
        self._correlation: np.ndarray | None = None

    def add(self, values: jax.Array) -> None:
        """Values already multiplied by their weights, one row per sample."""
        sums, squares = _sums(values)
        self._count += values.shape[0]
        self._sums, self._squares = self._sums + np.asarray(sums), self._squares + np.asarray(squares)
        if self._correlation is None:
            self._correlation = np.asarray(_correlation(values))

    def result(self) -> StepSamples:
        assert self._correlation is not None
        mean = np.asarray(self._sums) / self._count
        spread = np.sqrt(np.asarray(self._squares) / self._count - mean**2)
        return StepSamples(mean, spread / np.sqrt(self._count), self._correlation)


@jax.jit
def _sums(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.sum(values, axis=0), jnp.sum(values**2, axis=0)


@jax.jit
def _correlation(values: jax.Array) -> jax.Array:
    centred = values - jnp.mean(values, axis=0)
    scaled = centred / jnp.sqrt(jnp.sum(centred**2, axis=0))
    return scaled.T @ scaled


@jax.jit
def _products(first: jax.Array, weight: jax.Array) -> jax.Array:
    rows, columns = jnp.triu_indices(first.shape[1])
    return weight[:, None] * first[:, rows] * first[:, columns]


def sampled_expansion(
    activation: Activation, teacher: Teacher, vectors: np.ndarray, rng: np.random.Generator, blocks: int
) -> tuple[StepSamples, StepSamples]:
    """Second-order terms of (t, c, r); and products of the first-order ones (upper triangle, row by row)."""
    bends, products = Averager(), Averager()
    for _ in range(blocks):
        x, weight = (jnp.asarray(y) for y in weighted_inputs(rng, BLOCK, teacher.dim, 4 * activation.degree))
        first, second = _expanded(activation, teacher.weights, jnp.asarray(vectors), x)
        bends.add(weight[:, None] * second)
        products.add(_products(first, weight))
    return bends.result(), products.result()


def sampled_step(
    activation: Activation,
    teacher: Teacher,
    vectors: np.ndarray,
    step_size: float,
    rng: np.random.Generator,
    blocks: int,
) -> StepSamples:
    """Mean change of (T, Q) in one step."""
    changes = Averager()
    for _ in range(blocks):
        x, weight = (jnp.asarray(y) for y in weighted_inputs(rng, BLOCK, teacher.dim, 4 * activation.degree))
        moved = _stepped(activation, teacher.weights, jnp.asarray(vectors), x, jnp.asarray(step_size))
        changes.add(weight[:, None] * moved)
    return changes.result()
