"""Claims, verdicts and controls: how theory and measurement are compared.

A quantity agrees with a prediction when |estimate − predicted| ≤ allowance + 4·stderr. The allowance is an error that
theory or the integrator's own tolerance computes; the standard error comes from independent replicas. Every quantity
carries controls, wrong theories judged on the same data by the same rule: if one of them is not rejected, agreement does not
tell right from wrong and the verdict is ``inconclusive``. A prediction that the data reject disagrees, whoever else is left.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Union

from theory import InputError

if TYPE_CHECKING:
    import xarray as xr

    from validation.judge.context import Context

#: Standard errors allowed. Hundreds of quantities are judged together, so 2 would cry wolf in every run.
SIGMAS = 4.0
#: A quantity that does not notice a relative error of its prediction as large as this says so in its title.
WEAK = 0.2
KINDS = ("exact", "asymptotic", "heuristic", "open")
#: The end of the name of a control that one preset alone judges.
_PRESET = re.compile(r" \((quick|full)\)$")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def share_used(estimate: float, predicted: float, allowance: float, stderr: float, sigmas: float = SIGMAS) -> float:
    """Share of the tolerance that the gap uses, |estimate − predicted| / (allowance + 4·stderr), 4 being `sigmas`.

    inf where nothing is tolerated and there is a gap; NaN where something is not finite.
    """
    gap, tolerance = abs(estimate - predicted), allowance + sigmas * stderr
    if not math.isfinite(gap) or math.isnan(tolerance):
        return math.nan
    if tolerance > 0:
        return gap / tolerance
    return 0.0 if gap == 0 else math.inf


def agrees(estimate: float, predicted: float, allowance: float, stderr: float, sigmas: float = SIGMAS) -> bool:
    """The rule: |estimate − predicted| ≤ allowance + 4·stderr. False for anything that is not finite."""
    return share_used(estimate, predicted, allowance, stderr, sigmas) <= 1


def standard_score(estimate: float, predicted: float, allowance: float, stderr: float) -> float:
    """z: standard errors by which the estimate lies outside the allowance, signed; 0 within it.

    NaN where there is no standard error: a gap can then be held against the allowance (`share_used`), not against chance.
    A quantity with a standard error agrees when |z| ≤ 4, or what it has for 4.
    """
    if not stderr > 0:
        return math.nan
    gap = estimate - predicted
    outside = abs(gap) - allowance
    return 0.0 if outside <= 0 else math.copysign(outside, gap) / stderr


@dataclass(frozen=True)
class Control:
    """What a wrong theory predicts for a quantity, where that alone does not say it.

    `estimate`, `stderr` and `allowance` are those of the quantity unless the control needs data of its own (e.g. a
    simulation with the error built in, judged against the right prediction).
    """

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
        allowance: error computed from theory or from a numerical tolerance; `allowance_from` says which, see `computed_by`.
        controls: what wrong theories predict, by the first words of their names in the claim, as many as tell them apart.
        key: suffix of the id if the claim has several quantities (``beta`` in ``E17.beta``).
        details: anything else worth keeping (numbers, short texts).
        sigmas: standard errors allowed, where a claim states its own share of false alarms.
        seen: the smallest relative error of the formula that would have been noticed, where the quantity is a statistic of
            what the formula predicts (a mean square of z), so that a share of the quantity says nothing.
    """

    quantity: str
    predicted: float
    estimate: float
    stderr: float
    allowance: float
    controls: Mapping[str, Control | float]
    allowance_from: str
    key: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
    sigmas: float = SIGMAS
    seen: float | None = None

    @property
    def smallest_error(self) -> float:
        """The smallest error of the prediction that would have been noticed, (allowance + 4·stderr) / |predicted|, or `seen`.

        Had the measurement hit the truth, a prediction off by a larger share would disagree. NaN without finite numbers; inf
        for a prediction of 0, to which no share exists.
        """
        if self.seen is not None:
            return self.seen
        tolerance = self.allowance + self.sigmas * self.stderr
        if not math.isfinite(tolerance) or not math.isfinite(self.predicted):
            return math.nan
        return tolerance / abs(self.predicted) if self.predicted else math.inf

    @property
    def title(self) -> str:
        """The quantity in words; one that notices only large errors says so."""
        weak = WEAK < self.smallest_error < math.inf
        return f"{self.quantity} (notices errors above {percent(self.smallest_error)} only)" if weak else self.quantity


