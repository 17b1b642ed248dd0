r"""Escape from the plateau where no overlap is found yet, linearised: targets that are not additive, and committees.

While all overlaps T are small, and the rows' own Gram matrix Q stands still, the derived flow (`theory.declared.flow`) is
linear, $\dot T=AT$ with $A=\partial\dot T/\partial T$ at T = 0, so that $T(t)=e^{At}T(0)$: overlaps grow at the largest
eigenvalue of A, and the plateau lasts $\ln(1/|T(0)|)$ over it. This is leap 2. With leap 1 overlaps grow at once; with leap 3
or more A has no growth, and the time is a power of the start (`theory.declared.leap`).
"""

from collections.abc import Callable, Iterator

import numpy as np

from theory.core.errors import InputError
from theory.declared.flow import is_quadratic
from theory.declared.known import RATE, TIME, Known, fact, small
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import Rates
from theory.declared.start import Start
from theory.declared.target import Additive
from theory.prediction.validity import Condition

REFERENCE = "derived; largest eigenvalue of the declared flow at zero overlap"
GROWTH, ESCAPE = "growth rate of the plateau", "escape from the plateau"
#: Correlation at which a direction has left the plateau; which share of the rates far from it counts as none; most overlaps
#: that are linearised.
FOUND, _NONE, _MOST = 0.3, 1e-6, 400
#: Step of a difference, in units of the largest overlap there can be: its square is well below what counts as none.
_STEP = 1e-5
#: Gram matrices of directions in an eigenspace: eigenvalues below this share of the largest count as zero.
_RANK = 1e-9
#: Share of the growth at which the rows may still move among themselves.
_STILL = 0.1
#: Share of the linear rate that higher orders may have, and at how many points of the way.
_LINEAR, _LOOKS = 0.2, 9


def escape(model: DeclaredModel, start: Start) -> Iterator[Known]:
    """Rate, and first time at which some row's correlation with a direction is `FOUND`; nothing where rows alone have times.

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
    still, moving = rates(np.zeros_like(begin), gram)
    growth = _jacobian(rates, gram, model.directions.grams)
    far = _far(gram, model.directions.grams)
    large = float(np.abs(rates(far, gram)[0]).max())
    if not (np.all(np.isfinite(growth)) and np.all(np.isfinite(moving))):
        raise InputError("the flow has no slope at zero overlap; run declared-flow")
    values, modes = np.linalg.eig(growth)
    rate = float(values.real.max())
    if float(np.abs(still).max()) > _NONE * large:
        raise InputError(
            "leap 1: overlaps grow at once; where they come to rest next is not known here; run declared-flow"
        )
    if rate <= _NONE * large / float(far.max()):
        raise InputError("no overlap grows linearly: the leap is above 2, and its time a power of d; run declared-flow")
    slow = small(
        "rows",
        float(np.abs(moving).max() / np.abs(gram).max()) / rate,
        _STILL,
        "rows: among themselves they move at {:.2g} of the growth rate, which then changes",
    )
    settled = fact(
        "sphere", student.rows != "free", "sphere: free rows change their lengths, and so the rate, meanwhile"
    )
    yield Known(GROWTH, rate, RATE, REFERENCE, (slow, settled))
    linear = _linear(begin, values, modes)
    time = _time(model, gram, linear, rate)
    yield Known(ESCAPE, time, TIME, REFERENCE, (slow, settled, _leads(rates, gram, growth, linear, time)))


def _far(gram: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Overlaps (L, m, P) that are as large as half of all that many rows and directions can have at once."""
    m, P = gram.shape[1], directions.shape[1]
    lengths = np.einsum("ikk,iqq->ikq", gram, directions)
    return 0.5 * np.sqrt(np.maximum(lengths, 0.0) / (m * P))


def _jacobian(rates: Rates, gram: np.ndarray, directions: np.ndarray) -> np.ndarray:
    r"""(n, n) of the n overlaps, by central differences about 0, after projection to overlaps that there can be.

    Those of an eigenspace are in the range of its directions' Gram matrix; what is not has no growth here.
    """
    size, columns = _STEP * float(np.sqrt(np.einsum("ikk->k", gram).max())), []
    possible = np.linalg.pinv(directions, rcond=_RANK, hermitian=True) @ directions
    shape = (len(gram), gram.shape[1], directions.shape[1])
    for unit in np.eye(int(np.prod(shape))):
        change = size * unit.reshape(shape) @ possible
        moved = [rates(sign * change, gram)[0].ravel() for sign in (1, -1)]
        columns.append((moved[0] - moved[1]) / (2 * size))
    return np.stack(columns, axis=1)


def _linear(begin: np.ndarray, values: np.ndarray, modes: np.ndarray) -> Callable[[float], np.ndarray]:
    """T (L, m, P) of the linear flow as a function of time."""
    parts = np.linalg.lstsq(modes, begin.ravel().astype(complex), rcond=None)[0]  # (A may lack modes)
    return lambda time: (modes @ (np.exp(values * time) * parts)).real.reshape(begin.shape)


def _leads(
    rates: Rates, gram: np.ndarray, growth: np.ndarray, linear: Callable[[float], np.ndarray], time: float
) -> Condition:
    r"""What higher orders add to $\dot T$, as a mean over the way, on which ln T grows evenly: the share of the time."""

    def share(at: float) -> float:
        now = linear(at)
        first = (growth @ now.ravel()).reshape(now.shape)
        return float(np.linalg.norm(rates(now, gram)[0] - first) / np.linalg.norm(first))

    # (At once: nothing has moved. Where the linear order never gets there, any other decides.)
    mean = np.inf if np.isinf(time) else 0.0 if time == 0 else np.mean([share(x) for x in np.linspace(0, time, _LOOKS)])
    return small(
        "linear", float(mean), _LINEAR, "linear: higher orders of the overlaps move them at {:.2g} of the linear rate"
    )


def _time(model: DeclaredModel, gram: np.ndarray, linear: Callable[[float], np.ndarray], rate: float) -> float:
    """First time at which the linear flow has a correlation of `FOUND`, by halving; 0 if there, inf if never."""
    eigenvalues = np.asarray(model.inputs.eigenvalues)
    norms = np.sqrt(np.einsum("i,ikk->k", eigenvalues, gram)[:, None] * np.diag(model.directions.covariance))

    def reached(time: float) -> bool:
        now = linear(time)
        return bool(np.max(np.abs(np.einsum("i,ikp->kp", eigenvalues, now)) / norms) >= FOUND)

    if reached(0.0):
        return 0.0
    high = 0.0
    while not reached(high):
        high += 1 / rate
        if high * rate > 500:
            return np.inf
    low = high - 1 / rate
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
