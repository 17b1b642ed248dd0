r"""How far a finite step size moves the learning times of an ordinary quadratic student.

Plain SGD on ½(f*−f)² with $f=x^\top Sx-\mathrm{tr}S$, $S=WW^\top$, is $W\leftarrow(I+2\eta q(xx^\top-I))W$ with
$q=f_*-f$. With $B=\mathsf M-S$ the mean of one step is, exactly,
$$E\,\Delta S=4\eta(BS+SB)+4\eta^2\big[8(B^2S+SB^2)+16BSB+2\|B\|^2S+8\,\mathrm{tr}(BS)B+8\,\mathrm{tr}(S)B^2
+8\,\mathrm{tr}(B^2S)I+2\|B\|^2\mathrm{tr}(S)I\big],$$
derived by the moments of Gaussian quadratic forms (cumulants $2^{n-1}\sum\mathrm{tr}$ over cyclic orders). The covariance of a
step follows by the same moments; times are moved by both, in two ways.

**A noisy start** (`start_noise`). While row j of W on the teachers is small, what columns have outside is thrown on it, with
variance $4\eta^2(2\|B\|^2+8a_j^2)W^\top W$ a step. It grows at rate $4a_j$: what comes in is a Gaussian added to the start, of
its own size at ηd = O(1), which may decide who is learned.

**Kicks on the way** (`growth_shift`). With $\tau(s)$ the time that the flow needs from $S_{jj}=s$ to $a_j/2$, drift
$F=8s(a_j-s)$, its second order $\eta\mathsf G$ and variance $\eta^2\Sigma$ of a step, the mean time is to first order
$$T+\eta\int_0^T\big[\mathsf G\tau'+\tfrac12(\Sigma+F^2)\tau''\big]dt+\frac\rho F,\qquad\tau'=-\frac1F,\quad
\tau''=\frac{F'}{F^2},\quad\rho=-\frac{\zeta(\frac12)}{\sqrt{2\pi}}\sigma+\frac{\kappa_3}{6\sigma^2},$$
ρ the mean overshoot of a walk with steps of variance σ² and third cumulant κ₃ (Siegmund 1985): as much as the rest of it.
"""

import numpy as np
from numpy.typing import ArrayLike

from theory.core.errors import InputError
from theory.core.quadrature import gauss_hermite, gauss_legendre
from theory.one_task.noisy_growth import OVERSHOOT
from theory.quadratic.model import QuadraticModel

#: Step size times squared norm of the start, beyond which no step goes down.
_LARGEST_MASS = 1e3
_NODES = 64
_POINTS, _WEIGHTS = gauss_hermite(8)
#: E y^k, y = x² − 1, k = 0 … 6: exact by as many nodes.
_MOMENTS = [float(_WEIGHTS @ (_POINTS**2 - 1) ** k) for k in range(7)]


def mean_step(S: np.ndarray, M: np.ndarray, step_size: float) -> np.ndarray:
    """E ΔS of one step of size η on ½(f*−f)², σ = z² − 1, for symmetric S and M of one shape (n, n)."""
    B = M - S
    square, identity = B @ B, np.eye(len(S))
    norm2, trace = np.trace(square), np.trace(S)
    second = 8 * (square @ S + S @ square) + 16 * B @ S @ B + 2 * norm2 * S + 8 * np.trace(B @ S) * B
    second = second + 8 * trace * square + (8 * np.trace(square @ S) + 2 * norm2 * trace) * identity
    return 4 * step_size * (B @ S + S @ B) + 4 * step_size**2 * second


def start_noise(model: QuadraticModel, outside: np.ndarray, step_size: float, batch: int = 1) -> np.ndarray:
    r"""Variance that row j of W at time 0 gains by noise, over $W^\top W$ of what columns have outside, (P,).

    $4\eta\int_0^\infty(2\|B\|^2+8a_j^2)e^{-8a_jt}dt$, with nothing learned. `outside`: eigenvalues of S outside the teacher
    directions. Raises `InputError` for a start from which no step of this size goes down.
    """
    scale, a = model.second_moment / 2, model.teacher.a  # another multiple of z² − 1 scales time and step alike
    mass = float(np.sum(outside))
    if not step_size * scale * mass < _LARGEST_MASS:
        raise InputError(
            f"the start has squared norm {mass:.3g}: no step of {step_size:g} goes down from there; start smaller"
        )
    share, weights = gauss_legendre(0.0, 1.0, _NODES)
    times = -np.log(share)[:, None] / (8 * a)  # share = exp(−8at)
    residual = np.sum(a**2) + _outside(outside, times)
    return np.asarray(step_size * scale / batch * (weights @ residual + 4 * a**2) / a)


def growth_shift(
    model: QuadraticModel, times: ArrayLike, outside: np.ndarray, step_size: float, batch: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    r"""What drift and noise of the second order add to the times at which $S_{jj}$ reaches half of $a_j$, (P,) each.

    To first order in η, of direction j as if alone, but for the labels $\|B\|^2$ of those not learned by then and of what is
    outside. What the noise adds is positive, the overshoot with it, and about twice what the drift takes off while S is small.

    Args:
        times: of the flow, (P,), common time; nan comes back where they are not finite or 0. outside: see `start_noise`.
    """
    scale, a = model.second_moment / 2, model.teacher.a
    share, weights = gauss_legendre(0.0, 1.0, _NODES)
    share, weights = np.append(share, 1.0), np.append(weights, 0.0)  # (the crossing as well)
    found = np.asarray(times, dtype=float) * scale
    ends = np.where(np.isfinite(found) & (found > 0), found, np.nan)
    t = share[:, None] * ends
    s = a / (1 + np.exp(8 * a * (ends - t)))
    b = a - s
    others = (t[:, :, None] < found) & ~np.eye(a.size, dtype=bool)
    rest = others @ a**2 + _outside(outside, t)
    # A step is 4ηs qy + 4η²s(qy)², y = x² − 1, q = by + r with r of the others' labels: E r² = E y²·rest, E r³ = E y³ Σa³.
    y2, y3, y4, y6 = (_MOMENTS[k] for k in (2, 3, 4, 6))
    variance = (y4 - y2**2) * b**2 + y2**2 * rest
    third = (y6 - 3 * y4 * y2 + 2 * y2**3) * b**3 + 3 * (y4 - y2**2) * y2 * b * rest + y3**2 * (others @ a**3)
    flow, slope = 8 * b * s, 8 * (a - 2 * s)
    second = 4 * s * (variance / batch + (y2 * b) ** 2)
    over = (OVERSHOOT * np.sqrt(variance / batch) + third / (6 * variance * batch))[-1] / a
    drift, noise = slope / 2 - second / flow, 16 * variance * s**2 / batch * slope / flow**2 / 2
    return step_size * ends * (weights @ drift), step_size * (ends * (weights @ noise) + over)


def _outside(eigenvalues: np.ndarray, times: np.ndarray) -> np.ndarray:
    """‖S‖² outside the teacher directions, which shrinks by its own size; of the shape of `times`."""
    return np.asarray(np.sum((eigenvalues / (1 + 8 * times[..., None] * eigenvalues)) ** 2, axis=-1))