def percent(share: float) -> str:
    """A share in words: per cent to two digits, whole ones from a hundred on, and beyond a hundredfold how many times."""
    if share >= 100:
        return f"{share:.0f} times"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def computed_by(function: Callable[..., object], text: str) -> str:
    """Where an allowance comes from: in words, and the full name of the function that computes it."""
    return f"{text} ({function.__module__}.{function.__qualname__})"


@dataclass(frozen=True)
class JudgedControl:
    """A judged control: `estimate` if it has data of its own, `used` and `z` as in `Verdict`.

    It is rejected where `used` exceeds 1 (or is NaN), but not where a number of the control's own is NaN: it says nothing.
    """

    name: str
    predicted: float
    estimate: float | None
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
    """A judged measurement: ``agrees``, ``disagrees``, ``inconclusive`` (beside it a control survived) or ``open``.

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
    """What a claim leaves: measurements, a labelled dataset, and figures for the report (caption, matplotlib).

    `shown`: what each figure shows, where the figures are pictures already (see `validation.judge.kept.drawn`).
    """

    measurements: list[Measurement]
    dataset: "xr.Dataset | None" = None
    figures: list[tuple[str, object]] = field(default_factory=list)
    shown: "list[xr.Dataset] | None" = None

    @classmethod
    def of(cls, parts: "Outcome | Iterable[Part]") -> "Outcome":
        """What a runner returned, or yielded part by part."""
        if isinstance(parts, Outcome):
            return parts
        found = cls([])
        for part in parts:
            if isinstance(part, Measurement):
                found.measurements.append(part)
            elif isinstance(part, tuple):
                found.figures.append(part)
            else:
                found.dataset = part
        return found


#: What wrong theories predict, by the first words of their names.
Controls = dict[str, Control | float]
#: A measurement, a figure with its caption, or the dataset.
Part = Union[Measurement, tuple[str, object], "xr.Dataset"]
Runner = Callable[["Context"], Outcome | Iterable[Part]]


@dataclass(frozen=True, kw_only=True)
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
        controls: names of the wrong theories that must be rejected. Measurements refer to them by their first words. One
            that a single preset judges ends in `` (quick)`` or `` (full)``.
        runner: measures: yields measurements, figures with their captions, and at most one dataset; or returns an `Outcome`.
        requires: a package beyond the plain installation that the runner needs (its name for pip), or nothing.
        origin: the file of the user's own that it was loaded from, or nothing. text: that from which it was made, in
            canonical form, where it was made of a text: it tells one version of the claim from another, as code does.
        seeds: of its data in words, where they are its own and no seed of the run decides them, or nothing. again: the
            command that judges it again, of a file that a report cannot know, or nothing.

    Raises `InputError` for an id or kind that is none, and without controls.
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
    origin: str = ""
    text: str = ""
    seeds: str = ""
    again: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):  # it names a file; a dot sets a quantity's key apart
            raise InputError(f"claim id is {self.id!r}: use letters, digits, - and _ only, a letter first")
        if self.kind not in KINDS:
            raise InputError(f"claim {self.id}: kind is {self.kind!r}: use one of {', '.join(KINDS)}")
        if self.kind != "open" and not self.controls:
            raise InputError(f"claim {self.id}: it has no controls, so it could not fail: name a wrong theory")

    def __reduce__(self) -> Any:
        """Pickled by name where `claim` has put it in its runner's place: pickle would not find the runner there."""
        where = self.runner.__module__, self.runner.__qualname__
        return (_named, where) if _named(*where) is self else super().__reduce__()

    def run(self, context: "Context") -> Outcome:
        """What the runner leaves, the context's theory in force. Raises `InputError` if two quantities have one key."""
        with context.theory.in_force():
            outcome = Outcome.of(self.runner(context))
        keys = [one.key for one in outcome.measurements]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise InputError(
                f"claim {self.id}: its runner leaves two quantities of key {twice[0]!r}: give each one of its own"
            )
        return outcome

    def judge(self, measurement: Measurement, seconds: float = 0.0) -> Verdict:
        """The verdict on a measurement (of an ``open`` claim always open). Raises `InputError` as `control` does."""
        found = verdict_of(measurement)
        name = f"{self.id}.{measurement.key}" if measurement.key else self.id
        verdict = "open" if self.kind == "open" else found.verdict
        controls = tuple(replace(control, name=self.control(control.name)) for control in found.controls)
        return Verdict(name, self, measurement, verdict, found.used, found.z, controls, seconds)

    def control(self, words: str) -> str:
        """The name of the control that begins with these words. Raises `InputError` unless there is exactly one."""
        names = [_PRESET.sub("", name) for name in self.controls]
        found = [name for name in names if name == words] or [name for name in names if name.startswith(words)]
        if len(found) != 1:
            raise InputError(
                f"claim {self.id}: its runner judges {words!r}, and {len(found)} of its controls begin so: name one of "
                f"{', '.join(map(repr, names))}"
            )
        return found[0]


