r"""The Riccati flow of a subspace at any time, by its closed form, without overflow.

$\dot G=\tilde AG+G\tilde A-2G\tilde AG$ (arXiv:2508.03688; derived in `theory.riccati`) is the motion of the column space
of $e^{\tau M}U_0$. Multiplied on the right by the inverse of N of its rows, chosen as high up in the spectrum as they go
(a reduced column echelon form), the frame $X_0$ has an identity there, zeros above each pivot, and

$$X(\tau)_{ij}=X_{0,ij}\,e^{\tau(\tilde a_i-\tilde a_{\pi(j)})}$$

spans the moving subspace with exponents that are never positive. With $X=Q\mathcal R$, $Z=X\mathcal R^{-1}$ on the teacher
rows. Times are Riccati times (`QuadraticModel.riccati_time` converts); NumPy and LAPACK, double precision.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas, lapack

from theory import InputError, Subspace
from theory.quadratic import optimal_risk

#: A pivot below this share of its row counts as zero, times the number of columns.
_DEPENDENT = float(np.finfo(float).eps)
#: Exponents below this may be taken apart into factors.
_MODERATE = 300.0
#: Columns treated at once by the blocked QR.
_BLOCK = 32


@dataclass(frozen=True)
class Echelon:
    r"""Reduced column echelon form of N columns, rows in the order of decreasing rates.

    Attributes:
        order: rows of the teacher block, by decreasing $\tilde a$, shape (M*,).
        rates: $\tilde a$ of all rows in that order, 0 on the complement, shape (M* + r,).
        pivots: rows of the identity, increasing, shape (N,).
        rest: the other rows, increasing, shape (M* + r − N,).
        frame: $X_0$ on the rows `rest`, shape (M* + r − N, N).
        basis: the pivot rows of the columns given, shape (N, N): columns = [1; frame]·basis.
    """

    order: np.ndarray
    rates: np.ndarray
    pivots: np.ndarray
    rest: np.ndarray
    frame: np.ndarray
    basis: np.ndarray

    @classmethod
    def of(cls, spectrum: np.ndarray, start: Subspace) -> "Echelon":
        """Pivot rows by elimination from the top. Raises `InputError` if the columns are dependent."""
        order = np.argsort(-spectrum, kind="stable")
        rows = np.vstack([start.on_teachers[order], start.rest])
        pivots = _pivot_rows(rows)
        rest = np.setdiff1d(np.arange(len(rows)), pivots)
        basis = rows[pivots]
        frame = np.linalg.solve(basis.T, rows[rest].T).T
        frame[rest[:, None] < pivots[None, :]] = 0.0  # zero in exact arithmetic: these rows depend on earlier pivots
        rates = np.concatenate([spectrum[order], np.zeros(len(start.rest))])
        return cls(order, rates, pivots, rest, frame, basis)

    def moved(self, time: float) -> np.ndarray:
        r"""The rows `rest` of $X(\tau)$, same shape as `frame`."""
        rows, columns = self.rates[self.rest], self.rates[self.pivots]
        if time * self.rates[0] < _MODERATE:  # no power can overflow: scale rows and columns, far fewer exponentials
            return self.frame * np.exp(time * rows)[:, None] * np.exp(-time * columns)
        return self.frame * np.exp(time * np.minimum(rows[:, None] - columns, 0.0))

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Rows of the result that pivots and other teacher rows go to, and how many of the others are on the teacher."""
        count = self.order.size
        known = int(np.searchsorted(self.rest, count))
        pivots = self.pivots[self.pivots < count]
        return self.order[pivots], self.order[self.rest[:known]], known

    def teacher_rows(self, on_pivots: np.ndarray, on_rest: np.ndarray) -> np.ndarray:
        """Rows on the teacher directions, in the order of the weights given, shape (M*, N)."""
        pivots, others, known = self._places
        out = np.empty((self.order.size, on_pivots.shape[1]))
        out[pivots], out[others] = on_pivots[: len(pivots)], on_rest[:known]
        return out


def _pivot_rows(rows: np.ndarray) -> np.ndarray:
    """The first N linearly independent rows from the top, by elimination with column pivoting."""
    left, width = np.array(rows), rows.shape[1]
    size = np.abs(rows).max(axis=1)
    pivots: list[int] = []
    free = np.ones(width, dtype=bool)
    for i in range(len(left)):
        if len(pivots) == width:
            break
        j = int(np.argmax(np.where(free, np.abs(left[i]), -1.0)))
        if abs(left[i, j]) <= width * _DEPENDENT * size[i]:
            continue
        pivots.append(i)
        free[j] = False
        below = left[i + 1 :]
        below[:, free] -= np.outer(below[:, j] / left[i, j], left[i, free])
    if len(pivots) < width:
        raise InputError(f"the {width} columns of the start are linearly dependent: drop {width - len(pivots)} of them")
    return np.array(pivots)


