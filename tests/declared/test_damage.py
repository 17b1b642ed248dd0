"""Damage of a schedule: weights along a passage against closed sums and a passage of tiny steps in one dimension."""

from dataclasses import replace

import numpy as np
import pytest

from theory import Activation, InputError
from theory.declared.damage import damage, step_means
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum, Rule
from theory.declared.student import committee
from theory.declared.target import Additive


def model(link: str, dim: int, rule: Rule | None = None, count: int = 1) -> DeclaredModel:
    activation = Activation.parse(link)
    target = Additive(activation, (1.0,) * count)
    student = committee(activation, 1, rows="sphere")
    inputs = Directions.orthonormal(Inputs.isotropic(dim), count)
    return DeclaredModel(inputs, target, student, rule or Rule(1e-3), Correlation())


def test_the_drift_is_that_of_the_link() -> None:
    # E y σ'(z) q for y = σ = h3: three Hermite factors less one, 3 u² √(1 − u²), and once more onto the tangent.
    u = np.array([0.2, 0.5, 0.8])
    f, shrinkage, variance = step_means(model("h3", 40), u)
    assert f == pytest.approx(3 * u**2 * (1 - u**2), rel=1e-10)
    assert np.all(shrinkage > 0)
    assert np.all(variance > 0)


def test_the_means_are_those_of_samples() -> None:
    u, dim = 0.4, 30
    f, shrinkage, variance = (float(x[0]) for x in step_means(model("h3", dim), np.array([u])))
    x = np.random.default_rng(5).standard_normal((2, 2_000_000))
    z, q = x
    sigma = Activation.parse("h3")
    a = u * z + np.sqrt(1 - u**2) * q
    psi = (a**3 - 3 * a) / np.sqrt(6) * 3 * (z**2 - 1) / np.sqrt(6)
    assert sigma.information_exponent == 3
    for name, found, samples in (
        ("f", f, psi * np.sqrt(1 - u**2) * q),
        ("K", shrinkage, psi**2 * (u * (q**2 + dim - 2) / 2 + np.sqrt(1 - u**2) * z * q)),
        ("N", variance + f**2, (1 - u**2) * psi**2 * q**2),
    ):
        assert abs(found - samples.mean()) < 5 * samples.std() / np.sqrt(z.size), name


@pytest.mark.parametrize(
    ("text", "link"), [("tanh(5*z)",) * 2, ("erf(10*z)",) * 2, ("tanh(5*z)", "h3"), ("h3", "tanh(5*z)")]
)
def test_steep_slopes_are_seen(text: str, link: str) -> None:
    """Midpoints 1/100 apart; f by 40 Gauss–Hermite points was .71, .01, .68 and 1.00 of it, K .32, 0, .30 and 1.00."""
    points = 0.01 * (np.arange(-1000, 1000) + 0.5)
    weights = np.exp(-(points**2) / 2) * 0.01 / np.sqrt(2 * np.pi)
    z, q, both = points[:, None], points[None, :], np.outer(weights, weights)
    sigma, target, dim = Activation.parse(text), Additive(Activation.parse(link), (1.0,)), 50
    inputs = Directions.orthonormal(Inputs.isotropic(dim), 1)
    steep = DeclaredModel(inputs, target, committee(sigma, 1, rows="sphere"), Rule(1e-3), Correlation())
    for u in (0.1, 0.7):
        rest = np.sqrt(1 - u**2)
        psi = target.link.arrays(0)(u * z + rest * q) * sigma.arrays(1)(z)
        f = float(np.sum(both * psi * rest * q))
        along = float(np.sum(both * psi**2 * q**2))
        shrinkage = u * (along + (dim - 2) * float(np.sum(both * psi**2))) / 2
        shrinkage += rest * float(np.sum(both * psi**2 * z * q))
        found = np.array(step_means(steep, np.array([u])))[:, 0]
        assert found == pytest.approx([f, shrinkage, rest**2 * along - f**2], rel=2e-3)


def test_early_steps_weigh_more_and_constant_ones_add_up() -> None:
    found = damage(model("h3", 50), 0.2, 0.8)
    assert np.all(np.diff(found.variance) < 0)
    assert found.length == pytest.approx(float(found.spans.sum()))
    steps = np.full(int(1.1 * found.length / 1e-2), 1e-2)
    delay, variance = found.of(steps)
    assert delay == pytest.approx(1e-2 * float(found.spans @ found.delay), rel=1e-3)
    assert variance == pytest.approx(1e-2 * float(found.spans @ found.variance), rel=1e-3)


def test_the_passage_varies_as_noise_that_the_flow_carries_along() -> None:
    """Linear noise about the flow, dv/dt = 2f'v + ηN at η = 1, in small steps: v at the end, over f² there, is the clock's."""
    found, u = damage(model("h3", 50), 0.2, 0.8), np.linspace(0.2, 0.8, 601)
    f, _, noise = step_means(model("h3", 50), u)
    slope, spread = np.gradient(f, u, edge_order=2), 0.0
    for at in range(len(u) - 1):
        rates = [(2 * slope[at] * spread + noise[at]) / f[at]]
        rates.append((2 * slope[at + 1] * (spread + rates[0] * (u[1] - u[0])) + noise[at + 1]) / f[at + 1])
        spread += np.mean(rates) * (u[1] - u[0])
    assert found.spans @ found.variance == pytest.approx(spread / f[-1] ** 2, rel=1e-3)


def test_a_step_counts_where_the_passage_is_at_its_time() -> None:
    """Steps c times the time at their middles, and equal weights: the sum is ∫₀^L ct dt = cL²/2, whatever the spans."""
    found = damage(model("h3", 50), 0.2, 0.8)
    even = replace(found, delay=np.ones_like(found.delay))
    ratio = 1.01
    ends = 1e-6 * ratio ** np.arange(np.log(1e6 * 1.1 * found.length) / np.log(ratio))
    share = 2 * (ratio - 1) / (ratio + 1)
    assert even.of(np.diff(ends, prepend=0.0))[0] == pytest.approx(share * found.length**2 / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: damage(model("h3", 50), 0.5, 0.2), "0 < start < level"),
        (lambda: damage(model("h3", 50, count=2), 0.2, 0.5), "2 directions"),
        (lambda: damage(model("h3", 50, Momentum(1e-3, beta=0.5)), 0.2, 0.5), "momentum of beta 0.5: its lag"),
        (lambda: damage(model("h3", 50, Rule(1e-3, noise=0.5)), 0.2, 0.5), "noise is 0.5: the damage is that without"),
        (lambda: damage(model("h3", 50), 0.2, 0.5).of(np.ones(1) * 1e-3), "give more steps"),
    ],
)
def test_what_is_refused(call: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()  # type: ignore[operator]
