"""Kernel ridge regression on the additive target, a baseline: inputs on the sphere."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from emergence.model import Model, Progress, Run, Simulation
from emergence.models.teacher import ACTIVATION, TeacherProblem
from emergence.options import option, options
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.table import Table
from emergence.values import Expression, Number, Text, Whole, Wholes

if TYPE_CHECKING:
    from theory.baselines.kernel_ridge import KernelRidge


@dataclass(frozen=True)
class KernelRidgeProblem(TeacherProblem):
    """An additive teacher, a kernel and numbers of samples."""

    default_width: ClassVar = 2

    activation: str = option("h3", Expression(), ACTIVATION)
    dim: int = option(12, Whole(), "input dimension d, at least teacher width + 1")
    teacher_width: int | None = option(None, Whole(), "teacher width P (default 2)")
    kernel: str = option("exp", Text("exp"), "kernel of the inner product: exp, or an activation (its dual kernel)")
    ridge: float = option(1e-3, Number(), "ridge of the regression")
    samples: tuple[int, ...] | None = option(None, Wholes(), "numbers of training samples, separated by spaces")
    replicas: int = option(8, Whole(), "independent training sets")
    seed: int = option(0, Whole(0), "random seed")

    def check(self) -> None:
        """Refuses d ≤ P."""
        super().check()
        if self.dim <= self.width:
            refuse(f"dim is {self.dim}, not above teacher width = {self.width}: raise dim or lower the width")

    def read(self) -> None:
        """The kernel, too. Raises `InputError` for one that is not understood."""
        from theory.baselines.kernel_ridge import Kernel

        super().read()
        Kernel.parse(self.kernel)


@dataclass(frozen=True)
class Resolved:
    """A problem with its regression and numbers of samples."""

    problem: KernelRidgeProblem
    regression: "KernelRidge"
    samples: tuple[int, ...]
    warnings: tuple[str, ...] = ()

    def echo(self) -> dict[str, Any]:
        return asdict(self.problem) | self.problem.decided() | {"samples": self.samples}

    def headline(self) -> str:
        problem = self.problem
        return (
            f"kernel ridge regression, activation {problem.activation}, kernel {problem.kernel}, P = {problem.width}, "
            f"d = {problem.dim}, ridge {problem.ridge:g}, seed {problem.seed}"
        )


def resolve(problem: KernelRidgeProblem, simulation: Simulation | None = None) -> Resolved:
    """Refuses more samples than a kernel matrix can have."""
    from dynamics.baselines.kernel_ridge import LARGEST
    from theory import Activation
    from theory.baselines.kernel_ridge import Kernel, KernelRidge

    kernel = Kernel.parse(problem.kernel)
    regression = KernelRidge(Activation.parse(problem.activation), problem.teacher(), kernel, problem.ridge)
    samples = problem.samples or _default_samples(regression)
    if max(samples) ** 2 > LARGEST:
        most = math.isqrt(LARGEST)
        refuse(f"--samples holds {max(samples)}: give {most} or less (the kernel matrix has to fit)")
    return Resolved(problem, regression, samples)


def _default_samples(regression: "KernelRidge") -> tuple[int, ...]:
    """From d to 1.5 times the harmonics of the activation's degree, at most 2000."""
    import numpy as np

    last = min(2000.0, 1.5 * float(regression.multiplicities[regression.activation.degree]))
    return tuple(sorted({int(n) for n in np.geomspace(min(regression.dim, last), last, 8)}))


def _run(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    from dynamics.baselines.kernel_ridge import kernel_ridge

    problem = resolved.problem
    result = kernel_ridge(
        resolved.regression, resolved.samples, replicas=problem.replicas, seed=problem.seed, progress=progress
    )
    return Run(result.dataset)


def _cost(resolved: Resolved) -> Cost:
    """The kernel matrix and its factor; n³/3 for each regression."""
    counts = [float(n) for n in resolved.samples]
    return Cost(2 * max(counts) ** 2, resolved.problem.replicas * sum(n**3 for n in counts) / 3)


def _table(resolved: Resolved, run: Run) -> Table:
    from emergence import conditions
    from theory.baselines.sample_pairs import conditions as what_holds

    data, total, rows = run.data, resolved.regression.total, []
    held = {n: what_holds(resolved.regression, n) for n in data.samples.values.tolist()}
    for n in data.samples.values.tolist():
        at = data.sel(samples=n)
        risk = at.risk.values / total
        error = float(risk.std(ddof=1) / math.sqrt(risk.size)) if risk.size > 1 else None
        left = float(at.staircase) / total
        rows.append((n, float(at.predicted) / total, float(risk.mean()), error, left, conditions.mark(held[n])))
    degrees = zip(data.degree.values, data.energy.values, data.harmonics.values, strict=True)
    energy = ", ".join(f"{int(k)}: {float(x) / total:.3g} in {int(b)}" for k, x, b in degrees if x > 1e-9 * total)
    first = f"share of the target's energy by degree, and its harmonics: {energy}"
    headers = ("samples", "predicted", "measured", "±", "staircase", "predicted valid")
    outside = conditions.explained(((f"{n} samples", None), own) for n, own in held.items())
    unit = "mean squared error over that of knowing nothing; inputs uniform on the sphere"
    return Table(headers, rows, [first, ""], [*outside, "", unit])


MODEL = Model(
    name="kernel-ridge",
    help="a baseline: kernel ridge regression",
    problem=KernelRidgeProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="kernel-ridge",
            help="kernel ridge regression on the same target",
            uses=frozenset(options(KernelRidgeProblem)),
            run=_run,
            table=_table,
            cost=_cost,
            variables=("risk", "predicted", "predicted_valid", "staircase", "energy", "harmonics"),
        ),
    ),
)
