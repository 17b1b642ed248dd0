r"""The two-layer linear network $a^\top Wx$ under label noise, SAM and the oscillation chain (arXiv:2603.10397)."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from emergence.model import Comparer, Derive, Document, Model, Predictor, Progress, Run, Simulation
from emergence.models.run_length import check_steps
from emergence.models.teacher import UNSTABLE
from emergence.options import Problem, option, written
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.table import Table
from emergence.values import Number, Share, Switch, Whole

if TYPE_CHECKING:
    import xarray as xr

    import theory
    from theory.linear.phases import Phases
    from validation.comparison import Case

_PHASES = ("residual_variance", "lms_error", "stability_limit", "decay_rate", "escape_steps", "escape_bound")
PREDICTED = (*_PHASES, "half_steps", "onset_steps")
CURVES = ("frobenius2", "second_norm2", "alignment")
#: Starts whose loss to SAM is computed, and samples that are as good as all.
_STARTS, _MANY = 16, 10**6
#: Points a dimension up to which single samples have the collapse radius of their set, which is within 6 % of that of fresh
#: ones beyond; numbers of a set of more points than dimensions, for which it takes seconds.
_FEW, _LARGEST_SET = 5, 2500
#: Points a dimension from which a set collapses as fresh samples do; the share of that radius from which one of fewer may
#: (measured: batches of 2 and more in d = 5 and 20, n from d/4 to 5d, from .78 to 1.1 of it; single samples in d = 40 .78).
_ENOUGH, _FIRST_LOST = 10, 0.8
#: Share of the labels that is zero to the eye.
_SHARE = 0.01


@dataclass(frozen=True)
class LinearProblem(Problem):
    r"""A linear target, a two-layer linear network and an algorithm.

    The defaults are the published synthetic experiment, with ‖θ*‖ = 1.
    """

    rivals: ClassVar = {"noise": ("label_flip",), "label_flip": ("noise",)}

    dim: int = option(20, Whole(), "input dimension d")
    student_width: int = option(1000, Whole(), "student width m")
    target_norm: float = option(1.0, Number(), "norm of the target theta*")
    train_size: int = option(200, Whole(0), "training points n; 0: every sample is fresh")
    noise: float | None = option(None, Number(zero=True), "label noise: +-sigma, sigma of (default 4)")
    label_flip: float = option(0.0, Share(zero=True), "class labels; probability that a step sees the other class")
    noise_period: int | None = option(None, Whole(), "steps with label noise, then as many without, and so on")
    sam_radius: float = option(0.2, Number(), "perturbation radius rho of SAM")
    full_batch: bool = option(False, Switch(), "SAM on the whole training set in every step")
    linearised: bool = option(False, Switch(), "train the first-order expansion about the start (the lazy model)")
    step_size: float = option(1e-3, Number(), "step size eta")
    batch: int = option(1, Whole(), "samples in one step")
    steps: int | None = option(None, Whole(), "steps (default: past the last predicted event)")
    replicas: int = option(8, Whole(), "independent runs")
    seed: int = option(0, Whole(0), "random seed")
    allow_unstable: bool = option(False, Switch(), "run a step size or radius beyond its limit, with a warning")

    def check(self) -> None:
        """Refuses noise with label flips, and full batches without a training set."""
        if self.label_flip and self.noise:
            refuse(f"noise is {self.noise:g} and label-flip is {self.label_flip:g}: give one of them")
        if self.full_batch and not self.train_size:
            refuse("full-batch is given with train-size 0: there is no training set, give train-size")
        if self.full_batch and self.batch != 1:
            refuse(f"batch is {self.batch} and full-batch takes the whole training set: give one of them")

    @property
    def sigma(self) -> float:
        """σ, default included; 0 for class labels."""
        if self.noise is not None:
            return self.noise
        return 0.0 if self.label_flip else 4.0


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects.

    Attributes:
        phases: None where nothing is predicted: class labels, or too few training points to determine θ*.
        limit: largest stable step size; None likewise, but of the oscillation. steps: to run, None if there is no default.
    """

    problem: LinearProblem
    what: str
    task: "theory.LinearTask"
    start: "theory.LinearStart"
    phases: "Phases | None"
    limit: float | None
    steps: int | None
    warnings: tuple[str, ...]

    def echo(self) -> dict[str, Any]:
        """The full problem, defaults included."""
        noise = self.problem.sigma if self.what == "label-noise" else 0.0
        return asdict(self.problem) | {"noise": noise, "steps": self.steps}

    def run_length(self) -> int:
        """Steps to run. Raises `InputError` if nothing decides them."""
        if self.steps is None:
            refuse("steps has no default here (nothing is predicted for this problem): give --steps")
        check_steps(self.steps, "raise step-size, or give --steps")
        return self.steps

    def headline(self) -> str:
        """The problem in one line."""
        problem = self.problem
        noise = f"label noise ±{problem.sigma:g}" if self.what == "label-noise" else "clean labels"
        labels = f"flips {problem.label_flip:g}" if problem.label_flip else noise
        points = f"{problem.train_size} training points" if problem.train_size else "fresh samples"
        kind = "growth from" if self.what == "oscillation" else "least-squares limit"
        bound = "" if self.limit is None else f" ({kind} {self.limit:.3g})"
        return (
            f"linear network, d = {problem.dim}, m = {problem.student_width}, target norm {problem.target_norm:g}, "
            f"{points}, {labels}, step size {problem.step_size:g}{bound}, seed {problem.seed}"
        )

    def common(self, progress: Progress | None, steps: int | None = None) -> dict[str, Any]:
        """What every simulator takes."""
        problem = self.problem
        return {
            "step_size": problem.step_size,
            "steps": steps or self.run_length(),
            "replicas": problem.replicas,
            "seed": problem.seed,
            "progress": progress,
        }


