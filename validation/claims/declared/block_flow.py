"""M5: the population flow by eigenspace against SGD with structured inputs, step size → 0."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import xarray as xr

from dynamics.declared.flow import declared_flow
from dynamics.declared.population import declared_loss
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 14

_MULTIPLICITIES = (6, 14, 40, 140)
_DIM = sum(_MULTIPLICITIES)
#: λ ∝ (3, 1, 0.4, 0.1) with trace d.
_SHAPE = np.array([3.0, 1.0, 0.4, 0.1])
_EIGENVALUES = tuple(float(x) for x in _SHAPE * _DIM / (_SHAPE @ np.array(_MULTIPLICITIES)))
_TIME, _SAVES, _BLOCK, _RTOL = 16.0, 2, 32, 1e-8


def _model(directions: Directions, step_size: float = 0.1) -> DeclaredModel:
    """Two rows that learn two teachers, all with erf; a sum of neurons."""
    erf = Activation.parse("erf")
    return DeclaredModel(directions, Additive(erf, (1.0, 1.0)), committee(erf, 2, 1.0), Rule(step_size))


def _problem() -> tuple[Directions, Start]:
    """Teachers of unit variance and rows of length 0.05 with the products of random ones; each run has the same problem,
    since a wrong theory's loss crosses the right one's at times that depend on it."""
    shares = np.array(_MULTIPLICITIES) / _DIM
    teachers = np.array([[1.0, 0.1], [0.1, 1.0]])
    directions = Directions(Inputs(_EIGENVALUES, _MULTIPLICITIES), shares[:, None, None] * teachers)
    on = 0.05 * np.array([[1.0, -0.5], [0.3, 0.8]]) / np.sqrt(_DIM)
    off = [0.05 * np.sqrt((d - 2) / _DIM) * np.array([[1.0, 0.0], [0.1, 1.0]]) for d in _MULTIPLICITIES]
    return directions, Start(tuple(np.hstack([on, rest]) for rest in off))


def _losses(model: DeclaredModel, start: Start) -> np.ndarray:
    """Of the flow, at the saves after the start; (saves,)."""
    times = np.linspace(0.0, _TIME, _SAVES + 1)[1:]
    flow = declared_flow(model, start, _TIME, times, rtol=_RTOL, system=population_flow(model))
    return flow.dataset.loss.values


def _isotropic(directions: Directions, start: Start) -> tuple[Directions, Start]:
    """The same total products with inputs N(0, I): the trace is that of Λ."""
    whole = Directions(Inputs.isotropic(_DIM), directions.grams.sum(axis=0)[None])
    on = np.linalg.solve(whole.roots[0], start.overlaps(directions).sum(axis=0).T).T
    off = np.linalg.cholesky(start.grams.sum(axis=0) - on @ on.T)
    return whole, Start((np.hstack([on, off]),))


def _sgd(context: Context, model: DeclaredModel, start: Start, blocks: int) -> tuple[np.ndarray, float]:
    """Losses of replicas at the saves after the start (R, saves), of `blocks` blocks of steps from save to save, and η."""
    steps = _SAVES * blocks * _BLOCK
    step_size = _TIME / steps
    run = declared_sgd(
        replace(model, rule=Rule(step_size)),
        start,
        steps=steps,
        replicas=context.pick(20, 96),
        seed=context.seed_for("M5", blocks),
        saves=_SAVES,
        block_steps=_BLOCK,
        progress=context.within(f"M5, η = {step_size:.2g}"),
    ).dataset
    found = declared_loss(model, *(run[name].values for name in ("overlap", "gram", "second")))
    return found[:, 1:], step_size


@claim(
    id="M5",
    title="Population flow by eigenspace against SGD",
    statement="As the step size goes to 0, SGD with structured inputs follows the closed flow of all overlaps by eigenspace.",
    latex=r"\lim_{\eta\to0}E\,\mathcal L_{SGD}(t/\eta)=\mathcal L_{flow}(t)",
    source="derived; erf with structured inputs: Yoshida and Okada 2019",
    kind="asymptotic",
    regime="step size times dimension → 0",
    controls=("isotropic inputs of the same trace", "eigenvalues given to the wrong eigenspaces"),
)
def run_block_flow(context: Context) -> Iterator[Part]:
    """Mean loss of SGD over that of the flow at three step sizes, a factor 2 apart, extrapolated to 0."""
    directions, start = _problem()
    model = _model(directions)
    flow = _losses(model, start)
    turned = Directions(Inputs(_EIGENVALUES[::-1], _MULTIPLICITIES), directions.grams)
    isotropic, same = _isotropic(directions, start)
    wrong = {"isotropic": _losses(_model(isotropic), same), "eigenvalues": _losses(_model(turned), start)}
    runs = [_sgd(context, model, start, context.pick(blocks, 2 * blocks)) for blocks in (384, 192, 96)]
    ratios = [run / flow for run, _ in runs]
    for place, time in enumerate(np.linspace(0.0, _TIME, _SAVES + 1)[1:]):
        means, errors = zip(*(mean_and_error(ratio[:, place]) for ratio in ratios), strict=True)
        # Richardson's weights: what is linear and quadratic in the step size cancels.
        weights = np.array([8.0, -6.0, 1.0]) / 3
        estimate, linear = float(weights @ means), 2 * means[0] - means[1]
        yield Measurement(
            f"loss of SGD over that of the flow at time {time:g}, step size → 0",
            1.0,
            estimate,
            float(np.sqrt(np.sum((weights * errors) ** 2))),
            abs(estimate - linear),
            {name: float(loss[place] / flow[place]) for name, loss in wrong.items()},
            "last order of the extrapolation in the step size",
            f"t{time:g}",
            details={f"ratio at η = {eta:.2g}": mean for (_, eta), mean in zip(runs, means, strict=True)},
        )
    yield xr.Dataset(
        {f"sgd_{n}": (("replica", "time"), run) for n, (run, _) in enumerate(runs)} | {"flow": ("time", flow)},
        coords={"time": np.linspace(0.0, _TIME, _SAVES + 1)[1:]},
    )
