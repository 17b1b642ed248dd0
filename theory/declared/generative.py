r"""Generative exponent of a link: the least Hermite degree of which the labels know something.

Of a label $y=\sigma_*(a)$, $a\sim N(0,1)$, a rule that is free to transform labels sees
$\zeta_k(y)=E[h_k(a)\mid y]$, and the generative exponent is the least $k\ge1$ with $E\,\zeta_k(y)^2>0$ (arXiv:2403.05529,
definition 2.4; what reuse of a batch reaches: arXiv:2402.03220). It is at most the information exponent, since
$E\,\zeta_k^2\ge(E\,yh_k)^2/E\,y^2$. By the coarea formula

$$\zeta_k(y)=\frac{\sum_rp_rh_k(a_r)}{\sum_rp_r},\qquad p_r=\frac{e^{-a_r^2/2}}{|\sigma_*'(a_r)|},\quad\sigma_*(a_r)=y,$$

and where $\sigma_*$ is constant on a set A of positive weight, $\zeta_k=E[h_k1_A]/P(A)$. Labels that are equal in doubles
count as equal, even where tanh(20z) only saturates: conditioned on less, $E\,\zeta_k^2$ is less, never more (0.905, not 1).

A polynomial has exponent 1 unless it is even, and 2 if it is even: at large |y| its level set is one point, where
$\zeta_1\ne0$, or two, $a_+>0>a_-$. There $\zeta_1\equiv0$ means that $e^{-a_+^2/2}-e^{-a_-^2/2}$ does not change with y, and
as it vanishes at infinity, $a_-=-a_+$. If it is even, $\zeta_2=(a_+^2-1)/\sqrt2\ne0$.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy

from theory.core.activation import Activation, z
from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.core.hermite import values
from theory.core.lowered import finite, lower_numpy
from theory.core.quadrature import gauss_legendre
from theory.declared.target import Additive, Target

#: The line is cut off where a Gaussian's weight is below 1e-18, and looked at in cells of this many.
_RANGE, _CELLS = 9.0, 18_000
#: Panels no wider than this share of a stretch of the line, and points of each.
_PANEL, _POINTS = 0.25, 10
#: Halvings of a cell and of a bracket: to 1e-12 and 1e-15.
_HALVINGS, _BISECTIONS = 30, 54
#: Half a central difference, at most; what counts as rounding of a label beside its size, and where it blurs an extremum.
_APART, _ROUNDING, _BLURRED = 1e-3, 1e-15, 1e-5
#: Degrees that are searched, and the least E ζ_k² that counts: quadrature errs below 1e-8 (`tests/declared`).
DEGREES, LEAST = 20, 1e-6

Function = Callable[[np.ndarray], np.ndarray]


class Pieces(NamedTuple):
    """Where a link is monotone, low to high (n,), and where it is constant, (m, 2), with these values (m,)."""

    low: np.ndarray
    high: np.ndarray
    flat: np.ndarray
    levels: np.ndarray


class Seen(NamedTuple):
    """Attributes: degree: the generative exponent k. share: E ζ_k², of which this much is certain; nan for a polynomial."""

    degree: int
    share: float


def generative_exponent(link: Activation | Target) -> int:
    """The least degree k ≥ 1 with E ζ_k² > 0, see `least_seen`.

    Args:
        link: an activation, or any target of one direction.

    Raises `InputError` for a target of several directions, where no degree up to `DEGREES` is seen, and for a formula that has
    no finite value.
    """
    return least_seen(link).degree


def least_seen(link: Activation | Target) -> Seen:
    """The generative exponent: exact for polynomials; else by quadrature, E ζ_k² > `LEAST`, and no more than the
    information exponent of an activation, however small that coefficient is. Raises `InputError` as `generative_exponent`.
    """
    if isinstance(link, Additive) and link.count == 1 and link.weights[0]:
        link = link.link
    if isinstance(link, Activation) and link.is_polynomial:
        return Seen(2 if link.parity == "even" else 1, np.nan)
    shares = label_information(link, DEGREES)
    first = int(np.argmax(shares > LEAST)) + 1 if np.any(shares > LEAST) else DEGREES + 1
    if isinstance(link, Activation) and link.information_exponent < first:
        return Seen(link.information_exponent, leading_share(link))
    if first > DEGREES:
        raise InputError(f"link shows no Hermite degree up to {DEGREES} (E ζ² ≤ {LEAST:g}): give another link")
    return Seen(first, float(shares[first - 1]))


def leading_share(link: Activation) -> float:
    r"""$(E\,yh_k)^2/E\,y^2$ at the information exponent."""
    whole = sum(value**2 for value in link.coefficients.values())
    return float(link.coefficients[link.information_exponent] ** 2 / whole) * (1 - link.truncation_error)


def label_information(link: Activation | Target, degrees: int = 6) -> np.ndarray:
    r"""$E\,\zeta_k(y)^2$, shares of $h_k$ that labels show, between 0 and 1.

    Args:
        link: as for `generative_exponent`. degrees: the largest k.

    Returns: shape (degrees,), for k = 1 and on.

    Raises `InputError` for a target of several directions.
    """
    check_whole(degrees=degrees)
    label = _function(link)
    pieces = _pieces(label)
    points, weights = _points(label, pieces)
    total, weighted, seen = np.zeros(points.size), np.zeros((degrees, points.size)), np.zeros(points.size, dtype=bool)
    for low, high, share, at in _preimages(label, pieces, label(points)):
        total += share
        weighted += share * values(at, degrees)[1:]
        seen |= (share > 0) & (low < points) & (points < high)  # (not next to an extremum)
    density = (weights * np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi))[seen]
    smooth = (weighted[:, seen] / total[seen]) ** 2 @ density
    return np.asarray(smooth + _atoms(pieces, degrees))


def _function(link: Activation | Target) -> Function:
    """The label of points (…)."""
    if isinstance(link, Activation):
        return finite(lower_numpy(link.function, (z,)))
    if link.count != 1:
        raise InputError(f"target has {link.count} directions: the generative exponent is that of a link of one")
    return finite(lambda a: np.asarray(link.value(np.asarray(a)[..., None], lower_numpy), dtype=float))


# ------------------------------------------------------------------------ pieces of the line


def _pieces(label: Function) -> Pieces:
    """Ends are extrema, jumps and ends of constant parts."""
    grid = np.linspace(-_RANGE, _RANGE, _CELLS + 1)
    at = label(grid)
    change = np.diff(at)
    size = np.sqrt(np.average(at**2, weights=np.exp(-(grid**2) / 2)))
    noise = _ROUNDING * np.maximum(np.abs(at[1:]), 1e-3 * size)
    jumps, jumped = _jumps(label, grid, change, size)
    state = np.where(np.abs(change) > noise, np.sign(change), 0.0)
    for cell in np.flatnonzero((state == 0) & ~jumped).tolist():
        # A lone flat cell is one that an extremum halves.
        if 0 < cell < _CELLS - 1 and state[cell - 1] and state[cell + 1] and not jumped[[cell - 1, cell + 1]].any():
            state[cell] = state[cell - 1]
    ends, kinds = [grid[0]], []
    before = state[0]
    for cell in range(_CELLS):
        if jumped[cell]:
            kinds.append(before)
            ends.append(jumps[cell])
            before = state[min(cell + 1, _CELLS - 1)]
        elif state[cell] != before:
            kinds.append(before)
            ends.append(_turn(label, grid[max(cell - 1, 0)], grid[cell + 1], before, state[cell]))
            before = state[cell]
    edges, kind = np.array([*ends, grid[-1]]), np.array([*kinds, before])
    low, high = edges[:-1], edges[1:]
    wide = high - low > 1e-9
    flat = wide & (kind == 0)
    levels = label((low + high)[flat] / 2)
    return Pieces(low[wide & ~flat], high[wide & ~flat], np.stack([low, high], axis=1)[flat], levels)


def _jumps(label: Function, grid: np.ndarray, change: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each cell where it jumps, if it does, and whether: the change stays as the cell shrinks to where it is."""
    low, high = grid[:-1].copy(), grid[1:].copy()
    at_low, at_high = label(low), label(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        at = label(middle)
        left = np.abs(at - at_low) > np.abs(at_high - at)
        low, at_low = np.where(left, low, middle), np.where(left, at_low, at)
        high, at_high = np.where(left, middle, high), np.where(left, at, at_high)
    stays = np.abs(at_high - at_low) > np.maximum(0.01 * np.abs(change), 1e-9 * size)
    return (low + high) / 2, stays


def _turn(label: Function, low: float, high: float, before: float, after: float) -> float:
    """An extremum between `low` and `high`, or the end of a constant part there."""
    if before and after:
        for _ in range(_BISECTIONS):
            thirds = np.array([(2 * low + high) / 3, (low + 2 * high) / 3])
            first, second = before * label(thirds)
            low, high = (low, thirds[1]) if first > second else (thirds[0], high)
        return float(low + high) / 2
    level = float(label(np.array([low if before == 0 else high]))[0])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        same = abs(float(label(np.array([middle]))[0]) - level) <= _ROUNDING * abs(level)
        low, high = (middle, high) if same == (before == 0) else (low, middle)
    return float(low + high) / 2


# --------------------------------------------------------------------------------- integrals


def _inside(pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
    """Just within each piece, so that a jump at its end is not crossed."""
    margin = 1e-11 * (1 + np.abs(pieces.low) + np.abs(pieces.high))
    return pieces.low + margin, pieces.high - margin


def _points(label: Function, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a on the monotone pieces, split where the level set gains or loses a point.

    There, and at extrema, the integrand has roots: points crowd at both ends of a stretch, as $t^3$.
    """
    low, high = _inside(pieces)
    critical = np.unique(np.concatenate([label(low), label(high)])) if low.size else np.zeros(0)
    found = [np.concatenate([low, high])]
    for begin, end in zip(low, high, strict=True):
        found.append(_root(label, begin, end, critical[_between(label, begin, end, critical)]))
    ends = np.unique(np.concatenate(found))
    stretches = [(a, b) for a, b in pairwise(ends.tolist()) if np.any((low <= a) & (b <= high))]
    points, weights = [np.zeros(0)], [np.zeros(0)]
    for a, b in stretches:
        edges = np.linspace(0, 1, max(6, int(np.ceil((b - a) / _PANEL))) + 1)
        t, weight = (x.ravel() for x in gauss_legendre(edges[:-1], edges[1:], _POINTS))
        points.append(a + (b - a) * t**3 * (10 - 15 * t + 6 * t**2))
        weights.append((b - a) * 30 * t**2 * (1 - t) ** 2 * weight)
    return np.concatenate(points), np.concatenate(weights)


def _between(label: Function, low: float, high: float, levels: np.ndarray) -> np.ndarray:
    """Which levels a piece takes, bool."""
    ends = np.sort(label(np.array([low, high])))
    return (levels > ends[0]) & (levels < ends[1])


def _root(label: Function, low: float, high: float, levels: np.ndarray) -> np.ndarray:
    """Where a monotone piece takes these levels."""
    begin, end = np.full(levels.shape, low), np.full(levels.shape, high)
    rises = bool(np.diff(label(np.array([low, high])))[0] > 0)
    for _ in range(_BISECTIONS):
        middle = (begin + end) / 2
        beyond = (label(middle) > levels) == rises
        begin, end = np.where(beyond, begin, middle), np.where(beyond, middle, end)
    return (begin + end) / 2


def _preimages(label: Function, pieces: Pieces, levels: np.ndarray) -> Any:
    """Piece by piece its ends, p_r of these levels (0 where it does not take one), and a_r."""
    for low, high in zip(*_inside(pieces), strict=True):
        taken = _between(label, low, high, levels)
        at, share = np.zeros(levels.shape), np.zeros(levels.shape)
        at[taken] = _root(label, low, high, levels[taken])
        inside = np.minimum(at - low, high - at)
        apart = np.minimum(_APART, inside / 3)
        near, far = (np.abs(label(at + k * apart) - label(at - k * apart)) for k in (1, 2))
        rise = (8 * near - far) / 12
        blurred = (inside < _BLURRED) & (near < 10 * _ROUNDING * np.abs(levels))
        taken &= ~blurred & (rise > 0)
        share[taken] = (apart * np.exp(-(at**2) / 2))[taken] / rise[taken]
        yield low, high, share, at


def _atoms(pieces: Pieces, degrees: int) -> np.ndarray:
    r"""$\sum(E\,h_k1_A)^2/P(A)$ over the values of constant parts, by $\int\varphi h_k=-\varphi h_{k-1}/\sqrt k$."""
    found, root = np.zeros(degrees), np.sqrt(np.arange(1, degrees + 1))
    size = np.abs(pieces.levels).max(initial=0.0)
    level = np.round(pieces.levels / (size or 1.0), 12)
    # (The ends of the range stand for infinity.)
    ends = np.where(np.abs(pieces.flat) >= _RANGE, np.copysign(40.0, pieces.flat), pieces.flat)
    moment = -values(ends, degrees - 1) * np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi) / root[:, None, None]
    for one in np.unique(level):
        here = level == one
        weight = float(np.sum(np.diff(scipy.special.ndtr(ends[here]), axis=1)))
        if weight > 0:
            found += np.sum(np.diff(moment[:, here], axis=2), axis=(1, 2)) ** 2 / weight
    return found
