r"""Options of a declared model: inputs, target, student, loss and rule as text, and what they mean."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from emergence import models
from emergence.model import Simulation
from emergence.models.run_length import ROUNDING, fewest_steps
from emergence.models.teacher import ACTIVATION
from emergence.options import Problem, option, written
from emergence.refusal import is_refusal, refuse
from emergence.resources import Cost
from emergence.values import LARGEST, SMALLEST, Choice, Expression, Number, Numbers, Said, Switch, Text, Whole

if TYPE_CHECKING:
    from theory.declared.inputs import Inputs
    from theory.declared.model import DeclaredModel
    from theory.declared.rule import Rule
    from theory.declared.schedule import Schedule
    from theory.declared.start import Start
    from theory.declared.student import Student
    from theory.declared.target import Target

#: A Python file, and perhaps the digest of the content that is meant.
_FILE = re.compile(r"(.*\.py)(?:@([0-9a-f]+))?\Z", re.DOTALL)
#: One with arguments behind it, which only names of ours have.
_CALLED = re.compile(r"(.*\.py)\s*\((.*)\)\s*\Z", re.DOTALL)
#: What is a dimension in the text of inputs: ``3x6`` of blocks, ``dim=512``, the first argument or the text itself.
_MULTIPLICITY, _DIMENSION = re.compile(r"(?<=x)\d+"), re.compile(r"(?<=dim=)\d+|(?<![\w.=])\d+(?![\w.])")
#: Options that are fields of every rule, beside the step size, which is text.
RULE_OPTIONS = ("batch", "noise", "noise_law", "noise_period", "decay", "samples", "order", "renewed")
#: The usual effective step, times the trace of the covariance and the unit of gradients; and the share of the largest one that
#: it does not exceed.
_USUAL, _INSIDE = 0.02, 0.125
#: The share that the usual step may be of the one at which mean squares about rest grow (h3 in blocks and beside strong
#: spikes: at half of it one replica in 12 is thrown off by a rare sample, at a quarter one in 100, at an eighth one in 500).
_AT_REST = 0.25
#: A rule that looks ahead may move the fields of a sample of its batch by this share of their size: more, and their slopes,
#: which grow by powers, set the noise (measured: of h4, d = 128, mean squared gradients are 12 times as large at .27).
_FARTHEST = 0.25
#: The usual steps: the least, the most, and as many as 1.2 times the last time that theory knows takes.
_LEAST_STEPS, _MOST_STEPS, _BEYOND = 10_000, 10**6, 1.2
#: Steps that are summed over to find when a schedule has come to a time.
_LONGEST = 10**7


@dataclass(frozen=True)
class Signed(Numbers):
    """One or more finite numbers of any sign, of at least a size."""

    least: float = 0.0

    @property
    def remedy(self) -> str:
        sizes = f", each of size {self.least:g} to {LARGEST:g}" if self.least else ""
        return f"give one or more finite numbers{sizes}"

    def accepts(self, value: Any) -> bool:
        numbers = isinstance(value, list | tuple) and all(
            isinstance(x, int | float) and not isinstance(x, bool) and self.least <= abs(x) < LARGEST for x in value
        )
        return numbers and len(value) > 0

    def read(self, text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text


@dataclass(frozen=True)
class Spectrum(Said):
    """Inputs, whose size is their dimension: the first whole number of a text, or the multiplicity of each block."""

    def halved(self, value: Any) -> Any:
        if _FILE.match(value):
            return None
        size = _MULTIPLICITY if value.lstrip().startswith("blocks") else _DIMENSION
        return size.sub(lambda match: str(int(match[0]) // 2 or 1), value, count=0 if size is _MULTIPLICITY else 1)


@dataclass(frozen=True)
class DeclaredProblem(Problem):
    """A declared model and its SGD.

    Raises `theory.InputError` for weights or a length given in two ways, and for options of what is not declared.
    """

    rivals: ClassVar = {
        "teacher_weights": ("teacher_exponent", "teacher_width"),
        "teacher_exponent": ("teacher_weights",),
        "steps": ("time",),
        "time": ("steps",),
    }

    inputs: str = option(
        "128",
        Spectrum("spiked(512, 5, 3)"),
        "inputs: d, or blocks(3x6, 1x14), spiked(512, 5, 3), power-law(1000, 1.2), or a Python file with INPUTS",
        also="dim of isotropic inputs",
    )
    target: str = option(
        "additive", Text("additive"), "additive, a polynomial such as z1 + z1*z2 or h2(z1)*h1(z2), or its sign(…)"
    )
    link: str | None = option(None, Text("h3"), "link of an additive target (default: the activation)")
    teacher_width: int | None = option(None, Whole(), "directions P of an additive target (default 2)")
    teacher_exponent: float | None = option(
        None, Number(zero=True), "weights p**-beta of an additive target: beta (default 1)"
    )
    teacher_weights: tuple[float, ...] | None = option(
        None, Signed(SMALLEST), "the weights themselves, separated by spaces"
    )
    directions: str = option(
        "orthonormal", Text("orthonormal"), "orthonormal, random(variance), or eigenvectors(0, 3) by places from 0"
    )
    student: str = option(
        "homogeneous",
        Choice(("homogeneous", "whitened", "committee")),
        "homogeneous (2-homogeneous rows), whitened (the same normed by its fields), or a committee",
    )
    activation: str = option("h4", Expression(), ACTIVATION)
    student_width: int = option(8, Whole(), "student width m")
    second: tuple[float, ...] | None = option(
        None, Signed(), "second layer of a committee: one number, or m (default 1)"
    )
    train_second: bool = option(False, Switch(), "train the second layer of a committee, too")
    rows: str | None = option(
        None, Choice(("free", "sphere", "projected")), "rows of a committee: free, sphere or projected (default: free)"
    )
    loss: str = option("square", Choice(("square", "correlation")), "loss of a sample")
    rule: str = option(
        "sgd",
        Said("sgd"),
        "sgd, momentum(0.9), reuse(3), sam(0.2), muon(0.5), clipped(1), adam … or a Python file with a RULE",
    )
    step_size: str | None = option(
        None,
        Said("0.01"),
        "a number, or power(0.1, 0.5), linear(0.1, 0, 1000) (default: 0.02 / trace of the covariance, over the gain of "
        "momentum and the sizes of student and target, or an eighth of the largest that theory knows, or a quarter "
        "of what rows at rest stand, if that is less)",
    )
    batch: int | None = option(None, Whole(), "samples in one step (default 1)")
    noise: float | None = option(
        None, Number(zero=True), "standard deviation of noise on labels, or probability of a flip (default 0)"
    )
    noise_law: str | None = option(
        None, Choice(("gaussian", "signs", "flips")), "noise on labels: gaussian, signs or flips (default: gaussian)"
    )
    noise_period: int | None = option(
        None, Whole(0), "noise is on for so many steps, off for as many, and so on (default 0: always on)"
    )
    decay: float | None = option(None, Number(zero=True), "weight decay kappa of the rows (default 0)")
    samples: int | None = option(None, Whole(0), "samples of a fixed data set (default 0: every sample is fresh)")
    order: str | None = option(
        None,
        Choice(("cyclic", "random", "replacement")),
        "batches of a data set: cyclic, or drawn for each step: random, without, or with replacement (default: cyclic)",
    )
    renewed: bool = option(False, Switch(), "draw the noise of a data set's labels anew at every step")
    start_scale: float | None = option(None, Number(), "length of the rows at the start (default 0.3; 1 on a sphere)")
    steps: int | None = option(
        None,
        Whole(),
        "steps (default: 1.2 times the last emergence that theory knows, 10000 to a million; those of a schedule that ends, "
        "up to a million)",
    )
    time: float | None = option(None, Number(), "run until the step sizes sum to this, instead of --steps")
    replicas: int = option(32, Whole(), "independent runs")
    method: str = option("exact", Choice(("exact", "ambient")), "SGD in overlaps (exact) or in R^d (ambient)")
    seed: int = option(0, Whole(0), "random seed")

    def check(self) -> None:
        """Refuses what is given in two ways, and options of what is not declared."""
        if self.steps is not None and self.time is not None:
            refuse(f"steps is {self.steps} and time is {self.time:g}: give one of them")
        if self.target != "additive":
            self._refuse_all(
                ("link", "teacher_width", "teacher_exponent", "teacher_weights"),
                f"target is {self.target!r}",
                "target = additive",
            )
        elif self.teacher_weights is not None:
            self._refuse_all(("teacher_exponent",), "teacher-weights is given")
            if self.teacher_width not in (None, len(self.teacher_weights)):
                count = len(self.teacher_weights)
                refuse(
                    f"teacher-width is {self.teacher_width}, but teacher-weights has {count}: leave teacher-width out"
                )
        if not self.samples and not _FILE.match(self.rule):
            self._refuse_all(("order", "renewed"), "every sample is fresh (samples is 0)", "samples")
        if self.noise is None and not _FILE.match(self.rule):
            names = ("noise_law", "noise_period", "renewed")
            self._refuse_all(names, "labels have no noise (noise is not given)", "noise")
        if self.rows in ("sphere", "projected") and self.start_scale not in (None, 1.0):
            refuse(
                f"start-scale is {self.start_scale:g}, but rows is {self.rows}, and these have length 1: leave it out, or "
                "give rows = free"
            )
        if self.student != "committee":
            self._refuse_all(("second", "train_second", "rows"), f"student is {self.student}", "student = committee")
        if self.second is not None and len(self.second) not in (1, self.student_width):
            refuse(f"second has {len(self.second)} numbers: give 1, or {self.student_width}, one for each row")

    def _refuse_all(self, names: tuple[str, ...], why: str, instead: str = "") -> None:
        for name in names:
            if getattr(self, name) not in (None, False):
                refuse(
                    f"{written(name)} is given, but {why}: leave it out" + (f", or give {instead}" if instead else "")
                )

    @property
    def count(self) -> int:
        """Directions of an additive target."""
        return (self.teacher_width or 2) if self.teacher_weights is None else len(self.teacher_weights)

    @property
    def weights(self) -> tuple[float, ...]:
        """Of an additive target."""
        if self.teacher_weights is not None:
            return self.teacher_weights
        beta = 1.0 if self.teacher_exponent is None else self.teacher_exponent
        return tuple(float(p) ** -beta for p in range(1, self.count + 1))

    def read(self) -> None:
        """All five parts. Raises `InputError` for one that is not understood or contradicts another."""
        super().read()
        _model(self)

    def decided(self) -> dict[str, Any]:
        found: dict[str, Any] = {"inputs": pinned(self.inputs), "rule": pinned(self.rule)}
        if self.target == "additive":
            found |= {"link": self.link or self.activation, "teacher_width": self.count}
            found["teacher_exponent"] = self._exponent
        if self.student == "committee":
            found |= {"second": self.second or (1.0,), "rows": self.rows or "free"}
        return found | {"start_scale": self.start_scale or (1.0 if self.rows in ("sphere", "projected") else 0.3)}

    @property
    def _exponent(self) -> float | None:
        if self.teacher_weights is not None:
            return None
        return 1.0 if self.teacher_exponent is None else self.teacher_exponent


def pinned(text: str) -> str:
    """Of a Python file its full path and the digest of its content, by which it decides a result; other text as it is."""
    match = _FILE.match(text)
    if match is None or match[2]:
        return text
    return f"{models.path_of(match[1])}@{models.code_of(match[1])}"


def from_file(text: str, name: str) -> Any:
    """The object of this name in a Python file, None for a text that names no file.

    Raises `InputError` for a file without it, and for one that is not what its digest says.
    """
    match = _FILE.match(text)
    if match is None:
        if called := _CALLED.match(text):
            make = f"set its fields there, such as {name} = MyOwn({called[2]})"
            refuse(
                f"{name.lower()} is {text!r}: a file takes no arguments in brackets: {make}, and name {called[1]} alone"
            )
        return None
    found = getattr(models.module_of(match[1]), name, None)
    if found is None:
        refuse(f"file {match[1]!r} has no {name}: give it one, an object of theory.declared or what makes it")
    if match[2] and match[2] != models.code_of(match[1]):
        refuse(f"file {match[1]!r} has changed since its digest {match[2]} was taken: run it again")
    return found


@contextmanager
def stepping(rule: str) -> Iterator[None]:
    """The rule of a file may raise anything: said in one line. Raises `InputError`."""
    try:
        yield
    except Exception as error:
        if is_refusal(error) or _FILE.match(rule) is None:
            raise
        said = " ".join(str(error).split())[:120]
        offered = (
            "vectors have sums, products with numbers, dot, gram, norms, norm, mixed and polar, and no coordinates"
        )
        refuse(f"rule {rule!r}: its step raises {type(error).__name__}: {said}: mend it ({offered})")


# ------------------------------------------------------------------------- from text to objects


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects. `time`: what the sizes of the `steps` sum to."""

    problem: DeclaredProblem
    model: "DeclaredModel"
    start: "Start"
    steps: int
    time: float
    warnings: tuple[str, ...] = ()

    def echo(self) -> dict[str, Any]:
        """The full problem, defaults included."""
        rule = self.model.rule
        common = {name: getattr(rule, name) for name in ("step_size", *RULE_OPTIONS)}
        shown = {
            name: (self.problem.step_size or str(value)) if callable(value) else value for name, value in common.items()
        }
        if not rule.samples and self.problem.order is None:  # fresh samples have none, and it is refused
            shown["order"] = None
        return asdict(self.problem) | self.problem.decided() | shown | {"steps": self.steps}

    def headline(self) -> str:
        """The problem in one line."""
        problem, inputs = self.problem, self.model.inputs
        blocks = "" if inputs.is_isotropic else f" ({len(inputs.eigenvalues)} eigenvalues)"
        return (
            f"declared: d = {inputs.dim}{blocks}, target {problem.target}, P = {self.model.target.count}, "
            f"{problem.student} {problem.activation}, m = {problem.student_width}, rule {problem.rule}, seed {problem.seed}"
        )


