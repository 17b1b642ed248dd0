"""Claims, verdicts and controls: how theory and measurement are compared.

A quantity agrees with a prediction when |estimate − predicted| ≤ allowance + 4·stderr. The allowance is an error that
theory or the integrator's own tolerance computes; the standard error comes from independent replicas. Every quantity
carries controls, wrong theories judged on the same data by the same rule: if one of them is not rejected, the data cannot
tell right from wrong and the verdict is ``inconclusive``.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from theory import InputError

if TYPE_CHECKING:
    import xarray as xr

    from validation.judge.context import Context

#: Standard errors allowed. Hundreds of quantities are judged together, so 2 would cry wolf in every run.
SIGMAS = 4.0
KINDS = ("exact", "asymptotic", "heuristic", "open")
#: The end of a control's listed name that another preset alone judges.
_OTHER = {"quick": " (full)", "full": " (quick)"}
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def share_used(estimate: float, predicted: float, allowance: float, stderr: float) -> float:
    """Share of the tolerance that the gap uses, |estimate − predicted| / (allowance + 4·stderr).

    inf where nothing is tolerated and there is a gap; NaN where something is not finite.
    """
    gap, tolerance = abs(estimate - predicted), allowance + SIGMAS * stderr
    if not math.isfinite(gap) or math.isnan(tolerance):
        return math.nan
    if tolerance > 0:
        return gap / tolerance
    return 0.0 if gap == 0 else math.inf


def agrees(estimate: float, predicted: float, allowance: float, stderr: float) -> bool:
    """The rule: |estimate − predicted| ≤ allowance + 4·stderr. False for anything that is not finite."""
    return share_used(estimate, predicted, allowance, stderr) <= 1


def standard_score(estimate: float, predicted: float, allowance: float, stderr: float) -> float:
    """z: standard errors by which the estimate lies outside the allowance, signed; 0 within it.

    NaN where there is no standard error: a gap can then be held against the allowance (`share_used`), not against chance.
    A quantity with a standard error agrees when |z| ≤ 4.
    """
    if not stderr > 0:
        return math.nan
    gap = estimate - predicted
    outside = abs(gap) - allowance
    return 0.0 if outside <= 0 else math.copysign(outside, gap) / stderr


@dataclass(frozen=True)
class Control:
    """A wrong theory for the same quantity: its name and what it predicts.

    `estimate`, `stderr` and `allowance` are those of the quantity unless the control needs data of its own (e.g. a
    simulation with the error built in, judged against the right prediction).
    """

    name: str
    predicted: float
    estimate: float | None = None
    stderr: float | None = None
    allowance: float | None = None


@dataclass(frozen=True)
class Measurement:
    """One measured quantity of a claim, with its prediction and its controls.

    Attributes:
        quantity: what was measured, in words, with its unit.
        predicted: what theory says, computed before the data.
        estimate: what was measured.
        stderr: its standard error from independent replicas, blocks or bootstrap; 0 only for deterministic quantities.
        allowance: error computed from theory or from a numerical tolerance; `allowance_from` says which.
        controls: wrong theories.
        key: suffix of the id if the claim has several quantities (``beta`` in ``E17.beta``).
        details: anything else worth keeping (numbers, short texts).
    """

    quantity: str
    predicted: float
    estimate: float
    stderr: float
    allowance: float
    controls: Sequence[Control]
    allowance_from: str
    key: str = ""
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class JudgedControl:
    """A judged control: `used` and `z` as in `Verdict`; it is rejected where `used` exceeds 1 (or is NaN)."""

    name: str
    predicted: float
    used: float
    z: float
    rejected: bool


@dataclass(frozen=True)
class Judgement:
    """What the rule says of a measurement: ``agrees``, ``disagrees`` or ``inconclusive``; the rest as in `Verdict`."""

    verdict: str
    used: float
    z: float
    controls: tuple[JudgedControl, ...]


@dataclass(frozen=True)
class Verdict:
    """A judged measurement: ``agrees``, ``disagrees``, ``inconclusive`` (a control survived) or ``open``.

    `used`: see `share_used`. `z`: see `standard_score`.
    """

    id: str
    claim: "Claim"
    measurement: Measurement
    verdict: str
    used: float
    z: float
    controls: tuple[JudgedControl, ...]
    seconds: float = 0.0

    @property
    def as_expected(self) -> bool:
        return self.claim.kind == "open" or self.verdict == self.claim.expected


@dataclass
class Outcome:
    """What a claim's runner returns: measurements, a labelled dataset, and figures for the report (matplotlib)."""

    measurements: list[Measurement]
    dataset: "xr.Dataset | None" = None
    figures: list[tuple[str, object]] = field(default_factory=list)


