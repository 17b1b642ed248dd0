"""M13: batches bring the information exponent back to normalised SGD, and trap it, for some students and not for others."""

from collections.abc import Iterator

import numpy as np

from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.normalised_batch import normalised_drift
from theory.declared.one_direction import drift
from theory.declared.rule import Normalised, Rule
from theory.declared.start import Start
from theory.declared.student import Student, committee
from validation.experiments.links import even_valued
from validation.experiments.passages import LEVEL, passages
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 20

_LINK = even_valued()
#: A student whose slope has no component of degree 1, as the even labels have none of degree 2, and one whose slope has.
_STUDENTS = {name: committee(Activation.parse(name), 1, 1.0, False, "sphere") for name in ("h4", "cos(z/sqrt(2))")}
#: Of one step: dimension, so large that |x|² is d to a share of 1e-4, step size, overlap.
_DIM, _STEP, _OVERLAP = 40_000, 1e-9, 0.125
#: Of whole runs: dimension, start, step size, samples, replicas.
_SMALL, _START, _SIZE, _SAMPLES, _REPLICAS = 256, 2.0 / 16, 1.2e-2, 2**18, 12


def _model(student: Student, batch: int, dim: int, step_size: float) -> DeclaredModel:
    directions = Directions.orthonormal(Inputs.isotropic(dim), 1)
    return DeclaredModel(directions, _LINK, student, Normalised(step_size, batch=batch), Correlation())


def _moved(model: DeclaredModel, replicas: int, seed: int) -> tuple[float, float]:
    """√d E Δu/γ of one step, and its standard error."""
    start = Start((np.array([[_OVERLAP, np.sqrt(1 - _OVERLAP**2)]]),))
    u = declared_sgd(model, start, steps=1, replicas=replicas, seed=seed, saves=1).dataset.overlap.values[:, :, 0, 0, 0]
    return mean_and_error(np.sqrt(_DIM) * (u[:, -1] - u[:, 0]) / _STEP)


def _wrong(student: Student, batch: int) -> dict[str, float]:
    sgd = drift(student, _LINK, Correlation(), Rule(1.0), _DIM)
    single = drift(student, _LINK, Correlation(), Normalised(1.0), _DIM)
    return {
        "plain SGD": float(sgd.at(_OVERLAP)) * np.sqrt(batch / sgd.square),
        "batch 1": float(single.at(_OVERLAP)) * np.sqrt(_DIM / batch),
    }


@claim(
    id="M13",
    title="Batches change the sign of normalised SGD, for some students",
    statement="Where slope and label lack a degree, small batches see it and large ones are repelled; other students learn.",
    latex=r"\nu_i(b\to\infty)\simeq-E\,p^3He_i(a)He_{i-1}(b)\big/\big(2\sqrt b(Ep^2)^{3/2}(i-1)!\big),\quad p=y\sigma'(z)",
    source="derived",
    kind="asymptotic",
    regime="one row on the sphere, even labels of information exponent 4, batch much smaller than d",
    controls=(
        "plain SGD's drift over the length of the gradient (full)",
        "batch 1 with an effect in proportion to b^{-1/2} (full)",
        "no trap: what is learned with small batches is learned with large ones",
        "every student is trapped",
    ),
)
def run_batches(context: Context) -> Iterator[Part]:
    """Who has learned after equal samples at batches 4 and 32; in full also the drift of one step."""
    for name, batch in (("h4", 4), ("h4", 64), ("cos(z/sqrt(2))", 64)) if context.full else ():
        yield _drift(context, name, batch)
    for name, batch in (("h4", 4), ("h4", 32), ("cos(z/sqrt(2))", 32)):
        yield _learned(context, name, batch)


def _key(name: str, batch: int) -> str:
    return f"{name[:3].strip('(')}-{batch}"


def _drift(context: Context, name: str, batch: int) -> Measurement:
    student, replicas = _STUDENTS[name], 300_000
    estimate, stderr = _moved(_model(student, batch, _DIM, _STEP), replicas, context.seed_for("M13", name, batch))
    predicted = normalised_drift(student, _LINK, Correlation(), batch, _OVERLAP)
    wrong = _wrong(student, batch)
    allowance = 2 * batch / _DIM * abs(wrong["plain SGD"])
    if batch == 4:  # (too small for b^{-1/2} to tell)
        wrong = {"plain SGD": wrong["plain SGD"]}
    text = f"√d E Δu/γ at u = {_OVERLAP:g}, student {name}, batch {batch}"
    where = "cross terms of the gradient's length, b/d"
    return Measurement(text, predicted, estimate, stderr, allowance, wrong, where, f"drift-{_key(name, batch)}")


def _learned(context: Context, name: str, batch: int) -> Measurement:
    student, key = _STUDENTS[name], _key(name, batch)
    model, seed = _model(student, batch, _SMALL, _SIZE), context.seed_for("M13", "runs", key)
    found = passages(model, _START, LEVEL, _SAMPLES // batch, _REPLICAS, seed)
    learned = float(normalised_drift(student, _LINK, Correlation(), batch, _START) > 0)
    share = float(np.isfinite(found).mean())
    # (As if one run more had learned and one more had not.)
    smooth = (share * _REPLICAS + 1) / (_REPLICAS + 2)
    return Measurement(
        f"share of runs with |u| > {LEVEL:g} after {_SAMPLES} samples, d = {_SMALL}, student {name}, batch {batch}",
        learned,
        share,
        float(np.sqrt(smooth * (1 - smooth) / _REPLICAS)),
        0.0,
        {"no trap" if learned == 0 else "every student": 1 - learned},
        "",
        f"learned-{key}",
        {"median steps": float(np.median(found))},
    )
