"""Problems with the activation z² − 1: what `predict` and `simulate riccati` say about them."""

import argparse
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

import theory
from emergence import config, console, table
from emergence.arguments import problem_flags
from emergence.files import DataFile
from emergence.problem import Problem
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.resolve import teacher_of
from emergence.result import Result
from theory.core.defaults import HORIZON
from theory.quadratic import scaling as quadratic_scaling
from theory.quadratic.model import floor
from theory.quadratic.occupation import Occupation
from theory.quadratic.subspace import draw_columns

if TYPE_CHECKING:
    import xarray as xr

#: Points of the predicted loss curve, and of a simulation.
CURVE, SAMPLES = 120, 201
#: Numbers in the overlaps of a file, above which the frame is left out (its diagonal and risk are always written).
LARGEST_FRAME = 2**25
#: Defaults of the commands that know this model alone.
DEFAULTS = {"activation": "quadratic"}
HEADERS = ("direction", "weight", "time_emergence", "time_half", "time_loss", "steps_half")
_CLOCK = "times are gradient-flow times of ½E(f*−f)²; Riccati time = {rate:.4g} × time"


@dataclass(frozen=True)
class ResolvedQuadratic:
    """A problem with its model; common time everywhere unless a name says Riccati."""

    problem: Problem
    activation: theory.Activation
    model: theory.QuadraticModel

    @cached_property
    def law(self) -> Occupation:
        """The self-consistent law of the diagonal and the risk."""
        return Occupation(self.model.spectrum, self.model.teacher.dim, self.model.width)

    @cached_property
    def half_time(self) -> np.ndarray:
        """When G_jj = ½, shape (M*,); inf for directions that the width cannot hold."""
        return self.model.common_time(self.law.half_times())

    @cached_property
    def loss_time(self) -> np.ndarray:
        """When S_jj is half of its target, shape (M*,)."""
        return self.model.loss_times(self.problem.init_scale, self.half_time)

    @cached_property
    def time(self) -> float:
        """How long to run: given, or past the last direction that is learned."""
        problem = self.problem
        if problem.time is not None:
            return problem.time
        if problem.steps is not None:
            if problem.step_size is None:
                refuse(f"steps is {problem.steps} without step-size: give --step-size too, or --time")
            return problem.steps * problem.step_size
        last = self.half_time[np.isfinite(self.half_time)]
        return HORIZON * float(last.max()) if last.max() > 0 else HORIZON * float(self.model.common_time(1.0))

    @property
    def step_size(self) -> float | None:
        return self.problem.step_size

    def echo(self) -> dict[str, object]:
        """The full problem, defaults included."""
        problem = self.problem
        steps = problem.steps
        if steps is None and self.step_size is not None:
            steps = max(1, int(np.ceil(min(self.time / self.step_size, 2.0**53))))
        decided = {
            "time": self.time,
            "steps": steps,
            "activation": self.activation.name,
            "speed_factor": self.model.speed_factor,
        }
        return asdict(problem) | {"teacher_width": problem.width, "teacher_exponent": problem.exponent} | decided

    def headline(self) -> str:
        """The problem in one line."""
        model = self.model
        return (
            f"activation {self.activation.name} (information exponent 2), P = {self.problem.width}, N = {model.width}, "
            f"d = {model.teacher.dim}, speed factor {model.speed_factor:g}, seed {self.problem.seed}"
        )


def resolved_quadratic(problem: Problem, speed_factor: float = 1.0) -> ResolvedQuadratic:
    """The problem's model; `speed_factor` where the problem has none.

    Raises `InputError` unless the activation is a multiple of z² − 1 and N, M* ≤ d.
    """
    activation = theory.Activation.parse(problem.activation)
    given = speed_factor if problem.speed_factor is None else problem.speed_factor
    model = theory.QuadraticModel.of(activation, teacher_of(problem), problem.student_width, given)
    return ResolvedQuadratic(problem, activation, model)


def predict(problem: Problem) -> Result:
    """Emergence times, exponents and the loss curve of the self-consistent law; no integration."""
    resolved = resolved_quadratic(problem)
    model, law = resolved.model, resolved.law
    times = _curve_times(resolved)
    loss = model.loss(law.risk(model.riccati_time(times)))
    document = {
        "problem": resolved.echo(),
        "directions": directions(resolved),
        "exponents": exponents(resolved),
        "loss": {"time": times, "value": loss},
        "floor": float(model.loss(floor(model.spectrum, model.width))),
        "riccati_rate": model.riccati_rate,
        "time_unit": _CLOCK.format(rate=model.riccati_rate),
    }
    return Result(document, _text(resolved, document))


def _curve_times(resolved: ResolvedQuadratic) -> np.ndarray:
    """0 and geometric times from well before the first emergence to the end."""
    first = float(resolved.half_time.min())
    start = 0.1 * first if first > 0 else 1e-3 * resolved.time
    return np.concatenate([[0.0], np.geomspace(min(start, 0.5 * resolved.time), resolved.time, CURVE)])


