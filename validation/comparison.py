"""Prediction, gradient flow and online SGD side by side, for a user's own problem."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynamics import FlowResult, Interrupted, SgdResult, gradient_flow, online_sgd
from dynamics.core.interrupted import unfinished
from dynamics.core.precision import double_precision
from theory import Activation, InitialState, Prediction, Teacher, predict
from theory.prediction.validity import Validity, validity
from validation.figures.common import overlap_curves, staircase
from validation.judge.claim import Measurement, verdict_of
from validation.judge.runner import Progress
from validation.statistics.standard_errors import mean_and_error

#: A fluctuation shift beyond this share of the time is outside the small-step theory: no verdict is given.
LARGEST_SHIFT = 0.3
#: Verdicts, the one that counts first.
_ORDER = ("disagrees", "outside", "inconclusive", "not judged", "agrees")


@dataclass(frozen=True)
class Comparison:
    """Attributes: directions (dicts direction, predicted, low, high, flow, sgd_mean, sgd_stderr, verdict, reason;
    gradient-flow time, None where there is nothing; verdict ``outside``: a condition does not hold), notes (sentences),
    report, verdict_ok (nothing disagrees), diverged (some replica did).
    """

    directions: list[dict]
    notes: list[str]
    report: Path | None
    verdict_ok: bool
    diverged: bool


@double_precision
def compare(
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
    out: Path | None = None,
    page: str = "compare.html",
    budget: float | None = None,
    problem: dict | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Predict, integrate, simulate and judge, direction by direction.

    The flow is judged against the interval that the prediction states, where its conditions hold; SGD against
    the flow plus the derived fluctuation shift, with that shift as allowance and 4 standard errors.

    Args:
        budget: skip SGD, and say so, if replicas × steps × batch exceeds it (None: never skip).
        problem: shown in the report. out: folder of the report; nothing is written without it. page: its file name, for
            where several problems share the folder.

    Raises: `InputError` for an information exponent below 3 (no emergence time) and what the simulators refuse;
    `Interrupted` on Ctrl-C, with a `Comparison` of what was finished, none of it judged.
    """
    activation.require_exponent(3, "compare (a sharp emergence time)")
    prediction = predict(activation, teacher, initial)
    validities = validity(prediction)  # before any coupled flow
    t_end = step_size * steps
    notes: list[str] = []
    work = float(replicas) * steps * batch
    affordable = budget is None or work <= budget

    def descend(flow: FlowResult) -> SgdResult:
        wanted = tuple(int(q) for q in np.flatnonzero(np.isfinite(flow.half_time)))
        return online_sgd(
            activation, teacher, initial, step_size=step_size, steps=steps, batch=batch, replicas=replicas, seed=seed,
            method=method, stop_when_learned=wanted or None, progress=_part(progress, 0.1, 1.0),
        )  # fmt: skip

    flow, sgd, stop = flow_and_sgd(
        lambda: gradient_flow(
            activation, teacher, initial, t_end=t_end, step_size=step_size, progress=_part(progress, 0.0, 0.1)
        ),
        descend if affordable else None,
    )
    if not affordable:
        notes.append(
            f"SGD was not run: it needs {work:.2g} samples over all replicas. Give --steps or --time to run it all the "
            "same, or lower --dim, or raise --step-size."
        )
    if stop:
        rows = unjudged(prediction.time_half, flow.half_time, stop, notes)
    else:
        rows = _judge_all(prediction, validities, flow, sgd, step_size, batch, notes)
    diverged = sgd is not None and bool(sgd.diverged.any())
    report = None
    if out is not None:
        path = out / (unfinished(page) if stop else page)
        report = _write(path, activation, prediction, flow, sgd, rows, problem or {}, notes)
    compared = Comparison(rows, notes, report, all(row["verdict"] != "disagrees" for row in rows), diverged)
    if stop:
        raise Interrupted(compared, stop)
    return compared


def flow_and_sgd(
    integrate: Callable[[], FlowResult], descend: Callable[[FlowResult], SgdResult] | None
) -> tuple[FlowResult, SgdResult | None, str]:
    """Gradient flow, then SGD unless it is None; on Ctrl-C what there is of them, and where that was, in words."""
    try:
        flow = integrate()
    except Interrupted as stop:
        return stop.result, None, f"in gradient flow, {stop.at}"
    if descend is None:
        return flow, None, ""
    try:
        return flow, descend(flow), ""
    except Interrupted as stop:
        return flow, stop.result, f"in SGD, {stop.at}"
    except KeyboardInterrupt:
        return flow, None, "in SGD, before its first step"


def unjudged(predicted: np.ndarray, flow: np.ndarray, stop: str, notes: list[str]) -> list[dict]:
    """Rows of an interrupted comparison: times that are known, no mean over replicas that happened to be early."""
    notes.append(f"Interrupted {stop}: what comes after that is missing, and nothing is judged.")
    return [
        {"direction": q + 1, "predicted": _finite(float(x)), "flow": _finite(float(y)), "sgd_mean": None,
         "sgd_stderr": None, "verdict": "not judged"}
        for q, (x, y) in enumerate(zip(predicted, flow, strict=True))
    ]  # fmt: skip


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction, text: progress(start + (end - start) * fraction, text)