def resolve(problem: LinearProblem, simulation: Simulation | None = None) -> Resolved:
    """Draw data and start, predict, and decide the length of a run.

    Raises `InputError` for a step size beyond the least-squares limit and for a radius that collapses the network,
    unless the problem allows them (then: warnings).
    """
    import theory
    from theory.linear.phases import predict_phases

    noisy = simulation is None or simulation.name in ("label-noise", "predict")
    what = "label-noise" if noisy or simulation is None else simulation.name
    if not noisy:
        _only_clean(problem, what)
    seed, classes = problem.seed, problem.label_flip > 0
    _held(problem).check("the start", ["student_width", "dim", "replicas", "train_size"])
    task = theory.draw_linear_task(problem.dim, problem.target_norm, problem.train_size or None, seed, classes)
    start = theory.draw_linear_start(problem.student_width, problem.dim, seed, problem.replicas)
    determined = not classes and (not problem.train_size or problem.train_size > problem.dim)
    limit = None
    if what == "oscillation":
        limit = _growth(problem, task)
    elif determined or problem.full_batch:
        limit = _limit(problem, task, start)
    critical = _critical(problem, task) if what == "sam" and not problem.linearised else None
    warnings = _excesses(problem, limit, what, critical)
    if critical is not None:
        warnings += _lost(problem, task, start, critical)
    phases = None
    stable = limit is not None and problem.step_size < limit
    if noisy and stable and not problem.linearised:
        phases = predict_phases(
            task, width=problem.student_width, step_size=problem.step_size, noise=problem.sigma, batch=problem.batch
        )
        phases = phases.paused(problem.noise_period) if problem.noise_period else phases
    steps = problem.steps or _default_steps(problem, task, phases, what)
    return Resolved(problem, what, task, start, phases, limit, steps, tuple(warnings))


def _default_steps(problem: LinearProblem, task: "theory.LinearTask", phases: "Phases | None", what: str) -> int | None:
    from theory.core.defaults import HORIZON
    from theory.linear.oscillation import time_to_level
    from theory.linear.sam import fall_time

    eta, width, norm = problem.step_size, problem.student_width, problem.target_norm
    if what == "label-noise":
        last = math.inf if phases is None else phases.last_event
    elif what == "oscillation":
        last = time_to_level(width, eta, norm, spectrum=_spectrum(task) if problem.train_size else None)
    else:
        covariance = _covariance(task) if problem.full_batch else None
        last = fall_time(problem.sam_radius, eta, width, norm, problem.dim, covariance, problem.batch)
    return math.ceil(HORIZON * last) if math.isfinite(HORIZON * last) else None


def _only_clean(problem: LinearProblem, what: str) -> None:
    """Refuse label noise where labels are clean."""
    for name in ("noise", "noise_period", "label_flip"):
        if getattr(problem, name):
            refuse(f"{written(name)} is {getattr(problem, name):g}, but {what} has clean labels: leave it out")


def _covariance(task: "theory.LinearTask") -> Any:
    """Of the training inputs, X'X/n."""
    assert task.inputs is not None
    return task.inputs.T @ task.inputs / len(task.inputs)


