r"""The plateau constants against one real SGD step in $R^d$: by exact quadrature, and by sampling.

The step is taken on the sample loss itself, ½(f* − f)², with the student's gradient by complex differentiation and the
overlap renormalised: nothing is shared with the derivation.
"""

from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp

from theory import Activation, plateau
from theory import plateau as plateau_function
from theory.plateau import a, d, mass, stability_bound

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


def exact_constants(text: str, dim: int, overlap: float = 0.01) -> tuple[float, float]:
    """κ and ν at a small overlap, up to O(u²), by quadrature (the odd part in u, so that no constant is left)."""
    sigma, degree = POLYNOMIALS[text], Activation.parse(text).degree
    x, weights = grid(dim, 4 * degree + 2)
    pushes = {u: gradient(sigma, student_vector(u, dim), x) for u in (overlap, -overlap)}
    bends = {u: float(weights @ bend(student_vector(u, dim), push)) for u, push in pushes.items()}
    force = pushes[overlap] @ np.eye(dim)[0]
    along = pushes[overlap] @ student_vector(overlap, dim)
    first = force - overlap * along
    variance = float(weights @ first**2 - (weights @ first) ** 2)
    return (bends[-overlap] - bends[overlap]) / (2 * overlap), variance


@pytest.mark.parametrize(
    ("text", "dim"), [("h3", 3), ("h3", 4), ("h3", 5), ("h4", 3), ("h4", 4), ("0.8*h4+0.6*h6", 3)]
)
def test_constants_are_those_of_the_real_step(text: str, dim: int) -> None:
    kappa, nu = plateau(Activation.parse(text)).numbers(WEIGHTS[0], sum(w * w for w in WEIGHTS), dim)
    # What is left is O(u²) = 1e-4 times a number of the order of the degree squared.
    found_kappa, found_nu = exact_constants(text, dim)
    assert found_kappa == pytest.approx(kappa, rel=1e-2)
    assert found_nu == pytest.approx(nu, rel=1e-2)


def test_constants_are_the_limit_of_small_overlap() -> None:
    """The gap to the real step falls with u², so the agreement above is no coincidence of its tolerance."""
    kappa, nu = plateau(Activation.parse("h4")).numbers(WEIGHTS[0], 1.0, 3)
    coarse, fine = exact_constants("h4", 3, 0.02), exact_constants("h4", 3, 0.005)
    for wide, narrow, value in zip(coarse, fine, (kappa, nu), strict=True):
        assert abs(narrow / value - 1) < 1e-3
        assert (wide / value - 1) / (narrow / value - 1) == pytest.approx(16, rel=0.1)


def test_sampled_steps_give_the_constants_and_reject_wrong_ones() -> None:
    """One SGD step for h3 at d = 8 on random samples: within 4 standard errors, while 20 % off is rejected."""
    dim, overlap, batches, size = 8, 0.05, 40, 40_000
    sigma, rng = POLYNOMIALS["h3"], np.random.default_rng(11)
    units = {u: student_vector(u, dim) for u in (overlap, -overlap)}
    shrink, spread = [], []
    for _ in range(batches):
        x = rng.standard_normal((size, dim))
        pushes = {u: gradient(sigma, unit, x) for u, unit in units.items()}
        # The same samples at ±u: the part of the noise that is even in u drops out.
        bends = [np.mean(bend(units[u], pushes[u])) for u in (-overlap, overlap)]
        shrink.append((bends[0] - bends[1]) / (2 * overlap))
        spread.append(np.var(pushes[overlap][:, 0] - overlap * (pushes[overlap] @ units[overlap])))
    predicted = plateau(Activation.parse("h3")).numbers(WEIGHTS[0], 1.0, dim)
    for values, value in zip((shrink, spread), predicted, strict=True):
        estimate, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(batches)
        remainder = 10 * overlap**2 * value
        assert abs(estimate - value) <= remainder + 4 * error
        for wrong in (0.8 * value, 1.2 * value):
            assert abs(estimate - wrong) > remainder + 4 * error


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
    activation, overlap, dim = Activation.parse(text), 0.1, 300
    constants = plateau(activation)
    kappa, _ = constants.numbers(0.7, 1.0, dim)
    bound = constants.critical_step(0.7, overlap, 1.0, dim)
    slope = sum(j * float(x) ** 2 * overlap ** (j - 1) for j, x in activation.coefficients.items())
    assert 0.7 * slope - bound * kappa * overlap == pytest.approx(0, abs=1e-15)
    assert bound > 0


def test_stability_bound_is_the_smallest_over_pairs() -> None:
    activation, weights, overlaps = Activation.parse("h4"), np.array([0.9, 0.4, 0.2]), np.array([0.05, -0.1, 0.2])
    each = [plateau(activation).critical_step(w, abs(x), 1.0, 200) for w, x in zip(weights, overlaps, strict=True)]
    bound, worst = stability_bound(activation, weights, overlaps, 1.0, 200)
    assert (bound, worst) == (pytest.approx(min(each)), int(np.argmin(each)))
    assert len({round(x, 12) for x in each}) == 3


@pytest.mark.parametrize("text", ["erf", "relu", "tanh"])
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
def test_the_derivation_holds_or_is_refused_where_constants_are_approximate(text: str) -> None:
    """The leading order in d must not be presented with checks made for the exact constants."""
    assert plateau_function(Activation.parse(text)).derivation().verify() >= 0
