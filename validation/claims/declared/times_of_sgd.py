"""M35: when SGD itself finds directions along the flow of all rows: old gradients, by an even step and by a schedule."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.passage_law import PassageLaw
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Linear, Schedule, size_along, steps_until
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive
from theory.declared.whole_flow import whole_flow
from theory.one_task.hitting_distribution import HittingLaw
from validation.experiments.emergences import emergences
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context

COST = 8

_DIM, _ROWS, _WEIGHTS, _BATCH = 24, 3, (1.0, 0.7), 72
#: Steps to the first direction by the flow, and how much longer a run is.
_MANY, _LONG = 800, 1.3
#: A schedule's first and last size over the even one, and its length over the steps by the even one.
_RISES, _OVER = (0.7, 1.6), 1.5


def _model(text: str, trained: bool) -> DeclaredModel:
    """A committee that learns its own activation along two directions, by heavy-ball momentum."""
    activation, directions = Activation.parse(text), Directions.orthonormal(Inputs.isotropic(_DIM), len(_WEIGHTS))
    student, rule = committee(activation, _ROWS, trained=trained), Momentum(1.0, batch=_BATCH, beta=0.95)
    return DeclaredModel(directions, Additive(activation, _WEIGHTS), student, rule)


@claim(
    id="M35",
    title="SGD's own time by momentum and a schedule",
    statement=(
        "To first order in the step momentum finds a direction later than the flow of all rows by what kicks add to "
        "products of rows, by half of a step's turn, by what the flow turns while gradients age, and by those missing "
        "at the start."
    ),
    latex=(
        r"E\,T=t+\int\eta\Bigl((\tfrac12+\ell)\lambda\cdot JF-\frac1B\lambda\cdot\mathrm{kick}\Bigr)dt"
        r"+\ell\,\eta(0)"
    ),
    source="derived; theory.declared.passage_law",
    kind="asymptotic",
    regime="steps that move the time little; erf by a rising schedule, tanh with its second layer, β = 0.95; online",
    controls=(
        "the flow's own time",
        "no old gradients",
    ),
)
def run_times_of_sgd(context: Context) -> Iterator[Part]:
    """Mean of the steps to the first direction, in 24 dimensions, beside the law at that very step size and batch."""
    replicas = context.pick(64, 1600)
    for name, rises in {"erf": True, "tanh": False}.items():
        model = _model(f"{name}(z)", trained=not rises)
        start = draw_start(model.directions, _ROWS, 1.0, 3)
        way = whole_flow(model, start)
        law, p = way.law(), int(np.argmin(np.where(way.found > 0, way.found, np.inf)))
        assert law is not None, name
        even = float(way.found[p]) / _MANY
        length = int(_OVER * _MANY)
        size: float | Schedule = Linear(_RISES[0] * even, _RISES[1] * even, length) if rises else even
        taken = replace(model, rule=replace(model.rule, step_size=size))
        said, own = _steps(law, p, taken.rule)
        young = replace(law, old=0 * law.old, begun=0 * law.begun)
        wrong: Controls = {
            "the flow's own time": float(steps_until(size, way.found[p : p + 1])[0][0]),
            "no old gradients": _steps(young, p, taken.rule)[0],
        }
        steps, seed = int(_LONG * _MANY), context.seed_for("M35", name)
        times = steps_until(size, emergences(taken, start, p, steps, replicas, seed, saves=steps))[0]
        yield Measurement(
            f"mean of the steps to direction {p + 1}, {name}, {_ROWS} rows, d = {_DIM}, batch {_BATCH}",
            said,
            float(times.mean()),
            float(times.std(ddof=1) / np.sqrt(replicas)),
            way.beyond(p, own, 0.0) / (size(said) if callable(size) else even),
            wrong,
            "squares of shift and spread over the time, by which the first order of steps is off",
            name,
        )


def _steps(law: PassageLaw, p: int, rule: Rule) -> tuple[float, HittingLaw]:
    """Mean of the steps to direction p, and the law of their sum."""
    own = law.of(p, size_along(rule.step_size, rule.batch), rule.batch)
    assert own is not None
    return float(steps_until(rule.step_size, np.array([own.mean]))[0][0]), own
