"""Noise of signs and flips, draws with replacement, SAM of both layers: exact against vectors; and the linear network."""

from dataclasses import replace

import numpy as np
import pytest

from dynamics import LinearRun, label_noise_sgd, linear_descent, sam
from dynamics.declared.simulate import declared_sgd
from theory import Activation, InputError, LinearStart, draw_linear_start, draw_linear_task
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import SAM, Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import committee
from theory.declared.target import Additive, Classes
from validation.statistics.two_samples import compare_samples

REPLICAS = 4000
SIGMOID, LINEAR = Activation.parse("erf(z)"), Activation.parse("z")
CLASSES = Classes(Additive(LINEAR, (1.0,)))
DIRECTIONS = Directions.orthonormal(Inputs.blocks((2.0, 14), (0.5, 16)), 1, 0)


def _ends(model: DeclaredModel, method: str, steps: int = 4, **options: object) -> np.ndarray:
    """Overlaps, Gram matrices and second layer at the end, (replica, observable)."""
    start = draw_start(model.directions, model.student.width, 0.7, 1)
    run = declared_sgd(model, start, steps=steps, replicas=REPLICAS, saves=1, method=method, seed=3, **options)  # type: ignore[arg-type]
    data = run.dataset.isel(time=-1)
    gram = data["gram"].values[:, :, *np.triu_indices(model.student.width)]
    return np.concatenate([x.reshape(REPLICAS, -1) for x in (data["overlap"].values, gram, data["second"].values)], 1)


@pytest.mark.parametrize(
    ("rule", "mistakes"),
    [
        pytest.param(
            SAM(0.2, 2, 0.4, radius=0.5, layers="both", noise_law="flips", noise_period=2),
            [{"noise_period": 0}, {"layers": "first"}],
            marks=pytest.mark.slow,
        ),
        (
            Rule(0.1, 2, 6.0, samples=4, order="replacement", renewed=True, noise_law="signs"),
            [{"order": "random"}, {"noise_law": "gaussian"}],
        ),
    ],
    ids=["flips that come and go, SAM", "signs, with replacement"],
)
def test_the_law_is_that_of_explicit_vectors(rule: Rule, mistakes: list[dict]) -> None:
    model = DeclaredModel(DIRECTIONS, CLASSES, committee(SIGMOID, 2, (1.0, -0.7), trained=True), rule)
    exact = _ends(model, "exact", block_steps=1 if rule.samples else 2)
    assert compare_samples(exact, _ends(model, "ambient")).p > 1e-3
    for mistake in mistakes:
        p = compare_samples(exact, _ends(replace(model, rule=replace(rule, **mistake)), "ambient")).p
        assert p < 1e-6, mistake


# ----------------------------------------------------------------- the linear network

D, M, ETA, STEPS = 4, 3, 0.05, 12
TASK = draw_linear_task(D, 0.7, 9, 1)


def _declared(rule: Rule, start: LinearStart, replicas: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The linear network as a declared model in R^d: overlaps with θ*/|θ*| (replica, m) and a (replica, m) at the end."""
    directions, target = Directions.orthonormal(Inputs.isotropic(D), 1, 0), Additive(LINEAR, (0.7,))
    model = DeclaredModel(directions, target, committee(LINEAR, M, tuple(start.second), trained=True), rule)
    options = {"steps": STEPS, "replicas": replicas, "saves": 1, "method": "ambient", "data": TASK.inputs}
    data = declared_sgd(model, Start((start.first,)), **options).dataset.isel(time=-1)  # type: ignore[arg-type]
    return data["overlap"].values[:, 0, :, 0], data["second"].values


def _linear(run: LinearRun) -> tuple[np.ndarray, np.ndarray]:
    along = run.values("overlap")[:, -1, :, 0] * np.sqrt(run.values("norm2")[:, -1])
    return along, run.values("second")[:, -1]


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_the_linear_network_on_all_samples_is_the_declared_one(radius: float) -> None:
    start = draw_linear_start(M, D, 2)
    if radius:
        rule: Rule = SAM(ETA, 9, samples=9, radius=radius, layers="both")
        run = sam(TASK, start, radius=radius, step_size=ETA, steps=STEPS, batch=None, saves=1)
    else:
        rule, run = Rule(ETA, 9, samples=9), linear_descent(TASK, start, step_size=ETA, steps=STEPS, saves=1)
    for found, expected in zip(_linear(run), _declared(rule, start), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_the_linear_network_on_noisy_samples_has_the_declared_law() -> None:
    start = draw_linear_start(M, D, 2)
    run = label_noise_sgd(TASK, start, step_size=ETA, steps=STEPS, noise=2.0, replicas=REPLICAS, saves=1, seed=7)
    found = np.concatenate(_linear(run), 1)
    rule = Rule(ETA, 1, 2.0, samples=9, order="replacement", renewed=True, noise_law="signs")
    assert compare_samples(found, np.concatenate(_declared(rule, start, REPLICAS), 1)).p > 1e-3
    cyclic = np.concatenate(_declared(replace(rule, order="cyclic"), start, REPLICAS), 1)
    assert compare_samples(found, cyclic).p < 1e-6


# ----------------------------------------------------------------------------- refusals


def test_what_cannot_be_is_refused() -> None:
    for make, said in (
        (lambda: Rule(0.1, noise=1.5, noise_law="flips"), "flip with this probability; give 0 to 1"),
        (lambda: Rule(0.1, noise_law="cauchy"), "noise_law is 'cauchy'"),
        (lambda: Rule(0.1, samples=3, noise=1.0, noise_period=2), "give renewed=True"),
        (lambda: SAM(0.1, layers="second"), "layers is 'second'"),
        (lambda: Rule(0.1, noise=0.1, noise_law="flips").noise_deviation, "simulate it"),
        (lambda: _declared(Rule(0.1), draw_linear_start(M, D, 2)), "data have shape"),
    ):
        with pytest.raises(InputError, match=said):
            make()
    assert Rule(0.1, noise=0.4, noise_law="signs").noise_deviation == 0.4
    assert list(Rule(0.1, noise=0.4, noise_period=2).noise_at(np.arange(6))) == [0.4, 0.4, 0, 0, 0.4, 0.4]
    model = DeclaredModel(DIRECTIONS, CLASSES, committee(SIGMOID, 1), Rule(0.1, samples=2))
    start = draw_start(DIRECTIONS, 1)
    with pytest.raises(InputError, match="use method = ambient"):
        declared_sgd(model, start, steps=1, data=np.zeros((2, 30)))


@pytest.mark.parametrize("law", ["gaussian", "flips"])
def test_renewed_noise_knows_nothing_of_the_data(law: str) -> None:
    r"""The first step of v = 0 is $\eta E[\tilde yx]=\eta(1-2p)\|\theta^*\|$ along the direction, on the first sample.

    (In few dimensions its noise was the first sample's coordinate: .2 for .1, and with flips .024 for .06.)
    """
    directions, noise = Directions.orthonormal(Inputs.isotropic(6), 1, 0), 0.2 if law == "flips" else 1.0
    rule = Rule(0.1, noise=noise, noise_law=law, samples=20, renewed=True)
    model = DeclaredModel(directions, Additive(LINEAR, (1.0,)), committee(LINEAR, 1), rule)
    run = declared_sgd(model, Start((np.zeros((1, 2)),)), steps=1, replicas=REPLICAS, saves=1)
    found = run.dataset["overlap"].values[:, -1].ravel()
    expected = 0.1 * (1 - 2 * noise if law == "flips" else 1)
    assert abs(found.mean() - expected) < 4 * found.std() / REPLICAS**0.5
