"""Prediction and simulations side by side, for a user's own problem: one road for every model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from dynamics.core.interrupted import Interrupted, Progress, unfinished
from dynamics.core.precision import double_precision
from validation.judge.claim import SIGMAS, Measurement, verdict_of
from validation.statistics import power
from validation.statistics.standard_errors import censored_mean, sigmas

Row = dict[str, Any]
#: What the stages of a comparison have handed back so far, by their names.
Found = Mapping[str, Any]
#: A right prediction is rejected so often at most, however few the replicas.
FALSE_ALARMS = 1e-3
#: The chance with which replicas that are asked for reject a wrong theory.
_POWER = 0.9
#: How far a mean over replicas may lie from what is predicted, in words.
WITHIN = f"{SIGMAS:g} standard errors (of few replicas more: Student's quantile at {FALSE_ALARMS:g})"


@dataclass(frozen=True)
class Stage:
    """One simulation. `run` is given what was found before and a progress; its result may say ``diverged``.

    judged: it is the user's. One that only tells what to allow may diverge.
    """

    name: str
    run: Callable[[Found, Progress | None], Any]
    judged: bool = True


@dataclass(frozen=True)
class Case:
    """A comparison to be made.

    Attributes:
        title: of the report. unit: what a row is about, in the plural. columns: of the table, the first one naming the row;
            ``X_mean`` beside ``X_stderr`` are shown as one number with its error.
        stages: simulations, in order.
        judge: rows (columns, ``verdict``, and perhaps ``reason``) and notes (sentences), from what the stages handed back.
        known: rows without verdicts, of an interrupted comparison; of what is there.
        figures: captions and matplotlib figures, of what is there.
        notes: sentences said in any case. caption: of the table. rule: what "agrees" means in it, in one sentence.
        settings: the whole problem as it is run, where it is not as it was resolved.
    """

    title: str
    unit: str
    columns: tuple[str, ...]
    stages: tuple[Stage, ...]
    judge: Callable[[Found], tuple[list[Row], list[str]]]
    known: Callable[[Found], list[Row]]
    figures: Callable[[Found], list[tuple[str, object]]]
    caption: str
    rule: str = ""
    notes: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Attributes: rows (see `Case`; verdict ``outside``: a condition does not hold), notes (sentences), report, verdict_ok
    (nothing disagrees), diverged (some replica did), found (what the stages handed back), figures (captions and figures).
    """

    rows: list[Row]
    notes: list[str]
    report: Path | None
    verdict_ok: bool
    diverged: bool
    found: Found
    figures: list[tuple[str, object]] = field(default_factory=list)


@double_precision
def compare(
    case: Case,
    *,
    out: Path | None = None,
    page: str = "compare.html",
    problem: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Simulate and judge.

    Args:
        problem: shown in the report. out: folder of the report; nothing is written without it. page: its file name, for
            where several problems share the folder.

    Raises: what the simulators refuse; `Interrupted` on Ctrl-C, with a `Comparison` of what was finished, none of it judged.
    """
    found, stop = _run(case.stages, progress)
    if stop:
        rows = [{"verdict": "not judged"} | row for row in case.known(found)]
        notes = [*case.notes, f"Interrupted {stop}: what comes after that is missing, and nothing is judged."]
    else:
        rows, more = case.judge(found)
        notes = [*case.notes, *more]
    rows = [_plain(case.columns, row) for row in rows]
    figures, report = case.figures(found), None
    if out is not None:
        report = _write(case, out / (unfinished(page) if stop else page), rows, figures, problem or {}, notes)
    ran = [found[stage.name] for stage in case.stages if stage.judged and stage.name in found]
    diverged = any(bool(np.any(getattr(one, "diverged", False))) for one in ran)
    compared = Comparison(
        rows, notes, report, all(row["verdict"] != "disagrees" for row in rows), diverged, found, figures
    )
    if stop:
        raise Interrupted(compared, stop)
    return compared


def _run(stages: Sequence[Stage], progress: Progress | None) -> tuple[dict[str, Any], str]:
    """What the stages hand back; on Ctrl-C what there is of it, and where that was, in words."""
    found: dict[str, Any] = {}
    for place, stage in enumerate(stages):
        try:
            found[stage.name] = stage.run(found, _part(progress, place / len(stages), (place + 1) / len(stages)))
        except Interrupted as stop:
            return found | {stage.name: stop.result}, f"in {stage.name}, {stop.at}"
        except KeyboardInterrupt:
            if not found:
                raise
            return found, f"in {stage.name}, before its first step"
    return found, ""


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction, text: progress(start + (end - start) * fraction, text)


def _plain(columns: Sequence[str], row: Row) -> Row:
    """All columns, numbers that are not finite as None."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name in dict.fromkeys((*columns, *row))
        for value in [row.get(name)]
    }


def _write(
    case: Case,
    path: Path,
    rows: list[Row],
    figures: list[tuple[str, object]],
    problem: Mapping[str, object],
    notes: list[str],
) -> Path:
    from validation.report.page import write_comparison

    shown = {name: value for name, value in problem.items() if value is not None}
    return write_comparison(
        path, case.title, shown, case.unit, case.columns, rows, figures, notes, case.caption, case.rule
    )


