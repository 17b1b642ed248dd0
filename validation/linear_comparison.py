"""Predicted phases and label-noise SGD side by side, for a user's own linear network."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynamics import LinearRun
from dynamics.core.precision import double_precision
from theory import LinearTask
from theory.linear.phases import Phases
from validation.experiments.averaged_flow import ACCURACY, halving_steps, onset_steps
from validation.figures.linear import neuron_paths, norm_and_alignment
from validation.judge.claim import Measurement, verdict_of
from validation.statistics.standard_errors import mean_and_error


@dataclass(frozen=True)
class LinearComparison:
    """Attributes: rows (dicts quantity, predicted, sgd_mean, sgd_stderr, verdict; steps, None where there is nothing),
    notes, report, verdict_ok (nothing disagrees), diverged.
    """

    rows: list[dict]
    notes: list[str]
    report: Path
    verdict_ok: bool
    diverged: bool


@double_precision
def compare_linear(
    task: LinearTask, phases: Phases | None, run: LinearRun, early: LinearRun, path: Path, problem: dict, stop: str = ""
) -> LinearComparison:
    """Judge the half time of ‖W‖²_F, the median escape and the onset of alignment; write the report to `path`.

    `early` is a run that looks closely at the escape. Each is judged by the ratio measured / predicted, with the 10 % of
    claim L11 (and the spacing of the records) as allowance, against the same with σ² in place of ϱ² (no least-squares
    error) and against twice the time. `stop` says where the runs were interrupted, if they were: then nothing is judged.
    """
    notes: list[str] = []
    rows: list[dict] = []
    if stop:
        notes.append(f"Interrupted {stop}: what comes after that is missing, and nothing is judged.")
    elif phases is None:
        notes.append(
            "Nothing is predicted: that needs label noise, real labels and more training points than dimensions."
        )
    else:
        half = phases.frobenius2[0] / 2
        measured = {
            "steps to half of ‖W‖²_F": halving_steps(run, phases, half),
            "median escape from the lazy regime": (np.median(early.escape_steps, axis=1), phases.escape_steps),
            "onset of alignment": (onset_steps(run, task.dim), phases.onset_steps),
        }
        noise2 = float(problem["noise"]) ** 2 / int(problem["batch"])
        for name, (times, predicted) in measured.items():
            seen = early if "escape" in name else run
            rows.append(_row(name, np.array(times), float(predicted), phases, noise2, seen, notes))
    report = _write(path, phases, run, rows, problem, notes)
    ok = all(row["verdict"] != "disagrees" for row in rows)
    return LinearComparison([{k: v for k, v in row.items() if k not in ("direction", "flow")} for row in rows], notes,
                            report, ok, bool(run.diverged.any()))  # fmt: skip


def _row(
    name: str, times: np.ndarray, predicted: float, phases: Phases, noise2: float, run: LinearRun, notes: list[str]
) -> dict:
    finite = times[np.isfinite(times)]
    row: dict = {"quantity": name, "direction": name, "flow": None, "predicted": _finite(predicted), "sgd_mean": None}
    row |= {"sgd_stderr": None, "verdict": "not judged"}
    if not np.isfinite(predicted) or predicted > run.step[-1]:
        return row
    if len(finite) < len(times) or len(finite) < 2:
        notes.append(f"{name}: {len(finite)} of {len(times)} replicas got there; a verdict needs all, and two or more.")
        row["verdict"] = "inconclusive" if len(finite) >= len(times) / 2 else "disagrees"
        return row
    row["sgd_mean"], row["sgd_stderr"] = mean_and_error(times)
    estimate, stderr = mean_and_error(times / predicted)
    spacing = float(run.step[1] - run.step[0]) / predicted
    controls = {"twice": 2.0}
    if abs(phases.residual_variance / noise2 - 1) >= 2 * (
        ACCURACY + spacing
    ):  # else no least-squares error to speak of
        controls["σ² for ϱ²"] = phases.residual_variance / noise2
    measurement = Measurement(name, 1.0, estimate, stderr, ACCURACY + spacing, controls, "")
    row["verdict"] = verdict_of(measurement).verdict
    return row


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _write(
    path: Path, phases: Phases | None, run: LinearRun, rows: list[dict], problem: dict, notes: list[str]
) -> Path:
    from validation.report.page import write_comparison

    width = int(problem["student_width"])
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
    figures: list[tuple[str, object]] = [
        ("Root mean square norm and mean alignment of the neurons (band: all replicas), and the averaged flow.", both),
        ("Neurons of the first replica, from the start (light) to the end (dark).", paths),
    ]
    shown = {name: value for name, value in problem.items() if value is not None}
    return write_comparison(
        path, "Predicted phases and label-noise SGD", shown, rows, figures, notes,
        caption="Times in steps: predicted by the averaged flow, and measured (mean over replicas).",
    )  # fmt: skip
