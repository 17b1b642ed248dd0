r"""Subspaces of $R^d$ seen from the teacher: the initial states of the Riccati flow.

A frame of N columns in $R^d$ is known by its coordinates on the M* teacher directions and by its coordinates in *some*
orthonormal basis of the complement, of which the N columns reach at most N dimensions: M*+N rows in all, whatever d. A
uniformly distributed (Haar) subspace is spanned by Gaussian columns, whose complement enters through its Gram matrix, a
Wishart matrix, drawn by its Bartlett factor (Bartlett 1933).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.errors import InputError
from theory.core.initial import InitialState, bartlett
from theory.core.streams import generator
from theory.quadratic.model import check_width

#: How far Z₀ᵀZ₀ may exceed the identity by rounding.
_ROUNDING = 1e-12
#: Below this ratio of its diagonal's entries, where digits are lost with it, a triangle is not solved with: a frame is made.
_SMALL = 1e-3
_NAME = "subspace"


@dataclass(frozen=True)
class Subspace:
    r"""N columns in $R^d$: $W=[\text{on\_teachers};\text{rest}]$.

    Attributes:
        on_teachers: coordinates on the teacher directions, shape (M*, N).
        rest: coordinates in some orthonormal basis of the complement, shape (r, N); N rows are enough (`compact`).
    """

    on_teachers: np.ndarray
    rest: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Both blocks, shape (M* + r, N)."""
        return np.vstack([self.on_teachers, self.rest])

    @property
    def width(self) -> int:
        """N, the number of columns."""
        return self.on_teachers.shape[1]

    def compact(self) -> "Subspace":
        """The same with at most N rows in `rest`, of which only the Gram matrix matters."""
        if len(self.rest) <= self.width:
            return self
        return Subspace(self.on_teachers, np.asarray(np.linalg.qr(self.rest, mode="r")))

    def orthonormal(self) -> "Subspace":
        """An orthonormal frame of the same subspace. Raises `InputError` if the columns are dependent."""
        rows = self.rows
        for turn in range(2):  # the second takes away what the condition of the columns has left
            lengths = np.abs(rows).max(axis=0)
            rows = rows / np.where(lengths > 0, lengths, 1.0)
            triangle = np.linalg.qr(rows, mode="r")
            size = np.abs(np.diag(triangle))
            if turn == 0 and (len(rows) < self.width or size.min() <= self.width * np.finfo(float).eps * size.max()):
                raise InputError(f"the {self.width} columns of the subspace are linearly dependent: drop some")
            # (Not the explicit Q: its rows on the teachers, of size d^{-1/2}, would have absolute, not relative, errors.)
            rows = scipy.linalg.solve_triangular(triangle, rows.T, trans="T").T
        count = self.on_teachers.shape[0]
        return Subspace(rows[:count], rows[count:])

    def squared_overlaps(self) -> np.ndarray:
        r"""$\|U^\top\theta_j\|^2$ of each teacher with the span, (M*,), without a frame where `rest` is triangular.

        With T the columns on the teachers and R the others, $S=T(R^\top R)^{-1}T^\top$, it is the diagonal of $S(1+S)^{-1}$:
        O(M*N²) in place of O(N³). Raises `InputError` if the columns are dependent.
        """
        size = np.abs(np.diag(self.rest))
        square = self.rest.shape == (self.width, self.width)
        if not square or np.any(np.tril(self.rest, -1)) or size.min() <= _SMALL * size.max():
            return np.asarray(np.sum(self.orthonormal().on_teachers ** 2, axis=1))
        reach = scipy.linalg.solve_triangular(self.rest, self.on_teachers.T, trans="T")
        gram = reach.T @ reach
        return np.asarray(np.diag(np.linalg.solve(np.eye(len(gram)) + gram, gram)))

    @classmethod
    def of_overlap(cls, overlap: ArrayLike) -> "Subspace":
        r"""From $Z_0=\Theta^\top U_0$, shape (M*, N), of an orthonormal frame. Raises `InputError` if ‖Z₀‖ > 1."""
        z = np.asarray(overlap, dtype=float)
        if z.ndim != 2 or z.size == 0 or not np.all(np.isfinite(z)):
            raise InputError(f"overlap Z0 has shape {z.shape}: give a finite matrix (teacher width, student width)")
        _, sizes, right = np.linalg.svd(z, full_matrices=True)
        if sizes[0] > 1 + _ROUNDING:
            raise InputError(f"overlap Z0 has the singular value {sizes[0]:.6g}: an orthonormal frame has at most 1")
        left = np.ones(z.shape[1])
        left[: sizes.size] = np.sqrt(np.maximum((1 - sizes) * (1 + sizes), 0.0))
        return cls(z, left[:, None] * right)

    @classmethod
    def of_state(cls, state: InitialState) -> "Subspace":
        r"""The span of the students of the additive model: column k is neuron $v_k$, with its norm."""
        return cls(state.on_teachers.T, state.residual.T)


def draw_columns(teacher_width: int, width: int, dim: int, seed: int | np.random.Generator) -> Subspace:
    """N Gaussian columns N(0, I_d), exact in law for any d, none formed in R^d. Raises `InputError` for N or M* > d."""
    check_width(width, dim)
    if teacher_width > dim:
        raise InputError(f"teacher width {teacher_width} exceeds dim {dim}: orthonormal directions need P <= d")
    rng = generator(seed, _NAME)
    on_teachers = rng.standard_normal((teacher_width, width))
    left = dim - teacher_width
    rest = rng.standard_normal((left, width)) if left <= width else bartlett(rng, width, left).T
    return Subspace(on_teachers, rest)


def draw_subspace(teacher_width: int, width: int, dim: int, seed: int | np.random.Generator) -> Subspace:
    """An orthonormal frame of a uniformly distributed N-dimensional subspace of R^d (a point of the Stiefel manifold)."""
    return draw_columns(teacher_width, width, dim, seed).orthonormal()


def draw_subspaces(teacher_width: int, width: int, dim: int, seed: int, replicas: int) -> Iterator[Subspace]:
    """Independent ones; the first is that of `draw_subspace`, and none depends on how many follow it."""
    rng = generator(seed, _NAME)
    return (draw_subspace(teacher_width, width, dim, rng) for _ in range(replicas))
