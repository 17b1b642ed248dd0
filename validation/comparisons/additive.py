"""The additive model: prediction, gradient flow and online SGD, direction by direction."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import ndtr

from theory import Activation, InitialState, Prediction, Teacher, predict
from theory.declared.additive import additive_model, start_of
from theory.declared.additive_times import AdditiveTimes, additive_times
from theory.declared.dual_kernel import MOST, left_out
from theory.declared.rule import Rule
from theory.declared.steps_of_rows import lone_rows
from theory.declared.student import two_homogeneous
from theory.declared.whole_flow import MOVED_MEAN, Way
from theory.one_task.hitting_distribution import HittingLaw
from theory.prediction.rivals import rivals as race
from theory.prediction.validity import Validity, validity
from validation.comparison import WITHIN, Case, Found, Row, judge_replicas, judged, on_times, summary
from validation.comparisons.directions import FLOW, LARGEST_SHIFT, SGD, Runs, beside, directions_case, worst
from validation.figures.common import overlap_curves, staircase

_RULE = (
    "Agrees: the time of the flow lies between low and high, the interval that the prediction states, and the mean of SGD, "
    f"where it was run, within {WITHIN}, the derived shift of small steps and what rivals that are nearly as fast do, "
    "of the time of the flow; wrong theories must be rejected."
)


def additive_case(activation: Activation, teacher: Teacher, initial: InitialState, runs: Runs) -> Case:
    """The flow is judged against the interval that the prediction states, where its conditions hold, or else against the flow
    of all neurons as theory integrates it; SGD against the flow plus the derived fluctuation shift, with that shift and that
    of `crowded` as allowance and the standard errors of `validation.comparison.allowed`. Where theory has the flow of all,
    what steps add to squared norms (`theory.declared.whole_flow`) is allowed.
    """
    prediction = predict(activation, teacher, initial)
    times = additive_times(prediction, validity(prediction))  # before any coupled flow
    rivals = cache(lambda: crowded(prediction, runs))
    return directions_case(
        activation,
        teacher,
        initial,
        runs,
        known=lambda found: beside(times.half, found[FLOW].half_time),
        judged=lambda q, found: _judged(prediction, times, q, found, runs, rivals),
        figures=lambda found: _figures(prediction, times, found),
        rule=_RULE,
        to_the_end=False,
    )


def _judged(
    prediction: Prediction, told: AdditiveTimes, q: int, found: Found, runs: Runs, rivals: Callable[[], np.ndarray]
) -> Row:
    flow, sgd, own = found[FLOW], found.get(SGD), told.validities[q]
    measured, predicted = float(flow.half_time[q]), float(told.half[q])
    verdicts = [judge_flow(prediction, predicted, own, measured, float(flow.dataset.time.values[-1]))]
    row: Row = {"low": own.low, "high": own.high}
    if sgd is not None and not measured > runs.sgd_end:
        times = sgd.half_steps[:, q] * runs.step_size
        row |= summary(times, "sgd", runs.sgd_end)
        if verdicts[0][0] == "agrees" and q in told.ways:
            others = np.nan_to_num(rivals()[q]) if prediction.has_sgd_law else 0.0
            verdicts.append(
                judge_kicked(prediction, told.ways[q], q, measured, times, runs, float(others), sgd.resolution)
            )
        elif verdicts[0][0] == "agrees":
            verdicts.append(judge_sgd(prediction, q, measured, times, runs, float(rivals()[q]), sgd.resolution))
    return row | worst(verdicts)


def judge_flow(
    prediction: Prediction, predicted: float, own: Validity, measured: float, t_end: float
) -> tuple[str, str]:
    """Verdict and reason of the coupled flow beside the interval of the time that is `predicted`."""
    if not own.valid:
        return "outside", "; ".join(own.reasons)
    if own.no_interval:
        return "not judged", f"no interval: {own.no_interval}"
    if (missed := left_out(prediction.activation)) > MOST:
        return "not judged", f"the kernel of the flow misses {missed:.2g} of Eσ'², more than {MOST:g}"
    if np.isinf(own.low):  # never
        unexpected = f"predicted never, learned at {measured:.4g}"
        silent = f"predicted never, and not learned by {t_end:.4g}: no time to judge"
        return ("disagrees", unexpected) if np.isfinite(measured) else ("not judged", silent)
    if not np.isfinite(measured):
        early = f"the run ends at {t_end:.4g}, before it must have emerged"
        return ("not judged", early) if own.high > t_end else ("disagrees", f"not learned by {t_end:.4g}")
    centre, allowance = (own.low + own.high) / 2, (own.high - own.low) / 2
    controls = _controls(prediction, predicted)
    verdict = judged(centre, measured, 0.0, allowance, controls)
    where = f"the flow's {measured:.4g} is outside {own.low:.4g} to {own.high:.4g}"
    wide = f"{own.low:.4g} to {own.high:.4g} holds times of wrong theories too"
    return verdict, {"disagrees": where, "inconclusive": wide}.get(verdict, "")


def _controls(prediction: Prediction, time: float) -> dict[str, float]:
    """Wrong theories: one with half the time, and one with J − 1 for J, where both have a leading time."""
    J = prediction.activation.information_exponent
    return {"halved": time / 2, **({"J − 1": time * (J - 2) / (J - 1)} if J > 2 else {})}


def judge_sgd(
    prediction: Prediction, q: int, flow: float, times: np.ndarray, runs: Runs, rivals: float, resolution: int = 1
) -> tuple[str, str]:
    """Verdict and reason for direction q, found at `times` (replicas,) by SGD and at `flow` by gradient flow.

    The law of small steps moves the flow's time, and may err by as much, and by what `rivals` do (`crowded`); beyond
    `LARGEST_SHIFT`, or where single runs scatter by more, there is no verdict. `resolution`: steps between looks at recovery.
    """
    law, alone = _law(prediction, q, runs), float(prediction.time_half[q])
    if law is None:
        return "not judged", "of this activation and one direction no law of SGD is known"
    shift = law.mean - alone
    largest = max(abs(shift) + rivals, law.std)
    if not largest <= LARGEST_SHIFT * flow:
        return "inconclusive", (
            f"at this step size fluctuations move the time by {largest / flow:.0%}, beyond the small-step theory; lower "
            "--step-size for a verdict"
        )
    allowed = abs(shift) + rivals + runs.step_size * resolution
    return judge_replicas(times, flow + shift, allowed, _controls(prediction, flow + shift), runs.sgd_end)


def judge_kicked(
    prediction: Prediction,
    way: Way,
    q: int,
    flow: float,
    times: np.ndarray,
    runs: Runs,
    others: float,
    resolution: int = 1,
) -> tuple[str, str]:
    """Verdict and reason of SGD beside the flow of all neurons, later as the law of SGD along it says, give or take its second
    order; where none is known, by `MOVED_MEAN` times the share that its steps add to squared norms until then: so much the
    mean may be off (`theory.declared.whole_flow`). `others`: what rows that are nearly as fast may move it by (`crowded`).
    """
    size = runs.step_size / runs.batch
    broken = [x.sentence for x in way.of_sgd(q, size, runs.batch) if not x.holds]
    if broken:
        return "inconclusive", f"{'; '.join(broken)}; lower --step-size for a verdict"
    own = way.of_steps(q, size, runs.batch)
    later = 0.0 if own is None else own.mean - float(way.found[q])
    if own is None:
        allowed = MOVED_MEAN * size * float(way.kicks[q]) * flow
    else:
        allowed = way.beyond(q, own, way.wider(q, size, runs.batch))
    allowed += runs.step_size * resolution + others
    return judge_replicas(times, flow + later, allowed, _controls(prediction, flow + later), runs.sgd_end)


def _law(prediction: Prediction, q: int, runs: Runs) -> HittingLaw | None:
    """Of exponent 1, an activation that is no polynomial and one direction, by the row that is ahead."""
    if prediction.has_sgd_law:
        return prediction.sgd_law(q, runs.step_size, runs.batch)
    if prediction.activation.information_exponent > 1:
        return None
    student = two_homogeneous(prediction.activation, prediction.initial.overlap.shape[0])
    rule = Rule(runs.step_size, batch=runs.batch)
    model = additive_model(prediction.activation, prediction.teacher, student, rule)
    row = lone_rows(model, start_of(prediction.initial)).get(q)
    return row.law(rule) if row else None


def crowded(prediction: Prediction, runs: Runs) -> np.ndarray:
    r"""By how much mean times may be moved by pairs that are nearly as fast, (P,), in gradient-flow time; nan if not learned.

    Scores are 1/T, that of the next pair 1/ℓT (`Prediction.lead`), and kicks of different neurons and directions independent.
    Carried back to the start they have a variance $\propto u_0^{2-J}$ (`theory.one_task.noisy_growth`), so that the scores
    scatter by $s/T$, sT the law's spread, and by $\ell^{(4-J)/(2J-4)}s/T$. The larger one is
    $\sigma[\varphi(z)-z\Phi(-z)]/T$ above the first on average, $\sigma=s\sqrt{1+\ell^{(4-J)/(J-2)}}$, $z=(1-1/\ell)/\sigma$
    (Clark 1961). With the chance $\Phi(-z)$ of that the neuron may go to a direction that comes later: for pairs up to this
    one, such a swap moves the time by as long as all of them take, at most. Below exponent 3, where one direction alone has a
    law, by `theory.prediction.rivals`.
    """
    if prediction.activation.information_exponent < 3:
        return prediction.time_half * (1 - race(prediction, runs.step_size, runs.batch).mean)
    found, order = np.full(prediction.time_half.shape, np.nan), np.asarray(prediction.selection.directions, dtype=int)
    chances, above = np.array([_overtaken(prediction, p, runs) for p in order.tolist()]).reshape(-1, 2).T
    chances[-1:] = 0.0  # (no direction comes later than the last one)
    swapped = np.minimum(np.cumsum(chances), 1.0)
    found[order] = prediction.time_half[order] * above + swapped * prediction.last_time
    return found


def _overtaken(prediction: Prediction, p: int, runs: Runs) -> tuple[float, float]:
    """The chance that the next pair comes before direction p's, and how far above the first score the larger one is."""
    time, lead = float(prediction.time_half[p]), float(prediction.lead[p])
    std = prediction.sgd_law(p, runs.step_size, runs.batch).std if time > 0 else 0.0
    if not (std > 0 and np.isfinite(lead)):
        return 0.0, 0.0
    J = prediction.activation.information_exponent
    spread = std / time * np.sqrt(1 + lead ** ((4 - J) / (J - 2)))
    z = (1 - 1 / lead) / spread
    chance, density = float(ndtr(-z)), float(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
    return chance, float(spread * (density - z * chance))


def _figures(prediction: Prediction, told: AdditiveTimes, found: Found) -> list[tuple[str, object]]:
    data, sgd = found[FLOW].dataset, found.get(SGD)
    learned = np.flatnonzero(told.neuron >= 0)
    times = data.time.values
    squares = data.overlap.values[:, told.neuron[learned], learned] ** 2
    labels = [f"direction {q + 1}" for q in learned]
    curves = overlap_curves(times, squares, told.half[learned], labels)
    bands = None if sgd is None else on_times(times, sgd.dataset.loss)
    names = ("gradient flow", "SGD: ")
    stairs = staircase(
        times,
        data.loss.values,
        times,
        replace(prediction, time_loss=told.falls).loss(times),
        replicas=bands,
        names=names,
    )
    return [
        (
            "Squared overlaps of the neurons that find directions, under gradient flow, and predicted times.",
            curves,
        ),
        ("Loss of gradient flow (and of SGD replicas) beside the idealised staircase.", stairs),
    ]
