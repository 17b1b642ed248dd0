"""M34: when directions are found by rows that see each other: the flow of all rows, and the noise of steps, beside SGD."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive, Polynomial, Target, symbols
from theory.declared.whole_flow import ERROR, MOVED_MEAN, whole_flow
from theory.prediction.rivals import scattered
from validation.experiments.emergences import emergences
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.readings import deviation
from validation.statistics.standard_errors import bootstrap_error

COST = 20

_DIM, _ROWS, _WEIGHTS = 24, 3, (1.0, 0.7)
#: What steps add to squared norms until the time; length of a run over it.
_KICKS, _LONG = 0.02, 2.0
#: By what the flow is slower and faster in wrong theories.
_FACTOR = 1.1


def _model(text: str, kind: str, target: Target | None = None) -> tuple[DeclaredModel, Start]:
    """A student that learns its own activation along two directions, unless a target is given."""
    activation, directions = Activation.parse(text), Directions.orthonormal(Inputs.isotropic(_DIM), len(_WEIGHTS))
    homogeneous = kind == "homogeneous"
    student = two_homogeneous(activation, _ROWS) if homogeneous else committee(activation, _ROWS)
    student = replace(student, trained=kind == "trained")
    model = DeclaredModel(directions, target or Additive(activation, _WEIGHTS), student, Rule(1.0))
    return model, draw_start(directions, _ROWS, 0.1 if homogeneous else 1.0, 3)


def _cases() -> dict[str, tuple[DeclaredModel, Start]]:
    x, y = symbols(2)
    return {
        "relu": _model("relu(z)", "homogeneous"),
        "tanh": _model("tanh(z)", "trained"),
        "product": _model("h1+h2", "committee", Polynomial(x + x * y, 2)),
    }


@claim(
    id="M34",
    title="Emergence by the flow of all rows",
    statement=(
        "Without a plateau, or of rows that pull at each other, SGD finds a direction when the flow of all does, and scatters "
        "as the noise of its steps along that flow."
    ),
    latex=(
        r"T_p=\inf\{t:\max_k\mathrm{Corr}(\langle v_k,x\rangle,\langle w_p,x\rangle)^2\ge\tfrac12\},\quad"
        r"\operatorname{Var}T_p=\tfrac\eta B\int\operatorname{Var}(\lambda\cdot g)\,dt"
    ),
    source="derived; theory.declared.whole_flow, theory.declared.passage_law",
    kind="asymptotic",
    regime="steps that add little to squared norms until then; relu, tanh with its second layer, a product; online",
    controls=("a tenth slower", "a tenth faster", "half of the variance", "twice the variance"),
)
def run_all_rows(context: Context) -> Iterator[Part]:
    """Mean time of the first direction that is found, at two small steps, extrapolated to none, and its spread at the smaller
    one, in 24 dimensions.
    """
    replicas = context.pick(500, 4000)
    for name, (model, start) in _cases().items():
        way = whole_flow(model, start)
        p = int(np.argmin(np.where(way.found > 0, way.found, np.inf)))
        predicted, size = float(way.found[p]), _KICKS / float(way.kicks[p])
        coarse, fine = (
            emergences(
                replace(model, rule=Rule(share * size)),
                start,
                p,
                int(_LONG * predicted / (share * size)),
                replicas,
                context.seed_for("M34", name, f"{share:g}"),
            )
            for share in (1.0, 0.5)
        )
        roots = np.sqrt(replicas)
        wrong: Controls = {"a tenth slower": _FACTOR * predicted, "a tenth faster": predicted / _FACTOR}
        text = f"mean time to squared correlation ½ of direction {p + 1}, {name}, {_ROWS} rows, d = {_DIM}"
        yield Measurement(
            text,
            predicted,
            float(2 * fine.mean() - coarse.mean()),
            float(np.hypot(2 * fine.std(ddof=1), coarse.std(ddof=1)) / roots),
            ((MOVED_MEAN * _KICKS) ** 2 + ERROR) * predicted,
            wrong,
            "square of what steps move the mean by, and the integrator's",
            name,
        )
        law = way.of_steps(p, size / 2)
        assert law is not None, name
        rng = context.rng("M34", name, "spread")
        yield Measurement(
            f"spread of that time, steps of {size / 2:.2g}, {name}",
            law.std,
            deviation(fine),
            bootstrap_error(fine, deviation, rng),
            scattered(predicted, law).value * law.std,
            {"half of the variance": law.std / np.sqrt(2), "twice the variance": law.std * np.sqrt(2)},
            "shift and spread over the time, by which the first order of steps is off",
            f"{name}-spread",
        )