def resolve(problem: DeclaredProblem, simulation: Simulation | None = None) -> Resolved:
    """Read the five parts, draw directions and start.

    Raises `InputError` for a part that is not understood or contradicts another, and for a run longer than its schedule.
    """
    import numpy as np

    from theory.declared.schedule import check_length
    from theory.declared.start import draw_start

    model, usual = _model(problem)
    start = draw_start(model.directions, problem.student_width, problem.decided()["start_scale"], problem.seed)
    if problem.step_size is None and model.rule.step_size == usual:
        model = _in_bounds(model, start, usual)
    size = model.rule.step_size
    known = _known_steps(model, start) if problem.steps is None and problem.time is None else 0.0
    steps = problem.steps or (_usual_steps(known, size) if problem.time is None else _steps_to(size, problem.time))
    check_length(size, steps)
    time = float(np.sum(size(np.arange(steps)))) if callable(size) else size * steps
    warned: tuple[str, ...] = ()
    if simulation is not None and simulation.name == "declared-sgd":
        given = () if problem.step_size is None else _steps_too_far(model, start, steps)
        warned = (*_looks_too_far(model, start), *given)
    if simulation is not None and known > _MOST_STEPS:
        cut = (
            f"runs end after {_MOST_STEPS:,} steps, the most by default; the last direction takes {known / _BEYOND:.2g}"
        )
        warned = (*warned, f"{cut}: give --steps, or raise step-size or batch")
    if problem.order == "random" and model.rule.batch == model.rule.samples:
        whole = f"order is 'random', but batch is {model.rule.batch}, all of the samples, in any order"
        warned = (*warned, f"{whole}; lower batch, or give order = replacement")
    return Resolved(problem, model, start, steps, time, warned)


