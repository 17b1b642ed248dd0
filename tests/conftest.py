"""Shared fixtures: students as explicit vectors, and the overlaps computed from them by plain linear algebra."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from theory import InitialState, Teacher


@dataclass(frozen=True)
class Frame:
    """Students as vectors of R^d (teachers are e_1 … e_P) and what follows from them.

    Attributes:
        vectors: V, shape (m, d). weights: a, shape (P,). overlap, student_overlap, norm2: t (m, P), c (m, m), r (m,).
    """

    vectors: np.ndarray
    weights: np.ndarray
    overlap: np.ndarray
    student_overlap: np.ndarray
    norm2: np.ndarray

    @property
    def teacher(self) -> Teacher:
        return Teacher.of(self.weights.tolist(), self.vectors.shape[1], normalise=False)

    @property
    def initial(self) -> InitialState:
        """The same students in the project's own coordinates; the residual's QR factor is computed here, by NumPy."""
        known = self.weights.size
        return InitialState(self.vectors[:, :known], np.asarray(np.linalg.qr(self.vectors[:, known:].T, mode="r")).T)


def frame_of(vectors: np.ndarray, weights: np.ndarray) -> Frame:
    """Overlaps of explicit vectors."""
    norm2 = np.sum(vectors**2, axis=1)
    units = vectors / np.sqrt(norm2)[:, None]
    return Frame(vectors, weights, units[:, : weights.size], units @ units.T, norm2)


@pytest.fixture(scope="session")
def frame() -> Callable[..., Frame]:
    """``frame(m, P, d, seed)``: students of different norms (about `scale`) and weights in (½, 1)."""

    def make(width: int, teacher_width: int, dim: int, seed: int = 0, scale: float = 0.7) -> Frame:
        rng = np.random.default_rng(seed)
        vectors = rng.standard_normal((width, dim)) * rng.uniform(0.5, 1.5, (width, 1)) * scale / np.sqrt(dim)
        return frame_of(vectors, rng.uniform(0.5, 1.0, teacher_width))

    return make
