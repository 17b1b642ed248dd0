r"""Escape from the plateau where no overlap is found yet, linearised: targets that are not additive, and committees.

While all overlaps T are small, the rows' own Gram matrix Q moves by itself in the derived flow (`theory.declared.flow`), and
T linearly:

$$\dot Q=G(0,Q),\qquad\dot T=A(Q)\,T,\qquad A=\partial\dot T/\partial T|_{T=0}.$$

Where rows stand still, overlaps grow at the largest eigenvalue of A, and the plateau lasts $\ln(1/|T(0)|)$ over it. Rows that
attract or repel each other leave $d^{-1/2}$ as fast as the overlaps do, and lengths of free rows change: A is taken along the
way. This is leap 2. With leap 1 overlaps grow at once; with leap 3 or more A is 0, and the time is a power of the start
(`theory.declared.leap`); where A is negative, small overlaps are driven back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from theory.core.errors import InputError
from theory.declared.directions import Directions
from theory.declared.flow import is_quadratic
from theory.declared.known import RATE, TIME, Known, fact, small
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import Rates
from theory.declared.start import Start
from theory.declared.target import Additive
from theory.prediction.validity import Condition

REFERENCE = "derived; declared flow linearised at zero overlap"
GROWTH, ESCAPE = "growth rate of the plateau", "escape from the plateau"
#: Correlation at which a direction has left the plateau; which share of the rates far from it counts as none; most overlaps
#: that are linearised.
FOUND, _NONE, _MOST = 0.3, 1e-6, 400
#: Step of a difference, in units of the largest overlap there can be: its square is well below what counts as none.
_STEP = 1e-5
#: Rounding of a sum of forces, in units of the largest, over `_NONE`: below it nothing is seen of the target.
_ROUNDING = 1e-7
#: Gram matrices of directions in an eigenspace: eigenvalues below this share of the largest count as zero.
_RANK = 1e-9
#: Share by which the growth rate may change on the way.
_STILL = 0.1
#: Share of the time that higher orders may move.
_LINEAR = 0.2
#: Share of T and Q by which they are moved aside for a slope; accuracy of what higher orders move.
_ASIDE, _ROUGH = 1e-4, 1e-3
#: How long the way is followed, over the growth rate at the start; and errors of its integration, relative to itself.
_LONGEST, _ERROR = 100.0, 1e-6
#: Share of the squared norms at which rows are light.
_LIGHT = 1e-12
#: Share of the shortest row's squared norm at which a row has vanished.
_GONE = 1e-8


def escape(model: DeclaredModel, start: Start) -> Iterator[Known]:
    """Rate at the start, and first time at which some row's correlation with a direction is `FOUND`; nothing where rows alone
    have times.

    Raises `InputError` where nothing is known, with the reason.
    """
    student = model.student
    coupled = is_quadratic(model.loss) and not student.homogeneous and student.width > 1
    if isinstance(model.target, Additive) and not coupled:
        return
    if model.rule.samples or student.trained:
        what = "a data set is used again" if model.rule.samples else "the second layer is trained"
        raise InputError(f"{what}: the plateau is not the one that is linearised here; run a simulation")
    rates, gram, begin = Rates(model), start.grams, start.overlaps(model.directions)
    if begin.size > _MOST:
        raise InputError(f"{begin.size} overlaps are too many to linearise (at most {_MOST}); run declared-flow")
    rate = lasting = _growth(rates, gram, model.directions)
    waiting = gram
    if student.homogeneous and rate < 0:  # what heavy rows do to themselves and to each other ends as they get light
        waiting = _LIGHT * gram
        lasting = _growth(rates, waiting, model.directions)
    _check(model, rates, waiting, lasting)
    path = _follow(model, rates, begin, gram, _LONGEST / lasting)
    changed = abs(_growth(rates, path.at(path.end)[1], model.directions) / rate - 1)
    rows = "rows: among themselves they move, and by the escape have changed the growth rate by {:.2g} of itself"
    yield Known(GROWTH, rate, RATE, REFERENCE, (small("rows", changed, _STILL, rows),))
    yield Known(ESCAPE, path.time, TIME, REFERENCE, (_leads(model, rates, path),))


def _check(model: DeclaredModel, rates: Rates, gram: np.ndarray, rate: float) -> None:
    """Raises `InputError` unless overlaps grow linearly, and only so."""
    far = _far(gram, model.directions.grams)
    still, moving = rates(np.zeros_like(far), gram)
    second = float(np.abs(model.student.second).max())
    force = rates.eigenvalues.max() * second * (second + float(np.sqrt(rates.constants["square"])))
    large = max(float(np.abs(rates(far, gram)[0]).max()), _ROUNDING * force * float(far.max()))
    if not (np.isfinite(rate) and np.all(np.isfinite(moving))):
        raise InputError("the flow has no slope at zero overlap; run declared-flow")
    if float(np.abs(still).max()) > _NONE * large:
        raise InputError(
            "the first leap is 1: overlaps grow at once; where they come to rest next is not known here; run declared-flow"
        )
    none = _NONE * large / float(far.max())
    if rate < -none:
        raise InputError(
            f"small overlaps shrink, at a rate of {-rate:.3g} or more: rows are driven back to the plateau, unless their "
            "motion among themselves changes the sign; start from larger overlaps, or turn signs of the second layer"
        )
    if rate <= none:
        raise InputError("no overlap grows linearly: the leap is above 2, and its time a power of d; run declared-flow")


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


@dataclass(frozen=True)
class _Path:
    """Attributes: time: of the escape, inf if there is none. end: of the path. at: T and Q at a time."""

    time: float
    end: float
    at: Callable[[float], tuple[np.ndarray, np.ndarray]]


def _follow(model: DeclaredModel, rates: Rates, begin: np.ndarray, gram: np.ndarray, until: float) -> _Path:
    """The linear path until a correlation is `FOUND`."""
    variances = np.diag(model.directions.covariance)

    def parts(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Q = state[begin.size :].reshape(gram.shape)
        # (The rates take Q as symmetric: what rounding makes of it otherwise would grow.)
        return state[: begin.size].reshape(begin.shape), (Q + Q.transpose(0, 2, 1)) / 2

    def speed(time: float, state: np.ndarray) -> np.ndarray:
        T, Q = parts(state)
        return np.concatenate([_slope(rates, Q, T).ravel(), rates(np.zeros_like(T), Q)[1].ravel()])

    def missing(time: float, state: np.ndarray) -> float:
        X, C = rates.fields(*parts(state))
        return FOUND - float(np.max(np.abs(X) / np.sqrt(np.diag(C)[:, None] * variances)))

    first = np.concatenate([begin.ravel(), gram.ravel()])
    if missing(0.0, first) <= 0:
        return _Path(0.0, 0.0, lambda time: (begin, gram))
    shortest = float(np.einsum("ikk->k", gram).min())
    small_part = np.full(first.size, _ERROR * float(np.abs(begin).max()) or _ERROR)
    small_part[begin.size :] = _ERROR * _GONE * shortest

    def left(time: float, state: np.ndarray) -> float:
        """Of the shortest row."""
        return float(np.einsum("ikk->k", parts(state)[1]).min()) - _GONE * shortest

    missing.terminal = left.terminal = True  # type: ignore[attr-defined]
    with np.errstate(invalid="ignore"):  # (a trial step may leave the positive)
        way = scipy.integrate.solve_ivp(
            speed, (0.0, until), first, "LSODA", events=(missing, left), dense_output=True, rtol=_ERROR, atol=small_part
        )
    time = float(way.t[-1]) if way.t_events[0].size else np.inf
    return _Path(time, float(way.t[-1]), lambda time: parts(way.sol(time)))


def _leads(model: DeclaredModel, rates: Rates, path: _Path) -> Condition:
    r"""By which share of the time the escape may be off, to the next order of $\dot y=F(y)$, y = (T, Q), about the linear
    path $\dot y_0=L(y_0)$:

    $$\dot\delta=L'(y_0)\,\delta+F(y_0)-L(y_0),\qquad\Delta t=-\frac{c'\delta}{c'\,\tfrac12(L+F)},$$

    c the correlation that escapes. (Its speed on the way from one path to the other is about the mean of both: of a logistic
    that has lost half of its rate at the end, $\Delta t$ is within 4 %.) What rows do to each other, and overlaps to their
    lengths, is in δ. The order after it is about the square of the share x: x(1 + x) is what is to be small.
    """
    if np.isinf(path.time):
        return fact("linear", False, "linear: the linear order never gets there, and higher orders decide")
    off = _missed(model, rates, path) if path.time else 0.0  # (at once: nothing has moved)
    return small(
        "linear", off * (1 + off), _LINEAR, "linear: higher orders of the overlaps move it by {:.2g} of the time"
    )


def _missed(model: DeclaredModel, rates: Rates, path: _Path) -> float:
    """|Δt| over the time; inf where higher orders turn the correlation back."""
    T, Q = path.at(path.time)
    variances, shape, count = np.diag(model.directions.covariance), T.shape, T.size

    def linear(T: np.ndarray, Q: np.ndarray) -> np.ndarray:
        return np.concatenate([_slope(rates, Q, T).ravel(), rates(np.zeros_like(T), Q)[1].ravel()])

    def whole(T: np.ndarray, Q: np.ndarray) -> np.ndarray:
        return np.concatenate([x.ravel() for x in rates(T, Q)])

    def parts(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return state[:count].reshape(shape), state[count:].reshape(Q.shape)

    def speed(time: float, delta: np.ndarray) -> np.ndarray:
        T, Q = path.at(time)
        dT, dQ = parts(delta)
        moved = max(np.abs(dT).max() / np.abs(T).max(), np.abs(dQ).max() / np.abs(Q).max())
        turned = np.zeros_like(delta)
        if moved:
            size = _ASIDE / moved
            turned = (linear(T + size * dT, Q + size * dQ) - linear(T - size * dT, Q - size * dQ)) / (2 * size)
        return np.asarray(turned + whole(T, Q) - linear(T, Q))

    def correlations(of: np.ndarray) -> np.ndarray:
        """Their change (m, P) at the escape."""
        (X, C), (dX, dC) = rates.fields(T, Q), rates.fields(*parts(of))
        own = np.diag(C)[:, None]
        return np.asarray((dX - X * np.diag(dC)[:, None] / (2 * own)) / np.sqrt(own * variances))

    scale = np.repeat([np.abs(T).max(), np.abs(Q).max()], [count, Q.size])
    with np.errstate(invalid="ignore"):
        way = scipy.integrate.solve_ivp(
            speed, (0.0, path.time), np.zeros(count + Q.size), "LSODA", rtol=_ROUGH, atol=_ROUGH * scale
        )
    X, C = rates.fields(T, Q)
    found = np.abs(X) / np.sqrt(np.diag(C)[:, None] * variances)
    place = np.unravel_index(np.argmax(found), found.shape)
    away = np.sign(X[place])
    ahead = away * (correlations(linear(T, Q)) + correlations(whole(T, Q)))[place] / 2
    late = -away * correlations(way.y[:, -1])[place]
    return float(abs(late) / ahead / path.time) if ahead > 0 and way.success else np.inf