def _model(problem: DeclaredProblem) -> "tuple[DeclaredModel, float]":
    """Its five parts, and the usual step size, which the rule has where none is given."""
    from theory.declared.loss import LOSSES
    from theory.declared.model import DeclaredModel
    from theory.declared.rule import Alternating
    from theory.declared.text import parse_directions

    if problem.target == "additive":
        Cost(problem.count**2).check("the directions' Gram matrix", ["teacher_width"])
    inputs, target = inputs_of(problem.inputs), _target(problem)
    directions = parse_directions(problem.directions, inputs, target.count, problem.seed)
    _check_rows(problem.student_width, target.count, inputs)
    usual = _USUAL / inputs.trace
    rule = rule_of(problem.rule, _common(problem), usual)
    model = DeclaredModel(directions, target, _student(problem), rule, LOSSES[problem.loss])
    if isinstance(rule, Alternating) and not model.student.trained:
        how = "add --train-second" if problem.student == "committee" else "take a committee and add --train-second"
        refuse(f"rule is {problem.rule!r}, but the second layer is fixed, which makes it plain SGD: {how}, or use sgd")
    return model, usual


def _known_steps(model: "DeclaredModel", start: "Start") -> float:
    """Until the last direction is fitted, and a little longer, where theory knows when that is; else 0."""
    from theory import InputError
    from theory.declared.emergence import last_time

    size = model.rule.step_size
    if not callable(size):
        with suppress(InputError):  # of a rule without a flow
            return float(_BEYOND * last_time(model, start) / size)
    return 0.0


