"""What a sweep can compute in a cell. Importing this module imports nothing heavy; computing does."""

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from emergence.problem import Problem
from emergence.refusal import refuse
from emergence.store import folder as store
from emergence.version import version

if TYPE_CHECKING:
    import xarray as xr

    from emergence.resolve import Resolved

#: Raised whenever a cell's variables change their names or meaning: older cells are then left alone, not mixed in.
SCHEMA = 2


@dataclass(frozen=True)
class Kind:
    """A kind of computation.

    Attributes:
        run: the problem's dataset and how many of its replicas diverged.
        variables: names of the dataset's variables, for ``--keep``.
        defaults: what takes the place of the problem's usual defaults.
    """

    run: "Callable[[Problem], tuple[xr.Dataset, int]]"
    variables: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)


def configuration(what: str, problem: Problem, keep: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Everything that decides a cell's result: the computation, the problem with its defaults, the software's version.

    Defaults that follow from the rest of the problem (step size, length) stay null. `keep`: variables stored (None: all).
    """
    decided = {"teacher_width": problem.width, "teacher_exponent": problem.exponent}
    content = {
        "what": what,
        "schema": SCHEMA,
        "version": version(),
        "problem": asdict(problem) | decided,
        "keep": None if keep is None else sorted(keep),
    }
    return dict(json.loads(store.canonical(content)))


def compute(configuration: Mapping[str, Any]) -> bytes:
    """The finished cell of a configuration, as the bytes of its file.

    Raises whatever the computation raises, and `InputError` if this process has another version of the software.
    """
    if configuration["version"] != version():
        refuse(f"version is {configuration['version']}, this worker has {version()}: install the same everywhere")
    kind = CELLS[configuration["what"]]
    values = dict(configuration["problem"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, diverged = kind.run(Problem(**values))
    keep = configuration["keep"]
    for name in set(keep or ()) - set(data):
        refuse(f"--keep names {name}, too large an array at this size: leave it out, or lower replicas or a width")
    return store.seal(data if keep is None else data[keep], configuration, diverged)


def problem_of(what: str, given: Mapping[str, Any]) -> Problem:
    """The problem of a cell: what is given over the defaults of its kind. Raises `InputError`."""
    return Problem(**{**CELLS[what].defaults, **given})


# ------------------------------------------------------------------------------ kinds


def _predict(problem: Problem) -> "tuple[xr.Dataset, int]":
    """The columns of ``emergence predict`` along ``direction``, and its exponents; NaN where there is none."""
    import numpy as np
    import xarray as xr

    import theory
    from emergence import quadratic
    from emergence.commands.predict import COLUMNS, directions
    from emergence.resolve import resolve
    from theory.prediction.validity import validity
    from theory.scaling import ideal_loss

    if theory.Activation.parse(problem.activation).is_quadratic:
        model = quadratic.resolved_quadratic(problem)
        entries, exponents, step_size = quadratic.directions(model), quadratic.exponents(model), model.step_size
    else:
        resolved = resolve(problem)
        # Closed forms alone: a sweep has many cells, and what a prediction adds to its numbers is not repeated in each.
        entries, step_size = directions(resolved, validity(resolved.prediction, intervals=False)), resolved.step_size
        exponents = ideal_loss.exponent_values(resolved.teacher.exponent, resolved.activation)
    numbers = [name for name in COLUMNS[1:] if name not in ("low", "high")]
    columns = {name: ("direction", [_number(entry.get(name)) for entry in entries]) for name in numbers}
    columns["valid"] = ("direction", [float(entry.get("valid", True) is True) for entry in entries])
    scalars = {f"exponent_{name}": _number(value) for name, value in exponents.items()}
    scalars |= {"step_size": _number(step_size)}
    data = xr.Dataset({**columns, **scalars}, coords={"direction": np.arange(1, len(entries) + 1)})
    return data, 0


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _gradient_flow(resolved: "Resolved") -> "tuple[xr.Dataset, int]":
    """The flow with its emergence times; inf for a direction that is not reached."""
    from emergence.commands.simulate import run_gradient_flow

    return run_gradient_flow(resolved).dataset, 0


def _online_sgd(resolved: "Resolved") -> "tuple[xr.Dataset, int]":
    """The replicas with their recovery steps; inf for a direction that is not reached."""
    from emergence.commands.simulate import run_online_sgd

    sgd = run_online_sgd(resolved)
    return sgd.dataset, int(sgd.diverged.sum())


def _finite_step(resolved: "Resolved") -> "tuple[xr.Dataset, int]":
    """The O(η²) flow with its recovery times; inf for a direction that is not reached."""
    from emergence.commands.simulate import run_finite_step

    run = run_finite_step(resolved)
    return run.dataset, int(run.diverged)


def _sde(resolved: "Resolved") -> "tuple[xr.Dataset, int]":
    """The paths with their recovery times; inf for a direction that is not reached."""
    from emergence.commands.simulate import run_sde

    run = run_sde(resolved)
    return run.dataset, int(run.diverged.sum())


def _retiring_flow(resolved: "Resolved") -> "tuple[xr.Dataset, int]":
    """The coupled flow of many directions, loss and learned shares, with what theory predicts for them."""
    import dynamics
    from dynamics.core.trajectory import variable

    if resolved.time is None:
        refuse(f"seed {resolved.problem.seed}: nothing is predicted to be learned, so time has no default: give it")
    flow = dynamics.retiring_flow(
        resolved.activation,
        resolved.teacher,
        resolved.initial,
        t_end=resolved.time,
        rtol=_FLOW_RTOL,
        atol=1e-3 * _FLOW_RTOL,
    )
    data = _with_prediction(resolved, flow.times, flow.loss, half_time=flow.half_time, loss_time=flow.loss_time)
    data["share"] = variable(("time", "direction"), flow.share, "learned share of the direction's weight")
    data["light_share"] = variable("direction", flow.light_share, "share of the force that comes from light students")
    data["neglected"] = variable("direction", flow.neglected, "bound on the angle that retirement neglects")
    data["solver_steps"] = variable((), float(flow.steps), "steps of the integrator")
    return data, 0


def _gradient_descent(resolved: "Resolved") -> "tuple[xr.Dataset, int]":
    """Population gradient descent with a fixed step, with what theory predicts for the flow."""
    import dynamics

    step_size, _, steps = resolved.run_length()
    run = dynamics.gradient_descent(
        resolved.activation, resolved.teacher, resolved.initial, step_size=step_size, steps=steps
    )
    half_time = step_size * run.half_steps
    return _with_prediction(resolved, step_size * run.steps, run.loss, run.steps, half_time=half_time), int(
        run.diverged
    )


def _with_prediction(resolved: "Resolved", times: Any, loss: Any, steps: Any = None, **measured: Any) -> "xr.Dataset":
    """Measured loss and emergence times beside the predicted ones."""
    import numpy as np
    import xarray as xr

    from dynamics.core.trajectory import ends, time_axis, variable
    from theory.prediction.validity import validity

    prediction = resolved.prediction
    valid = np.array([float(own.valid) for own in validity(prediction, intervals=False)])
    return xr.Dataset(
        {
            "loss": variable("time", loss, "population loss ½E(f*−f)²"),
            "predicted_loss": variable("time", prediction.loss(times), "predicted staircase of the loss"),
            **ends(**measured, predicted_half_time=prediction.time_half, predicted_loss_time=prediction.time_loss),
            "predicted_valid": variable(
                "direction", valid, "1 where the prediction's conditions hold, 0 where they do not"
            ),
        },
        coords=time_axis(times, steps) | {"direction": np.arange(1, resolved.teacher.width + 1)},
    )


def _riccati(problem: Problem) -> "tuple[xr.Dataset, int]":
    """The Riccati flow from random subspaces, by its closed form."""
    from emergence.quadratic import resolved_quadratic, run_riccati

    return run_riccati(resolved_quadratic(problem)), 0


def _stiefel_sgd(problem: Problem) -> "tuple[xr.Dataset, int]":
    """Replicas of Stiefel SGD; nothing diverges on the manifold."""
    from emergence.stiefel import plan_of, resolved_stiefel, run_stiefel

    resolved = resolved_stiefel(problem)
    return run_stiefel(resolved, plan_of(resolved)).dataset, 0


def _additive(run: "Callable[[Resolved], tuple[xr.Dataset, int]]") -> "Callable[[Problem], tuple[xr.Dataset, int]]":
    """A computation of the additive model's resolved problem as one of the problem."""

    def resolve_and_run(problem: Problem) -> "tuple[xr.Dataset, int]":
        from emergence.resolve import resolve

        return run(resolve(problem))

    return resolve_and_run


#: Tolerance of long flows per step: their emergence times are then good to about 1e-4.
_FLOW_RTOL = 1e-5
_STATE = ("overlap", "norm2", "loss")
_QUADRATIC = {"activation": "quadratic"}
_PREDICTED = ("loss", "predicted_loss", "half_time", "predicted_half_time", "predicted_loss_time", "predicted_valid")
CELLS: dict[str, Kind] = {
    "predict": Kind(
        _predict,
        (
            *(
                "weight",
                "neuron",
                "overlap2",
                "lead",
                "valid",
                "time_leading",
                "time_half",
                "time_loss",
                "steps_half",
                "step_size",
            ),
            *("exponent_time", "exponent_width", "exponent_samples_unstable", "exponent_compute"),
        ),
    ),
    "gradient-flow": Kind(_additive(_gradient_flow), (*_STATE, "half_time", "half_neuron", "loss_time")),
    "gradient-descent": Kind(_additive(_gradient_descent), _PREDICTED),
    "retiring-flow": Kind(
        _additive(_retiring_flow), (*_PREDICTED, "share", "loss_time", "light_share", "neglected", "solver_steps")
    ),
    "online-sgd": Kind(_additive(_online_sgd), (*_STATE, "half_steps", "loss_steps", "diverged")),
    "finite-step": Kind(_additive(_finite_step), (*_STATE, "half_time", "diverged")),
    "sde": Kind(_additive(_sde), (*_STATE, "half_time", "diverged")),
    "riccati": Kind(_riccati, (*_STATE, "diagonal", "risk"), _QUADRATIC),
    "stiefel-sgd": Kind(_stiefel_sgd, (*_STATE, "risk"), _QUADRATIC),
}
