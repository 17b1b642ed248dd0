r"""The additive model: a teacher $\sum_pa_p\sigma(\langle e_p,x\rangle)$ and a 2-homogeneous student (arXiv:2504.19983)."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emergence.model import Allowance, Comparer, Derive, Document, Model, Predictor, Progress, Run, Simulation
from emergence.models.additive_problem import AdditiveProblem, Resolved, resolve
from emergence.models.teacher import EXPONENT, PREDICTED, STAGES, TEACHER, of_directions, replicas_cost, state_size
from emergence.refusal import refuse
from emergence.reproduction import FIG1, FIG2
from emergence.resources import Cost
from emergence.table import Table

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from theory.declared.additive_times import AdditiveTimes
    from validation.comparison import Case
    from validation.comparisons.directions import Runs

#: Samples of SGD over all replicas that take five to ten minutes.
SGD_BUDGET = 3e8
#: Overlaps of a student with which a path of the SDE ends within minutes.
SDE_OVERLAPS = 100
#: Tolerance of long flows per step: their emergence times are then good to about 1e-4.
_FLOW_RTOL = 1e-5


# ------------------------------------------------------------------------- simulations


def _gradient_flow(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import dynamics

    _, time, _ = resolved.run_length(counted=False)
    flow = dynamics.gradient_flow(*resolved.parts, t_end=time, step_size=resolved.step_size, progress=progress)
    return Run(flow.dataset, result=flow)


def _online_sgd(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import dynamics

    step_size, _, steps = resolved.run_length()
    sgd = dynamics.online_sgd(
        *resolved.parts, step_size=step_size, steps=steps, progress=progress, **resolved.problem.sampling
    )
    return Run(sgd.dataset, int(sgd.diverged.sum()), sgd)


def _finite_step(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import dynamics

    step_size, _, steps = resolved.run_length()
    run = dynamics.finite_step_flow(
        *resolved.parts, step_size=step_size, steps=steps, batch=resolved.problem.batch, progress=progress
    )
    return Run(run.dataset, int(run.diverged), run)


def _sde(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import dynamics

    step_size, time, _ = resolved.run_length(counted=False)
    problem = resolved.problem
    run = dynamics.sde_ensemble(
        *resolved.parts,
        step_size=step_size,
        time=time,
        paths=problem.replicas,
        batch=problem.batch,
        seed=problem.seed,
        progress=progress,
    )
    return Run(run.dataset, int(run.diverged.sum()), run)


def _retiring_flow(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    """The coupled flow of many directions, loss and learned shares, with what theory predicts for them."""
    import dynamics
    from dynamics.core.trajectory import variable

    assert resolved.time is not None
    flow = dynamics.retiring_flow(
        *resolved.parts, t_end=resolved.time, rtol=_FLOW_RTOL, atol=1e-3 * _FLOW_RTOL, progress=progress
    )
    data = _with_prediction(resolved, flow.times, flow.loss, half_time=flow.half_time, loss_time=flow.loss_time)
    data["share"] = variable(("time", "direction"), flow.share, "learned share of the direction's weight")
    data["light_share"] = variable("direction", flow.light_share, "share of the force that comes from light students")
    data["neglected"] = variable("direction", flow.neglected, "bound on the angle that retirement neglects")
    data["solver_steps"] = variable((), float(flow.steps), "steps of the integrator")
    return Run(data, result=flow)


def _gradient_descent(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    """Population gradient descent with a fixed step, with what theory predicts for the flow."""
    import dynamics

    step_size, _, steps = resolved.run_length()
    run = dynamics.gradient_descent(*resolved.parts, step_size=step_size, steps=steps, progress=progress)
    half_time = step_size * run.half_steps
    data = _with_prediction(resolved, step_size * run.steps, run.loss, run.steps, half_time=half_time)
    return Run(data, int(run.diverged), run)


def _with_prediction(resolved: Resolved, times: Any, loss: Any, steps: Any = None, **measured: Any) -> "xr.Dataset":
    """Measured loss and emergence times beside the predicted ones, for many problems: those in closed form."""
    import numpy as np
    import xarray as xr

    from dynamics.core.trajectory import ends, time_axis, variable

    return xr.Dataset(
        {
            "loss": variable("time", loss, "population loss ½E(f*−f)²"),
            **ends(**measured),
            **_predictions(resolved, resolved.brief, times),
        },
        coords=time_axis(times, steps) | {"direction": np.arange(1, resolved.teacher.width + 1)},
    )


def _predictions(resolved: Resolved, told: "AdditiveTimes", times: Any) -> dict[str, Any]:
    """Predicted times of every direction, and the staircase of the loss that they make at `times` (n,)."""
    from dynamics.core.trajectory import ends, variable

    staircase = replace(resolved.prediction, time_loss=told.falls)
    valid = [float(own.valid) for own in told.validities]
    return {
        "predicted_loss": variable("time", staircase.loss(times), "predicted staircase of the loss"),
        **ends(predicted_half_time=told.half, predicted_loss_time=told.loss),
        "predicted_valid": variable(
            "direction", valid, "1 where the prediction's conditions hold, 0 where they do not"
        ),
    }


def _as_shown(resolved: Resolved, run: Run) -> Run:
    """With the predictions of the table, which may take a minute, in the place of those in closed form."""
    from dynamics.core.interrupted import Interrupted

    try:
        told = resolved.times
    except KeyboardInterrupt as stop:
        raise Interrupted(run.data, "after the run, before its predictions") from stop
    return replace(run, data=run.data.assign(_predictions(resolved, told, run.data.time.values)))


def _flow_cost(resolved: Resolved) -> Cost:
    """The stages of a step, each a state m(P + m)."""
    return Cost(STAGES * state_size(resolved.problem.student_width, resolved.problem.width))


def _descent_cost(resolved: Resolved) -> Cost:
    size = state_size(resolved.problem.student_width, resolved.problem.width)
    return Cost(2 * size, 2.0 * resolved.run_length()[2] * size)


def _sgd_cost(resolved: Resolved) -> Cost:
    problem = resolved.problem
    return replicas_cost(problem, problem.student_width, problem.width, resolved.run_length()[2])


def _sde_cost(resolved: Resolved) -> Cost:
    """A covariance of all overlaps, its root and its eigenvectors; the overlaps of every path."""
    width = resolved.problem.student_width
    overlaps = float(width * resolved.teacher.width + width * (width + 1) // 2)
    return Cost(3 * overlaps**2 + resolved.problem.replicas * overlaps)


def _sgd_compute(resolved: Resolved) -> float:
    """Of a step: neurons times samples."""
    return float(resolved.problem.student_width * resolved.problem.batch)


def _width(resolved: Resolved) -> float:
    return float(resolved.problem.student_width)


# ------------------------------------------------------------- refusals before and tables after


def _polynomial(resolved: Resolved, counted: bool) -> None:
    from theory.steps.moments import require_polynomial

    require_polynomial(resolved.activation)
    resolved.run_length(counted)


def _has_time(resolved: Resolved) -> None:
    if resolved.time is None:
        refuse(f"seed {resolved.problem.seed}: nothing is predicted to be learned, so time has no default: give it")


def _long(resolved: Resolved) -> tuple[str, ...]:
    """Said at once where a run of SGD will not end soon."""
    _, _, steps = resolved.run_length()
    samples = float(steps) * resolved.problem.batch * resolved.problem.replicas
    if samples <= SGD_BUDGET:
        return ()
    return (
        f"online-sgd needs {samples:.2g} samples over all replicas, {samples / SGD_BUDGET:.2g} times what takes five to ten "
        "minutes: lower --dim or --replicas, raise --step-size, or give --steps",
    )


def _wide(resolved: Resolved) -> tuple[str, ...]:
    """Said at once where the SDE of so many overlaps will not end soon."""
    width = resolved.problem.student_width
    overlaps = width * resolved.teacher.width + width * (width + 1) // 2
    if overlaps <= SDE_OVERLAPS:
        return ()
    return (
        f"sde: every step of every path takes the square root of the {overlaps} × {overlaps} covariance of all overlaps, "
        "which may take days: lower --student-width and --teacher-width to a few",
    )


def _table(times: str, *, per_step: bool = False) -> Callable[[Resolved, Run], Table]:
    """A table of predicted and measured emergence times; `times`: the measured ones' name in the simulator's result."""

    def shown(resolved: Resolved, run: Run) -> Table:
        from emergence.prediction import beside, late, over_replicas, sgd_means, sgd_steps

        predicted, measured = resolved.times.half, getattr(run.result, times)
        if measured.ndim == 1:
            columns = {"time_half predicted": predicted, "time_half measured": measured}
            if hasattr(run.result, "loss_time"):
                columns |= {
                    "time_loss predicted": resolved.times.loss,
                    "time_loss measured": run.result.loss_time,
                }
            return beside(resolved.times.validities, columns)
        if per_step:
            step_size, _, _ = resolved.run_length()
            columns = {"steps_half predicted": _steps_half(resolved, step_size), **sgd_means(resolved)}
            columns |= over_replicas(measured, run.result.diverged)
        else:
            columns = {"time_half predicted": predicted, **over_replicas(measured, run.result.diverged, spread=True)}
        return beside(resolved.times.validities, columns, late(sgd_steps(resolved)))

    return shown


def _steps_half(resolved: Resolved, step_size: float) -> list[float]:
    """(P,) of the flow, whole ones."""
    times = resolved.times.half.tolist()
    return [resolved.prediction.steps_half(p, time, step_size) for p, time in enumerate(times)]


def _descent_table(resolved: Resolved, run: Run) -> Table:
    from emergence.prediction import beside

    step_size, _, _ = resolved.run_length()
    predicted = _steps_half(resolved, step_size)
    return beside(
        resolved.times.validities, {"steps_half predicted": predicted, "steps_half measured": run.result.half_steps}
    )


# ------------------------------------------------------------------------- predictions


def _predict(resolved: Resolved) -> Document:
    from emergence.prediction import document

    return document(resolved)


def _predicted(resolved: Resolved) -> "xr.Dataset":
    """The columns of ``emergence predict`` along ``direction``, and its exponents; NaN where there is none.

    Without intervals: a sweep has many cells, and what a prediction adds to its numbers is not repeated in each.
    """
    from emergence.prediction import columns, directions
    from theory.scaling import ideal_loss

    entries = directions(resolved, resolved.brief)
    exponents = ideal_loss.exponent_values(resolved.teacher.exponent, resolved.activation)
    return columns(entries, exponents, resolved.step_size)


# --------------------------------------------------------------------------- comparison


def _case(resolved: Resolved) -> "Case":
    from validation.comparisons.additive import additive_case

    return additive_case(*resolved.parts, runs_of(resolved))


def runs_of(resolved: Resolved) -> "Runs":
    """How a comparison runs SGD: more than the budget waits for an explicit --steps or --time; by default as much as that, if
    a direction is found by then.
    """
    from theory.core.defaults import HORIZON
    from validation.comparisons.directions import Runs

    (step_size, _, steps), problem = resolved.run_length(), resolved.problem
    if problem.steps or problem.time:
        return Runs(step_size=step_size, steps=steps, **problem.sampling)
    affordable = int(SGD_BUDGET // (problem.replicas * problem.batch))
    first = min((x for x in resolved.brief.half.tolist() if 0 < x < math.inf), default=math.inf)
    enough = affordable if HORIZON * first <= affordable * step_size else steps
    fewer = min(steps, enough)
    return Runs(step_size=step_size, steps=steps, budget=SGD_BUDGET, sgd_steps=fewer, **problem.sampling)


# ------------------------------------------------------------------------- letters and allowances


def _finite_size(resolved: Resolved) -> "np.ndarray":
    """(P,) the share of an emergence time that finite size may move."""
    from theory.prediction.validity import finite_size_share

    return finite_size_share(resolved.prediction.overlap**2)


def _small_step(resolved: Resolved) -> "np.ndarray":
    """(P,) the share of an emergence time by which the derived fluctuations of SGD shift its mean; NaN if not learned, 0 where
    the start is there already.
    """
    import numpy as np

    from validation.comparisons.additive import crowded

    prediction, runs = resolved.prediction, runs_of(resolved)
    if not prediction.has_sgd_law:
        refuse(
            f"allowance is small-step, but activation {resolved.activation.name!r} has information exponent "
            f"{resolved.activation.information_exponent}: the law of SGD is known from 3 on, and of one direction for "
            "polynomials; use none, finite-size, or a formula"
        )
    found, rivals = np.full(resolved.teacher.width, np.nan), crowded(prediction, runs)
    for q in prediction.selection.directions:
        time = float(prediction.time_half[q])
        if time == 0:
            found[q] = 0.0
            continue
        law = prediction.sgd_law(q, runs.step_size, runs.batch)
        found[q] = (abs(law.mean - time) + float(rivals[q])) / time
    return found


_SGD_TIMES = ("half_steps", "loss_steps")
_ALLOWANCES = {
    "finite-size": Allowance(
        "what finite size may move an emergence time by, 3·u0²·ln(1/u0²) of it",
        ("half_time", "loss_time", *_SGD_TIMES),
        _finite_size,
    ),
    "small-step": Allowance(
        "what fluctuations of SGD at this step size shift the mean time by, to first order, and other neurons nearly as fast",
        _SGD_TIMES,
        _small_step,
    ),
}

# ------------------------------------------------------------------------------ record

_PREDICT = frozenset({*TEACHER, "student_width", "init_scale", "seed", "step_size", "allow_unstable"})
_RUN = _PREDICT | {"steps", "time"}
_SGD = _RUN | {"batch", "replicas"}
_STATE = ("overlap", "norm2", "loss")
_PREDICTED = ("loss", "predicted_loss", "half_time", "predicted_half_time", "predicted_loss_time", "predicted_valid")
MODEL = Model(
    name="additive",
    help="teacher a_1*s(x_1) + … + a_P*s(x_P) and a 2-homogeneous student",
    problem=AdditiveProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="gradient-flow",
            help="population gradient flow of all overlaps",
            uses=_RUN,
            run=_gradient_flow,
            table=_table("half_time"),
            curves=_STATE,
            variables=(*_STATE, "half_time", "half_neuron", "loss_time"),
            requires=lambda resolved: resolved.run_length(counted=False) and None,
            cost=_flow_cost,
            compute=("time", _width),
        ),
        Simulation(
            name="online-sgd",
            help="SGD on fresh samples, exact in law",
            uses=_SGD | {"method"},
            run=_online_sgd,
            table=_table("half_steps", per_step=True),
            curves=_STATE,
            variables=(*_STATE, "half_steps", "loss_steps", "diverged"),
            requires=lambda resolved: resolved.run_length() and None,
            warn=_long,
            cost=_sgd_cost,
            compute=("step", _sgd_compute),
        ),
        Simulation(
            name="finite-step",
            help="the mean of SGD to second order in the step size",
            uses=_RUN | {"batch"},
            run=_finite_step,
            table=_table("half_time"),
            curves=_STATE,
            variables=(*_STATE, "half_time", "diverged"),
            requires=lambda resolved: _polynomial(resolved, counted=True),
            cost=_flow_cost,
        ),
        Simulation(
            name="sde",
            help="the diffusion of all overlaps",
            uses=_SGD,
            run=_sde,
            table=_table("half_time"),
            curves=_STATE,
            variables=(*_STATE, "half_time", "diverged"),
            requires=lambda resolved: _polynomial(resolved, counted=False),
            warn=_wide,
            cost=_sde_cost,
        ),
        Simulation(
            name="retiring-flow",
            help="gradient flow of many directions: learned pairs leave the equations",
            uses=_RUN - {"step_size", "steps", "allow_unstable"},
            run=_retiring_flow,
            shown=_as_shown,
            table=_table("half_time"),
            curves=("loss", "predicted_loss", "share"),
            variables=(*_PREDICTED, "share", "loss_time", "light_share", "neglected", "solver_steps"),
            requires=_has_time,
            cost=_flow_cost,
            compute=("time", _width),
        ),
        Simulation(
            name="gradient-descent",
            help="population gradient descent with a fixed step",
            uses=_RUN,
            run=_gradient_descent,
            shown=_as_shown,
            table=_descent_table,
            curves=("loss", "predicted_loss"),
            variables=_PREDICTED,
            requires=lambda resolved: resolved.run_length() and None,
            cost=_descent_cost,
            compute=("step", _width),
        ),
    ),
    predict=Predictor(
        _predict,
        _predicted,
        _PREDICT | {"batch"},
        PREDICTED,
    ),
    compare=Comparer(_case, _SGD | {"method"}, lambda resolved: Cost(_sgd_cost(resolved).numbers)),
    derivations={
        "loss": Derive("theory:loss_derivation", help="population loss in overlaps"),
        "gradient": Derive("theory:gradient_derivation", help="its gradient in a neuron"),
        "overlap-flow": Derive("theory:overlap_flow", help="gradient flow of all overlaps"),
        "single-task": Derive("theory:SingleTask", help="one direction alone: emergence time and sharpness"),
        "norm": Derive("theory:SingleTask", part="norm_derivation", help="norm of a neuron that learns alone"),
        "ideal-loss": Derive("theory.scaling.ideal_loss:derivation", help="staircase of the loss and its exponents"),
        "loss-sum": Derive("theory.scaling.scaling_laws:derivation", help="mean loss over random starts"),
        "bayes-floor": Derive("theory.scaling.bayes:derivation", help="error that no algorithm undercuts"),
        "retirement": Derive(
            "theory.additive.retirement:derivation", help="what a fitted neuron still does to the others"
        ),
        "plateau": Derive("theory:plateau", help="before emergence: what finite steps do to an overlap"),
        "finite-step": Derive("theory:finite_step", help="mean of a step to second order in the step size"),
        "committee": Derive("theory.steps.committee:committee", "erf", help="SGD of a committee machine, any overlaps"),
        "correlation": Derive("theory.baselines.correlation:derivation", help="correlation loss on the sphere"),
    },
    figures=(FIG1, FIG2),
    symbols=of_directions(lambda resolved: resolved.teacher.a, lambda resolved: resolved.prediction.overlap)
    | {"J": EXPONENT},
    allowances=_ALLOWANCES,
)