Runner = Callable[["Context"], Outcome]


@dataclass(frozen=True)
class Claim:
    """A checkable statement of theory.

    Attributes:
        id: catalogue number, e.g. ``E7``, or a name of your own: letters, digits, ``-`` and ``_``.
        title: a few words.
        statement: one plain sentence.
        latex: the formula.
        source: paper and theorem, or "derived".
        kind: ``exact``, ``asymptotic``, ``heuristic`` or ``open``.
        regime: where it holds.
        expected: ``agrees``, or ``disagrees`` for what a paper prints wrongly.
        controls: names of the wrong theories that must be rejected: those, and only those, that the runner judges. One
            that a single preset judges ends in `` (quick)`` or `` (full)``.
        runner: measures; see `Outcome`.
        requires: a package beyond the plain installation that the runner needs (its name for pip), or nothing.
    """

    id: str
    title: str
    statement: str
    latex: str
    source: str
    kind: str
    regime: str
    controls: tuple[str, ...]
    runner: Runner
    expected: str = "agrees"
    requires: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):  # it names a file; a dot sets a quantity's key apart
            raise InputError(f"claim id is {self.id!r}: use letters, digits, - and _ only, a letter first")
        if self.kind not in KINDS:
            raise InputError(f"claim {self.id}: kind is {self.kind!r}: use one of {', '.join(KINDS)}")
        if self.kind != "open" and not self.controls:
            raise InputError(f"claim {self.id}: it has no controls, so it could not fail: name a wrong theory")


def controls_differ(claim: Claim, measurements: Sequence[Measurement], preset: str) -> str:
    """How the controls that a claim lists differ from those that its runner judges, as one line; empty if they do not."""
    judged = dict.fromkeys(control.name for x in measurements for control in x.controls)
    listed = [name.removesuffix(f" ({preset})") for name in claim.controls if not name.endswith(_OTHER[preset])]
    parts = [
        f"{word} {', '.join(map(repr, names))}"
        for word, names in (
            ("lists without judging", [name for name in listed if name not in judged]),
            ("judges without listing", [name for name in judged if name not in listed]),
        )
        if names
    ]
    return f"claim {claim.id} {' and '.join(parts)}: mend its controls" if parts else ""


def verdict_of(x: Measurement) -> Judgement:
    """Apply the rule to a measurement, whatever claim or comparison it is of, and to each of its controls."""
    numbers = (x.estimate, x.predicted, x.allowance, x.stderr)
    controls = tuple(_judge_control(control, x) for control in x.controls)
    verdict = "agrees" if agrees(*numbers) else "disagrees"
    if not controls or not all(control.rejected for control in controls):
        verdict = "inconclusive"
    return Judgement(verdict, share_used(*numbers), standard_score(*numbers), controls)


def judge(claim: Claim, measurement: Measurement, seconds: float = 0.0) -> Verdict:
    """Judge a measurement of a claim; that of an ``open`` one is open."""
    found = verdict_of(measurement)
    name = f"{claim.id}.{measurement.key}" if measurement.key else claim.id
    verdict = "open" if claim.kind == "open" else found.verdict
    return Verdict(name, claim, measurement, verdict, found.used, found.z, found.controls, seconds)


def _judge_control(control: Control, x: Measurement) -> JudgedControl:
    """The rule for a wrong theory, on the measurement's numbers where it has none of its own."""
    numbers = (
        x.estimate if control.estimate is None else control.estimate,
        control.predicted,
        x.allowance if control.allowance is None else control.allowance,
        x.stderr if control.stderr is None else control.stderr,
    )
    return JudgedControl(
        control.name, control.predicted, share_used(*numbers), standard_score(*numbers), not agrees(*numbers)
    )