def _judge_all(
    prediction: Prediction, validities: list[Validity], flow: FlowResult, sgd: SgdResult | None, step_size: float,
    batch: int, notes: list[str],
) -> list[dict]:  # fmt: skip
    t_end = float(flow.dataset.time.values[-1])
    rows = []
    for q, own in enumerate(validities):
        predicted, measured = float(prediction.time_half[q]), float(flow.half_time[q])
        row: dict[str, object] = {"direction": q + 1, "predicted": _finite(predicted), "low": _finite(own.low)}
        row |= {"high": _finite(own.high), "flow": _finite(measured), "sgd_mean": None, "sgd_stderr": None}
        times = np.array([]) if sgd is None else sgd.half_steps[:, q] * step_size
        reached = times[np.isfinite(times)]
        if reached.size:
            row["sgd_mean"] = float(reached.mean())
            row["sgd_stderr"] = mean_and_error(reached)[1] if reached.size > 1 else None
        found: list[tuple[str, str]] = [_judge_flow(prediction, q, own, measured, t_end)]
        if sgd is not None and found[0][0] == "agrees":
            found.append(_judge_sgd(prediction, q, measured, times, step_size, batch))
        row["verdict"], row["reason"] = min(found, key=lambda verdict: _ORDER.index(verdict[0]))
        if row["reason"]:
            notes.append(f"Direction {q + 1}: {row['reason']}.")
        rows.append(row)
    return rows


def _judge_flow(prediction: Prediction, q: int, own: Validity, measured: float, t_end: float) -> tuple[str, str]:
    """Verdict and reason of the coupled flow beside the prediction's interval."""
    predicted = float(prediction.time_half[q])
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
    verdict = _verdict(prediction, predicted, centre, measured, 0.0, allowance)
    where = f"the flow's {measured:.4g} is outside {own.low:.4g} to {own.high:.4g}"
    wide = f"{own.low:.4g} to {own.high:.4g} holds times of wrong theories too"
    return verdict, {"disagrees": where, "inconclusive": wide}.get(verdict, "")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _verdict(
    prediction: Prediction, alone: float, predicted: float, estimate: float, stderr: float, allowance: float
) -> str:
    """By the rule of the claims; wrong theories: one with half the time `alone`, and one with J − 1 for J."""
    J = prediction.activation.information_exponent
    controls = {"halved": alone / 2, "J − 1": alone * (J - 2) / (J - 1)}
    return verdict_of(Measurement("", predicted, estimate, stderr, allowance, controls, "")).verdict


def _judge_sgd(
    prediction: Prediction, q: int, flow: float, times: np.ndarray, step_size: float, batch: int
) -> tuple[str, str]:
    law = prediction.sgd_law(q, step_size, batch)
    shift = law.mean - float(prediction.time_half[q])
    missing = int(np.sum(~np.isfinite(times)))
    if abs(shift) > LARGEST_SHIFT * flow:
        return "inconclusive", (
            f"at this step size fluctuations move the time by {shift / flow:+.0%}, beyond the small-step theory; lower "
            "--step-size for a verdict"
        )
    if missing or times.size < 2:
        reason = f"{missing} of {times.size} replicas had not recovered it when the run ended"
        return "inconclusive" if missing < times.size / 2 else "disagrees", reason
    estimate, stderr = mean_and_error(times)
    verdict = _verdict(prediction, flow + shift, flow + shift, estimate, stderr, abs(shift))
    return verdict, "" if verdict == "agrees" else f"SGD's mean beside the flow and its fluctuations: {verdict}"


def _write(
    path: Path, activation: Activation, prediction: Prediction, flow: FlowResult, sgd: SgdResult | None,
    rows: list[dict], problem: dict, notes: list[str],
) -> Path:  # fmt: skip
    from validation.report.page import write_comparison

    data = flow.dataset
    learned = prediction.selection.directions
    neurons = prediction.neuron[learned]
    times = data.time.values
    squares = data.overlap.values[:, neurons, learned] ** 2
    labels = [f"direction {q + 1}" for q in learned]
    curves = overlap_curves(times, squares, prediction.time_half[learned], labels)
    bands = None
    if sgd is not None:
        loss = sgd.dataset.loss
        bands = np.stack([np.interp(times, loss.time.values, x, right=np.nan) for x in loss.values])
    stairs = staircase(times, data.loss.values, times, prediction.loss(times), replicas=bands)
    figures: list[tuple[str, object]] = [
        ("Squared overlaps of the greedily selected neurons under gradient flow, and predicted times.", curves),
        ("Loss of gradient flow (and of SGD replicas) beside the idealised staircase.", stairs),
    ]
    title = f"Theory, gradient flow and SGD: {activation.name}, d = {prediction.teacher.dim}"
    shown = {name: value for name, value in problem.items() if value is not None}
    return write_comparison(path, title, shown, rows, figures, notes)
