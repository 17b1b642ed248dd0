r"""The rival: online SGD as one would write it in NumPy, explicit vectors of $R^d$, one replica, one sample per step."""

from collections.abc import Callable

import numpy as np
import sympy as sp

from theory import Activation
from theory.core.hermite import z


def activation_pair(activation: Activation) -> tuple[Callable, Callable]:
    """σ and σ′ as NumPy functions in Horner form."""
    value, slope = activation.function, sp.diff(activation.function, z)
    sigma, sigma_slope = (sp.lambdify(z, sp.N(sp.horner(x), 17), "numpy") for x in (value, slope))
    return sigma, sigma_slope


def step(
    vectors: np.ndarray, x: np.ndarray, a: np.ndarray, step_size: float, sigma: Callable, slope: Callable
) -> np.ndarray:
    r"""$v_k-\eta\nabla_{v_k}\tfrac12(f_*-f)^2(x)$ for all students: V (m, d), x (d,), a (P,) → (m, d)."""
    norm = np.sqrt(np.sum(vectors**2, axis=1))
    h = vectors @ x / norm
    delta = norm**2 @ sigma(h) - a @ sigma(x[: a.size])
    along_self = 2 * sigma(h) - h * slope(h)
    return vectors - step_size * delta * (along_self[:, None] * vectors + (norm * slope(h))[:, None] * x)


def run(vectors: np.ndarray, a: np.ndarray, activation: Activation, step_size: float, steps: int) -> np.ndarray:
    """`steps` steps with fresh samples, from V (m, d); returns the last V."""
    rng = np.random.default_rng(0)
    sigma, slope = activation_pair(activation)
    for _ in range(steps):
        x = rng.standard_normal((vectors.shape[1],))
        vectors = step(vectors, x, a, step_size, sigma, slope)
    return vectors