# ------------------------------------------------------------------------------ judging


def judged(
    predicted: float,
    estimate: float,
    stderr: float,
    allowance: float,
    controls: Mapping[str, float],
    sigmas: float = SIGMAS,
) -> str:
    """The verdict by the rule of the claims."""
    return verdict_of(Measurement("", predicted, estimate, stderr, allowance, controls, "", sigmas=sigmas)).verdict


def with_reason(found: Measurement, replicas: int = 1) -> tuple[str, str]:
    """The verdict on a measurement, and why there is none; `replicas` of which the standard error is."""
    return verdict_of(found).verdict, undecided(found, replicas)


def undecided(found: Measurement, replicas: int = 1, *, by_chance: bool = False) -> str:
    """Why a measurement is ``inconclusive``: wrong theories that it does not reject, and what would; nothing if it is not.

    `replicas`: those of which its standard error is. `by_chance`: its allowance, too, is as large as chance makes it.
    """
    judged = verdict_of(found)
    alive = [control for control in judged.controls if not control.rejected]
    if judged.verdict != "inconclusive" or not alive:
        return ""
    names = " and ".join(f"{control.name!r}, {control.predicted:.4g}" for control in alive)
    told = f"what is measured does not reject {names}"
    if replicas < 2:
        return told
    gap, within = min(abs(control.predicted - found.predicted) for control in alive), found.sigmas * found.stderr
    allowance, error = (
        (0.0, (found.allowance + within) / found.sigmas) if by_chance else (found.allowance, found.stderr)
    )
    deviation = power.upper_deviation(error * np.sqrt(replicas), replicas)
    enough = power.needed(gap, allowance, deviation, 2 * float(ndtr(-SIGMAS)), _POWER)
    if enough is None:
        return f"{told}, nor would more replicas: {'it is too near' if by_chance else 'lower step-size'}"
    return f"{told}; about {float(f'{max(enough, replicas + 1):.2g}'):,.0f} replicas would"


def allowed(replicas: int) -> float:
    """Standard errors that a mean over replicas may be off. (4 are exceeded by 16 % of right predictions with two.)"""
    return max(SIGMAS, sigmas(replicas, FALSE_ALARMS))


def summary(times: np.ndarray, name: str, end: float) -> Row:
    """``NAME_mean`` and ``NAME_stderr`` over replicas of runs until `end`; nothing where too few got there for a mean."""
    if times.size < 2:
        return {f"{name}_mean": float(times[0]), f"{name}_stderr": None} if np.isfinite(times).all() else {}
    mean, error, rest = censored_mean(times, end)
    return {f"{name}_mean": mean, f"{name}_stderr": float(np.hypot(error, rest))} if np.isfinite(mean) else {}


def judge_replicas(
    times: np.ndarray, predicted: float, allowance: float, controls: Mapping[str, float], end: float
) -> tuple[str, str]:
    """Verdict and reason of the mean over replicas, of runs until `end`.

    Where some never got there, the mean is at least that with the end in their place: ``disagrees`` if this is too late
    already. Else it is that of `censored_mean`, and what is not known of it is allowed, too; ``inconclusive`` where many are
    missing. One replica, there or not, is ``inconclusive``: it may be any of its law.
    """
    count = times.size
    if count < 2:
        return "inconclusive", "one replica has no standard error: give --replicas 2 or more"
    missing, (mean, error, rest) = int(np.sum(~np.isfinite(times))), censored_mean(times, end)
    if not missing:
        found = Measurement("", predicted, mean, error, allowance, controls, "", sigmas=allowed(count))
        verdict, why = with_reason(found, count)
        return verdict, f"the mean over replicas is {mean:.4g}" if verdict == "disagrees" else why
    told = f"{missing} of {count} replicas had not got there when the run ended, at {end:.4g}"
    least = float(np.mean(np.minimum(times, end)))
    if least > predicted and judged(predicted, least, error, allowance, controls, allowed(count)) == "disagrees":
        return "disagrees", told
    if not np.isfinite(rest):
        return "inconclusive", f"{told}: give it longer"
    verdict = judged(predicted, mean, error, allowance + rest, controls, allowed(count))
    remedy = ": give it longer" if verdict == "inconclusive" else ""
    return verdict, f"{told}, which leaves {rest:.2g} of the mean over replicas, {mean:.4g}, unknown{remedy}"


def too_much_work(replicas: int, steps: int, batch: int, budget: float | None) -> str:
    """The note that SGD is not run, where its samples exceed the budget; nothing otherwise."""
    work = float(replicas) * steps * batch
    if budget is None or work <= budget:
        return ""
    return (
        f"SGD was not run: it needs {work:.2g} samples over all replicas. Give --steps or --time to run it all the "
        "same, or lower --dim, or raise --step-size."
    )


def on_times(times: np.ndarray, loss: Any) -> np.ndarray:
    """Losses of replicas at other times, linear between records, NaN past their end; shape (replicas, len(times))."""
    return np.stack([np.interp(times, loss.time.values, x, right=np.nan) for x in loss.values])
