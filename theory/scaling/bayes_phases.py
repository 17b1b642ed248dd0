r"""Phases of the Bayes-optimal floor: every error that reproduces itself, between the jumps of what is left.

At noise $\Delta_e=\Delta+\varepsilon$ the directions leave $\ell(\varepsilon)=\sum_pa_p^2(1-q_p^J)$ of their weight, and
the free entropy, as a function of $v=1/\Delta_e$ at the best overlaps, has the slope

$$\frac{dG}{d\ln v}=\frac\alpha2\Big(1-\frac{\Delta+\ell}{\Delta_e}\Big)=\frac\alpha2\,\frac{\varepsilon-\ell}{\Delta_e}:$$

its maxima are where the gap $\varepsilon-\ell(\varepsilon)$ rises through 0. Three facts find them all:

* ℓ rises with ε, so that its values at the ends of an interval bound the gap within;
* ℓ jumps where a direction is found, upwards in ε: the gap falls there, and no maximum is at a jump;
* between two jumps $v\,\ell(v)$ is a line (directions that are not found) and $\alpha^{-1}\sum_pg(q_p)$,
  $g=s(1-q^J)=\tfrac1J\sum_{k=2-J}^1q^k$, which for J ≥ 3 is convex in the signal s from the spinodal on (for J = 2 it rises):
  $(\varepsilon-\ell)/\Delta_e$ is concave in v or falls, and has at most one maximum there.

Derived here; convexity checked for J up to 15.
"""

from collections.abc import Callable, Iterator

import numpy as np
import scipy

#: Of Δ_e, by which the ends of an interval keep away from jumps; of all, below which ℓ is lost to rounding (and so the sign of
#: the gap at 0, which must not decide over what comes after it).
_BESIDE, _LOST = 1e-12, 1e-14
#: Relative error of roots, steps of a bracket.
_EXACT, _STEPS = 1e-13, 1000


def phases(left: Callable[[float], float], jumps: np.ndarray, noise: float, end: float) -> list[float]:
    r"""Every ε in [0, end] at which $\varepsilon-\ell(\varepsilon)$ rises through 0.

    Args:
        left: ℓ. jumps: errors at which it jumps, (n,), in any order; those out of range are left out. noise: Δ. end: an
            error that is not below ℓ.
    """
    lost = _LOST * end
    inside = np.sort(jumps[(jumps > lost) & (jumps < end)])
    beside = _BESIDE * (noise + inside)
    lows, highs = np.concatenate([[0.0, lost], inside + beside]), np.concatenate([[lost], inside - beside, [end]])
    apart = lows < highs

    def gap(error: float) -> float:
        return error - left(error)

    roots = (_root(gap, *segment, noise) for segment in _open(left, lows[apart], highs[apart]))
    return [root for root in roots if root is not None]


def _open(left: Callable[[float], float], lows: np.ndarray, highs: np.ndarray) -> Iterator[tuple[float, float]]:
    """Segments between jumps in which the gap may vanish: halves of which the ends tell that it does not are left out."""
    waiting = [(0, len(lows) - 1)]
    while waiting:
        first, last = waiting.pop()
        low, high = float(lows[first]), float(highs[last])
        if high < left(low) or low > left(high):
            continue
        if first == last:
            yield low, high
        else:
            middle = (first + last) // 2
            waiting += [(first, middle), (middle + 1, last)]


def _root(gap: Callable[[float], float], low: float, high: float, noise: float) -> float | None:
    """The rise through 0 in a segment; None if there is none. (Where the gap is not negative at `low` it only falls on.)"""
    if gap(low) >= 0:
        return None
    if gap(high) < 0:
        high = _highest(gap, low, high, noise)
        if gap(high) < 0:
            return None
    return float(scipy.optimize.brentq(gap, low, high, xtol=np.finfo(float).tiny, rtol=_EXACT, maxiter=_STEPS))


def _highest(gap: Callable[[float], float], low: float, high: float, noise: float) -> float:
    r"""Where $(\varepsilon-\ell)/\Delta_e$, concave in v, is highest; sought in $\ln\Delta_e$, as it may vary over decades."""

    def error(logarithm: float) -> float:
        return float(np.clip(np.exp(logarithm) - noise, low, high))

    def depth(logarithm: float) -> float:
        at = error(logarithm)
        return -gap(at) / (noise + at)

    bounds = np.log(noise + np.array([low, high]))
    found = scipy.optimize.minimize_scalar(depth, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return error(float(found.x))
