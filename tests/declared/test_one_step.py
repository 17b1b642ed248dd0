"""The first step of a declared model against real ones, whatever its student, target and loss."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynamics.declared.simulate import declared_sgd
from theory import Activation, InputError
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.one_step import step_moments
from theory.declared.powers import as_additive
from theory.declared.rule import Momentum, Rule
from theory.declared.start import draw_start
from theory.declared.step_moments import Moments, SecondLayer, StepMoments
from theory.declared.student import Student, committee, two_homogeneous, whitened
from theory.declared.target import Additive, Polynomial
from theory.declared.trained_layer import ROWS

SIGMA, LINK = Activation.parse("h2+h1"), Activation.parse("h2-h1")
ADDITIVE = Additive(LINK, (1.0, -0.6))
PRODUCT = Polynomial.parse("h2(z1) + h1(z1)*h1(z2)")
INPUTS = Inputs.blocks((1.5, 2), (0.5, 3))


def _model(student: Student, target: Any = ADDITIVE, rule: Rule | None = None, **parts: Any) -> DeclaredModel:
    directions = Directions.random(INPUTS, target.count, 1.0, seed=0)
    return DeclaredModel(
        directions, target, student, rule or Rule(0.02, batch=2, noise=0.5, decay=1.5, noise_law="signs"), **parts
    )


@pytest.mark.slow_for("homogeneous-product", "committee-product", "homogeneous")
@pytest.mark.parametrize(
    "model",
    [
        _model(two_homogeneous(SIGMA, 2)),
        _model(whitened(SIGMA, 2)),
        _model(two_homogeneous(SIGMA, 2), PRODUCT),
        _model(committee(SIGMA, 2, (0.9, -0.6)), PRODUCT),
        _model(committee(SIGMA, 2, (0.9, -0.6)), loss=Correlation()),
    ],
    ids=["homogeneous", "whitened", "homogeneous-product", "committee-product", "correlation"],
)
def test_real_steps_have_this_mean_and_covariance(model: DeclaredModel) -> None:
    """Means of all products within 4.5 standard errors, and, of rows with directions, covariances by groups of replicas."""
    start, groups = draw_start(model.directions, 2, 1.0, seed=0), 200
    run = declared_sgd(model, start, steps=1, replicas=200_000, seed=3, saves=1, method="ambient").dataset
    overlap, gram = ((run[name][:, -1] - run[name][:, 0]).values for name in ("overlap", "gram"))
    found = step_moments(model, start)

    def scores(theory: Moments) -> float:
        gaps = [
            (moved.mean(axis=0) - mean) / (moved.std(axis=0) / np.sqrt(len(moved)))
            for moved, mean in ((overlap, theory.teachers), (gram, theory.rows))
        ]
        return float(max(np.abs(gap).max() for gap in gaps))

    assert scores(found) < 4.5
    without = _model(model.student, model.target, Rule(0.02, batch=2, noise=0.5, noise_law="signs"), loss=model.loss)
    assert scores(step_moments(without, start)) > 20
    single = _model(model.student, model.target, Rule(0.02, batch=1, noise=0.5, decay=1.5), loss=model.loss)
    moved = overlap.reshape(groups, -1, overlap[0].size)
    moved = moved - moved.mean(axis=1, keepdims=True)
    each = np.einsum("gnx,gny->gxy", moved, moved) / (moved.shape[1] - 1)
    error = each.std(axis=0, ddof=1) / np.sqrt(groups)
    gaps = [
        np.abs((each.mean(axis=0) - x.teacher_covariance.reshape(each[0].shape)) / error).max()
        for x in (found, step_moments(single, start))
    ]
    assert gaps[0] < 4.5
    assert gaps[1] > 15


@pytest.mark.slow_for("free")
@pytest.mark.parametrize("rows", ROWS)
def test_a_trained_second_layer_moves_so_beside_its_rows(rows: str) -> None:
    """Mean of b within 4.5 standard errors, and its covariances, with the rows' overlaps too; decay takes half of a row."""
    # (So small for unit rows that their third order is far below a standard error.)
    size, groups = (0.02 if rows == "free" else 1e-4), 200
    rule = Rule(size, batch=2, noise=3.0, decay=0.5 / size, noise_law="signs")
    student = committee(SIGMA, 2, (0.9, -0.6), trained=True, rows=rows)
    model = _model(student, PRODUCT, rule)
    start = draw_start(model.directions, 2, 1.0, seed=0)
    run = declared_sgd(model, start, steps=1, replicas=200_000, seed=3, saves=1, method="ambient").dataset
    second, overlap = ((run[name][:, -1] - run[name][:, 0]).values for name in ("second", "overlap"))

    def layer(**changed: Any) -> SecondLayer:
        found = step_moments(_model(student, PRODUCT, replace(rule, **changed)), start).second
        assert found is not None
        return found

    error = second.std(axis=0) / np.sqrt(len(second))
    assert np.abs((second.mean(axis=0) - layer().mean) / error).max() < 4.5
    assert np.abs((second.mean(axis=0) - 1.05 * layer().mean) / error).max() > 4.5
    both = np.concatenate([second, overlap.reshape(len(overlap), -1)], axis=1).reshape(groups, -1, 2 + overlap[0].size)
    both = both - both.mean(axis=1, keepdims=True)
    each = np.einsum("gnx,gny->gxy", both[:, :, :2], both) / (both.shape[1] - 1)
    error = each.std(axis=0, ddof=1) / np.sqrt(groups)

    def gap(theory: SecondLayer) -> tuple[float, float]:
        along = theory.with_rows[..., : model.directions.count]
        known = np.concatenate([theory.covariance, along.reshape(2, -1)], axis=1)
        found = np.abs((each.mean(axis=0) - known) / error)
        return found[:, :2].max(), found[:, 2:].max()

    assert max(gap(layer())) < 4.5
    assert min(gap(layer(batch=1))) > 15
    assert min(gap(layer(noise=0.0))) > 15
    if rows != "free":
        assert gap(layer(decay=0.0))[1] > 15


