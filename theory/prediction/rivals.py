r"""How rows and directions compete where noise decides: what the law of one pair by itself leaves out.

By the flow the greedy pair (k, p) has its direction first. Under noise every row k reaches every direction q at a random
time $T_{kq}$ of its own one-task law; they are taken as independent, rows being light (at information exponent 2, where the
noise of all rows grows with one field, two rows' times have correlations of .6 or so, and the first of them is later than
that, at most as late as the pair by itself). A pair e of the same row or the same
direction comes before it where $T_e<T_{kp}$, and before an earlier pair b that by the flow takes the row or the direction
of e, $T_e<T_b$. With $G_e(t)=\int_0^tP(T_b>s)\,dP(T_e\le s)$, the direction is left at t with probability
$$P(T_{kp}>t)\prod_{j\ne k}(1-G_{jp}(t)),$$
and its row goes elsewhere first, and is lost, in the share
$1-\int\prod_{q\ne p}(1-G_{kq})\,dP(T_{kp}\le t)$ of the runs. Derived.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from theory.one_task.found_by import found_by
from theory.one_task.hitting_distribution import HittingLaw
from theory.prediction.predict import Prediction
from theory.prediction.validity import Condition

#: Squared overlap at which a direction is found.
_LEVEL = 0.5
#: Times: geometric, by this ratio, from and to these multiples of the least mean and of the largest spread. Few runs,
#: those that turn first, may make the spread: one in 10⁶ a tenth of it, by times of a hundred spreads.
_RATIO, _FIRST, _LAST = 1.03, 0.01, 1000.0
#: Where all laws have no mean: to this multiple of the flow's last time.
_FLOWS = 8.0
#: A pair that takes more times than that has no law: most of its runs are never there.
_MOST_TIMES = 2000
#: Runs that lose a row take several times as long, or for ever: a fiftieth of them is a tenth of the mean.
LOST = 0.02
#: What other rows may take off the mean of a pair whose law is that of the pair by itself.
_MOVED = 0.1


#: By how much of its time SGD may miss that of the flow, as what the steps of the flow are worth.
FLUCTUATIONS = 0.3
#: From where on the flow's steps say nothing of SGD's, and no interval either.
OWN_TIME = 1.0
#: Of a direction that has no time by the flow, at any step size.
NEVER = "fluctuations: noise may find what the flow never does"


class Rivals(NamedTuple):
    """Of every direction, (P,), nan of those that the flow does not find.

    Attributes:
        mean, spread: of the first row that is there, over those of the pair by itself.
        lost: share of the runs whose row, or one that an earlier direction needs, goes elsewhere first.
        pairs: the laws of the pairs by themselves, by direction from 0, of those that have one.
    """

    mean: np.ndarray
    spread: np.ndarray
    lost: np.ndarray
    pairs: Mapping[int, HittingLaw]

    def law(self, p: int) -> HittingLaw:
        """Of direction p's time, from that of its pair by itself."""
        alone = self.pairs[p]
        return HittingLaw(alone.mean * float(self.mean[p]), alone.std * float(self.spread[p]), alone.turned)

    def alone(self, p: int) -> Condition:
        """That the pair by itself is what is first there."""
        moved = 1 - float(self.mean[p])
        sentence = f"rivals: other rows, which noise may bring there first, take {moved:.2g} off the mean"
        return Condition("rivals", moved <= _MOVED, moved, _MOVED, sentence)

    def kept(self, p: int) -> Condition:
        """That few runs lose the row."""
        lost = float(self.lost[p])
        sentence = (
            f"lost: in {lost:.2g} of the runs its row, or one that an earlier direction needs, goes elsewhere first"
        )
        return Condition("lost", lost <= LOST, lost, LOST, sentence)


