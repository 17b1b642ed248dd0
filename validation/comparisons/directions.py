"""Gradient flow and online SGD from one start, judged direction by direction: what comparisons of additive teachers share."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamics import FlowResult, SgdResult, gradient_flow, online_sgd
from theory import Activation, InitialState, Teacher
from validation.comparison import Case, Found, Progress, Row, Stage, too_much_work

#: A shift of SGD's time beyond this share of it is outside the small-step theory: no verdict is given.
LARGEST_SHIFT = 0.3
FLOW, SGD = "gradient flow", "SGD"
COLUMNS = ("direction", "predicted", "low", "high", "flow", "sgd_mean", "sgd_stderr", "verdict")
CAPTION = (
    "Times in gradient-flow units (steps times step size), those of SGD too: predicted, under gradient flow, and of SGD (mean "
    "over replicas)."
)
#: Verdicts, the one that counts first.
_ORDER = ("disagrees", "outside", "inconclusive", "not judged", "agrees")


@dataclass(frozen=True, kw_only=True)
class Runs:
    """How the flow and SGD are run: step size η, steps, samples of a step, replicas, seed, ``exact`` or ``ambient``.

    `sgd_steps`: those that SGD takes, if they are fewer. `budget`: SGD is skipped, and this said, if replicas × steps × batch
    exceeds it (None: never).
    """

    step_size: float
    steps: int
    batch: int = 1
    replicas: int = 32
    seed: int = 0
    method: str = "exact"
    budget: float | None = None
    sgd_steps: int | None = None

    @property
    def end(self) -> float:
        """Of the flow, in gradient-flow time."""
        return self.step_size * self.steps

    @property
    def taken(self) -> int:
        """Steps of SGD."""
        return self.steps if self.sgd_steps is None else self.sgd_steps

    @property
    def sgd_end(self) -> float:
        """Of the runs of SGD, in gradient-flow time."""
        return self.step_size * self.taken


def directions_case(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    runs: Runs,
    *,
    known: Callable[[Found], list[Row]],
    judged: Callable[[int, Found], Row],
    figures: Callable[[Found], list[tuple[str, object]]],
    rule: str,
    to_the_end: bool,
) -> Case:
    """A row for each direction.

    Args:
        known: rows without verdicts. judged: what the row at a place gains, ``verdict`` and ``reason`` among it.
        rule: see `Case`. to_the_end: SGD runs all steps; else until every direction that the flow learns is learned.
    """

    def flow(_: Found, progress: Progress | None) -> FlowResult:
        return gradient_flow(activation, teacher, initial, t_end=runs.end, step_size=runs.step_size, progress=progress)

    def sgd(found: Found, progress: Progress | None) -> SgdResult:
        learned = tuple(int(q) for q in np.flatnonzero(np.isfinite(found[FLOW].half_time)))
        return online_sgd(
            activation,
            teacher,
            initial,
            step_size=runs.step_size,
            steps=runs.taken,
            batch=runs.batch,
            replicas=runs.replicas,
            seed=runs.seed,
            method=runs.method,
            stop_when_learned=None if to_the_end else learned or None,
            progress=progress,
        )

    def judge(found: Found) -> tuple[list[Row], list[str]]:
        rows = [row | judged(place, found) for place, row in enumerate(known(found))]
        return rows, [f"Direction {row['direction']}: {row['reason']}." for row in rows if row["reason"]]

    skipped = too_much_work(runs.replicas, runs.taken, runs.batch, runs.budget)
    note = skipped or _cut(runs)
    return Case(
        title=f"Theory, gradient flow and SGD: {activation.name}, d = {teacher.dim}",
        unit="directions",
        columns=COLUMNS,
        stages=(Stage(FLOW, flow), *(() if skipped else (Stage(SGD, sgd),))),
        judge=judge,
        known=known,
        figures=figures,
        caption=CAPTION,
        rule=rule,
        notes=(note,) if note else (),
    )


def _cut(runs: Runs) -> str:
    """The note that SGD ends before the flow does; nothing otherwise."""
    if runs.taken == runs.steps:
        return ""
    return (
        f"SGD ends at {runs.sgd_end:.4g}, after what takes five to ten minutes; the flow at {runs.end:.4g}. Give --steps or "
        "--time to run both as long, or lower --dim, or raise --step-size."
    )


def beside(predicted: np.ndarray, measured: np.ndarray) -> list[Row]:
    """Times (P,) that are known without judging; no mean over replicas that happened to be early."""
    pairs = zip(predicted.tolist(), measured.tolist(), strict=True)
    return [{"direction": q, "predicted": x, "flow": y} for q, (x, y) in enumerate(pairs, start=1)]


def worst(verdicts: list[tuple[str, str]]) -> Row:
    """Of verdicts the one that counts, and why."""
    verdict = min((one for one, _ in verdicts), key=_ORDER.index)
    return {"verdict": verdict, "reason": "; ".join(why for one, why in verdicts if one == verdict and why)}
