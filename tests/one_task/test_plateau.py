r"""The plateau constants against one real SGD step in $R^d$: by exact quadrature, and by sampling.

The step is taken on the sample loss itself, ½(f* − f)², with the student's gradient by complex differentiation and the
overlap renormalised: nothing is shared with the derivation.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from theory import Activation, DerivationError, InputError, plateau
from theory.one_task.plateau import a, d, mass

WEIGHTS = (0.8, 0.6)
POLYNOMIALS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "h3": lambda x: (x**3 - 3 * x) / np.sqrt(6),
    "h4": lambda x: (x**4 - 6 * x**2 + 3) / np.sqrt(24),
    "0.8*h4+0.6*h6": lambda x: (
        0.8 * (x**4 - 6 * x**2 + 3) / np.sqrt(24) + 0.6 * (x**6 - 15 * x**4 + 45 * x**2 - 15) / np.sqrt(720)
    ),
    "h3+h4": lambda x: (x**3 - 3 * x) / np.sqrt(6) + (x**4 - 6 * x**2 + 3) / np.sqrt(24),
}
#: Norm of the light student; what it leaves is of relative size of its square.
LIGHT = 1e-6


def student_vector(overlap: float, dim: int) -> np.ndarray:
    """Unit vector with overlap u on e_1, none on e_2, the rest on e_3."""
    vector = np.zeros(dim)
    vector[0], vector[2] = overlap, np.sqrt(1 - overlap**2)
    return vector


def gradient(sigma: Callable[[np.ndarray], np.ndarray], unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    """−∇ of ½(f*(x) − ‖v‖²σ(⟨v̄,x⟩))² at v = LIGHT·unit, over LIGHT; samples in the rows of x."""
    teacher = sum(weight * sigma(x[:, p]) for p, weight in enumerate(WEIGHTS))
    columns, h = [], 1e-30
    for axis in range(unit.size):
        v = LIGHT * unit.astype(complex)
        v[axis] += 1j * h * LIGHT
        size = v @ v
        f = size * sigma((x @ v) / np.sqrt(size))
        columns.append((teacher - f.real) * f.imag / (h * LIGHT**2))
    return np.stack(columns, axis=1)


def moved(unit: np.ndarray, push: np.ndarray, eta: float) -> np.ndarray:
    """Overlap on e_1 after a step, one per sample."""
    after = unit + eta * push
    return after[:, 0] / np.linalg.norm(after, axis=1)


def bend(unit: np.ndarray, push: np.ndarray) -> np.ndarray:
    """Coefficient of η² in the new overlap, one per sample: ½ d²/dη² at 0 by a five-point difference."""
    eta = 1e-3 / (1 + np.linalg.norm(push, axis=1, keepdims=True))
    here = unit[0]
    near = moved(unit, push, eta) + moved(unit, push, -eta) - 2 * here
    far = moved(unit, push, 2 * eta) + moved(unit, push, -2 * eta) - 2 * here
    return (16 * near - far) / (24 * eta[:, 0] ** 2)


def grid(dim: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite points in R^dim, exact for polynomials of the given degree in each coordinate."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree // 2 + 1)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * dim, indexing="ij")], axis=1)
    table = np.stack(np.meshgrid(*[weights / weights.sum()] * dim, indexing="ij"), axis=0)
    return points, np.prod(table, axis=0).ravel()


def exact_laws(text: str, dim: int, overlap: float) -> tuple[float, float]:
    """K(u) and N(u) by quadrature of the real step."""
    sigma, unit = POLYNOMIALS[text], student_vector(overlap, dim)
    x, weights = grid(dim, 4 * Activation.parse(text).degree + 2)
    push = gradient(sigma, unit, x)
    first = push[:, 0] - overlap * (push @ unit)
    return -float(weights @ bend(unit, push)), float(weights @ first**2 - (weights @ first) ** 2)


@pytest.mark.parametrize(
    ("text", "dim"), [("h3", 3), ("h3", 4), ("h3", 5), ("h4", 3), ("h4", 4), ("0.8*h4+0.6*h6", 3), ("h3+h4", 3)]
)
@pytest.mark.parametrize("overlap", [0.1, -0.3, 0.6, 0.9])
def test_laws_are_those_of_the_real_step(text: str, dim: int, overlap: float) -> None:
    """At any overlap, to the accuracy of a second difference: nothing is expanded here."""
    laws = plateau(Activation.parse(text)).laws(WEIGHTS[0], sum(w * w for w in WEIGHTS), dim)
    for law, found in zip(laws, exact_laws(text, dim, overlap), strict=True):
        assert found == pytest.approx(float(law(overlap)), rel=1e-6)


@pytest.mark.parametrize("text", ["h3", "h4", "0.8*h4+0.6*h6"])
def test_constants_are_the_laws_at_small_overlap(text: str) -> None:
    constants = plateau(Activation.parse(text))
    shrinkage, variance = constants.laws(0.7, 1.2, 300)
    kappa, nu = constants.numbers(0.7, 1.2, 300)
    assert float(shrinkage(1e-6)) / 1e-6 == pytest.approx(kappa, rel=1e-4)
    assert float(variance(1e-6)) == pytest.approx(nu, rel=1e-4)
    assert float(shrinkage(0.0)) == 0.0


def test_sampled_steps_give_the_laws_and_reject_wrong_ones() -> None:
    """One SGD step for h3 at d = 8 on random samples: within 4 standard errors, while 20 % off is rejected."""
    dim, overlap, batches, size = 8, 0.5, 20, 40_000
    unit, rng = student_vector(overlap, dim), np.random.default_rng(11)
    # Plain samples almost never visit the tails that carry these moments: draw wider, and weight by the density ratio.
    width = 1.6
    shrink, spread = [], []
    for _ in range(batches):
        x = width * rng.standard_normal((size, dim))
        ratio = width**dim * np.exp(-np.sum(x**2, axis=1) / 2 * (1 - width**-2))
        push = gradient(POLYNOMIALS["h3"], unit, x)
        first = push[:, 0] - overlap * (push @ unit)
        shrink.append(-np.mean(ratio * bend(unit, push)))
        spread.append(np.mean(ratio * first**2) - np.mean(ratio * first) ** 2)
    laws = plateau(Activation.parse("h3")).laws(WEIGHTS[0], 1.0, dim)
    for values, law in zip((shrink, spread), laws, strict=True):
        value, estimate, error = float(law(overlap)), np.mean(values), np.std(values, ddof=1) / np.sqrt(batches)
        assert abs(estimate - value) <= 4 * error
        for wrong in (0.8 * value, 1.2 * value):
            assert abs(estimate - wrong) > 4 * error


@pytest.mark.parametrize("degree", [3, 4, 5, 6, 8])
def test_pure_degrees_have_closed_forms(degree: int) -> None:
    """Unit mass: κ = (J/2)(d + 2J − 1 + 8Ja²), ν = J(1 + 2Ja²), both linear in the mass otherwise."""
    constants = plateau(Activation.from_degree(degree))
    kappa = sp.Rational(degree, 2) * (d + 2 * degree - 1 + 8 * degree * a**2)
    nu = degree * (1 + 2 * degree * a**2)
    assert sp.expand(constants.shrinkage.subs(mass, 1) - kappa) == 0
    assert sp.expand(constants.variance.subs(mass, 1) - nu) == 0
    doubled = {mass: 2 * mass, a: sp.sqrt(2) * a}
    assert sp.expand(constants.shrinkage.subs(doubled, simultaneous=True) - 2 * constants.shrinkage) == 0


def test_scale_of_the_activation_enters_to_the_fourth_power() -> None:
    single, double = plateau(Activation.parse("h4")), plateau(Activation.parse("2*h4"))
    assert sp.expand(double.shrinkage - 16 * single.shrinkage) == 0
    assert sp.expand(double.variance - 16 * single.variance) == 0


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_batches_divide_both_constants(batch: int) -> None:
    constants = plateau(Activation.parse("h4"))
    one, many = constants.numbers(0.5, 1.0, 100), constants.numbers(0.5, 1.0, 100, batch)
    np.testing.assert_allclose(np.array(many) * batch, one, rtol=1e-12)
    assert constants.critical_step(0.5, 0.1, 1.0, 100, batch) == pytest.approx(
        batch * constants.critical_step(0.5, 0.1, 1.0, 100)
    )


@pytest.mark.parametrize("text", ["h3", "h4", "0.8*h4+0.6*h6"])
def test_drift_changes_sign_at_the_critical_step(text: str) -> None:
    """aφ'(u)(1−u²) = η_c K(u), with φ' written out from the coefficients."""
    activation, overlap, dim = Activation.parse(text), 0.1, 300
    constants = plateau(activation)
    shrinkage, _ = constants.laws(0.7, 1.0, dim)
    bound = constants.critical_step(0.7, overlap, 1.0, dim)
    slope = sum(j * float(x) ** 2 * overlap ** (j - 1) for j, x in activation.coefficients.items())
    assert bound * float(shrinkage(overlap)) == pytest.approx(0.7 * slope * (1 - overlap**2), rel=1e-12)
    assert bound > 0


def test_stability_bound_is_the_smallest_over_pairs() -> None:
    activation, weights, overlaps = Activation.parse("h4"), np.array([0.9, 0.4, 0.2]), np.array([0.05, -0.1, 0.2])
    each = [plateau(activation).critical_step(w, abs(x), 1.0, 200) for w, x in zip(weights, overlaps, strict=True)]
    bound, worst = plateau(activation).stability_bound(weights, overlaps, 1.0, 200)
    assert (bound, worst) == (pytest.approx(min(each)), int(np.argmin(each)))
    assert len({round(x, 12) for x in each}) == 3


@pytest.mark.parametrize("text", ["erf", "relu", "relu**2", "z*abs(z)", "tanh"])
def test_other_activations_get_the_leading_order_in_dimension(text: str) -> None:
    """κ ≈ ½dEσ²Eσ'² and ν ≈ Eσ²Eσ'², moments by quadrature on a fine line."""
    activation = Activation.parse(text)
    line = np.linspace(-12, 12, 200_001)
    weight = np.exp(-(line**2) / 2)
    weight /= weight.sum()
    sigma = sp.lambdify(sp.Symbol("z", real=True), activation.function, modules=["scipy", "numpy"])(line)
    energy = float(weight @ sigma**2) * float(weight @ np.gradient(sigma, line) ** 2)
    kappa, nu = plateau(activation).numbers(0.5, 1.0, 1000)
    assert kappa == pytest.approx(500 * energy, rel=2e-3)
    assert nu == pytest.approx(energy, rel=2e-3)


@pytest.mark.parametrize("text", ["erf", "relu", "quadratic", "h1", "h4+1"])
def test_approximate_laws_are_refused_or_really_checked(text: str) -> None:
    """Where only the leading order in d is known: no derivation at all, or one whose checks can fail."""
    constants = plateau(Activation.parse(text))
    try:
        derivation = constants.derivation()
    except InputError:
        return
    derivation.verify()
    for name in ("shrinkage_law", "variance_law"):
        wrong = replace(constants, **{name: getattr(constants, name) * sp.Rational(21, 20)})
        with pytest.raises(DerivationError):
            wrong.derivation().verify()


def test_without_an_overlap_nothing_is_opposed() -> None:
    """Neither signal nor drift: no step is too large."""
    assert plateau(Activation.parse("h3")).critical_step(1.0, 0.0, 1.0, 100) == float("inf")
