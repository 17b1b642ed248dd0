"""Label-noise SGD as one writes it down: all m neurons, one step after the other, NumPy."""

import numpy as np


def run(
    first: np.ndarray,
    second: np.ndarray,
    inputs: np.ndarray,
    target: np.ndarray,
    noise: float,
    step_size: float,
    steps: int,
) -> np.ndarray:
    """θ after `steps` steps from W (m, d) and a (m,) on the training set `inputs` (n, d)."""
    rng = np.random.default_rng(0)
    w, a = first.copy(), second.copy()
    points = rng.integers(0, len(inputs), steps)
    signs = rng.choice([-1.0, 1.0], steps)
    for point, sign in zip(points, signs, strict=True):
        x = inputs[point]
        hidden = w @ x
        scale = step_size * (a @ hidden - target @ x - noise * sign)
        w -= np.outer(scale * a, x)
        a = a - scale * hidden
    return w.T @ a
