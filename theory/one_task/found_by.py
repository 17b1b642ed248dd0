r"""Chances that light students have found one direction by given times, of all starts at once.

The share S(u, t) of runs that have not, of a diffusion that starts at u (`theory.one_task.diffusion`), obeys the backward
equation
$$\dot S=bS'+\tfrac D2S'',\qquad S(u,0)=1,\qquad S(\pm h,t)=0,$$
reflected at 0 for even activations. In space by exponential fitting (Scharfetter and Gummel 1969: exact fluxes of constant
coefficients, so that S stays between 0 and 1 at any noise), in time by the trapezoidal rule and a backward difference in
turn (TR-BDF2, Bank et al. 1985). A cell of width w over which drift outweighs noise adds noise of its own, to
$D\,\tfrac x2\coth\tfrac x2$, $x=2bw/D$; where noise is small the spread is $\int D\,du/b^3$ (linear order), so that by how
much it comes out too large is known, and times are drawn together to their mean by that.
`theory.one_task.hitting_distribution` has the law of a single start to more digits.
"""

import numpy as np
import scipy

from theory.one_task.diffusion import Diffusion

#: Cells on each side of 0; and the smallest scale that they resolve, over the level.
_CELLS, _LEAST = 800, 1e-4
#: Growth of ∫2b/D over a cell beyond which one of its two rates is that of the drift alone, and the other none.
_STEEPEST = 500.0
#: Exits from a node in half a step that are as good as any more.
_AT_ONCE = 1e10
#: The stage of TR-BDF2 at which both of its matrices are the same.
_STAGE = 2 - np.sqrt(2)


def found_by(diffusion: Diffusion, starts: np.ndarray, times: np.ndarray, level: float) -> np.ndarray:
    """P(T ≤ t) of overlaps `starts` (n,), T being when the overlap is ±`level`, at `times` (k,) > 0, (n, k).

    Times are the steps of the integration, too: increasing, by a few per cent, from an early one.
    """
    nodes = _nodes(np.abs(starts), level, diffusion.even)
    drift, noise = diffusion.coefficients(nodes)
    noise = np.maximum(noise, np.finfo(float).tiny)
    bands = _generator(drift, noise, np.diff(nodes), diffusion.even)
    places = np.abs(starts) if diffusion.even else starts
    left, found = np.ones(bands.shape[1]), np.empty((places.size, times.size))
    inner = nodes[:-1] if diffusion.even else nodes[1:-1]
    for k, step in enumerate(np.diff(times, prepend=0.0)):
        left = _later(bands, left, step)
        found[:, k] = 1 - np.interp(places, np.append(inner, level), np.append(left, 0.0))
    found = np.clip(found, 0.0, 1.0)
    narrower = np.interp(places, nodes, _excess(drift, noise, np.diff(nodes)))
    for own, ratio in zip(found, narrower.tolist(), strict=True):
        mean = float(np.trapezoid(np.append(1.0, 1 - own), np.append(0.0, times)))
        own[:] = np.interp(mean + (times - mean) / ratio, times, own, left=0.0)
    found[np.abs(starts) >= level] = 1.0
    return found


def _nodes(sizes: np.ndarray, level: float, even: bool) -> np.ndarray:
    """Equally wide cells in arsinh(u/s), s the least start: fine below it, geometric above."""
    scale = max(float(sizes.min(initial=level)), _LEAST * level)
    half = scale * np.sinh(np.linspace(0.0, np.arcsinh(level / scale), _CELLS + 1))
    return half if even else np.concatenate([-half[:0:-1], half])


def _excess(drift: np.ndarray, noise: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The spread of the times from each node over what its cells make of it, to linear order."""
    # (Runs go up where drift is positive; where it is not, noise alone decides, and cells add nothing to it.)
    up, wide = np.maximum(drift, 1e-6 * noise / width.sum()), np.append(width, 0.0)
    half = up * wide / noise
    more = np.where(half < 1e-3, 1.0, half / np.tanh(np.maximum(half, 1e-3)))
    with np.errstate(over="ignore"):  # (sums that are too large for a number are all of such noise)
        right, wrong = (np.cumsum((x / up**3 * wide)[::-1])[::-1] for x in (noise, noise * more))
    return np.sqrt(np.divide(right, wrong, out=np.ones_like(right), where=(wrong > 0) & np.isfinite(wrong)))


def _generator(drift: np.ndarray, noise: np.ndarray, width: np.ndarray, even: bool) -> np.ndarray:
    """Bands (3, n) of $b\\,d/du+\\tfrac D2d^2/du^2$ at the nodes that are not absorbed, as rates to both neighbours."""
    around = np.append(width, 0.0) + np.append(0.0, width)
    up, down = np.zeros_like(drift), np.zeros_like(drift)
    up[:-1] = _fitted(-2 * drift[:-1] * width / noise[:-1]) / width
    down[1:] = _fitted(2 * drift[1:] * width / noise[1:]) / width
    up, down = up * noise / around, down * noise / around
    kept = slice(0, -1) if even else slice(1, -1)
    up, down = up[kept], down[kept]
    return np.stack([np.append(0.0, up[:-1]), -(up + down), np.append(down[1:], 0.0)])


def _fitted(climb: np.ndarray) -> np.ndarray:
    """x/(eˣ − 1)."""
    bounded = np.clip(climb, -_STEEPEST, _STEEPEST)  # (beyond, −x or nothing)
    small = np.abs(climb) < 1e-6
    return np.where(
        small, 1 - climb / 2, np.where(climb > _STEEPEST, 0.0, climb) / np.expm1(np.where(small, 1.0, bounded))
    )


def _later(bands: np.ndarray, left: np.ndarray, step: float) -> np.ndarray:
    """`left` after a time `step`."""
    # (Faster nodes keep where they lead to: beyond, what stays in a well is lost in the rounding of what leaves a node.)
    half = 0.5 * _STAGE * step
    half = half * (_AT_ONCE / np.maximum(_AT_ONCE, -half * bands[1]))
    matrix = -bands * np.stack([np.append(0.0, half[:-1]), half, np.append(half[1:], 0.0)])
    matrix[1] += 1
    moved = bands[1] * left
    moved[:-1] += bands[0, 1:] * left[1:]
    moved[1:] += bands[2, :-1] * left[:-1]
    stage = scipy.linalg.solve_banded((1, 1), matrix, left + half * moved)
    share = 1 / (_STAGE * (2 - _STAGE))
    return scipy.linalg.solve_banded((1, 1), matrix, share * stage + (1 - share) * left)
