r"""Chances that light students have found one direction by given times, of all starts at once.

The share S(u, t) of runs that have not, of a diffusion that starts at u (`theory.one_task.diffusion`), obeys the backward
equation
$$\dot S=bS'+\tfrac D2S'',\qquad S(u,0)=1,\qquad S(\pm h,t)=0,$$
reflected at 0 for even activations. In space by exponential fitting (Scharfetter and Gummel 1969: exact fluxes of constant
coefficients, so that S stays between 0 and 1 at any noise), in time by the trapezoidal rule and a backward difference in
turn (TR-BDF2, Bank et al. 1985). `theory.one_task.hitting_distribution` has the law of a single start to more digits.
"""

import numpy as np
import scipy

from theory.one_task.diffusion import Diffusion

#: Cells on each side of 0; and the smallest scale that they resolve, over the level.
_CELLS, _LEAST = 800, 1e-4
#: Growth of ∫2b/D over a cell beyond which one of its two rates is zero to all digits.
_STEEPEST = 500.0
#: The stage of TR-BDF2 at which both of its matrices are the same.
_STAGE = 2 - np.sqrt(2)


def found_by(diffusion: Diffusion, starts: np.ndarray, times: np.ndarray, level: float) -> np.ndarray:
    """P(T ≤ t) of overlaps `starts` (n,) at increasing `times` (k,) > 0, T being when the overlap is ±`level`: (n, k)."""
    nodes = _nodes(np.abs(starts), level, diffusion.even)
    bands = _generator(diffusion, nodes)
    places = np.abs(starts) if diffusion.even else starts
    left, found = np.ones(bands.shape[1]), np.empty((places.size, times.size))
    inner = nodes[:-1] if diffusion.even else nodes[1:-1]
    for k, step in enumerate(np.diff(times, prepend=0.0)):
        left = _later(bands, left, step)
        found[:, k] = 1 - np.interp(places, np.append(inner, level), np.append(left, 0.0))
    found[np.abs(starts) >= level] = 1.0
    return np.clip(found, 0.0, 1.0)


def _nodes(sizes: np.ndarray, level: float, even: bool) -> np.ndarray:
    """Equally wide cells in arsinh(u/s), s the least start: fine below it, geometric above."""
    scale = max(float(sizes.min(initial=level)), _LEAST * level)
    half = scale * np.sinh(np.linspace(0.0, np.arcsinh(level / scale), _CELLS + 1))
    return half if even else np.concatenate([-half[:0:-1], half])


def _generator(diffusion: Diffusion, nodes: np.ndarray) -> np.ndarray:
    """Bands (3, n) of $b\\,d/du+\\tfrac D2d^2/du^2$ at the nodes that are not absorbed, as rates to both neighbours."""
    width = np.diff(nodes)
    drift, noise = diffusion.coefficients(nodes)
    noise = np.maximum(noise, np.finfo(float).tiny)
    around = np.append(width, 0.0) + np.append(0.0, width)
    up, down = np.zeros_like(nodes), np.zeros_like(nodes)
    up[:-1] = _fitted(-2 * drift[:-1] * width / noise[:-1]) / width
    down[1:] = _fitted(2 * drift[1:] * width / noise[1:]) / width
    up, down = up * noise / around, down * noise / around
    kept = slice(0, -1) if diffusion.even else slice(1, -1)
    up, down = up[kept], down[kept]
    return np.stack([np.append(0.0, up[:-1]), -(up + down), np.append(down[1:], 0.0)])


def _fitted(climb: np.ndarray) -> np.ndarray:
    """x/(eˣ − 1)."""
    climb = np.clip(climb, -_STEEPEST, _STEEPEST)
    small = np.abs(climb) < 1e-6
    return np.where(small, 1 - climb / 2, climb / np.expm1(np.where(small, 1.0, climb)))


def _later(bands: np.ndarray, left: np.ndarray, step: float) -> np.ndarray:
    """`left` after a time `step`."""
    half = 0.5 * _STAGE * step
    matrix = -half * bands
    matrix[1] += 1
    moved = bands[1] * left
    moved[:-1] += bands[0, 1:] * left[1:]
    moved[1:] += bands[2, :-1] * left[:-1]
    stage = scipy.linalg.solve_banded((1, 1), matrix, left + half * moved)
    share = 1 / (_STAGE * (2 - _STAGE))
    return scipy.linalg.solve_banded((1, 1), matrix, share * stage + (1 - share) * left)
