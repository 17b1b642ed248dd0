"""How a width is shared: Fermi functions whose common level is fixed by the number of columns.

Derived: what the deterministic equivalents of `theory.quadratic.occupation` and `theory.quadratic.flow_law` have in common.
No units; energies are logarithms of growth.
"""

from collections.abc import Callable

import numpy as np

#: Steps for the level, at most; double precision is reached well before.
_STEPS = 200
_TOLERANCE = 1e-13
#: Slope over the width below which the rounding of the sum moves its root by more than about 1e-10.
_FLAT = 1e-6
#: Energies that are held at once: more leave the processor's cache.
_BLOCK = 2**16


def fermi(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/(1+e^{−x}) and 1/(1+e^x), elementwise, without overflow and without cancellation."""
    small = np.exp(-np.abs(x))
    larger, smaller = 1 / (1 + small), small / (1 + small)
    return np.where(x >= 0, larger, smaller), np.where(x >= 0, smaller, larger)


def level(energy: np.ndarray, others: np.ndarray, count: float, width: float, own: float = 0.0) -> np.ndarray:
    r"""The root ℓ of $\sum_jf(E_j+\ell)+n\,f(E_0+\ell)+\omega e^\ell=N$ at each time, f the Fermi function.

    By Newton's method within a bracket that is halved where that does not help.

    Args:
        energy: $E_j$, shape (T, M*). others: $E_0$, shape (T,), of `count` = n more directions. width: N. own: ω ≥ 0.

    Shape (T,); inf where nothing but the directions takes up the width (ω = 0) and they are no more than N.
    """
    total = energy.shape[1] + count
    if own == 0 and width >= total:
        return np.full(len(energy), np.inf)
    with np.errstate(divide="ignore"):
        weights = np.concatenate([energy, (others + np.log(count))[:, None]], axis=1)
        # Each f is at most its exponential, and so at least this much is needed; at most what the least of them asks for.
        low = np.log(width) - np.logaddexp(np.logaddexp.reduce(weights, axis=1), np.log(own))
        least = np.minimum(energy.min(axis=1), others) if count else energy.min(axis=1)
        high = np.log(width / (total - width)) - least if width < total else np.full(len(energy), np.inf)
        high = np.minimum(high, np.log(width) - np.log(own)) if own else high
    blocks = np.array_split(np.arange(len(energy)), max(1, energy.size // _BLOCK))
    return np.concatenate([_root(energy[x], others[x], count, own, width, low[x], high[x]) for x in blocks])


def _root(
    energy: np.ndarray,
    others: np.ndarray,
    count: float,
    own: float,
    width: float,
    low: np.ndarray,
    high: np.ndarray,
) -> np.ndarray:
    """The level between `low` and `high`, (T,): Newton's method for ln of the sum, which has no bend where all are empty."""
    middle, last, rows = 0.5 * (low + high), high - low, np.arange(len(energy))
    for _ in range(_STEPS):
        filled, slope = _filled(energy[rows], others[rows], count, own, middle[rows])
        under = filled < width
        low[rows], high[rows] = np.where(under, middle[rows], low[rows]), np.where(under, high[rows], middle[rows])
        newton = middle[rows] - filled / np.maximum(slope, _FLAT * width) * np.log(filled / width)
        # (Where the sum is flat its rounding would decide where Newton goes.)
        good = (np.abs(newton - middle[rows]) < last[rows] / 2) & (slope > _FLAT * width)
        good &= (low[rows] <= newton) & (newton <= high[rows])
        step = np.where(good, newton, 0.5 * (low[rows] + high[rows])) - middle[rows]
        middle[rows], last[rows] = middle[rows] + step, np.where(good, np.abs(step), high[rows] - low[rows])
        rows = rows[last[rows] > _TOLERANCE * np.maximum(1.0, np.abs(middle[rows]))]
        if not rows.size:
            break
    return middle


def _filled(
    energy: np.ndarray, others: np.ndarray, count: float, own: float, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of `level` at the level `at`, (T,), and its slope there."""
    (up, down), (more, less) = fermi(energy + at[:, None]), fermi(others + at)
    free = own * np.exp(at) if own else 0.0
    return up.sum(axis=1) + count * more + free, np.einsum("tj,tj->t", up, down) + count * more * less + free


def moved_by_a_column(own: np.ndarray, half_times: Callable[[float], np.ndarray], width: float, dim: int) -> np.ndarray:
    """Relative change of the half times by one column more or less, the larger, (M*,): the size of what is of order 1/N.

    `own`: half times at this width, (M*,); `half_times`: those at another. Relative to the other where they are 0; inf where
    a column decides whether there is one at all. No width is more than d.
    """
    others = [half_times(n) if n > 0 else np.full_like(own, np.inf) for n in (width - 1, width + 1) if n <= dim]
    return np.asarray(np.max([_moved(own, x) for x in others], axis=0))


def risk_by_a_column(own: np.ndarray, risks: Callable[[int], np.ndarray], width: int, dim: int) -> np.ndarray:
    """By how much one column more or less moves a risk, the larger, of the shape of `own`: the size of what is of order 1/N.

    `own`: risks at this width, (T,); `risks`: those at another. No width is below 1 or above d; 0 where it can be no other.
    """
    others = [np.abs(risks(n) - own) for n in (width - 1, width + 1) if 1 <= n <= dim]
    return np.asarray(np.max([np.zeros_like(own), *others], axis=0))


def _moved(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    known = np.isfinite(own) & np.isfinite(other) & (other != own)
    apart = np.subtract(other, own, out=np.zeros_like(own), where=known)
    scale = np.where(own > 0, own, other)
    return np.divide(np.abs(apart), scale, out=np.where(other == own, 0.0, np.inf), where=known)
