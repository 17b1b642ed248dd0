r"""Escape from the plateau where no overlap is found yet: targets that are not additive, and committees.

The time is that of the derived flow of all rows (`theory.declared.whole_flow`). While all overlaps T are small, the rows' own
Gram matrix Q moves by itself in it, and T linearly:

$$\dot Q=G(0,Q),\qquad\dot T=A(Q)\,T,\qquad A=\partial\dot T/\partial T|_{T=0}.$$

Where rows stand still, overlaps grow at the largest eigenvalue of A, and the plateau lasts $\ln(1/|T(0)|)$ over it. Rows that
attract or repel each other leave $d^{-1/2}$ as fast as the overlaps do, and lengths of free rows change, and A with them. This
is leap 2. With leap 1 overlaps grow at once; with leap 3 or more A is 0, and the time is a power of the start
(`theory.declared.leap`); where A is negative, small overlaps are driven back.
"""

from collections.abc import Iterator

import numpy as np

from theory.core.errors import InputError
from theory.declared.directions import Directions
from theory.declared.flow import is_quadratic
from theory.declared.known import RATE, TIME, Known, Unknown, small
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import Rates
from theory.declared.start import Start
from theory.declared.target import Additive
from theory.declared.whole_flow import ERROR, LEFT, Way, whole_flow
from theory.declared.whole_flow import REFERENCE as WAY_REFERENCE

REFERENCE = "derived; declared flow linearised at zero overlap"
GROWTH, ESCAPE = "growth rate of the plateau", "escape from the plateau"
#: Which share of the rates far from it counts as none; most overlaps that are linearised.
_NONE, _MOST = 1e-6, 400
#: Step of a difference, in units of the largest overlap there can be: its square is well below what counts as none.
_STEP = 1e-5
#: Rounding of a sum of forces, in units of the largest, over `_NONE`: below it nothing is seen of the target.
_ROUNDING = 1e-7
#: Gram matrices of directions in an eigenspace: eigenvalues below this share of the largest count as zero.
_RANK = 1e-9
#: Share by which the growth rate may change on the way.
_STILL = 0.1
#: Share of the squared norms at which rows are light.
_LIGHT = 1e-12


def escape(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    """Rate at the start, and first time at which some row's correlation with a direction is `LEFT`; nothing where rows alone
    have times.

    Raises `InputError` where the flow is not known, with the reason.
    """
    student = model.student
    coupled = is_quadratic(model.loss) and not student.homogeneous and student.width > 1
    if isinstance(model.target, Additive) and not coupled:
        return
    way = whole_flow(model, start)
    try:
        yield _growth_rate(model, start, way)
    except InputError as problem:
        yield Unknown(GROWTH, str(problem))
    time = way.escape
    if np.isinf(time):
        yield Unknown(ESCAPE, f"no row has a correlation of {LEFT:g} with a direction {way.until}")
        return
    low, high = time / (1 + ERROR), time * (1 + ERROR)
    yield Known(ESCAPE, time, TIME, WAY_REFERENCE, way.of_escape, low=low, high=high)


def _growth_rate(model: DeclaredModel, start: Start, way: Way) -> Known:
    """At the start. Raises `InputError` where overlaps do not grow linearly."""
    if model.student.trained:
        raise InputError("the second layer is trained: the plateau is not the one that is linearised here")
    rates, gram = Rates(model), start.grams
    if (count := start.overlaps(model.directions).size) > _MOST:
        raise InputError(f"{count} overlaps are too many to linearise (at most {_MOST})")
    rate = lasting = _growth(rates, gram, model.directions)
    waiting = gram
    if (
        model.student.homogeneous and rate < 0
    ):  # what heavy rows do to themselves and to each other ends as they get light
        waiting = _LIGHT * gram
        lasting = _growth(rates, waiting, model.directions)
    _check(model, rates, waiting, lasting)
    changed = abs(_growth(rates, way.plateau, model.directions) / rate - 1)
    rows = "rows: among themselves they move, and by the escape have changed the growth rate by {:.2g} of itself"
    return Known(GROWTH, rate, RATE, REFERENCE, (small("rows", changed, _STILL, rows),))


def _check(model: DeclaredModel, rates: Rates, gram: np.ndarray, rate: float) -> None:
    """Raises `InputError` unless overlaps grow linearly, and only so."""
    far = _far(gram, model.directions.grams)
    still, moving = rates(np.zeros_like(far), gram)
    second = float(np.abs(model.student.second).max())
    force = rates.eigenvalues.max() * second * (second + float(np.sqrt(rates.constants["square"])))
    large = max(float(np.abs(rates(far, gram)[0]).max()), _ROUNDING * force * float(far.max()))
    if not (np.isfinite(rate) and np.all(np.isfinite(moving))):
        raise InputError("the flow has no slope at zero overlap")
    if float(np.abs(still).max()) > _NONE * large:
        raise InputError("the first leap is 1: overlaps grow at once")
    none = _NONE * large / float(far.max())
    if rate < -none:
        raise InputError(
            f"small overlaps shrink, at a rate of {-rate:.3g} or more: rows are driven back to the plateau, unless their "
            "motion among themselves changes the sign; start from larger overlaps, or turn signs of the second layer"
        )
    if rate <= none:
        raise InputError("no overlap grows linearly: the leap is above 2, and its time a power of d")


def _far(gram: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Overlaps (L, m, P) that are as large as half of all that many rows and directions can have at once."""
    m, P = gram.shape[1], directions.shape[1]
    lengths = np.einsum("ikk,iqq->ikq", gram, directions)
    return 0.5 * np.sqrt(np.maximum(lengths, 0.0) / (m * P))


def _slope(rates: Rates, gram: np.ndarray, overlap: np.ndarray) -> np.ndarray:
    """A(Q) T by a central difference about 0."""
    largest = float(np.abs(overlap).max())
    if not largest:
        return overlap
    size = _STEP * float(np.sqrt(np.einsum("ikk->k", gram).max())) / largest
    ahead, behind = (rates(sign * size * overlap, gram)[0] for sign in (1, -1))
    return (ahead - behind) / (2 * size)


def _growth(rates: Rates, gram: np.ndarray, directions: Directions) -> float:
    r"""The largest real part of an eigenvalue of A(Q), on overlaps that there can be: $T^i=Y^iW^{i\top}$.

    Rows of an eigenspace have no overlap with what its directions' Gram matrix $W^iW^{i\top}$ lacks.
    """
    roots, inverse = directions.roots, np.linalg.pinv(directions.roots, rcond=np.sqrt(_RANK))
    sizes = np.sum(roots**2, axis=1)
    there = np.flatnonzero(np.repeat(sizes[:, None] > _RANK * sizes.max(), gram.shape[1], axis=1))
    columns = []
    for place in there:
        unit = np.zeros(len(gram) * gram.shape[1] * directions.count)
        unit[place] = 1.0
        overlap = unit.reshape(len(gram), gram.shape[1], -1) @ roots.transpose(0, 2, 1)
        columns.append((_slope(rates, gram, overlap) @ inverse.transpose(0, 2, 1)).ravel()[there])
    found = np.stack(columns, axis=1)
    return float(np.linalg.eigvals(found).real.max()) if np.all(np.isfinite(found)) else np.nan
