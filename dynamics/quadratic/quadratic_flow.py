r"""Gradient flow of the full quadratic student at any time, norm and direction together, by its closed form.

$\dot W=(\mathsf M-WW^\top)W$ in Riccati time; $S=WW^\top$ is derived in closed form in `theory.quadratic.riccati`. With
the columns in reduced echelon form, $W_0=X_0B$, and everything scaled by $e^{-\tau\tilde a_{\pi(j)}}$ as in
`dynamics.quadratic.riccati`,

$$S(\tau)=X\big[(B^{-1}D)^\top(B^{-1}D)+X^\top\Psi X\big]^{-1}X^\top,\qquad\Psi_{ii}=(1-e^{-2\tau\tilde a_i})/\tilde a_i,$$

$D=\mathrm{diag}(e^{-\tau\tilde a_{\pi(j)}})$ and $\Psi_{ii}=2\tau$ where $\tilde a_i=0$: nothing overflows. Pivots are chosen
anew where they do not suit the time, as there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.linalg import lapack

from dynamics.quadratic.riccati import Echelon, checked_spectrum, checked_times, skewed
from theory import Subspace
from theory.quadratic.model import flow_risk


@dataclass(frozen=True)
class QuadraticFlow:
    r"""The solution $S(\tau)=F(\tau)F(\tau)^\top$, evaluated at any Riccati time $\tau\ge0$.

    Methods take times of shape (T,), in any order, at cost O((M*+r)N²) per time; they raise `InputError` for times that are
    negative or not finite.

    Attributes:
        spectrum: $\tilde a$, shape (M*,).
        start: W at τ = 0 (rescaled by √γ if the student is $\gamma WW^\top$), norms included.
    """

    spectrum: np.ndarray
    start: Subspace

    @cached_property
    def _echelon(self) -> Echelon:
        return Echelon.of(self.spectrum, self.start)

    def _factors(self, times: ArrayLike) -> Iterator[Subspace]:
        echelon = self._echelon
        for time in checked_times(times):
            rows, triangle, bad = _columns(echelon, time)
            if bad:
                echelon = Echelon.of(self.spectrum, self.start, time)
                rows, triangle, _ = _columns(echelon, time)
            factor = linalg.solve_triangular(triangle, rows.T, trans="T").T
            on_teachers = echelon.teacher_rows(factor[echelon.pivots], factor[echelon.rest])
            yield Subspace(on_teachers, factor[self.spectrum.size :])

    def factor(self, times: ArrayLike) -> list[Subspace]:
        """F(τ) with S = FFᵀ, one for each time (W itself up to a rotation of its columns)."""
        return list(self._factors(times))

    def matrix(self, times: ArrayLike) -> np.ndarray:
        """S(τ) on the teacher directions and the complement reached by the start, shape (T, M*+r, M*+r)."""
        return np.stack([x.rows @ x.rows.T for x in self._factors(times)])

    def risk(self, times: ArrayLike) -> np.ndarray:
        """R_GF(τ) = 2‖M − S‖², 2 at W = 0, shape (T,)."""
        return np.array([flow_risk(self.spectrum, x.on_teachers, x.rest) for x in self._factors(times)])


def _columns(echelon: Echelon, time: float) -> tuple[np.ndarray, np.ndarray, bool]:
    r"""X(τ), the R factor of $[B^{-1}D;\Psi^{1/2}X]$, and whether the columns of that are nearly dependent."""
    rates, rows = echelon.rates, np.empty((echelon.rates.size, len(echelon.pivots)))
    rows[echelon.pivots], rows[echelon.rest] = np.eye(len(echelon.pivots)), echelon.moved(time)
    growth = np.full(rates.size, 2.0 * time)
    np.divide(-np.expm1(-2 * time * rates), rates, out=growth, where=rates > 0)
    shrunk = echelon.inverse * np.exp(-time * rates[echelon.pivots])
    triangle = np.asarray(np.linalg.qr(np.vstack([shrunk, np.sqrt(growth)[:, None] * rows]), mode="r"))
    inverse, singular = lapack.dtrtri(triangle)
    return rows, triangle, bool(singular) or skewed(triangle, inverse)


def quadratic_flow(spectrum: ArrayLike, start: Subspace) -> QuadraticFlow:
    r"""Gradient flow of the full W from any start, $N\le d$, in closed form.

    Args:
        spectrum: $\tilde a$, shape (M*,), positive, any order (`QuadraticModel.spectrum`).
        start: N independent columns with their norms (`draw_columns`, `Subspace.of_state`).

    Time: Riccati time. Source: arXiv:2508.03688 for the model; closed form derived in `theory.quadratic.riccati`. Raises
    `InputError` for spectra that are not positive or do not fit the start, and for dependent columns.
    """
    flow = QuadraticFlow(checked_spectrum(spectrum, start), start)
    _ = flow._echelon
    return flow