@pytest.mark.parametrize(
    "text", ["h1(z1) + h1(z1)*h1(z2)*h1(z3)", "h2(z1)*h2(z2) + z3**2*z1 - 3", "z1*z2", "z1**2*z2**3 + 1", "z1*z2 + 1"]
)
def test_a_polynomial_is_a_sum_of_powers_of_linear_forms(text: str) -> None:
    import sympy as sp

    target = Polynomial.parse(text)
    forms = as_additive(target)
    fields = np.random.default_rng(0).standard_normal((20, target.count))
    parts = zip(forms.links, forms.weights, forms.coefficients, strict=True)
    value = sum(weight * link.arrays()(fields @ form) for link, weight, form in parts)
    assert np.allclose(value, target.value(fields, lambda x, names: sp.lambdify(names, x)), rtol=1e-12)
    assert np.array_equal(forms.coefficients[: target.count], np.eye(target.count))


def test_a_polynomial_of_one_field_at_a_time_is_the_additive_target() -> None:
    student = committee(SIGMA, 2, (0.9, -0.6))
    polynomial = Polynomial.parse("h2(z1) - h1(z1) - 0.6*(h2(z2) - h1(z2))")
    one, other = (_model(student, target) for target in (ADDITIVE, polynomial))
    start = draw_start(one.directions, 2)
    found = [step_moments(model, start) for model in (one, other)]
    for name in ("teachers", "rows", "halves"):
        assert np.allclose(*(getattr(x, name) for x in found), rtol=1e-12, atol=1e-14)


def test_what_is_not_known_is_refused() -> None:
    student = committee(SIGMA, 2)
    start = draw_start(_model(student).directions, 2)
    for model in (
        _model(student, rule=Momentum(0.1)),
        _model(student, rule=Rule(0.1, samples=20)),
    ):
        with pytest.raises(InputError, match="plain SGD on fresh samples"):
            step_moments(model, start)
    with pytest.raises(InputError, match="2 links are given for 3 directions"):
        StepMoments(SIGMA, (SIGMA, LINK)).at(
            np.eye(4)[None], Inputs.isotropic(4), np.ones(3), np.ones(1), step_size=1.0
        )
