r"""One real SGD step in $R^d$, sampled: what the derived means and covariances are judged against.

The step is plain SGD on the sample loss, its gradient by automatic differentiation in ambient coordinates, and its
derivatives by the step size too: nothing of the derivation is used. Products of gradients are polynomials of high degree
in Gaussians, whose averages converge badly, being carried by rare inputs along the neurons. Inputs are therefore drawn
from a mixture in which the standard Gaussian is stretched along a neuron of the frame, or along the sum or difference of
two, and weighted by the exact ratio of densities: unbiased for any stretch, and with far lighter tails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.core.lowering import lower_scalar
from theory import Activation, Teacher
from theory.core.hermite import z
from validation.experiments.states import overlaps_of_vectors

#: Samples evaluated at a time.
BLOCK = 20_000
#: Share of inputs that are not stretched, and the variance along the stretched axis of the others.
_PLAIN, _STRETCH = 0.25, 12.0


@dataclass(frozen=True)
class StepSamples:
    """Weighted sums of sampled values, one column for each quantity.

    Attributes:
        mean, stderr: (n,) averages and their standard errors. correlation: (n, n) of the averages.
    """

    mean: np.ndarray
    stderr: np.ndarray
    correlation: np.ndarray


def weighted_inputs(rng: np.random.Generator, count: int, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (count, d) and weights (count,): E f(x) over N(0, I_d) is the mean of weight × f.

    Args:
        units: (N, d) unit vectors along which, and along whose sums and differences, inputs are stretched.
    """
    i, h = np.triu_indices(len(units), 1)
    pairs = np.concatenate([units[i] + units[h], units[i] - units[h]])
    length = np.linalg.norm(pairs, axis=1)
    pairs = pairs[length > 1e-6] / length[length > 1e-6, None]
    axes = np.concatenate([units, pairs])
    share = np.concatenate([np.full(len(units), 0.5 / len(units)), np.full(len(pairs), 0.5 / len(pairs))])
    x = rng.standard_normal((count, units.shape[1]))
    chosen = axes[rng.choice(len(axes), size=count, p=share)]
    stretched = np.where(rng.random(count) < _PLAIN, 0.0, np.sqrt(_STRETCH) - 1.0)
    x += (stretched * np.sum(x * chosen, axis=1))[:, None] * chosen
    # densities of the mixture over that of the Gaussian
    along = np.exp(0.5 * (x @ axes.T) ** 2 * (1 - 1 / _STRETCH)) / np.sqrt(_STRETCH)
    return x, 1.0 / (_PLAIN + (1 - _PLAIN) * along @ share)


def frame_of(vectors: np.ndarray, width: int) -> np.ndarray:
    """Unit vectors of teachers and students, (P + m, d)."""
    return np.concatenate([np.eye(width, vectors.shape[1]), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)])


def coordinates(vectors: jax.Array, width: int) -> jax.Array:
    """t, c (above the diagonal) and r of explicit vectors, in one row."""
    state, above = overlaps_of_vectors(vectors, width), jnp.triu_indices(len(vectors), 1)
    return jnp.concatenate([state["t"].ravel(), state["c"][above], state["r"]])


def raw_coordinates(vectors: jax.Array, width: int) -> jax.Array:
    """T and Q (diagonal included) of explicit vectors, in one row."""
    upper = jnp.triu_indices(vectors.shape[0])
    return jnp.concatenate([vectors[:, :width].ravel(), (vectors @ vectors.T)[upper]])


def derivatives_at_zero(after: Callable[[jax.Array], jax.Array]) -> tuple[jax.Array, jax.Array]:
    """First and second derivative of a function of the step size, where that is 0."""

    def slope(eta: jax.Array) -> jax.Array:
        return jax.jvp(after, (eta,), (1.0,))[1]

    return jax.jvp(slope, (0.0,), (1.0,))


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
        first, second = derivatives_at_zero(lambda eta: coordinates(vectors + eta * descent, width))
        return first, 0.5 * second

    return jax.vmap(of_sample)(x)


@partial(jax.jit, static_argnums=(0, 1))
def _stepped(
    activation: Activation, weights: tuple[float, ...], vectors: jax.Array, x: jax.Array, step_size: jax.Array
) -> jax.Array:
    """Change of (T, Q) in one step, one row per sample."""
    loss, width = _sample_loss(activation, weights), len(weights)
    before = raw_coordinates(vectors, width)
    return jax.vmap(lambda x: raw_coordinates(vectors - step_size * jax.grad(loss)(vectors, x), width) - before)(x)


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
        self._count_in(len(values), *_sums(values))
        if self._correlation is None:
            self._correlation = np.asarray(_correlation(values))

    def add_products(self, first: jax.Array, weight: jax.Array) -> None:
        """Products of any two columns, the upper triangle row by row, with their weights; all of them are formed once."""
        self._count_in(len(first), *_sums_of_products(first, weight))
        if self._correlation is None:
            self._correlation = np.asarray(_correlation(_products(first, weight)))

    def _count_in(self, count: int, sums: jax.Array, squares: jax.Array) -> None:
        self._count += count
        self._sums, self._squares = self._sums + np.asarray(sums), self._squares + np.asarray(squares)

    def result(self) -> StepSamples:
        """Means, their errors, and the correlations of the first block."""
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


@jax.jit
def _sums_of_products(first: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`_sums` of `_products`."""
    upper = jnp.triu_indices(first.shape[1])
    weighted = weight[:, None] * first
    return (first.T @ weighted)[upper], ((first**2).T @ weighted**2)[upper]


def sampled_expansion(
    activation: Activation, teacher: Teacher, vectors: np.ndarray, rng: np.random.Generator, blocks: int
) -> tuple[StepSamples, StepSamples]:
    """Second-order terms of (t, c, r); and products of the first-order ones (upper triangle, row by row)."""
    bends, products = Averager(), Averager()
    for _ in range(blocks):
        x, weight = (jnp.asarray(y) for y in weighted_inputs(rng, BLOCK, frame_of(vectors, teacher.width)))
        first, second = _expanded(activation, teacher.weights, jnp.asarray(vectors), x)
        bends.add(weight[:, None] * second)
        products.add_products(first, weight)
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
        x, weight = (jnp.asarray(y) for y in weighted_inputs(rng, BLOCK, frame_of(vectors, teacher.width)))
        moved = _stepped(activation, teacher.weights, jnp.asarray(vectors), x, jnp.asarray(step_size))
        changes.add(weight[:, None] * moved)
    return changes.result()
