r"""The Riccati flow of a subspace at any time, by its closed form, without overflow.

$\dot G=\tilde AG+G\tilde A-2G\tilde AG$ (arXiv:2508.03688; derived in `theory.quadratic.riccati`) is the motion of the
column space of $e^{\tau M}U_0$. Multiplied on the right by the inverse of N of its rows, chosen as high up in the spectrum
as they go (a reduced column echelon form), the frame $X_0$ has an identity there, zeros above each pivot, and

$$X(\tau)_{ij}=X_{0,ij}\,e^{\tau(\tilde a_i-\tilde a_{\pi(j)})}$$

spans the moving subspace with exponents that are never positive. With $X=Q\mathcal R$, $Z=X\mathcal R^{-1}$ on the teacher
rows. Where those rows nearly depend on each other the entries of $X_0$ are huge, and the columns of $X(\tau)$ nearly parallel
until late: there the pivots are chosen anew, by complete pivoting on $e^{\tau M}U_0$, which bounds the entries at that time.
Small directions then keep their own relative precision at every time, whatever the rank of the start's teacher block.

Times are Riccati times (`QuadraticModel.riccati_time` converts); NumPy and LAPACK, double precision.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.linalg import blas, lapack

from dynamics.core.trajectory import variable
from theory import InputError, Subspace
from theory.quadratic.model import optimal_risk

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

#: An entry below this share of its row counts as zero, times the number of columns.
_ROUNDING = float(np.finfo(float).eps)
#: Exponents below this may be taken apart into factors; entries of X(τ) end at its exponential.
_MODERATE = 300.0
#: Columns treated at once by the blocked QR.
_BLOCK = 32
#: Other pivots are taken where the columns of X(τ), scaled to one length, have a condition number beyond this times N: it
#: multiplies rounding errors, and pivots that suit the time leave it below.
_SKEWED = 100.0
#: Rounding of the start that moves the subspace by more than this is told.
_TOLD = 1e-3
#: Times of a figure for which none are given.
_SHOWN = 300
#: What $G_{jj}$ is called in a file.
DIAGONAL = "diagonal of G: squared length of a direction's projection on the subspace"


@dataclass(frozen=True)
class Echelon:
    r"""Reduced column echelon form of N columns, rows in the order of decreasing rates.

    Attributes:
        order: rows of the teacher block, by decreasing $\tilde a$, shape (M*,).
        rates: $\tilde a$ of all rows in that order, 0 on the complement, shape (M* + r,).
        pivots: rows of the identity, increasing, shape (N,).
        rest: the other rows, increasing, shape (M* + r − N,).
        frame: $X_0$ on the rows `rest`, shape (M* + r − N, N).
        inverse: $B^{-1}$ of the pivot rows B of the columns given, shape (N, N): columns = [1; frame]·B.
        rounding: how far relative rounding errors of the columns given can move `frame`, to first order, same shape.
        condition: of the pivot rows, whatever their sizes: the largest entry of $|B^{-1}||B|$ (Skeel).
    """

    order: np.ndarray
    rates: np.ndarray
    pivots: np.ndarray
    rest: np.ndarray
    frame: np.ndarray
    inverse: np.ndarray
    rounding: np.ndarray
    condition: float

    @classmethod
    def of(cls, spectrum: np.ndarray, start: Subspace, time: float = np.inf) -> "Echelon":
        """On the pivots that are best at `time`, at late times by default. Raises `InputError` for dependent columns."""
        order = np.argsort(-spectrum, kind="stable")
        rows = np.vstack([start.on_teachers[order], start.rest])
        lengths = np.abs(rows).max(axis=0)
        lengths[lengths == 0] = 1.0
        rows = rows / lengths
        rates = np.concatenate([spectrum[order], np.zeros(len(start.rest))])
        chosen, below, inverse = _eliminate(rows, rates, time)
        pivots, sort = np.sort(chosen), np.argsort(chosen)
        rest = np.setdiff1d(np.arange(len(rows)), pivots)
        unit = below[chosen]
        frame = linalg.solve_triangular(unit, below[rest].T, trans="T", lower=True, unit_diagonal=True).T[:, sort]
        inverse = linalg.solve_triangular(unit, inverse.T, trans="T", lower=True, unit_diagonal=True).T[:, sort]
        size, own = np.abs(rows), np.abs(inverse)
        rounding = _ROUNDING * (size[rest] + np.abs(frame) @ size[pivots]) @ own
        condition = float(np.max(own @ size[pivots]))
        return cls(order, rates, pivots, rest, frame, inverse / lengths[:, None], rounding, condition)

    def compact(self) -> "Echelon":
        """With a triangle in place of the complement's rows of `frame`: only their Gram matrix matters."""
        count, low = int(np.searchsorted(self.rest, self.order.size)), np.sum(self.rest >= self.order.size)
        if low == 0:
            return self
        triangle = np.asarray(np.linalg.qr(self.frame[count:], mode="r"))
        size = count + len(triangle)
        spread = np.linalg.norm(self.rounding[count:], axis=0) / np.sqrt(len(triangle))
        return replace(
            self,
            rest=self.rest[:size],
            frame=np.vstack([self.frame[:count], triangle]),
            rounding=np.vstack([self.rounding[:count], np.broadcast_to(spread, triangle.shape)]),
        )

    def moved(self, time: float) -> np.ndarray:
        r"""The rows `rest` of $X(\tau)$, same shape as `frame`."""
        return self._moved(self.frame, time)

    def _moved(self, frame: np.ndarray, time: float) -> np.ndarray:
        rows, columns = self.rates[self.rest], self.rates[self.pivots]
        if time * self.rates[0] < _MODERATE:  # no power can overflow: scale rows and columns, far fewer exponentials
            return frame * np.exp(time * rows)[:, None] * np.exp(-time * columns)
        with np.errstate(divide="ignore"):
            exponents = np.log(np.abs(frame)) + time * (rows[:, None] - columns)
        return np.sign(frame) * np.exp(np.minimum(exponents, _MODERATE))

    def uncertainty(self, time: float, on_pivots: np.ndarray) -> float:
        r"""How far rounding of the columns can turn the subspace by then: $\|\delta X(\tau)\,\mathcal R^{-1}\|$, at most 1."""
        return min(1.0, float(np.linalg.norm(self._moved(self.rounding, time) @ np.abs(on_pivots))))

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