@dataclass(frozen=True)
class RiccatiFlow:
    r"""The solution $G(\tau)=Z(\tau)Z(\tau)^\top$, evaluated at any Riccati time $\tau\ge0$.

    Every method takes times of shape (T,), in any order; cost O(M*N²) per time, O(M*N) memory besides what is returned.
    Each raises `InputError` for times that are negative or not finite.

    Attributes:
        spectrum: $\tilde a$, shape (M*,).
        start: the subspace at τ = 0.
    """

    spectrum: np.ndarray
    start: Subspace

    @cached_property
    def _echelon(self) -> Echelon:
        echelon = Echelon.of(self.spectrum, self.start)
        teachers = self.spectrum.size
        if echelon.pivots[-1] >= teachers:
            return echelon
        # The complement matters through its Gram matrix only: a triangle in place of its block, at most N rows.
        count = teachers - self.start.width
        triangle = np.linalg.qr(echelon.frame[count:], mode="r")
        rest, rates = echelon.rest[: count + len(triangle)], echelon.rates[: teachers + len(triangle)]
        return Echelon(
            echelon.order, rates, echelon.pivots, rest, np.vstack([echelon.frame[:count], triangle]), echelon.basis
        )

    @property
    def _triangle(self) -> int:
        """Rows at the end of the frame that form a square upper triangle (what the structured QR may skip)."""
        echelon = self._echelon
        low = echelon.rates.size - echelon.order.size
        return low if echelon.pivots[-1] < echelon.order.size and low == self.start.width else 0

    def _factors(self, times: ArrayLike) -> Iterator[np.ndarray]:
        """Z(τ), shape (M*, N), for one time after another."""
        for time in checked_times(times):
            moved = self._echelon.moved(time)
            triangle = _stacked_triangle(moved, self._triangle)
            on_pivots, _ = lapack.dtrtri(triangle)
            yield self._echelon.teacher_rows(on_pivots, blas.dtrsm(1.0, triangle, moved, side=1))

    def factor(self, times: ArrayLike) -> np.ndarray:
        """Z(τ), shape (T, M*, N)."""
        out = np.empty((np.size(times), *self.start.on_teachers.shape))
        for place, z in zip(out, self._factors(times), strict=True):
            place[:] = z
        return out

    def matrix(self, times: ArrayLike) -> np.ndarray:
        """G(τ), symmetric, 0 ≼ G ≼ I, shape (T, M*, M*)."""
        out = np.empty((np.size(times), self.spectrum.size, self.spectrum.size))
        for place, z in zip(out, self._factors(times), strict=True):
            np.matmul(z, z.T, out=place)
        return out

    def diagonal(self, times: ArrayLike) -> np.ndarray:
        """G_jj(τ): how much of direction j the subspace holds, shape (T, M*)."""
        return np.stack([np.sum(z**2, axis=1) for z in self._factors(times)])

    def risk(self, times: ArrayLike) -> np.ndarray:
        """R_opt(τ), the risk with the best radial part (2 at f = 0), shape (T,)."""
        return np.array([optimal_risk(self.spectrum, z) for z in self._factors(times)])

    def curves(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """(diagonal, risk) at the cost of one of them."""
        found = [(np.sum(z**2, axis=1), float(optimal_risk(self.spectrum, z))) for z in self._factors(times)]
        return np.stack([x for x, _ in found]), np.array([x for _, x in found])


def _stacked_triangle(moved: np.ndarray, triangle: int) -> np.ndarray:
    """R of the thin QR of [1; moved]; the last `triangle` rows of `moved` are upper triangular."""
    width = moved.shape[1]
    if len(moved) == 0:
        return np.eye(width)
    found, _, _, info = lapack.dtpqrt(triangle, min(_BLOCK, width), np.eye(width, order="F"), moved)
    if info != 0:
        raise RuntimeError(f"LAPACK tpqrt refused its argument {-info}")
    return np.asarray(found)


def checked_times(times: ArrayLike) -> np.ndarray:
    """Times as an array, shape (T,). Raises `InputError` unless all are finite and 0 or more."""
    array = np.atleast_1d(np.asarray(times, dtype=float))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"times have shape {array.shape}: give one time or a list of them")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise InputError(f"time is {array[bad][0]:g}: give a finite time, 0 or more")
    return array


def checked_spectrum(spectrum: ArrayLike, start: Subspace) -> np.ndarray:
    """Rates as an array, shape (M*,). Raises `InputError` unless positive, finite and as many as the start's rows."""
    a = np.asarray(spectrum, dtype=float)
    if a.ndim != 1 or a.size == 0 or not np.all(np.isfinite(a) & (a > 0)):
        raise InputError("spectrum must be a list of positive finite numbers: drop or fix the others")
    if start.on_teachers.shape[0] != a.size:
        raise InputError(
            f"start has {start.on_teachers.shape[0]} teacher rows, spectrum {a.size}: draw it for this one"
        )
    return a


def riccati_flow(spectrum: ArrayLike, start: Subspace) -> RiccatiFlow:
    r"""The flow $\dot G=\tilde AG+G\tilde A-2G\tilde AG$ of $G=\Theta^\top UU^\top\Theta$ from a subspace.

    Args:
        spectrum: $\tilde a$, shape (M*,), positive, in any order, equal ones allowed (`QuadraticModel.spectrum`).
        start: N independent columns, N below, at or above M* (`draw_subspace`, `Subspace.of_overlap`, `of_state`).

    Source: arXiv:2508.03688 (the equation); the closed form is derived in `theory.riccati`. Exact for population gradient
    flow from any norm of W, since the radial part does not move the column space. Raises `InputError` for spectra that are
    not positive or do not fit the start, and for dependent columns.
    """
    flow = RiccatiFlow(checked_spectrum(spectrum, start), start)
    _ = flow._echelon  # refuses dependent columns now
    return flow