def _usual_steps(known: float, size: "float | Schedule") -> int:
    return int(min(getattr(size, "end", None) or max(known, _LEAST_STEPS), _MOST_STEPS))


def usual_step(model: "DeclaredModel", start: "Start") -> float:
    """The step size of a model that is given none."""
    size = _in_bounds(model, start, _USUAL / model.directions.inputs.trace).rule.step_size
    assert not callable(size)
    return size


def _in_bounds(model: "DeclaredModel", start: "Start", usual: float) -> "DeclaredModel":
    """With the usual effective step, or one well below the largest that theory knows, and what rows at rest stand."""
    from dataclasses import replace

    from theory import InputError
    from theory.declared.flow import gradients_unit, speed
    from theory.declared.predict import largest_step
    from theory.declared.steps_of_rows import largest_at_rest
    from theory.declared.target import as_additive

    with suppress(InputError):  # of a rule without a flow, whose steps may know no units
        usual = usual / (speed(model.rule) * gradients_unit(model))
    plain = _without_look(model)
    most = _INSIDE * min(largest_step(x, start) for x in (model, plain))
    with suppress(InputError):  # of a target that is not additive, and rules without a flow
        most = min(most, _AT_REST * largest_at_rest(replace(plain, target=as_additive(plain.target))))
    most /= getattr(model.rule, "passes", 1)  # (that many steps are one to first order)
    return replace(model, rule=replace(model.rule, step_size=min(float(f"{most:.2g}"), usual)))