def _named(module: str, name: str) -> object:
    return getattr(import_module(module), name, None)


def claim(**texts: Any) -> Callable[[Runner], Claim]:
    """Decorator that makes a runner a `Claim`, whose other attributes it is given."""
    return lambda runner: Claim(runner=runner, **texts)


def unjudged(claim: Claim, verdicts: Sequence[Verdict], preset: str) -> list[str]:
    """Controls that a claim declares and no quantity of a whole run was judged with."""
    judged = {control.name for verdict in verdicts for control in verdict.controls}
    listed = [name.removesuffix(f" ({preset})") for name in claim.controls]
    return [name for name in listed if not _PRESET.search(name) and name not in judged]


def verdict_of(x: Measurement) -> Judgement:
    """Apply the rule to a measurement, whatever claim or comparison it is of, and to each of its controls."""
    numbers = (x.estimate, x.predicted, x.allowance, x.stderr)
    controls = tuple(_judge_control(name, control, x) for name, control in x.controls.items())
    verdict = "agrees" if agrees(*numbers, x.sigmas) else "disagrees"
    measured = not math.isnan(x.estimate)
    # What is rejected is wrong, whoever else is left.
    told = all(control.rejected for control in controls) or (verdict == "disagrees" and measured)
    # (An error that is no number says neither that a theory is wrong nor that its rivals are.)
    if not controls or not told or (measured and math.isnan(x.stderr)):
        verdict = "inconclusive"
    return Judgement(verdict, share_used(*numbers, x.sigmas), standard_score(*numbers), controls)


def _judge_control(name: str, wrong: Control | float, x: Measurement) -> JudgedControl:
    """The rule for a wrong theory, on the measurement's numbers where it has none of its own."""
    control = wrong if isinstance(wrong, Control) else Control(wrong)
    numbers = (
        x.estimate if control.estimate is None else control.estimate,
        control.predicted,
        x.allowance if control.allowance is None else control.allowance,
        x.stderr if control.stderr is None else control.stderr,
    )
    used, z = share_used(*numbers, x.sigmas), standard_score(*numbers)
    own = (control.predicted, control.estimate, control.allowance, control.stderr)
    rejected = not agrees(*numbers, x.sigmas) and not any(one is not None and math.isnan(one) for one in own)
    return JudgedControl(name, control.predicted, control.estimate, used, z, rejected)