def rivals(prediction: Prediction, step_size: float, batch: int = 1) -> Rivals:
    """Under SGD of this step size, where it `has_sgd_law`. A row that an earlier direction loses may be any, so that its share
    counts for all that come after it. Of exponent 1 a sample moves all rows alike, and none overtakes another.
    """
    width = prediction.teacher.width
    mean, spread, lost, kept = np.full(width, np.nan), np.full(width, np.nan), np.full(width, np.nan), 1.0
    order = [int(p) for p in prediction.selection.directions if 0 < prediction.time_half[p] < np.inf]
    laws = {p: prediction.sgd_law(p, step_size, batch) for p in order}
    if not order:
        return Rivals(mean, spread, lost, laws)
    if prediction.activation.information_exponent == 1:
        mean[order], spread[order], lost[order] = 1.0, 1.0, 0.0
        return Rivals(mean, spread, lost, laws)
    times = _times(prediction, laws)
    found = _found(prediction, times, step_size, batch)
    # (What came before takes its row and its direction from all later ones, when it is there.)
    free_rows, free_directions = np.ones(found.shape[::2]), np.ones(found.shape[1:])
    for p in order:
        k = int(prediction.neuron[p])
        own = 1 - found[k, p]
        stays, others = _others(found[k], free_directions, p), _others(found[:, p], free_rows, k)
        kept *= float(_middle(stays) @ -np.diff(own, prepend=1.0) + own[-1] * stays[-1])
        lost[p] = 1 - kept
        first, alone = _moments(own * others, times), _moments(own, times)
        # (Where the spread is less than a step of the times the pair is taken for the first: hardly anybody is as near, and of
        # two that are as fast the first is .56 spreads earlier.)
        scatters = min(
            laws[p].std / laws[p].mean, alone[1] / alone[0]
        )  # (a law beyond all times has no spread among them)
        mean[p], spread[p] = first / alone if scatters > _RATIO - 1 else (1.0, 1.0)
        free_rows[k] = free_directions[p] = own
    return Rivals(mean, spread, lost, laws)


def scattered(time: float, law: HittingLaw) -> Condition:
    """That SGD is near the flow's time, in mean and spread, as shares of it."""
    moved = (abs(law.mean - time) + law.std) / time
    sentence = f"fluctuations: SGD is {moved:.2g} times it off, in mean and spread"
    if moved > OWN_TIME:
        sentence = "fluctuations: SGD is more than its own time off, in mean and spread: its steps are not the flow's"
    return Condition("fluctuations", moved <= FLUCTUATIONS, moved, FLUCTUATIONS, sentence)


def in_steps(prediction: Prediction, others: Rivals | None, step_size: float) -> list[tuple[Condition, ...]]:
    """That SGD takes as long as the flow, by direction, its `others` being those of its step size; () where no law says so
    (`has_sgd_law`), and of what is found from the start.
    """
    if others is None:
        return [()] * prediction.teacher.width
    found = list[tuple[Condition, ...]]()
    for p, time in enumerate(prediction.time_half.tolist()):
        if np.isinf(time):
            found.append((Condition("fluctuations", False, np.inf, np.inf, NEVER),))
        elif time == 0:
            found.append(())
        else:
            steps = prediction.steps_half(p, time, step_size)
            found.append((scattered(step_size * steps, others.law(p)), others.kept(p)))
    return found


def _times(prediction: Prediction, laws: Mapping[int, HittingLaw]) -> np.ndarray:
    ends = [one.mean + _LAST * one.std for one in laws.values()]
    first = _FIRST * min(min(one.mean, float(prediction.time_half[p])) for p, one in laws.items())
    last = max((x for x in ends if np.isfinite(x)), default=_FLOWS * prediction.last_time)
    count = min(int(np.ceil(np.log(last / first) / np.log(_RATIO))), _MOST_TIMES)
    return first * _RATIO ** np.arange(count + 1)


def _found(prediction: Prediction, times: np.ndarray, step_size: float, batch: int) -> np.ndarray:
    """P(T ≤ t) of every row and direction, (m, P, times)."""
    overlap = prediction.initial.overlap
    columns = [
        found_by(prediction.diffusion(p, step_size, batch), overlap[:, p], times, float(np.sqrt(_LEVEL)))
        for p in range(prediction.teacher.width)
    ]
    return np.stack(columns, axis=1)


def _others(found: np.ndarray, free: np.ndarray, own: int) -> np.ndarray:
    """That none of the rivals, `found` (n, times) and `free` until then, but the pair itself was there by each time."""
    came = np.cumsum(_middle(free) * np.diff(found, axis=-1, prepend=0.0), axis=-1)
    return np.prod(np.delete(1 - came, own, axis=0), axis=0)


def _middle(values: np.ndarray) -> np.ndarray:
    """In the middle of each step, the first of which begins with 1."""
    before = np.concatenate([np.ones_like(values[..., :1]), values[..., :-1]], axis=-1)
    return 0.5 * (before + values)


def _moments(left: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Mean and standard deviation of the time until which the share `left` has not ended; what has not at last, then."""
    ends = np.append(-np.diff(np.minimum.accumulate(left), prepend=1.0), left[-1])
    at = np.append(times - 0.5 * np.diff(times, prepend=0.0), times[-1])
    mean = float(ends @ at)
    return np.array([mean, np.sqrt(ends @ (at - mean) ** 2)])