def _spectrum(task: "theory.LinearTask") -> Any:
    """Eigenvalues of the training set's covariance (d,), and θ* along its eigenvectors (d,)."""
    import numpy as np

    values, vectors = np.linalg.eigh(_covariance(task))
    return values, vectors.T @ task.target


def _limit(problem: LinearProblem, task: "theory.LinearTask", start: "theory.LinearStart") -> float:
    """Of steps on samples at the mean start; of the whole training set, at the stiffest start of the replicas."""
    import numpy as np

    from theory.linear.phases import Geometry, stability_limit
    from theory.linear.sam import full_batch_limit

    if problem.full_batch:
        covariance = _covariance(task)
        starts = zip(start.first, start.second, strict=True)
        return min(full_batch_limit(covariance, W.T @ W, float(a @ a)) for W, a in starts)
    geometry = Geometry.of(task)
    gram = problem.student_width / problem.dim * np.eye(len(geometry.target))
    return stability_limit(geometry, gram, 1.0, problem.batch)


def _growth(problem: LinearProblem, task: "theory.LinearTask") -> float:
    """From which step size on the oscillation makes the first layer of some run grow; of a run, its larger half decides."""
    import numpy as np

    from dynamics.linear.oscillation import drawn_second
    from theory.linear.oscillation import stability_limit

    second = drawn_second(problem.step_size, problem.student_width, problem.seed, problem.replicas)
    on = np.count_nonzero(second, axis=1)
    largest = float(_spectrum(task)[0].max()) if problem.train_size else 1.0
    return stability_limit(int(np.maximum(on, problem.student_width - on).max()), largest)


def _excesses(problem: LinearProblem, limit: float | None, what: str, critical: float | None) -> list[str]:
    """Warnings for what lies beyond a limit and is allowed; a refusal if it is not."""
    from theory.linear.sam_fate import share_left

    found = []
    if limit is not None and problem.step_size >= limit and what == "oscillation":
        text = f"step-size is {problem.step_size:g}: from {limit:.3g} on oscillation makes the first layer grow without end"
        found.append((text, "lower it or student-width"))
    elif limit is not None and problem.step_size >= limit:
        text = f"step-size is {problem.step_size:g}, beyond the least-squares stability limit {limit:.3g}"
        found.append((text, "lower it" if problem.full_batch else "lower it, raise batch"))
    if critical is not None and problem.sam_radius >= critical:
        text = f"sam-radius is {problem.sam_radius:g}: from {critical:.3g} on SAM collapses the network to zero"
        share = share_left(problem.sam_radius, critical)
        if share >= 1:
            text += f", and from {2 * critical:.3g} on no theory says how far"
        elif share >= _SHARE:
            text += f", at this one to {share:.0%} of the labels at most"
        found.append((text, "lower it"))
    for text, remedy in found:
        if not problem.allow_unstable:
            refuse(f"{text}: {remedy}, or {UNSTABLE}")
    return [text for text, _ in found]


def _critical(problem: LinearProblem, task: "theory.LinearTask") -> float:
    """The radius from which SAM collapses the network: of single samples of few points that of the set; of the whole training
    set as of many samples.
    """
    import numpy as np

    from theory.linear.sam import collapse_radius
    from theory.linear.sam_set import set_collapse_radius

    if _has_own(problem):
        assert task.inputs is not None
        return set_collapse_radius(task.inputs, task.target)
    seen = _seen(task)
    return collapse_radius(float(np.linalg.norm(seen @ task.target)), len(seen), _samples(problem))


def _has_own(problem: LinearProblem) -> bool:
    """Whether the collapse radius is that of the training set itself."""
    few = problem.train_size <= problem.dim or problem.train_size * problem.dim <= _LARGEST_SET
    return _samples(problem) == 1 and 0 < problem.train_size <= _FEW * problem.dim and few


def _seen(task: "theory.LinearTask") -> Any:
    """Directions (rows) that inputs have: those that a training set spans. Nothing else of a start moves, nor of θ*."""
    import numpy as np

    if task.inputs is None or len(task.inputs) >= task.dim:
        return np.eye(task.dim)
    return np.linalg.svd(task.inputs, full_matrices=False)[2]


def _samples(problem: LinearProblem) -> int:
    """In a step of SAM."""
    return _MANY if problem.full_batch else problem.batch


