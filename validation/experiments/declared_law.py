r"""The law of the exact simulator of declared models, against explicit vectors of R^d: a two-sample test for each problem.

Problems are made of levels of a few factors (rule, student, inputs, samples of a step, target), in few dimensions, where a
wrong number of degrees of freedom shows at once. Students and links are bounded (erf), so that moments exist. Each problem
also runs with mistakes built into the simulator on purpose; a test that does not reject them shows nothing.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.outside import NO_MISTAKES, Mistakes
from dynamics.declared.engine import Exact
from dynamics.declared.simulate import DeclaredRun, declared_sgd
from theory import Activation, InputError
from theory.core import streams
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import Student, committee, two_homogeneous
from theory.declared.target import Additive, Polynomial, Target
from validation.statistics.two_samples import TwoSamples, compare_samples

#: Simulated steps, and the replicas of a sample.
STEPS, REPLICAS = 9, 20_000
#: A law differs below this p-value; a mistake is rejected below that one.
DIFFERS, REJECTED = 1e-4, 1e-6
#: Where a rule has no step size of its own.
STEP_SIZE = 0.15
_WIDTH, _DIRECTIONS = 2, 2
_OWN = "own"
_SIGMOID = "erf"

#: A rule from the fields that all rules have.
MakeRule = Callable[..., Rule]
#: Inputs from the number of dimensions beyond which an eigenspace is reduced.
MakeInputs = Callable[[int], Inputs]


@dataclass(frozen=True)
class Samples:
    """Of a step: how many, label noise, weight decay; steps of a block; samples of a fixed data set (0: all are fresh)."""

    batch: int
    noise: float
    decay: float
    block: int
    stored: int = 0

    def of(self, rule: MakeRule) -> Rule:
        """The rule with these samples."""
        return rule(batch=self.batch, noise=self.noise, decay=self.decay, samples=self.stored)

    @property
    def together(self) -> int:
        """Samples whose Gram matrix is drawn at once."""
        return self.stored or self.batch * self.block


#: Built into the simulator on purpose: d_i degrees of freedom in place of d_i less what is known for what is outside, and √λ
#: left out of the coordinates that fresh samples append. Each with whether it can show for samples in a reduced eigenspace.
MISTAKES: Mapping[str, tuple[Mistakes, Callable[[Samples, float], bool]]] = {
    "freedom": (Mistakes(forget_known=True), lambda samples, value: True),
    "scale": (Mistakes(forget_scale=True), lambda samples, value: value != 1 and not samples.stored),
}
#: The first needs no code of its own.
QUICK = ("freedom",)


def _students() -> dict[str, Student]:
    sigma, second = Activation.parse(_SIGMOID), (1.0, -0.7)
    return {
        "committee": committee(sigma, _WIDTH, second),
        "committee, trained b": committee(sigma, _WIDTH, second, trained=True),
        "sphere": committee(sigma, _WIDTH, second, rows="sphere"),
        "projected": committee(sigma, _WIDTH, second, rows="projected"),
        "2-homogeneous": two_homogeneous(sigma, _WIDTH),
    }


STUDENTS: Mapping[str, Student] = _students()
INPUTS: Mapping[str, MakeInputs] = {
    "isotropic": lambda room: Inputs.isotropic(room + 4),
    "two eigenspaces": lambda room: Inputs.blocks((2.0, room + 2), (0.5, room + 6)),
    "spiked": lambda room: Inputs.blocks((4.0, 1), (2.5, 2), (0.6, room + 4)),
}
SAMPLES: Mapping[str, Samples] = {
    "1 a step": Samples(1, 0.0, 0.0, 3),
    "2 a step, noise, decay": Samples(2, 0.3, 0.2, 3),
    "3 a step, one by one": Samples(3, 0.3, 0.0, 1),
    "2 a step, 6 in all": Samples(2, 0.3, 0.0, 1, 6),
}
TARGETS: Mapping[str, Target] = {
    "additive": Additive(Activation.parse(_SIGMOID), (1.0, -0.6)),
    "z1 + z1*z2": Polynomial.parse("z1 + z1*z2"),
}


@dataclass(frozen=True)
class Problem:
    """A level of each factor, by name: `rule` and `inputs` among those given, the others among the tables above."""

    rule: str
    student: str
    inputs: str
    samples: str
    target: str


@dataclass(frozen=True)
class Judged:
    """A problem's law test.

    Attributes:
        problem, dim: which, in how many dimensions. test: exact against explicit vectors. mistakes: the same for mistakes
            built in, by name.
    """

    problem: Problem
    dim: int
    test: TwoSamples
    mistakes: Mapping[str, TwoSamples]

    @cached_property
    def blind(self) -> bool:
        """Whether a mistake was not rejected, so that the test shows nothing."""
        return any(one.p >= REJECTED for one in self.mistakes.values())

    def verdict(self, tests: int = 1) -> str:
        """``differs`` where p times the number of problems judged together is below `DIFFERS`; ``blind``; or ``agrees``."""
        if self.test.p * tests < DIFFERS:
            return "differs"
        return "blind" if self.blind else "agrees"


def covering(
    factors: Sequence[Sequence[str]], strength: int = 2, seed: int = 0, tries: int = 30
) -> list[tuple[str, ...]]:
    """Few rows in which every `strength` factors show all combinations of their levels.

    Greedy: the next row is, of some random ones that begin with a combination still missing, the one with most of them
    (the first `tries` of a seeded stream; Cohen et al. 1997).
    """
    rng = streams.stream(seed, "covering design")
    places = list(itertools.combinations(range(len(factors)), strength))
    missing = {(at, levels) for at in places for levels in itertools.product(*(factors[i] for i in at))}
    rows: list[tuple[str, ...]] = []
    while missing:
        ordered = sorted(missing)
        candidates = []
        for _ in range(tries):
            row = [str(rng.choice(list(levels))) for levels in factors]
            at, levels = ordered[int(rng.integers(len(ordered)))]
            for i, level in zip(at, levels, strict=True):
                row[i] = level
            candidates.append(tuple(row))
        best = max(candidates, key=lambda row: len(missing & _shown(row, places)))
        missing -= _shown(best, places)
        rows.append(best)
    return rows


def _shown(row: tuple[str, ...], places: Sequence[tuple[int, ...]]) -> set[tuple[tuple[int, ...], tuple[str, ...]]]:
    return {(at, tuple(row[i] for i in at)) for at in places}


def design(rules: Sequence[str], inputs: Sequence[str], strength: int, seed: int = 0) -> list[Problem]:
    """Problems that cover all levels (`strength` 1) or all pairs of levels (2)."""
    factors = (rules, list(STUDENTS), inputs, list(SAMPLES), list(TARGETS))
    return [Problem(*row) for row in sorted(covering(factors, strength, seed))]


def _declared(
    problem: Problem, rule: MakeRule, inputs: MakeInputs, seed: int
) -> tuple[DeclaredModel, Start, tuple[float, ...]]:
    """The model and its start, and the eigenvalues of the eigenspaces that the simulator reduces."""
    samples, student = SAMPLES[problem.samples], STUDENTS[problem.student]
    made = samples.of(rule)
    room = _DIRECTIONS + student.width * (1 + len(made.buffers)) + samples.together
    given = inputs(room)
    reduced = tuple(value for value, d in zip(given.eigenvalues, given.multiplicities, strict=True) if d > room)
    directions = Directions.random(given, _DIRECTIONS, seed=seed)
    model = DeclaredModel(directions, TARGETS[problem.target], student, made)
    return model, draw_start(directions, student.width, seed=seed), reduced


def refusal(rule: MakeRule) -> str:
    """Why a rule has no exact simulation, empty if it has one; one step is traced, none is run."""
    problem = Problem("", "committee", "isotropic", "1 a step", "additive")
    model, start, _ = _declared(problem, rule, INPUTS["isotropic"], 0)
    try:
        Exact(model, start, 1, NO_MISTAKES)
    except InputError as error:
        return str(error)
    return ""


def judge(
    problem: Problem,
    rule: MakeRule,
    inputs: MakeInputs,
    *,
    mistakes: Sequence[str] = QUICK,
    replicas: int = REPLICAS,
    seed: int = 0,
) -> Judged:
    """Simulate a problem exactly, with explicit vectors and with mistakes, and compare the laws after `STEPS` steps.

    Raises `InputError` for a rule that does not turn with the axes.
    """
    samples = SAMPLES[problem.samples]
    model, start, reduced = _declared(problem, rule, inputs, seed)

    def run(method: str, mistakes: Mistakes = NO_MISTAKES) -> np.ndarray:
        found = declared_sgd(
            model, start, steps=STEPS, replicas=replicas, seed=seed, method=method, saves=1,
            block_steps=samples.block, mistakes=mistakes,
        )  # fmt: skip
        return observables(found)

    explicit = run("ambient")
    wrong = {name: MISTAKES[name][0] for name in mistakes if any(MISTAKES[name][1](samples, x) for x in reduced)}
    mistaken = {name: compare_samples(run("exact", one), explicit) for name, one in wrong.items()}
    return Judged(problem, model.inputs.dim, compare_samples(run("exact"), explicit), mistaken)


def judge_all(
    problems: Sequence[Problem],
    rules: Mapping[str, MakeRule],
    inputs: Mapping[str, MakeInputs],
    *,
    mistakes: Sequence[str] = QUICK,
    replicas: int = REPLICAS,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Judged]:
    """`judge` for each of these problems, one after the other: two of them at once may wait for each other's threads for ever.

    Raises `InputError` for a rule that does not turn with the axes.
    """
    found = []
    for number, problem in enumerate(problems, start=1):
        made = rules[problem.rule], inputs[problem.inputs]
        found.append(judge(problem, *made, mistakes=mistakes, replicas=replicas, seed=seed))
        if progress is not None:
            text = f"{problem.rule}, {problem.student}, {problem.inputs}: {found[-1].verdict()}"
            progress(number / len(problems), text)
    return found


def check_law(
    rule: "Rule | MakeRule | None" = None,
    inputs: Inputs | None = None,
    *,
    replicas: int = REPLICAS,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Judged]:
    """Whether the exact simulator has the law of explicit vectors for a rule, inputs, or both: every student, inputs,
    number of samples and target at least once.

    Args:
        rule: of one's own, or what makes it from the fields that all rules have; plain SGD if none. inputs: of one's own,
            of whose eigenspaces as many dimensions are kept as show a wrong number of degrees of freedom.
        replicas, seed: of the samples. progress: called with the fraction done and a text.

    Raises:
        InputError: a rule that does not turn with the axes.
    """
    levels: dict[str, MakeInputs] = {} if rule is None and inputs is not None else dict(INPUTS)
    if inputs is not None:
        levels["own"] = partial(_cut, inputs)
    made, problems = maker(rule), design([_OWN], list(levels), 1, seed)
    if why := refusal(made):
        raise InputError(why)
    return judge_all(problems, {_OWN: made}, levels, replicas=replicas, seed=seed, progress=progress)


def maker(rule: "Rule | MakeRule | None") -> MakeRule:
    """A rule as what makes it; one that is there keeps its own step size."""
    if isinstance(rule, Rule):
        return partial(replace, rule)
    return partial(Rule if rule is None else rule, step_size=STEP_SIZE)


def _cut(inputs: Inputs, room: int) -> Inputs:
    """The same eigenvalues, with at most room + 6 dimensions each."""
    return replace(inputs, multiplicities=tuple(min(d, room + 6) for d in inputs.multiplicities))


def observables(run: DeclaredRun) -> np.ndarray:
    """Overlaps and Gram matrices by eigenspace and the second layer at the end, (replica, observable)."""
    end = run.dataset.isel(time=-1)
    replicas, gram = end.sizes["replica"], end.gram.values
    k, l = np.triu_indices(gram.shape[-1])
    parts = (end.overlap.values, gram[:, :, k, l], end.second.values)
    return np.concatenate([part.reshape(replicas, -1) for part in parts], axis=1)
