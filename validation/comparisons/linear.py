"""The two-layer linear network: predicted phases and label-noise SGD."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics import LinearRun
from theory.linear.phases import NEEDED, Phases
from validation.comparison import WITHIN, Case, Found, Progress, Row, Stage, judge_replicas, summary
from validation.experiments.averaged_flow import ACCURACY, halving_steps, onset_steps
from validation.figures.linear import neuron_paths, norm_and_alignment

RUN, CLOSE = "the first run", "the second run"
COLUMNS = ("quantity", "predicted", "sgd_mean", "sgd_stderr", "verdict")
_HALVED, _ESCAPED, _ALIGNED = "steps to half of ‖W‖²_F", "median escape from the lazy regime", "onset of alignment"
#: The number of the phases whose conditions are those of what is measured.
_RESTS_ON = {_HALVED: "half_steps", _ESCAPED: "escape_steps", _ALIGNED: "onset_steps"}
_RULE = (
    f"Agrees: the mean over replicas lies within {WITHIN}, {ACCURACY:.0%} of the prediction and the "
    "spacing of the records of the predicted steps; wrong theories must be rejected."
)
_NOTHING = f"Nothing is predicted: that needs {NEEDED}."


def linear_case(
    phases: Phases | None,
    simulate: Callable[[Progress | None, int], LinearRun],
    steps: int,
    dim: int,
    width: int,
    noise2: float,
) -> Case:
    """Half time of ‖W‖²_F, median escape and onset of alignment; the escape in a second run that looks closely at it.

    Each is judged with the 10 % of claim L11 (and the spacing of the records) as allowance, against the same with σ² in place
    of ϱ² (no least-squares error) and against twice the time.

    Args:
        phases: predicted, None where nothing is. simulate: label-noise SGD, given a progress and a number of steps.
        dim, width: d and m. noise2: σ² over the batch.
    """

    def first(_: Found, progress: Progress | None) -> LinearRun:
        return simulate(progress, steps)

    def close(_: Found, progress: Progress | None) -> LinearRun:
        assert phases is not None
        return simulate(progress, min(steps, math.ceil(2 * phases.escape_steps)))

    looks = phases is not None and math.isfinite(phases.escape_steps)

    def judge(found: Found) -> tuple[list[Row], list[str]]:
        if phases is None:
            return [], [_NOTHING]
        rows = [
            {"quantity": name, "predicted": predicted} | _judged(name, times, predicted, run, phases, noise2)
            for name, (times, predicted, run) in _measured(phases, found, dim).items()
        ]
        return rows, [f"{row['quantity']}: {row['reason']}." for row in rows if row["reason"]]

    return Case(
        title="Predicted phases and label-noise SGD",
        unit="phases",
        columns=COLUMNS,
        stages=(Stage(RUN, first), *((Stage(CLOSE, close),) if looks else ())),
        judge=judge,
        known=lambda found: [],
        figures=lambda found: _figures(phases, found[RUN], width),
        caption="Times in steps: predicted by the averaged flow, and measured (mean over replicas).",
        rule=_RULE,
    )


def _measured(phases: Phases, found: Found, dim: int) -> dict[str, tuple[np.ndarray, float, LinearRun]]:
    """Quantity → times of the replicas, predicted time, and the run that they are from."""
    run = found[RUN]
    early = found.get(CLOSE, run)
    halved, _ = halving_steps(run, phases, phases.frobenius2[0] / 2)
    escaped = np.median(early.escape_steps, axis=1)
    return {
        _HALVED: (halved, phases.half_steps, run),
        _ESCAPED: (escaped, float(phases.escape_steps), early),
        _ALIGNED: (onset_steps(run, dim), float(phases.onset_steps), run),
    }


def _judged(name: str, times: np.ndarray, predicted: float, run: LinearRun, phases: Phases, noise2: float) -> Row:
    if not np.isfinite(predicted):
        return {"verdict": "not judged", "reason": "the theory says never: nothing to compare a time with"}
    if predicted > run.step[-1]:
        return {"verdict": "not judged", "reason": f"predicted after the run's end at {run.step[-1]:.4g} steps"}
    broken = [one.sentence for one in phases.conditions[_RESTS_ON[name]] if not one.holds]
    if broken:
        return {"verdict": "outside", "reason": "; ".join(broken)} | summary(times, "sgd", float(run.step[-1]))
    tolerance = ACCURACY + float(run.step[1]) / predicted  # (the first save is at step 0)
    without = phases.residual_variance / noise2
    controls = {"twice": 2 * predicted}
    if abs(without - 1) >= 2 * tolerance:  # else no least-squares error to speak of
        controls["σ² for ϱ²"] = predicted * without
    verdict, reason = judge_replicas(times, predicted, predicted * tolerance, controls, float(run.step[-1]))
    return {"verdict": verdict, "reason": reason} | summary(times, "sgd", float(run.step[-1]))


def _figures(phases: Phases | None, run: LinearRun, width: int) -> list[tuple[str, Any]]:
    predicted, marks = None, {}
    if phases is not None:
        predicted = (
            np.sqrt(phases.norm_at(run.step.astype(float)) / width),
            np.interp(run.step, phases.times, phases.alignment, right=np.nan),
        )
        marks = {"predicted escape": phases.escape_steps, "predicted onset": phases.onset_steps}
    norms = np.sqrt(run.values("frobenius2") / width)
    both = norm_and_alignment(run.step, norms, run.values("mean_alignment"), predicted=predicted, marks=marks)
    paths = neuron_paths(np.sqrt(run.values("norm2")[0]), np.abs(run.values("overlap")[0, ..., 0]), run.step)
    return [
        ("Root mean square norm and mean alignment of the neurons (band: all replicas), and the averaged flow.", both),
        ("Neurons of the first replica, from the start (light) to the end (dark).", paths),
    ]
