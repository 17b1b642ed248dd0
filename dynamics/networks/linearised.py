r"""The linearised network in function space: the honest control of every "this is feature learning".

With $\tilde f(\theta)=f(\theta_0)+\nabla f(\theta_0)(\theta-\theta_0)$ and loss $\tfrac1{2nc}\|\tilde f-y\|^2$ on the
training set, a full-batch step moves the outputs by $-\tfrac{\eta}{nc}\Theta(\tilde f-\tilde y)$, $\Theta$ the tangent kernel
at $\theta_0$. Everything else follows from the accumulated residual $S=\sum_t(\tilde f_t-\tilde y_t)$, because
$\theta-\theta_0=-\tfrac{\eta}{nc}\nabla f(\theta_0)^\top S$. A step of SAM (arXiv:2603.10397, section 5) first moves the
outputs up by $\rho\,\Theta r/\sqrt{r^\top\Theta r}$, $r=\tilde f-\tilde y$.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from theory.linear.label_flips import LabelFlips, variance_function


class LinearState(NamedTuple):
    """Outputs on the training set (n·c,), and the accumulated residual S (n·c,)."""

    outputs: jax.Array
    residuals: jax.Array


def linear_step(
    kernel: jax.Array, state: LinearState, labels: jax.Array, rate: jax.Array, radius: jax.Array | None = None
) -> LinearState:
    """One full-batch step with `rate` = η/(nc) towards `labels` (n·c,); one of SAM if a `radius` ρ is given."""
    residual = state.outputs - labels
    raised = kernel @ residual
    if radius is not None:
        length = jnp.sqrt(jnp.maximum(residual @ raised, 0.0))
        residual = residual + jnp.where(length > 0, radius / jnp.where(length > 0, length, 1.0), 0.0) * raised
        raised = kernel @ residual
    return LinearState(state.outputs - rate * raised, state.residuals + residual)


class Modes(NamedTuple):
    """The linear problem in the kernel's eigenbasis.

    Attributes:
        multiplier: λ/(nc), so that κ = η·multiplier. start: outputs at initialisation minus mean labels.
        bias: mean labels minus clean labels. noise: variance of the label noise.
        vectors: eigenvectors (n·c, modes). outputs, one_hot: what the modes were made from, (n, c).
    """

    multiplier: np.ndarray
    start: np.ndarray
    bias: np.ndarray
    noise: np.ndarray
    vectors: np.ndarray
    outputs: np.ndarray
    one_hot: np.ndarray


def modes(kernel: np.ndarray, outputs: np.ndarray, one_hot: np.ndarray, flips: LabelFlips) -> Modes:
    """Eigenmodes of a kernel (n·c, n·c), with outputs at initialisation (n, c) and one-hot labels (n, c)."""
    values, vectors = np.linalg.eigh(np.asarray(kernel, dtype=float))
    return _project(np.maximum(values, 0.0) / one_hot.size, vectors, outputs, one_hot, flips)


def modes_with(other: Modes, flips: LabelFlips) -> Modes:
    """The same linear problem under another law of flips."""
    return _project(other.multiplier, other.vectors, other.outputs, other.one_hot, flips)


def _project(
    multiplier: np.ndarray, vectors: np.ndarray, outputs: np.ndarray, one_hot: np.ndarray, flips: LabelFlips
) -> Modes:
    mean, (n, classes) = flips.mean_label(one_hot), one_hot.shape
    blocks = vectors.reshape(n, classes, -1)
    noise = np.einsum("iak,iab,ibk->k", blocks, flips.covariance(one_hot), blocks, optimize=True)
    start, bias = (vectors.T @ np.asarray(x, dtype=float).ravel() for x in (outputs - mean, mean - one_hot))
    return Modes(multiplier, start, bias, noise, vectors, outputs, one_hot)


def expected_loss(modes: Modes, step_size: float, steps: np.ndarray) -> np.ndarray:
    """Expected loss against clean labels, ½ mean over samples and classes, after each of `steps` (k,); exact."""
    return 0.5 * _mode_losses(modes, step_size, np.atleast_1d(steps)).mean(axis=1)


def _mode_losses(modes: Modes, step_size: float, steps: np.ndarray) -> np.ndarray:
    """(times, modes): squared distance of the mean output from the clean label, plus the output's variance."""
    kappa = step_size * modes.multiplier
    mean = (1 - kappa) ** steps[:, None] * modes.start + modes.bias
    return mean**2 + variance_function()(kappa, modes.noise, steps[:, None])


def relative_change(before: np.ndarray, after: np.ndarray) -> float:
    """‖Θ − Θ₀‖/‖Θ₀‖ in Frobenius norm, for arrays of one shape."""
    return float(np.linalg.norm(after - before) / np.linalg.norm(before))
