"""M29: the linear model on a fixed data set: what is memorised, what is found, and how fast the fresh-sample law returns."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.least_squares import fitted, found_by
from theory.declared.linear_model import LinearModel, linear_model
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 6

_DIM, _NOISE, _START = 10, 0.5, 0.5
#: Samples and step size of the runs to the end: fewer than d, and more.
_FEW, _MANY, _STEPS = (5, 0.12), (20, 0.25), 1600
#: Samples, step size and steps of those that are compared with fresh samples; each twice as many as the one before.
_SIZES, _STEP, _EARLY = (40, 80), 0.2, 10


@dataclass(frozen=True)
class _Runs:
    """Each (replica, time), half-way and at the end: losses, and the share of the way to w* that is gone."""

    linear: LinearModel
    loss: np.ndarray
    train_loss: np.ndarray
    found: np.ndarray


def _runs(samples: int, step_size: float, steps: int, replicas: int, seed: int, noise: float = _NOISE) -> _Runs:
    """Gradient descent on the mean loss of n samples, a data set for each replica, one start for all."""
    directions = Directions.orthonormal(Inputs.isotropic(_DIM), 1)
    link = Activation.parse("z")
    rule = Rule(step_size, samples, noise=noise, samples=samples)
    model = DeclaredModel(directions, Additive(link, (1.0,)), committee(link, 1), rule)
    start = draw_start(directions, 1, _START, seed)
    run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, saves=2, loss=True).dataset
    begin = float(start.overlaps(directions)[0, 0, 0])
    found = (run.overlap.values[:, 1:, 0, 0, 0] - begin) / (1 - begin)
    return _Runs(linear_model(model, start), run.loss.values[:, 1:], run.train_loss.values[:, 1:], found)


def _end(name: str, samples: int, runs: _Runs) -> Iterator[Measurement]:
    known, variance = fitted(runs.linear, samples), _NOISE**2
    few, apart = min(samples, _DIM), abs(samples - _DIM)
    unseen = known.loss - variance * few / (apart - 1) / 2
    own: dict[str, Controls] = {
        "loss": {"fresh samples": 0.0, "noise is not amplified": unseen, "limit": unseen + variance * few / apart / 2},
        "train_loss": {"fresh samples": variance / 2, "what is left of the samples": known.loss},
        "found": {"fresh samples": 1.0},
    }
    if samples > _DIM:
        own["found"] = {"samples find": samples / (samples + _DIM)}
    else:
        del own["loss"]["limit"]  # a sixteenth: too little to be told here
    for quantity, wrong in own.items():
        values: np.ndarray = getattr(runs, quantity)
        estimate, stderr = mean_and_error(values[:, -1])
        yield Measurement(
            f"{quantity.replace('_', ' ')} at the end, linear model, n = {samples}, d = {_DIM}",
            getattr(known, quantity),
            estimate,
            stderr,
            float(abs(estimate - values[:, -2].mean())),
            wrong,
            "what the second half of the run has changed",
            f"{name}.{quantity}",
        )


def _fresh(runs: list[_Runs]) -> Measurement:
    """(share found − that of fresh samples)·n, extrapolated from n and 2n to n = ∞, where its next order is gone."""
    fresh, slope = found_by(runs[0].linear, _STEP, _EARLY)
    gaps = [mean_and_error((x.found[:, -1] - fresh) * n) for x, n in zip(runs, _SIZES, strict=True)]
    (coarse, e1), (fine, e2) = gaps
    wrong: Controls = {"fresh samples": 0.0, "one direction": slope * 2 / (_DIM + 1), "more is found": -slope}
    return Measurement(
        f"n·(share found − fresh samples') after {_EARLY} steps, d = {_DIM}, n → ∞ from {_SIZES[0]} and {_SIZES[1]}",
        slope,
        2 * fine - coarse,
        float(np.hypot(2 * e2, e1)),
        abs(fine - coarse) * _DIM / _SIZES[0],
        wrong,
        "the extrapolation's change, times d/n: the order after the next",
        "fresh",
    )


@claim(
    id="M29",
    title="Many passes over a fixed data set, linear model",
    statement="Few samples are memorised and found in part, their noise amplified; many give the fresh-sample law up to 1/n.",
    latex=r"2E\,\mathcal L=\lambda\|w_0-w^*\|^2(1-\tfrac nd)_++\varsigma^2\frac{\min(n,d)}{|n-d|-1}",
    source="limit: arXiv:1903.08560; finite sizes derived",
    kind="exact",
    regime="isotropic Gaussian inputs, gradient descent to its end; before, first order in 1/n",
    controls=(
        "fresh samples of any number",
        "noise is not amplified",
        "limit of large n and d: |n − d| for |n − d| − 1",
        "what is left of the samples is the population's",
        "samples find n/(n + d)",
        "one direction: 2 for d + 1",
        "more is found than of fresh samples",
    ),
)
def run_fixed_data(context: Context) -> Iterator[Part]:
    """Ends for n below and above d, and the approach to fresh samples as n grows."""
    replicas, seed = context.pick(4000, 20_000), context.seed_for("M29")
    for name, (samples, step_size) in (("few", _FEW), ("many", _MANY)):
        yield from _end(name, samples, _runs(samples, step_size, _STEPS, replicas, seed))
    yield _fresh([_runs(n, _STEP, _EARLY, replicas // 2, context.seed_for("M29", n), 0.0) for n in _SIZES])
