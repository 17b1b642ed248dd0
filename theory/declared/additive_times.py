r"""Times of the additive model: those of one task, and where their conditions do not hold those of the flow of all neurons.

One-task times (arXiv:2504.19983, Theorem 2.1) need a plateau on which neurons do not see each other; of information exponent
1 and 2, and near ties, the flow from the start itself decides (`theory.declared.whole_flow`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from theory.core.errors import InputError
from theory.declared.additive import additive_model, start_of
from theory.declared.known import fact
from theory.declared.rule import Rule
from theory.declared.student import two_homogeneous
from theory.declared.whole_flow import AT_REST, ERROR, Way, whole_flow
from theory.prediction.predict import Prediction
from theory.prediction.validity import CLOSE, Validity


@dataclass(frozen=True, eq=False)
class AdditiveTimes:
    """Gradient-flow times of every direction.

    Attributes:
        neuron: (P,), that finds it; -1 if none does. half, loss: (P,), to squared overlap ½, and to half of its weight
            along it; nan of one task's that have passed when the flow of all, as far as it is followed, has not found it,
            and of a loss time that nothing else moves less than twofold, where that flow is not to be had.
            validities: their conditions and intervals.
        ways: of directions by the flow of all, by place from 0, that flow. alone: why these are not by one task.
    """

    neuron: np.ndarray
    half: np.ndarray
    loss: np.ndarray
    validities: Sequence[Validity]
    ways: Mapping[int, Way]
    alone: Mapping[int, Sequence[str]]

    @property
    def falls(self) -> np.ndarray:
        """When a staircase of the loss falls: `loss`, inf where that is not known."""
        return np.where(np.isnan(self.loss), np.inf, self.loss)

    @classmethod
    def of_one_task(cls, prediction: Prediction, validities: Sequence[Validity]) -> "AdditiveTimes":
        """Those of the prediction, whether its conditions hold or not."""
        return cls(prediction.neuron, prediction.time_half, prediction.time_loss, validities, {}, {})


def additive_times(
    prediction: Prediction,
    own: Sequence[Validity],
    followed: Callable[[], Way] | None = None,
    together: bool = False,
) -> AdditiveTimes:
    """The times of a prediction, its conditions `own`; where these do not hold, others move the loss time (`Validity.fits`)
    or everywhere (`together`), as `followed`, or integrated (some seconds).
    """
    broken = [one.reasons or [x.sentence for x in one.fits if not x.holds] for one in own]
    moved = [[x.sentence for x in one.fits if x.value > CLOSE] for one in own]
    outside = [q for q, reasons in enumerate(broken) if reasons or moved[q] or together]
    try:
        way = (followed() if followed else way_of(prediction)) if outside else None
    except InputError:  # (an activation without closed kernels, or too many neurons)
        way = None
    neuron, half, loss = (x.copy() for x in (prediction.neuron, prediction.time_half, prediction.time_loss))
    if way is None:
        loss[[q for q in outside if own[q].valid and broken[q]]] = np.nan
        return AdditiveTimes(neuron, half, loss, own, {}, {})
    found = [q for q in outside if np.isfinite(way.found[q])]
    neuron[found], half[found], loss[found] = way.rows[found], way.found[found], way.aligned[found]
    waiting = [q for q in outside if q not in found and (broken[q] or together)]
    for times in (half, loss):  # (one task's is none where all neurons together are not there yet)
        times[waiting] = np.where(times[waiting] > way.end, times[waiting], np.nan)
    told = [_told(way, q) if q in found else _waits(way, one) if q in waiting else one for q, one in enumerate(own)]
    return AdditiveTimes(neuron, half, loss, told, dict.fromkeys(found, way), {q: broken[q] or moved[q] for q in found})


def way_of(prediction: Prediction) -> Way:
    """The flow of all neurons of a prediction's start, in gradient-flow time.

    Raises `InputError` for an activation without closed kernels, and for more neurons than can be followed.
    """
    student = two_homogeneous(prediction.activation, prediction.initial.overlap.shape[0])
    model = additive_model(
        prediction.activation, prediction.teacher, student, Rule(1.0, decay=prediction.decay, noise=prediction.noise)
    )
    return whole_flow(model, start_of(prediction.initial))


def _waits(way: Way, own: Validity) -> Validity:
    """What the flow of all neurons says of a direction that it has not found: no sooner than it was followed, or never."""
    soonest = np.inf if way.stopped == AT_REST else way.end
    text = f"waits: the flow of all neurons has not found it by {way.end:.4g} ({way.stopped}): simulate gradient-flow"
    return Validity((*own.conditions, fact("waits", False, text)), soonest, np.nan, own.no_interval, (soonest, np.nan))


def _told(way: Way, q: int) -> Validity:
    (low, high), (begun, done) = ((x / (1 + ERROR), x * (1 + ERROR)) for x in (way.found[q], way.aligned[q]))
    return Validity(way.conditions(q), float(low), float(high), "", (float(begun), float(done)))