def exponents(resolved: ResolvedQuadratic) -> dict[str, float | None]:
    """Exponents of the loss, under the names that the additive model has."""
    found = quadratic_scaling.exponent_values(resolved.model.teacher.exponent)
    return {"time": found["time"], "width": found["width"], "samples_unstable": None, "compute": found["compute"]}


def directions(resolved: ResolvedQuadratic) -> list[dict[str, object]]:
    """One entry per direction, from 1, in the order of the weights; `neuron` and T_p do not apply (no decoupling)."""
    model = resolved.model
    start = draw_columns(resolved.problem.width, model.width, model.teacher.dim, resolved.problem.seed).orthonormal()
    overlap2, leading = np.sum(start.on_teachers**2, axis=1), model.emergence_time
    step = resolved.step_size
    return [
        {
            "direction": p + 1,
            "weight": float(model.teacher.a[p]),
            "neuron": None,
            "overlap2": float(overlap2[p]),
            "time_leading": None,
            "time_emergence": float(leading[p]),
            "time_half": _finite(resolved.half_time[p]),
            "time_loss": _finite(resolved.loss_time[p]),
            "steps_half": None if step is None else _finite(resolved.half_time[p] / step),
        }
        for p in range(resolved.problem.width)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _text(resolved: ResolvedQuadratic, document: dict) -> str:
    rows = [[entry[name] for name in HEADERS] for entry in document["directions"]]
    slopes = ", ".join(f"{name} {table.cell(value)}" for name, value in document["exponents"].items())
    return "\n".join(
        [
            resolved.headline(),
            "",
            table.render(HEADERS, rows),
            "",
            f"loss: {table.cell(float(document['loss']['value'][0]))} at the start, "
            f"{table.cell(float(document['loss']['value'][-1]))} at time {table.cell(resolved.time)}, "
            f"floor {table.cell(document['floor'])}",
            f"exponents of the loss in (speed factor fixed): {slopes}",
            document["time_unit"],
        ]
    )


# ---------------------------------------------------------------------------- simulate


def simulate_riccati(arguments: argparse.Namespace) -> Result:
    """The Riccati flow from random subspaces, one per replica, by its closed form; writes ``riccati-DIGEST.nc``."""
    resolved = resolved_quadratic(config.build(problem_flags(arguments), arguments.config, DEFAULTS))
    file = DataFile.of(arguments, resolved.echo())  # refuses a problem without an end before anything is made
    file.make_folder()
    if (size := _frame_size(resolved)) > LARGEST_FRAME:
        console.warn(f"overlap has {size:.2g} numbers: left out of the file, its squared sums (diagonal) are there")
    with Progress(arguments.quiet) as progress, file.keeping():
        dataset = run_riccati(resolved, progress)
    path = file.write(dataset)
    document = file.document(dataset, path) | {"time_unit": _CLOCK.format(rate=resolved.model.riccati_rate)}
    return Result(document, "\n".join([resolved.headline(), "", _measured(resolved, dataset), "", f"written: {path}"]))


def run_riccati(resolved: ResolvedQuadratic, progress: Progress | None = None) -> "xr.Dataset":
    """The Riccati flow over the problem's run length; its frame is left out where that would be a very large array."""
    from dynamics.quadratic.riccati_data import riccati_dataset

    return riccati_dataset(
        resolved.model,
        np.linspace(0.0, resolved.time, SAMPLES),
        replicas=resolved.problem.replicas,
        seed=resolved.problem.seed,
        step_size=resolved.step_size,
        frame=_frame_size(resolved) <= LARGEST_FRAME,
        progress=progress,
    )


def _frame_size(resolved: ResolvedQuadratic) -> int:
    """Numbers in the overlaps of all replicas at all times."""
    return resolved.problem.replicas * SAMPLES * resolved.model.width * resolved.problem.width


def _measured(resolved: ResolvedQuadratic, dataset: "xr.Dataset") -> str:
    """Final overlaps of each direction with the law's, and the loss."""
    model = resolved.model
    end = model.riccati_time([resolved.time])
    law, final = resolved.law.diagonal(end)[0], np.asarray(dataset["diagonal"])[:, -1]
    rows = [(p + 1, _finite(resolved.half_time[p]), law[p], final[:, p].mean()) for p in range(resolved.problem.width)]
    headers = ("direction", "time_half predicted", "G_jj at the end, law", "G_jj at the end, mean")
    loss = float(np.asarray(dataset["loss"])[:, -1].mean())
    predicted = float(model.loss(resolved.law.risk(end))[0])
    return "\n".join(
        [
            table.render(headers, rows),
            "",
            f"loss at time {table.cell(resolved.time)}: mean {table.cell(loss)}, law {table.cell(predicted)}, "
            f"floor {table.cell(float(model.loss(floor(model.spectrum, model.width))))}",
            _CLOCK.format(rate=model.riccati_rate),
        ]
    )
