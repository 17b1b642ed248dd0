"""The additive model: prediction, gradient flow and online SGD, direction by direction."""

import numpy as np

from dynamics import FlowResult, SgdResult, gradient_flow, online_sgd
from theory import Activation, InitialState, Prediction, Teacher, predict
from theory.prediction.validity import Validity, validity
from validation.comparison import (
    Case,
    Found,
    Progress,
    Row,
    Stage,
    judge_replicas,
    judged,
    on_times,
    summary,
    too_much_work,
)
from validation.figures.common import overlap_curves, staircase

#: A fluctuation shift beyond this share of the time is outside the small-step theory: no verdict is given.
LARGEST_SHIFT = 0.3
FLOW, SGD = "gradient flow", "SGD"
COLUMNS = ("direction", "predicted", "low", "high", "flow", "sgd_mean", "sgd_stderr", "verdict")
CAPTION = "Times in gradient-flow units: predicted, under gradient flow, and of SGD (mean over replicas)."
#: Verdicts, the one that counts first.
_ORDER = ("disagrees", "outside", "inconclusive", "not judged", "agrees")


def additive_case(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    batch: int = 1,
    replicas: int = 32,
    seed: int = 0,
    method: str = "exact",
    budget: float | None = None,
) -> Case:
    """The flow is judged against the interval that the prediction states, where its conditions hold; SGD against the flow
    plus the derived fluctuation shift, with that shift as allowance and 4 standard errors.

    Args:
        budget: skip SGD, and say so, if replicas × steps × batch exceeds it (None: never skip).

    Raises: `InputError` for an information exponent below 3 (no emergence time).
    """
    activation.require_exponent(3, "compare (a sharp emergence time)")
    prediction = predict(activation, teacher, initial)
    validities = validity(prediction)  # before any coupled flow

    def flow(_: Found, progress: Progress | None) -> FlowResult:
        t_end = step_size * steps
        return gradient_flow(activation, teacher, initial, t_end=t_end, step_size=step_size, progress=progress)

    def sgd(found: Found, progress: Progress | None) -> SgdResult:
        wanted = tuple(int(q) for q in np.flatnonzero(np.isfinite(found[FLOW].half_time)))
        return online_sgd(
            activation,
            teacher,
            initial,
            step_size=step_size,
            steps=steps,
            batch=batch,
            replicas=replicas,
            seed=seed,
            method=method,
            stop_when_learned=wanted or None,
            progress=progress,
        )

    def judge(found: Found) -> tuple[list[Row], list[str]]:
        rows = _known(prediction, found)
        for q, row in enumerate(rows):
            row |= _judged(prediction, q, validities[q], found, step_size, batch)
        return rows, [f"Direction {row['direction']}: {row['reason']}." for row in rows if row["reason"]]

    skipped = too_much_work(replicas, steps, batch, budget)
    return Case(
        title=f"Theory, gradient flow and SGD: {activation.name}, d = {teacher.dim}",
        unit="directions",
        columns=COLUMNS,
        stages=(Stage(FLOW, flow), *(() if skipped else (Stage(SGD, sgd),))),
        judge=judge,
        known=lambda found: _known(prediction, found),
        figures=lambda found: _figures(prediction, found),
        caption=CAPTION,
        notes=(skipped,) if skipped else (),
    )


def _known(prediction: Prediction, found: Found) -> list[Row]:
    """Times that are known without judging; no mean over replicas that happened to be early."""
    pairs = zip(prediction.time_half.tolist(), found[FLOW].half_time.tolist(), strict=True)
    return [{"direction": q, "predicted": x, "flow": y} for q, (x, y) in enumerate(pairs, start=1)]


def _judged(prediction: Prediction, q: int, own: Validity, found: Found, step_size: float, batch: int) -> Row:
    flow, sgd = found[FLOW], found.get(SGD)
    measured = float(flow.half_time[q])
    verdicts = [_judge_flow(prediction, q, own, measured, float(flow.dataset.time.values[-1]))]
    row: Row = {"low": own.low, "high": own.high}
    if sgd is not None:
        times = sgd.half_steps[:, q] * step_size
        row |= summary(times, "sgd")
        if verdicts[0][0] == "agrees":
            verdicts.append(_judge_sgd(prediction, q, measured, times, step_size, batch))
    verdict, reason = min(verdicts, key=lambda one: _ORDER.index(one[0]))
    return row | {"verdict": verdict, "reason": reason}


def _judge_flow(prediction: Prediction, q: int, own: Validity, measured: float, t_end: float) -> tuple[str, str]:
    """Verdict and reason of the coupled flow beside the prediction's interval."""
    if not own.valid:
        return "outside", "; ".join(own.reasons)
    if own.no_interval:
        return "not judged", f"no interval: {own.no_interval}"
    if np.isinf(own.low):  # never
        unexpected = f"predicted never, learned at {measured:.4g}"
        return ("disagrees", unexpected) if np.isfinite(measured) else ("not judged", "")
    if own.high > t_end:
        return "not judged", f"the run ends at {t_end:.4g}, before it must have emerged"
    if not np.isfinite(measured):
        return "disagrees", f"not learned by {t_end:.4g}"
    centre, allowance = (own.low + own.high) / 2, (own.high - own.low) / 2
    controls = _controls(prediction, float(prediction.time_half[q]))
    verdict = judged(centre, measured, 0.0, allowance, controls)
    where = f"the flow's {measured:.4g} is outside {own.low:.4g} to {own.high:.4g}"
    wide = f"{own.low:.4g} to {own.high:.4g} holds times of wrong theories too"
    return verdict, {"disagrees": where, "inconclusive": wide}.get(verdict, "")


def _controls(prediction: Prediction, time: float) -> dict[str, float]:
    """Wrong theories: one with half the time, and one with J − 1 for J."""
    J = prediction.activation.information_exponent
    return {"halved": time / 2, "J − 1": time * (J - 2) / (J - 1)}


def _judge_sgd(
    prediction: Prediction, q: int, flow: float, times: np.ndarray, step_size: float, batch: int
) -> tuple[str, str]:
    shift = prediction.sgd_law(q, step_size, batch).mean - float(prediction.time_half[q])
    if abs(shift) > LARGEST_SHIFT * flow:
        return "inconclusive", (
            f"at this step size fluctuations move the time by {shift / flow:+.0%}, beyond the small-step theory; lower "
            "--step-size for a verdict"
        )
    return judge_replicas(times, flow + shift, abs(shift), _controls(prediction, flow + shift))


def _figures(prediction: Prediction, found: Found) -> list[tuple[str, object]]:
    data, sgd = found[FLOW].dataset, found.get(SGD)
    learned = prediction.selection.directions
    times = data.time.values
    squares = data.overlap.values[:, prediction.neuron[learned], learned] ** 2
    labels = [f"direction {q + 1}" for q in learned]
    curves = overlap_curves(times, squares, prediction.time_half[learned], labels)
    bands = None if sgd is None else on_times(times, sgd.dataset.loss)
    stairs = staircase(times, data.loss.values, times, prediction.loss(times), replicas=bands)
    return [
        ("Squared overlaps of the greedily selected neurons under gradient flow, and predicted times.", curves),
        ("Loss of gradient flow (and of SGD replicas) beside the idealised staircase.", stairs),
    ]