def _lost(problem: LinearProblem, task: "theory.LinearTask", start: "theory.LinearStart", critical: float) -> list[str]:
    """Warnings of what SAM takes to zero below the radius from which it does so to all: starts, and fits by large steps."""
    from theory.linear.sam_fate import fits, lasting_radius

    radius, seen = problem.sam_radius, _seen(task)
    if radius >= critical:
        return []
    starts = list(zip(start.first, start.second, strict=True))[:_STARTS]
    inputs = task.inputs @ seen.T if problem.full_batch and task.inputs is not None else None
    target = seen @ task.target
    lost = sum(fits(W @ seen.T, a, target, radius, batch=problem.batch, inputs=inputs) is False for W, a in starts)
    lasting = lasting_radius(critical, problem.step_size, float((target @ target) ** 0.5), _samples(problem))
    found = []
    if lost:
        text = f"SAM takes {lost} of {len(starts)} starts to zero before they fit the labels, lower it or raise student-width"
        found.append(f"sam-radius is {radius:g}: {text}")
    if radius >= lasting:
        text = f"from about {lasting:.2g} on steps of this size lose what is fitted, lower it or step-size"
        found.append(f"sam-radius is {radius:g}: {text}")
    few = 0 < problem.train_size < _ENOUGH * problem.dim and not _has_own(problem)
    if few and radius >= _FIRST_LOST * critical:
        text = f"with so few training points it may collapse from about {_FIRST_LOST * critical:.2g} on, lower it"
        found.append(f"sam-radius is {radius:g}: {text}")
    return found


# ------------------------------------------------------------------------- simulations


def _label_noise(resolved: Resolved, progress: Progress | None, _: object, steps: int | None = None) -> Run:
    import dynamics

    problem = resolved.problem
    run = dynamics.label_noise_sgd(
        resolved.task,
        resolved.start,
        noise=problem.sigma,
        flip=problem.label_flip,
        period=problem.noise_period,
        batch=problem.batch,
        linearised=problem.linearised,
        **resolved.common(progress, steps),
    )
    return Run(run.dataset, int(run.diverged.sum()), run)


