"""The rival of declared models: their rules as a NumPy loop with explicit vectors of R^d, one replica."""

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from benchmarks.numpy_sgd import activation_pair
from theory.declared.model import DeclaredModel
from theory.declared.rule import Gradient, Here
from theory.declared.start import draw_start


class NumpyRows:
    """Vectors as an array (m, d)."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __add__(self, other: "NumpyRows") -> "NumpyRows":
        return NumpyRows(self.array + other.array)

    def __sub__(self, other: "NumpyRows") -> "NumpyRows":
        return NumpyRows(self.array - other.array)

    def __mul__(self, factor: Any) -> "NumpyRows":
        return NumpyRows(np.asarray(factor)[..., None] * self.array if np.ndim(factor) else factor * self.array)

    def __truediv__(self, divisor: Any) -> "NumpyRows":
        return self * (1 / divisor)

    def norms(self) -> np.ndarray:
        """Lengths (m,)."""
        return np.linalg.norm(self.array, axis=1)

    def norm(self) -> np.floating:
        """Length of all rows together."""
        return np.linalg.norm(self.array)

    def polar(self) -> "NumpyRows":
        """The nearest partial isometry."""
        left, _, right = np.linalg.svd(self.array, full_matrices=False)
        return NumpyRows(left @ right)


def lower(expression: sp.Expr, symbols: Any) -> Callable:
    """An expression as a NumPy function."""
    found: Callable = sp.lambdify(symbols, sp.N(sp.horner(expression), 17), "numpy")
    return found


def loop(model: DeclaredModel, scale: float) -> Callable[[int], np.ndarray]:
    """``run(steps)``: the 2-homogeneous student's rows after so many steps of isotropic inputs."""
    sigma, slope = activation_pair(model.student.activation)
    P, d, m = model.target.count, model.inputs.dim, model.student.width
    first = np.zeros((m, d))
    part = draw_start(model.directions, m, scale).coordinates[0]
    first[:, : part.shape[1]] = part
    rule, rng = model.rule, np.random.default_rng(0)

    def run(steps: int) -> np.ndarray:
        rows, buffers = NumpyRows(first), {name: NumpyRows(np.zeros_like(first)) for name in rule.buffers}
        for number in range(steps):
            x = rng.standard_normal((rule.batch, d))
            labels = model.target.value(x[:, :P], lower)

            def gradient(rows: NumpyRows, second: np.ndarray, x: np.ndarray = x, y: np.ndarray = labels) -> Gradient:
                v = rows.array
                size = np.linalg.norm(v, axis=1)[:, None]
                h = v @ x.T / size
                delta = (np.sum(size**2 * sigma(h), axis=0) - y) / len(y)
                own = np.sum(delta * (2 * sigma(h) - h * slope(h)), axis=1)[:, None]
                return Gradient(NumpyRows(own * v + (delta * size * slope(h)) @ x), np.zeros(m))

            moved = rule.step(Here(rows, np.ones(m), buffers, number, rule.step_size, gradient))
            rows, buffers = moved.rows, {**buffers, **moved.buffers}
        return rows.array

    return run