def _eliminate(rows: np.ndarray, rates: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""rows = L·U by elimination with complete pivoting on rows times $e^{\tau\tilde a}$; τ = ∞: the first independent rows.

    Rounding stays small against each row, whatever its size and that of the others (Powell and Reid 1969). What is left of
    a row below that counts as 0.

    Returns: the pivots in the order chosen, (N,); L, (n, N), unit lower triangular on them; the inverse of U, (N, N).
    """
    left, (count, width) = np.array(rows), rows.shape
    zero = width * _ROUNDING * np.abs(rows).max(axis=1)
    done = np.zeros(count, dtype=bool)
    below, above = np.zeros((count, width)), np.zeros((width, width))
    chosen, columns = np.zeros(width, dtype=int), np.zeros(width, dtype=int)
    for step in range(width):
        size = np.abs(left).max(axis=1)
        done |= size <= zero
        if done.all():
            raise InputError(f"the {width} columns of the start are linearly dependent: drop {width - step} of them")
        left[done] = 0.0
        with np.errstate(divide="ignore"):
            score = -np.arange(count, dtype=float) if np.isinf(time) else np.log(size) + time * rates
        i = int(np.argmax(np.where(done, -np.inf, score)))
        j = int(np.argmax(np.abs(left[i])))
        above[step], below[:, step] = left[i], left[:, j] / left[i, j]
        left -= np.outer(below[:, step], above[step])
        left[i], left[:, j], done[i] = 0.0, 0.0, True
        chosen[step], columns[step] = i, j
    inverse = np.empty((width, width))
    inverse[columns], _ = lapack.dtrtri(above[:, columns])
    return chosen, below, inverse


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
        return Echelon.of(self.spectrum, self.start).compact()

    def _bases(self, times: ArrayLike) -> Iterator[tuple[float, Echelon, np.ndarray, np.ndarray]]:
        r"""(τ, echelon, Z on its rows `rest`, on its pivots), on other pivots where those in use have become skewed."""
        echelon = self._echelon
        for time in checked_times(times):
            on_rest, on_pivots, bad = _orthonormal(echelon, time)
            if bad:
                echelon = Echelon.of(self.spectrum, self.start, time).compact()
                on_rest, on_pivots, _ = _orthonormal(echelon, time)
            yield time, echelon, on_rest, on_pivots

    def _factors(self, times: ArrayLike) -> Iterator[np.ndarray]:
        """Z(τ), shape (M*, N), for one time after another."""
        told = _ROUNDING * self._echelon.condition < 1e-3 * _TOLD
        for time, echelon, on_rest, on_pivots in self._bases(times):
            if not told and (doubt := echelon.uncertainty(time, on_pivots)) > _TOLD:
                told = True
                warnings.warn(
                    f"rounding of the start may turn its subspace by {doubt:.2g} at time {time:g} (`uncertainty`): its rows "
                    "nearly depend on each other",
                    RuntimeWarning,
                    stacklevel=3,
                )
            yield echelon.teacher_rows(on_pivots, on_rest)

    def uncertainty(self, times: ArrayLike) -> np.ndarray:
        """How far relative errors of 2e-16 in the entries of the start can turn its subspace by then, shape (T,).

        To first order, at most 1. Teacher rows that depend on each other up to a small remainder δ leave 2e-16/δ once the
        remainder has grown: a direction that is missing up to rounding emerges at a time that the start does not determine.
        """
        return np.array([echelon.uncertainty(time, on_pivots) for time, echelon, _, on_pivots in self._bases(times)])

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

    def dataset(self, times: ArrayLike | None = None) -> "xr.Dataset":
        """``diagonal`` and ``risk`` over ``time``, without times at 300 until the last of the N strongest has emerged."""
        import xarray as xr

        times = np.linspace(0, self._end, _SHOWN) if times is None else checked_times(times)
        diagonal, risk = self.curves(times)
        text = "share of the direction in the student's span"
        values = {
            "diagonal": variable(("time", "direction"), diagonal, text),
            "risk": variable("time", risk, "risk with the best radial part"),
        }
        axes = {"time": variable("time", times, "time of the Riccati equation", "Riccati time")}
        return xr.Dataset(values, {**axes, "direction": np.arange(1, self.spectrum.size + 1)})

    @property
    def _end(self) -> float:
        r"""Well after $\ln(1/G_{jj}(0))/2\tilde a_j$, when what a direction starts with has grown to order one."""
        start, width = self.diagonal(0.0)[0], self.start.on_teachers.shape[1]
        strongest = np.argsort(-self.spectrum)[:width]
        emerged = -np.log(np.maximum(start, np.finfo(float).tiny)) / (2 * self.spectrum)
        return float(2 * emerged[strongest].max() + 1 / self.spectrum[strongest].min())

    def plot(self, *variables: str, times: ArrayLike | None = None, over: str = "", log: str | None = None) -> "Figure":
        """Shares of the directions and the risk as a figure; `times` as in `dataset`, the rest as in `FlowResult.plot`."""
        from dynamics.core.plotted import figure

        return figure(self.dataset(times), *variables, over=over, log=log)


def _orthonormal(echelon: Echelon, time: float) -> tuple[np.ndarray, np.ndarray, bool]:
    r"""Z(τ) on the rows `rest` and on the pivots ($\mathcal R^{-1}$), and whether the columns of X(τ) nearly depend."""
    moved = echelon.moved(time)
    triangle = _stacked_triangle(moved, min(int(np.sum(echelon.rest >= echelon.order.size)), moved.shape[1]))
    on_pivots, singular = lapack.dtrtri(triangle)
    if singular:
        return moved, on_pivots, True
    return blas.dtrsm(1.0, triangle, moved, side=1), on_pivots, skewed(triangle, on_pivots)


def skewed(triangle: np.ndarray, inverse: np.ndarray) -> bool:
    """Whether columns with this R factor, scaled to one length, are nearly dependent; it and its inverse are (N, N)."""
    turned = np.sum(triangle**2, axis=0) @ np.sum(inverse**2, axis=1)
    return not turned <= (_SKEWED * len(triangle)) ** 2


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

    Source: arXiv:2508.03688 (the equation); the closed form is derived in `theory.quadratic.riccati`. Exact for population
    gradient flow from any norm of W, since the radial part does not move the column space. Raises `InputError` for spectra
    that are not positive or do not fit the start, and for dependent columns.
    """
    flow = RiccatiFlow(checked_spectrum(spectrum, start), start)
    _ = flow._echelon  # refuses dependent columns now
    return flow