def _without_look(model: "DeclaredModel") -> "DeclaredModel":
    """With plain SGD in place of a rule that looks ahead, or takes a batch more than once, of which theory knows no largest
    step; else the model itself.
    """
    from dataclasses import fields, replace

    from theory.declared.rule import SAM, Ahead, Alternating, Reuse, Rule

    if not isinstance(model.rule, Ahead | Alternating | Reuse | SAM):
        return model
    return replace(model, rule=Rule(**{x.name: getattr(model.rule, x.name) for x in fields(Rule)}))


def _looks_too_far(model: "DeclaredModel", start: "Start") -> tuple[str, ...]:
    """What to change in a rule that leaves, on the way to its gradient, where the sample's fields are what they were."""
    import numpy as np

    from theory.declared.predict import largest_step
    from theory.declared.rule import SAM, Ahead

    rule = model.rule
    if isinstance(rule, Ahead):
        most, given, what = _INSIDE * largest_step(_without_look(model), start), abs(rule.ahead), "ahead"
        why = "it is a step by itself, and this is an eighth of the largest that SGD stands"
    elif isinstance(rule, SAM):
        parts = zip(model.inputs.eigenvalues, start.coordinates, strict=True)
        fields = float(np.sqrt(sum(value * np.sum(part**2) for value, part in parts)))
        most, given, what = _FARTHEST * fields * np.sqrt(rule.batch / model.inputs.trace), rule.radius, "radius"
        why = "the fields of a sample move by a quarter of their size there"
    else:
        return ()
    if given <= most:
        return ()
    return (f"{what} of the rule is {given:g}, beyond {most:.2g} ({why}): runs may diverge; lower it, or raise batch",)


def _steps_too_far(model: "DeclaredModel", start: "Start", steps: int) -> tuple[str, ...]:
    """What a step beyond the largest that theory knows of a committee does to a run."""
    from dataclasses import replace

    import numpy as np

    from theory import InputError
    from theory.declared.steps_of_rows import largest_at_rest, largest_at_the_start
    from theory.declared.target import as_additive

    if model.student.homogeneous or model.rule.samples:
        return ()
    model, size = replace(model, target=as_additive(model.target)), model.rule.step_size
    largest = float(np.max(size(np.arange(steps)))) if callable(size) else size
    found: tuple[str, ...] = ()
    for bound, what in (
        (lambda: largest_at_rest(model), "mean squares about rest grow: runs may diverge"),
        (lambda: largest_at_the_start(model, start), "noise undoes the growth of overlaps: runs leave the flow"),
    ):
        with suppress(InputError):
            if largest > (most := bound()):
                found = (
                    *found,
                    f"step-size is {largest:.3g}, beyond {most:.2g}, where {what}; lower it, or raise batch",
                )
    return found