def _oscillation(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import dynamics

    run = dynamics.oscillation(resolved.task, resolved.start, **resolved.common(progress))
    return Run(run.dataset, int(run.diverged.sum()), run)


def _sam(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import dynamics

    problem = resolved.problem
    run = dynamics.sam(
        resolved.task,
        resolved.start,
        radius=problem.sam_radius,
        batch=None if problem.full_batch else problem.batch,
        linearised=problem.linearised,
        **resolved.common(progress),
    )
    return Run(run.dataset, int(run.diverged.sum()), run)


def _held(problem: LinearProblem, operations: float = 0.0) -> Cost:
    """Both layers of every replica and the training set."""
    weights = float(problem.student_width) * (problem.dim + 1)
    return Cost(problem.replicas * weights + float(problem.train_size) * problem.dim, operations)


def _cost(resolved: Resolved) -> Cost:
    """What is held, and for each weight of the reduced network four multiplications, for each input of a step two; of whole
    batches their covariance is the input.
    """
    problem = resolved.problem
    weights = min(problem.student_width, problem.dim + 1) * (problem.dim + 1)
    inputs = (problem.dim if problem.full_batch else problem.batch) * problem.dim
    return _held(problem, (4.0 * weights + 2.0 * inputs) * float(resolved.run_length()) * problem.replicas)


def _table(_: Resolved, run: Run) -> Table:
    """Norms, alignment and loss at a few steps, means over replicas."""
    names = ("mean_norm", "second_norm2", "mean_alignment", "top_share", "loss")
    steps = run.result.step
    places = sorted({round(share * (len(steps) - 1)) for share in (0, 0.1, 0.25, 0.5, 0.75, 1)})
    rows = [(int(steps[i]), *(float(run.result.values(name)[:, i].mean()) for name in names)) for i in places]
    return Table(("step", "mean norm", "‖a‖²", "mean |cos|", "s₁/‖W‖", "loss"), rows)


# ------------------------------------------------------------------------- predictions


def _predict(resolved: Resolved) -> Document:
    """Both phases of label-noise SGD, from the averaged flow."""
    from emergence import conditions, console, table
    from theory.linear.phases import NEEDED

    phases = resolved.phases
    values = {name: None if phases is None else float(getattr(phases, name)) for name in PREDICTED}
    held = {} if phases is None else {name: phases.conditions[name] for name in PREDICTED}
    curves = {name: [] if phases is None else getattr(phases, name).tolist() for name in ("times", *CURVES)}
    if phases is None:
        console.warn(f"nothing is predicted: that needs {NEEDED}")
    rows = [(name, value, conditions.mark(held[name]) if held else None) for name, value in values.items()]
    text = table.render(("quantity", "predicted", "valid"), rows)
    content = {
        "problem": resolved.echo(),
        "phases": values,
        "valid": {name: conditions.reasons(found) or True for name, found in held.items()},
        "conditions": {name: conditions.listed(found) for name, found in held.items()},
        "curves": curves,
    }
    lines = [
        resolved.headline(),
        "",
        text,
        *conditions.explained(((name, None), own) for name, own in held.items()),
        "",
        "times in SGD steps; -: not by the end of the averaged flow",
    ]
    return Document(content, "\n".join(lines))


def _predicted(resolved: Resolved) -> "xr.Dataset":
    """Both phases as numbers, NaN where nothing is predicted, and the averaged flow's curves along ``step``.

    ``valid``, along the names of the numbers, is 1 where the conditions of one hold, and else 0.
    """
    import numpy as np
    import xarray as xr

    from emergence import conditions

    phases, names = resolved.phases, {"quantity": np.array(PREDICTED, dtype=object)}
    if phases is None:
        nothing = dict.fromkeys(PREDICTED, math.nan)
        return xr.Dataset({**nothing, "valid": ("quantity", np.zeros(len(PREDICTED)))}, coords=names)
    found: dict[str, Any] = {name: float(getattr(phases, name)) for name in PREDICTED}
    found |= {name: ("step", getattr(phases, name)) for name in CURVES}
    found["valid"] = ("quantity", [float(not conditions.reasons(phases.conditions[name])) for name in PREDICTED])
    return xr.Dataset(found, coords={"step": phases.times, **names})


def _case(resolved: Resolved) -> "Case":
    from validation.comparisons.linear import linear_case

    def run(progress: Progress | None, steps: int | None = None) -> Any:
        return _label_noise(resolved, progress, None, steps).result

    problem = resolved.problem
    noise2 = problem.sigma**2 / problem.batch
    return linear_case(resolved.phases, run, resolved.run_length(), problem.dim, problem.student_width, noise2)


# ------------------------------------------------------------------------------ record

_LINEAR = frozenset({"dim", "student_width", "target_norm", "train_size", "step_size", "seed"})
_NOISE = _LINEAR | {"noise", "label_flip", "linearised", "batch", "allow_unstable"}
_RUNS = _NOISE | {"noise_period", "steps", "replicas"}
_DATA = (
    *("overlap", "norm2", "second", "theta", "loss", "train_loss", "frobenius2", "second_norm2", "top_share"),
    *("mean_norm", "mean_alignment"),
)


def _has_length(resolved: Resolved) -> None:
    resolved.run_length()


MODEL = Model(
    name="linear",
    help="the two-layer linear network a'Wx",
    problem=LinearProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            "label-noise",
            "SGD with noise on the labels",
            _RUNS,
            _label_noise,
            _table,
            _DATA,
            _has_length,
            cost=_cost,
            curves=_DATA,
        ),
        Simulation(
            "oscillation",
            "the Markov oscillation algorithm: second-layer weights that jump",
            _LINEAR | {"allow_unstable", "steps", "replicas"},
            _oscillation,
            _table,
            _DATA,
            _has_length,
            cost=_cost,
            curves=_DATA,
        ),
        Simulation(
            "sam",
            "sharpness-aware minimisation",
            _LINEAR | {"sam_radius", "full_batch", "linearised", "batch", "allow_unstable", "steps", "replicas"},
            _sam,
            _table,
            _DATA,
            _has_length,
            cost=_cost,
            curves=_DATA,
        ),
    ),
    predict=Predictor(_predict, _predicted, _NOISE, (*PREDICTED, "valid", *CURVES)),
    compare=Comparer(_case, _RUNS, _cost),
    derivations={
        "label-noise": Derive(
            "theory.linear.averaging:derivation", "h1", fixed=True, help="averaged flow of label-noise SGD"
        ),
        "oscillation": Derive(
            "theory.linear.oscillation:derivation", "h1", fixed=True, help="fast oscillation of the second layer"
        ),
        "alignment": Derive(
            "theory.linear.alignment:derivation", "h1", fixed=True, help="alignment of neurons, late rates"
        ),
        "sam": Derive("theory.linear.sam:derivation", "h1", fixed=True, help="sharpness-aware steps"),
    },
)
