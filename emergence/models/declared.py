r"""A declared model: any Gaussian inputs, target, student, loss and rule that turns with the axes (`theory.declared`)."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from emergence.model import Comparer, Derive, Model, Predictor, Progress, Run, Simulation, Symbol
from emergence.models.declared_prediction import VARIABLES, data, document
from emergence.models.declared_problem import DeclaredProblem, Resolved, resolve, stepping
from emergence.models.run_length import check_steps
from emergence.models.teacher import state_size
from emergence.options import options
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.table import Table

if TYPE_CHECKING:
    from theory import Activation
    from validation.comparison import Case

#: Directions shown in the table.
_SHOWN = 4


def _sgd(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    from dynamics.declared.simulate import declared_sgd

    problem = resolved.problem
    run = declared_sgd(
        resolved.model,
        resolved.start,
        steps=resolved.steps,
        replicas=problem.replicas,
        seed=problem.seed,
        method=problem.method,
        loss=_has_loss(resolved),
        progress=progress,
    )
    data = run.dataset
    if "loss" not in data:
        data = data.assign(loss=data.second.sum("neuron") * math.nan)
        data["loss"].attrs = {"long_name": "population loss: not known in closed form", "units": "1"}
    return Run(data, int(run.diverged.sum()), run)


def _has_loss(resolved: Resolved) -> bool:
    """Whether the population loss is known in closed form."""
    from dynamics.declared.population import lowered_population
    from theory import InputError

    try:
        lowered_population(resolved.model)
    except InputError:
        return False
    return True


def _flow(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    from dynamics.declared.flow import declared_flow

    flow = declared_flow(resolved.model, resolved.start, resolved.time, progress=progress)
    return Run(flow.dataset, result=flow)


def _flows(resolved: Resolved) -> None:
    """Refuses what has no flow."""
    from dynamics.declared.flow import flow_state
    from theory.declared.flow import population_flow

    if resolved.model.rule.samples:
        refuse(f"samples is {resolved.model.rule.samples}: a fixed data set has no population flow: leave it out")
    population_flow(resolved.model)
    flow_state(resolved.model, resolved.start)


def _flows_alone(resolved: Resolved) -> None:
    """Refuses noise that does not move the flow, too."""
    rule = resolved.model.rule
    if rule.noise and rule.signal == 1:
        refuse(
            f"noise is {rule.noise:g} of law {rule.noise_law!r}, whose mean is 0: it does not move the flow; leave it out"
        )
    _flows(resolved)


def _runs(resolved: Resolved) -> None:
    """One step is traced: a rule that needs coordinates is refused before anything is made, and a file's rule that fails."""
    from dynamics.core.outside import NO_MISTAKES
    from dynamics.declared.engine import Exact

    check_steps(resolved.steps)
    if resolved.problem.method == "exact":
        with stepping(resolved.problem.rule):
            Exact(resolved.model, resolved.start, 1, NO_MISTAKES)


def _sgd_cost(resolved: Resolved) -> Cost:
    """Overlaps of every replica by eigenspace (or, with a data set, with its samples), and what each sample moves."""
    problem, kinds = resolved.problem, len(resolved.model.directions.inputs.eigenvalues)
    size = kinds * state_size(problem.student_width, resolved.model.directions.count)
    own = max(size, float(problem.samples or 0) * (problem.samples or 0))
    batch = problem.batch or 1
    return Cost(problem.replicas * own, 2.0 * resolved.steps * batch * problem.replicas * size)


def _table(resolved: Resolved, run: Run) -> Table:
    """Lengths, cosines with the directions and the second layer at a few steps: means over replicas, and the loss."""
    import numpy as np

    data = run.data
    places = sorted({round(share * (data.sizes["time"] - 1)) for share in (0, 0.1, 0.25, 0.5, 0.75, 1)})
    data = data.isel(time=places)
    if "replica" in data.dims:
        data = data.isel(replica=np.flatnonzero(~data.diverged.values))
        if not data.sizes["replica"]:
            gentler = "" if resolved.problem.rule == "sgd" else f", or less than rule {resolved.problem.rule}"
            return Table(
                above=[f"every replica diverged: give a step size below {resolved.echo()['step_size']}{gentler}"]
            )
    norm = np.sqrt(np.einsum("...ikk->...k", data.gram.values))
    length = np.sqrt(np.einsum("ipp->p", resolved.model.directions.grams))
    cosine = np.abs(data.overlap.sum("eigenspace").values) / (norm[..., None] * length)
    shown = {
        "mean norm": norm.mean(axis=-1),
        **{f"max |cos| {p + 1}": cosine[..., p].max(axis=-1) for p in range(min(length.size, _SHOWN))},
        "mean b": data.second.values.mean(axis=-1),
        **({} if np.isnan(data.loss.values).all() else {"loss": data.loss.values}),
    }
    columns = [x.reshape(-1, len(places)).mean(axis=0) for x in shown.values()]
    begin = {"step": data.step.values} if "replica" in data.dims else {}
    begin["time"] = data.time.values
    rows = zip(*(x.tolist() for x in (*begin.values(), *columns)), strict=True)
    return Table((*begin, *shown), list(rows))


def _case(resolved: Resolved) -> "Case":
    from validation.comparisons.declared import declared_case

    _flows(resolved)
    check_steps(resolved.steps)
    problem = resolved.problem
    return declared_case(
        resolved.model,
        resolved.start,
        steps=resolved.steps,
        time=resolved.time,
        replicas=problem.replicas,
        seed=problem.seed,
        method=problem.method,
    )


