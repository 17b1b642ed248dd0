r"""A declared model: any Gaussian inputs, target, student, loss and rule that turns with the axes (`theory.declared`)."""

from emergence.model import Model, Progress, Run, Simulation
from emergence.models.declared_problem import DeclaredProblem, Resolved, resolve, stepping
from emergence.options import options

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
        progress=progress,
    )
    return Run(run.dataset, int(run.diverged.sum()), run)


def _runs(resolved: Resolved) -> None:
    """One step is traced: a rule that needs coordinates is refused before anything is made, and a file's rule that fails."""
    from dynamics.core.outside import NO_MISTAKES
    from dynamics.declared.simulate import Exact

    if resolved.problem.method == "exact":
        with stepping(resolved.problem.rule):
            Exact(resolved.model, resolved.start, 1, NO_MISTAKES)


def _table(resolved: Resolved, run: Run) -> str:
    """Lengths, cosines with the directions and the second layer at a few steps: means over replicas."""
    import numpy as np

    from emergence import table

    data = run.data
    steps = data.step.values
    places = sorted({round(share * (len(steps) - 1)) for share in (0, 0.1, 0.25, 0.5, 0.75, 1)})
    data = data.isel(time=places)
    norm = np.sqrt(np.einsum("rtikk->rtk", data.gram.values))
    length = np.sqrt(np.einsum("ipp->p", resolved.model.directions.grams))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.abs(data.overlap.values.sum(axis=2)) / (norm[..., None] * length)
    best = cosine.max(axis=2)[..., :_SHOWN]
    columns = ("step", "time", "mean norm", *(f"max |cos| {p + 1}" for p in range(best.shape[-1])), "mean b")
    kept = ~data.diverged.values
    rows = [
        (
            int(steps[place]),
            float(data.time[i]),
            *map(float, (norm[kept, i].mean(), *best[kept, i].mean(axis=0), data.second.values[kept, i].mean())),
        )
        for i, place in enumerate(places)
    ]
    return table.render(columns, rows) if kept.any() else "every replica diverged"


MODEL = Model(
    name="declared",
    help="any Gaussian inputs, target, student, loss and rule",
    problem=DeclaredProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            "declared-sgd",
            "SGD of a declared model, exact in law",
            frozenset(options(DeclaredProblem)),
            _sgd,
            _table,
            ("overlap", "gram", "second", "diverged"),
            _runs,
        ),
    ),
)