def inputs_of(text: str) -> "Inputs":
    """Of a text, or the ``INPUTS`` of a Python file: inputs, or a function of nothing that makes them. Raises `InputError`."""
    from theory.declared.inputs import Inputs
    from theory.declared.text import parse_inputs

    found = from_file(text, "INPUTS")
    if found is None:
        return parse_inputs(text)
    made = found() if callable(found) else found
    if not isinstance(made, Inputs):
        refuse(
            f"INPUTS of {text!r} is a {type(made).__name__}: give Inputs of theory.declared.inputs, or what makes them"
        )
    return made


def rule_of(text: str, common: dict[str, Any], step_size: float) -> "Rule":
    """Of a text, or the ``RULE`` of a Python file: a rule, or a class or function that takes what all rules have.

    Args:
        common: the fields of every rule that are given; they win over those of a file's rule. step_size: the default.

    Raises:
        InputError: what is no rule, or not hashable (no frozen dataclass).
    """
    from dataclasses import replace

    from theory.declared.rule import Rule
    from theory.declared.text import parse_rule

    found = from_file(text, "RULE")
    if isinstance(found, Rule):
        made: Any = replace(found, **common)
    else:
        given = {"step_size": step_size, **common}
        made = parse_rule(text, **given) if found is None else found(**given) if callable(found) else found
    return check_rule(text, made)


def check_rule(text: str, made: Any) -> "Rule":
    """Raises `InputError` for what is no rule, or is not hashable."""
    from theory.declared.rule import Rule

    if not isinstance(made, Rule) or type(made).__hash__ is None:
        refuse(
            f"RULE of {text!r} is a {type(made).__name__}: give a frozen dataclass that derives from Rule, or one of it"
        )
    return made


def _common(problem: DeclaredProblem) -> dict[str, Any]:
    """The fields of every rule that are given."""
    from theory.declared.text import parse_step_size

    step_size = None if problem.step_size is None else parse_step_size(problem.step_size)
    asked = {name: getattr(problem, name) for name in RULE_OPTIONS} | {"renewed": problem.renewed or None}
    return {name: value for name, value in {**asked, "step_size": step_size}.items() if value is not None}


def _target(problem: DeclaredProblem) -> "Target":
    from theory import Activation
    from theory.declared.target import Additive
    from theory.declared.text import read_target

    if problem.target == "additive":
        return Additive(Activation.parse(problem.link or problem.activation), problem.weights)
    return read_target(problem.target)


def _student(problem: DeclaredProblem) -> "Student":
    from theory import Activation
    from theory.declared.student import committee, two_homogeneous, whitened

    activation, width = Activation.parse(problem.activation), problem.student_width
    if problem.student != "committee":
        return (whitened if problem.student == "whitened" else two_homogeneous)(activation, width)
    second = problem.second or (1.0,)
    weights = second * width if len(second) == 1 else second
    return committee(activation, width, weights, problem.train_second, problem.rows or "free")


def _check_rows(width: int, directions: int, inputs: "Inputs") -> None:
    """Raises `InputError` for rows whose coordinates, and their squares at the same time, do not fit into memory."""
    numbers = 2 * width * sum(min(d, directions + width) for d in inputs.multiplicities)
    Cost(numbers).check("the coordinates of the student's rows", ["student_width", "dim"])


def _steps_to(step_size: "float | Schedule", time: float) -> int:
    """The fewest steps whose sizes sum to `time`. Raises `InputError` where a schedule never does."""
    if not callable(step_size):
        return fewest_steps(time, step_size)
    import numpy as np

    count = min(step_size.end or _LONGEST, _LONGEST)
    total = np.cumsum(np.asarray(step_size(np.arange(count))))
    if total[-1] < time:
        refuse(f"time is {time:g}, but the step sizes sum to {total[-1]:.4g} in {count} steps: lower it, or give steps")
    return int(np.searchsorted(total, time * (1 - ROUNDING))) + 1
