r"""Least squares on one drawn training set: largest step size and stationary error, with the set's own fourth moments.

At fixed weights $e=\theta-\theta^*$ obeys $e\leftarrow e-\eta\Lambda x\,(\langle x,e\rangle-\epsilon)$. With $f=\Lambda^{-1/2}
e$ and $z=\Lambda^{1/2}x$ it is least squares with inputs z, and $C=E\,ff^\top$ of a batch of b is mapped by
$$C\leftarrow C-\eta(ZC+CZ)+\eta^2K(C)+\tfrac{\eta^2\sigma^2}bZ,\quad
K(C)=\tfrac1b\overline{zz^\top Czz^\top}+(1-\tfrac1b)ZCZ,\quad Z=\overline{zz^\top},$$
means over the set. It is stationary where $C=\eta T(C)+\frac{\eta\sigma^2}bL^{-1}Z$, $L(C)=ZC+CZ$, $T=L^{-1}K$. T takes
positive matrices to positive ones, so that its largest eigenvalue belongs to a positive C: that of the error that is the
first not to settle, at $\eta=1/T_{max}$. With $L^{-1/2}KL^{-1/2}$ in place of T everything is symmetric. Derived for
arXiv:2603.10397, section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.sparse.linalg import LinearOperator, cg

#: Multiplications of one use of K that are affordable: seconds for all of them.
_AFFORDABLE = 5e7
#: Relative change of an eigenvalue, and of a residual, at which an iteration ends; uses of K that it may take.
_TOLERANCE, _MOST = 1e-9, 10_000


def affordable(inputs: np.ndarray) -> bool:
    """Whether the fourth moments of these inputs, (n, d), are used in seconds."""
    return inputs.size * inputs.shape[1] <= _AFFORDABLE


@dataclass(frozen=True)
class Settled:
    r"""Attributes: error: $C=E\,ee^\top$, (d, d). residual_variance: $\sigma^2+E|\langle e,x\rangle|^2$."""

    error: np.ndarray
    residual_variance: float


@dataclass(frozen=True)
class _Squares:
    r"""Least squares with inputs z in the eigenvectors of Z: ζ (d,), z (n, d), those eigenvectors and $\Lambda^{1/2}$."""

    values: np.ndarray
    inputs: np.ndarray
    vectors: np.ndarray
    root: np.ndarray
    batch: int

    @staticmethod
    def of(inputs: np.ndarray, stiffness: np.ndarray, batch: int) -> "_Squares":
        root = np.real(scipy.linalg.sqrtm(stiffness))
        values, vectors = np.linalg.eigh(root @ (inputs.T @ inputs / len(inputs)) @ root)
        return _Squares(values, inputs @ root @ vectors, vectors, root, batch)

    @property
    def scale(self) -> np.ndarray:
        r"""$L^{-1/2}$, entry by entry."""
        return np.asarray((self.values[:, None] + self.values) ** -0.5)

    def kicked(self, matrix: np.ndarray) -> np.ndarray:
        r"""$L^{-1/2}KL^{-1/2}$ of a symmetric matrix (d, d)."""
        inside = self.scale * matrix
        lengths = np.einsum("ni,ni->n", self.inputs @ inside, self.inputs)
        single = (self.inputs * lengths[:, None]).T @ self.inputs / len(self.inputs)
        both = self.values[:, None] * inside * self.values
        return self.scale * (single / self.batch + (1 - 1 / self.batch) * both)


def largest_step(inputs: np.ndarray, stiffness: np.ndarray, batch: int = 1) -> float:
    r"""Largest η with a stationary error. `inputs`: the set, (n, d), n > d. `stiffness`: Λ, (d, d)."""
    squares = _Squares.of(inputs, stiffness, batch)
    return 1 / _largest(squares.kicked, np.diag(np.sqrt(squares.values)))


def _largest(apply: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> float:
    """Largest eigenvalue of a symmetric map that keeps matrices positive, by powers of it on a positive one."""
    vector, found = start / np.linalg.norm(start), 0.0
    for _ in range(_MOST):
        moved = apply(vector)
        now, size = float(np.sum(vector * moved)), float(np.linalg.norm(moved))
        vector = moved / size
        if abs(now - found) <= _TOLERANCE * now:
            break
        found = now
    return now


def settled(inputs: np.ndarray, stiffness: np.ndarray, step_size: float, noise: float, batch: int = 1) -> Settled:
    r"""The stationary error at η below `largest_step`. Args: the set, (n, d), n > d; Λ, (d, d); η; σ; b."""
    squares = _Squares.of(inputs, stiffness, batch)
    size = len(stiffness)
    source = squares.scale * np.diag(squares.values) * step_size / batch

    def rest(packed: np.ndarray) -> np.ndarray:
        matrix = packed.reshape(size, size)
        return (matrix - step_size * squares.kicked(matrix)).ravel()

    operator = LinearOperator((size**2, size**2), matvec=rest, dtype=float)
    solved, _ = cg(operator, source.ravel(), rtol=_TOLERANCE, maxiter=_MOST)
    error = noise**2 * squares.scale * solved.reshape(size, size)  # of f, in the eigenvectors of Z
    turn = squares.root @ squares.vectors
    return Settled(turn @ error @ turn.T, noise**2 + float(squares.values @ np.diagonal(error)))