def _derived(activation: "Activation", homogeneous: bool) -> Any:
    """The flow's equations; they show neither width nor weights nor eigenvalues, which are symbols."""
    from theory.declared.directions import Directions
    from theory.declared.flow import population_flow
    from theory.declared.inputs import Inputs
    from theory.declared.model import DeclaredModel
    from theory.declared.rule import Rule
    from theory.declared.student import committee, two_homogeneous
    from theory.declared.target import Additive

    student = two_homogeneous(activation, 1) if homogeneous else committee(activation, 1, trained=True)
    directions = Directions.orthonormal(Inputs.isotropic(2), 1)
    return population_flow(DeclaredModel(directions, Additive(activation, (1.0,)), student, Rule(1.0)))


def _step(activation: "Activation") -> Any:
    """Moments of a step of free rows."""
    from theory.declared.step_derivation import derivation
    from theory.declared.step_moments import StepMoments

    return derivation(StepMoments(activation, activation))


def _unit_step(activation: "Activation", rows: str) -> Any:
    """Moments of a step of rows of unit length."""
    from theory.declared.step_moments import StepMoments
    from theory.declared.unit_derivation import derivation
    from theory.declared.unit_rows import UnitStepMoments

    return derivation(UnitStepMoments(StepMoments(activation, activation), rows=rows))


def _homogeneous_step(activation: "Activation", whitened: bool) -> Any:
    """Moments of a step of a 2-homogeneous student."""
    from theory.declared.homogeneous_derivation import derivation
    from theory.declared.homogeneous_rows import HomogeneousStepMoments
    from theory.declared.step_moments import StepMoments

    return derivation(HomogeneousStepMoments(StepMoments(activation, activation), whitened=whitened))


def _trained_step(activation: "Activation") -> Any:
    """Moments of a step of a trained second layer."""
    from theory.declared.step_moments import StepMoments
    from theory.declared.trained_derivation import derivation
    from theory.declared.trained_layer import TrainedLayer

    return derivation(TrainedLayer(StepMoments(activation, activation)))


_ALL = frozenset(options(DeclaredProblem))
_FRESH = _ALL - {"samples", "order", "renewed"}
_UNIT_ROWS = {"sphere": "renormed after it", "projected": "the gradient projected, then renormed"}
_CURVES = ("overlap", "gram", "second", "loss")


def _weights(resolved: Resolved) -> tuple[float, ...] | None:
    return resolved.problem.weights if resolved.problem.target == "additive" else None


def _link_exponent(resolved: Resolved) -> int | None:
    from theory import Activation

    problem = resolved.problem
    if problem.target != "additive":
        return None
    return Activation.parse(problem.link or problem.activation).information_exponent


def _start_loss(resolved: Resolved) -> float:
    from dynamics.declared.population import declared_loss

    model, start = resolved.model, resolved.start
    return float(declared_loss(model, start.overlaps(model.directions), start.grams, model.student.second))


MODEL = Model(
    name="declared",
    help="any Gaussian inputs, target, student, loss and rule",
    problem=DeclaredProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            "declared-sgd",
            "SGD of a declared model, exact in law",
            _ALL,
            _sgd,
            _table,
            (*_CURVES, "train_loss", "diverged"),
            _runs,
            curves=(*_CURVES, "train_loss"),
            cost=_sgd_cost,
            compute=("step", lambda resolved: float(resolved.problem.student_width * (resolved.problem.batch or 1))),
        ),
        Simulation(
            "declared-flow",
            "population flow of a declared model",
            _FRESH - {"batch", "replicas", "method"},
            _flow,
            _table,
            _CURVES,
            _flows_alone,
            curves=_CURVES,
            compute=("time", lambda resolved: float(resolved.problem.student_width)),
        ),
    ),
    predict=Predictor(document, data, _FRESH - {"replicas", "method"}, VARIABLES),
    compare=Comparer(_case, _FRESH, _sgd_cost),
    derivations={
        "declared-flow": Derive(
            lambda activation: _derived(activation, True),
            "h4",
            kernel=False,
            help="population flow of 2-homogeneous rows",
        ),
        "declared-committee": Derive(
            lambda activation: _derived(activation, False), "erf", kernel=False, help="population flow of a committee"
        ),
        "declared-step": Derive(_step, "h3", kernel=False, help="moments of one step: mean and covariance"),
        **{
            f"declared-step-{rows}": Derive(
                partial(_unit_step, rows=rows),
                "h3",
                kernel=False,
                help=f"moments of a step of rows of unit length, {how}",
            )
            for rows, how in _UNIT_ROWS.items()
        },
        "declared-step-trained": Derive(
            _trained_step, "h3", kernel=False, help="moments of a step of a trained second layer"
        ),
        "declared-step-homogeneous": Derive(
            partial(_homogeneous_step, whitened=False),
            "h3",
            kernel=False,
            help="moments of a step of 2-homogeneous rows",
        ),
        # (Of h3 alone, at unit variance, E σσ'' is zero: a term that nothing would check.)
        "declared-step-whitened": Derive(
            partial(_homogeneous_step, whitened=True),
            "h1+h3",
            kernel=False,
            help="the same of rows normed by their fields",
        ),
    },
    symbols={
        "d": Symbol("input dimension", lambda resolved: resolved.model.inputs.dim),
        "a": Symbol("weight of the direction, of an additive target", _weights),
        "u0": Symbol(
            "largest |cosine| of a row with the direction, at the start",
            lambda resolved: abs(resolved.start.cosines(resolved.model.directions)).max(axis=0),
        ),
        "c0": Symbol(
            "largest cosine of a row with the direction, at the start, its sign kept",
            lambda resolved: resolved.start.cosines(resolved.model.directions).max(axis=0),
        ),
        "loss0": Symbol("population loss at the start, label noise left out", _start_loss),
        "J": Symbol("information exponent of an additive target's link", _link_exponent),
    },
)
