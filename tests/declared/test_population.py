r"""Population flow of declared models: derivations, the present systems as special cases, closed forms, lowered code."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from dynamics.core.interrupted import IntegrationError, Interrupted
from dynamics.declared.flow import declared_flow, flow_state
from dynamics.declared.population import declared_loss, lowered_population, parameters_of
from dynamics.declared.simulate import declared_sgd
from theory import Activation, InputError
from theory.additive.flow import overlap_flow
from theory.core.hermite import z
from theory.core.indexed import Sums, evaluate
from theory.core.quadrature import gauss_hermite, gauss_legendre, product_rule
from theory.declared.directions import Directions
from theory.declared.expansion import Expansion
from theory.declared.flow import drift_sums, population_flow, population_system
from theory.declared.flow_checks import Point, integral_residual
from theory.declared.inputs import Inputs
from theory.declared.kernels import kernel as kernel_of
from theory.declared.kernels import q11, q12, q22, rho1, rho2
from theory.declared.link_moments import second_moments
from theory.declared.loss import Correlation, Square
from theory.declared.model import DeclaredModel
from theory.declared.population import (
    Integrals,
    constants,
    covariances,
    degrees,
    integrals,
    moment_symbol,
    numeric,
    square,
)
from theory.declared.rule import Momentum, Muon, Rule
from theory.declared.series import in_series, known_integrals
from theory.declared.start import draw_start
from theory.declared.student import Student, committee, two_homogeneous, whitened
from theory.declared.target import Additive, Polynomial, monomials, symbols
from theory.one_task.lone_path import lone_path
from theory.steps.committee import committee as committee_system
from theory.steps.committee_checks import evaluate as evaluate_floats
from theory.steps.committee_checks import order_parameters

INPUTS = Inputs.blocks((2.0, 5), (1.0, 9), (0.3, 20))
DIRECTIONS = Directions.random(INPUTS, 2, seed=3)
Z1, Z2 = symbols(2)
STAIRCASE = Polynomial(Z1 + Z1 * Z2 + Z2**2 / 3, 2)


def act(text: str) -> Activation:
    return Activation.parse(text)


def additive(text: str, *weights: float) -> Additive:
    return Additive(act(text), weights or (0.8, -0.5))


#: Every kind of activation, target, rows and loss.
CASES: dict[str, Callable[[], Any]] = {
    "steep erf, own link, trained": lambda: (
        committee(act("erf(12*z)"), 3, 0.5, trained=True),
        additive("erf(2*z)"),
        Square(),
    ),
    "relu, polynomial link, sphere": lambda: (
        committee(act("relu"), 3, 0.5, rows="sphere"),
        additive("h3+h2"),
        Square(),
    ),
    "polynomial, gated link, projected": lambda: (
        committee(act("h3+z"), 3, 0.5, True, "projected"),
        additive("z*erf(z)+h3"),
        Correlation(),
    ),
    "2-homogeneous relu": lambda: (two_homogeneous(act("relu"), 3), additive("abs(z)"), Square()),
    "2-homogeneous, staircase": lambda: (two_homogeneous(act("h2+0.3*h1"), 3), STAIRCASE, Square()),
    "2-homogeneous relu squared": lambda: (two_homogeneous(act("relu**2"), 3), additive("relu**2+h3"), Square()),
    "2-homogeneous relu cubed": lambda: (two_homogeneous(act("relu**3/4"), 3), additive("z*abs(z)"), Correlation()),
    "whitened relu": lambda: (whitened(act("relu"), 3), additive("erf"), Square()),
    "whitened, staircase": lambda: (whitened(act("h3+0.3*h1"), 3), STAIRCASE, Square()),
    "polynomial, any link": lambda: (committee(act("h3+z"), 3, 0.5), additive("z*exp(-z**2/2)+h2"), Square()),
    "whitened, any link": lambda: (whitened(act("h3+h2"), 3), additive("z**2*exp(-z**2/4)+z"), Correlation()),
    "tanh, own link": lambda: (committee(act("2*tanh(1.5*z)+h2"), 3, 0.5), additive("tanh(2*z)"), Square()),
    "silu, erf link, sphere": lambda: (
        committee(act("silu"), 3, 0.5, True, "sphere"),
        additive("z*erf(2*z)"),
        Square(),
    ),
    "silu by exponentials": lambda: (
        committee(act("z/(1+exp(-z))"), 3, 0.5),
        additive("1-1/(1+exp(2*z))"),
        Square(),
    ),
    "softplus, staircase": lambda: (committee(act("softplus(3*z)"), 3, 0.5), STAIRCASE, Square()),
    "2-homogeneous sigmoid": lambda: (two_homogeneous(act("sigmoid"), 3), additive("softplus"), Correlation()),
    "polynomial, silu link": lambda: (committee(act("h3+z"), 3, 0.5), additive("silu"), Square()),
    "waves, own link": lambda: (committee(act("sin(2*z)+h2"), 3, 0.5), additive("sin(z)/2"), Square()),
    "2-homogeneous wave": lambda: (two_homogeneous(act("cos(z)"), 3), STAIRCASE, Square()),
    "no closed kernel, trained": lambda: (
        committee(act("elu"), 3, 0.5, trained=True),
        additive("relu(z-1)"),
        Square(),
    ),
    "bends, staircase": lambda: (two_homogeneous(act("hardtanh"), 3), STAIRCASE, Square()),
    "gated, staircase": lambda: (committee(act("z*erf(z)"), 3, 0.5), STAIRCASE, Square()),
}


def model_of(name: str) -> DeclaredModel:
    student, target, loss = CASES[name]()
    return DeclaredModel(DIRECTIONS, target, student, Rule(0.1, decay=0.2), loss)


@pytest.mark.slow_for("silu(63*z)", "softplus(20*z)")
@pytest.mark.parametrize("text", ["tanh(100*z)", "silu(63*z)", "softplus(20*z)"])
def test_the_steepest_that_is_taken_holds_and_what_is_steeper_is_refused(text: str) -> None:
    """Digits are lost, and exponentials overflow, beyond: checks then end as errors. Nor does a series hold it."""
    for student in (committee(act(text), 3, 0.5), two_homogeneous(act(text), 3)):
        model = DeclaredModel(DIRECTIONS, additive(text), student, Rule(0.1))
        assert population_flow(model).derivation.verify() >= 7
    steeper = re.sub(r"\d+\*z", lambda found: f"{int(found[0][:-2]) + 1}*z", text)
    with pytest.raises(
        InputError, match=r"closed two-point kernel here, and a series to degree 200 leaves out 0\..* steep"
    ):
        population_flow(replace(model, student=committee(act(steeper), 3, 0.5)))


@pytest.mark.slow_for("silu, erf link, sphere", "softplus, staircase", "2-homogeneous relu cubed")
@pytest.mark.parametrize("name", CASES)
def test_every_step_holds_on_its_own_road(name: str) -> None:
    assert population_flow(model_of(name)).derivation.verify() >= 7


@pytest.mark.slow_for(
    "bends, staircase",
    "silu, erf link, sphere",
    "2-homogeneous relu",
    "silu by exponentials",
    "2-homogeneous wave",
    "2-homogeneous relu squared",
    "relu, polynomial link, sphere",
    "whitened, staircase",
)
@pytest.mark.parametrize("name", CASES)
def test_lowered_code_is_the_shown_equations(name: str) -> None:
    """Matrix products against loops over indices, where eigenspaces, rows and directions differ in number."""
    model = model_of(name)
    lowered, parameters = lowered_population(model), parameters_of(model, 1.7)
    start = draw_start(DIRECTIONS, 3, 1.0, seed=1)
    state = {name: jnp.asarray(value) for name, value in flow_state(model, start).items()}
    arrays = {name: np.asarray(x) for name, x in jax.jit(lowered._arrays)(state, parameters).items()}
    arrays |= {name: np.asarray(x) for name, x in state.items()}
    exact = {name: np.vectorize(sp.Float, otypes=[object])(x) for name, x in arrays.items() if name not in ("moments",)}
    found = jax.jit(lowered.drift)(state, parameters)
    for component, sums in population_system(model).drift.items():
        known = np.asarray(evaluate(sums, component.indices, exact, sp.Function("none")), dtype=float)
        np.testing.assert_allclose(found[str(component.base)], known, rtol=1e-11, atol=1e-12)


def test_waves_times_powers_are_derivatives_of_a_characteristic_function() -> None:
    r"""$E\,g_2^ne^{ibg_1}=e^{-b^2q_{11}/2}E(g_2+ibq_{12})^n$, and sums of both kinds with polynomials."""
    b = 3
    for power in range(1, 5):
        shifted = sp.Poly((z + sp.I * b * q12) ** power, z)
        mean = sum(c * sp.sqrt(q22) ** k * sp.factorial2(k - 1) for (k,), c in shifted.terms() if k % 2 == 0)
        for text, part in (("cos(3*z)", sp.re), ("sin(3*z)", sp.im)):
            known = sp.exp(-(b**2) * q11 / 2) * part(sp.expand(mean))
            plain = kernel_of(act("2*z"), act(f"z**{power}"))
            for one in (
                kernel_of(act(text), act(f"z**{power}")),
                kernel_of(act(f"{text}+2*z"), act(f"z**{power}")) - plain,
            ):
                assert sp.simplify(one - known) == 0
            turned = kernel_of(act(f"z**{power}"), act(text)).subs({q11: q22, q22: q11}, simultaneous=True)
            assert sp.simplify(turned - known) == 0


PAIRS = (
    ("elu", "selu"),
    ("relu(z)+tanh(z)", "elu"),
    ("z*exp(-z**2/2)", "relu"),
    ("z*erf(z)", "cos(z)"),
    ("tanh(z)", "silu"),
    ("log(1+z**2)", "h2"),
    ("relu(z-1)", "mish"),
    ("h3", "hardtanh"),
    ("sin(6*z)+h2", "cos(z)"),
    ("exp(-z**2)", "h2"),
    ("z*exp(-z**2/3)", "h3+0.2*h5"),
)
STUDENTS = (two_homogeneous, whitened, committee, partial(committee, rows="sphere"))


@pytest.mark.parametrize(
    ("text", "link", "student"),
    [
        pytest.param(*pair, student, marks=[pytest.mark.slow] * ((i + j) % 4 > 0))
        for i, pair in enumerate(PAIRS)
        for j, student in enumerate(STUDENTS)
    ],
)
def test_no_closed_kernel_is_needed(text: str, link: str, student: Callable) -> None:
    """Every step of the derivation, on its own road: at fields of variance 1, and of any, of both kinds of targets."""
    isotropic = Directions.orthonormal(Inputs.isotropic(9), 2)
    of_one = DeclaredModel(isotropic, additive(link), student(act(text), 3), Rule(0.1))
    for model in (
        of_one,
        replace(of_one, directions=DIRECTIONS),
        replace(of_one, directions=DIRECTIONS, target=STAIRCASE),
    ):
        assert population_flow(model).derivation.verify() >= 6


def test_the_road_of_its_own_knows_a_wrong_series() -> None:
    """That of a bend a hundredth off."""
    right = act("relu(z-1)")
    known = in_series(right, additive("relu(z-1)"), False, False, False)
    off = replace(known, functions=(Expansion(act("relu(z-101/100)")), known.functions[1]))
    for integrals_, least, most in ((known, 0.0, 1e-9), (off, 1e-3, 0.1)):
        point = Point(committee(right, 2), integrals_, True)
        for name in ("K", "K1", "K2", "M", "Mt"):
            table = known.pair if name[0] == "K" else known.cross
            assert least <= float(integral_residual(point, name, table[name])) < most


def in_the_plane(rows: np.ndarray, activation: Activation, target: Additive) -> np.ndarray:
    """Velocity (m, 2) of two-homogeneous rows where x has two coordinates, the target's, by quadrature over x itself: in polar
    coordinates, from one line across which a field changes its sign to the next.
    """
    lines = np.concatenate([np.arctan2(rows[:, 1], rows[:, 0]) + np.pi / 2, [0.0, np.pi / 2]]) % np.pi
    ends = np.sort(np.concatenate([lines, lines + np.pi, [lines.min() + 2 * np.pi]]))
    angle, arc = (y.ravel() for y in gauss_legendre(ends[:-1], ends[1:], 60))
    length, mass = (y.ravel() for y in gauss_legendre(np.arange(12.0), np.arange(1.0, 13.0), 16))
    x = length[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    weight = (mass * length * np.exp(-(length**2) / 2))[:, None] * arc / (2 * np.pi)
    norms = np.linalg.norm(rows, axis=1)
    fields = x @ (rows / norms[:, None]).T
    value, slope = (activation.arrays(k)(fields)[..., None] for k in (0, 1))
    left = target.link.arrays()(x) @ np.array(target.weights) - value[..., 0] @ norms**2
    moved = 2 * value * rows + slope * (norms[:, None] * x[..., None, :] - rows * fields[..., None])
    return np.asarray(np.einsum("st,st,stki->ki", weight, left, moved))


@pytest.mark.parametrize(("text", "link"), PAIRS[:6])
def test_the_flow_of_unit_fields_is_that_of_inputs_in_the_plane(text: str, link: str) -> None:
    r"""To what the series leaves out: of $\rho_1\rho_2k(c)$ and $\rho_1l(c)$, at c = 1 at most, a share of what E σ'² is.

    The row of a link in the place of σ is no such flow.
    """
    target, rows = additive(link), np.array([[0.9, 0.3], [-0.5, 0.7], [0.2, -1.1]])
    model = DeclaredModel(
        Directions.orthonormal(Inputs.isotropic(2), 2), target, two_homogeneous(act(text), 3), Rule(0.1)
    )
    state = {"T": jnp.asarray(rows[None]), "Q": jnp.asarray((rows @ rows.T)[None])}
    found = lowered_population(model).drift(state, parameters_of(model))
    one, other = (in_the_plane(rows, x, target) for x in (act(text), act(link)))
    points, weights = gauss_hermite(60)
    size = max(float(weights @ x.arrays(1)(points) ** 2) for x in (act(text), act(link)))
    sizes = (rows**2).sum(axis=1)
    missed = (
        in_series(act(text), target, True, False, True).error * size * 3 * np.sqrt(sizes.max()) * (sizes.sum() + 1.3)
        + 1e-12
    )
    assert missed < 1e-3
    np.testing.assert_allclose(found["T"][0], one, rtol=0, atol=missed)
    np.testing.assert_allclose(found["Q"][0], one @ rows.T + rows @ one.T, rtol=0, atol=2 * 1.2 * missed)
    assert np.abs(found["T"][0] - other).max() > 10 * missed


@pytest.mark.slow_for("homogeneous")
@pytest.mark.parametrize("student", ["committee", "homogeneous", "whitened"])
def test_a_series_is_what_is_closed(student: str) -> None:
    """With a bend and without, at rows of any length, two parallel and two opposite; and what is a mean over slopes: there the
    series leaves out its error of K₂, and less of the others.
    """
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(5, 7)) / 2
    rows[1], rows[3] = 1.7 * rows[0], -0.4 * rows[2]
    C, X = rows @ rows.T, rows[:, :2]
    homogeneous, normed = student != "committee", student == "whitened"
    rho = C.diagonal() if normed else (rows**2).sum(axis=1)
    directions = Directions(Inputs.isotropic(7), np.array([[[1.0, 0.3], [0.3, 0.8]]]))
    polynomial = Polynomial.parse("h2(z1)*h1(z2) + h1(z1)")
    for text, link in (
        ("tanh(z)", "tanh(2*z)"),
        ("softplus", "silu"),
        ("h3+h2", "sin(z)"),
        ("1-2*relu(z)+h3", "abs(z)"),
    ):
        for target in (additive(link), polynomial):
            for unit in (False, True) if homogeneous else (False,):
                closed = integrals(act(text), homogeneous, target, normed or unit)
                series = in_series(act(text), target, homogeneous, normed, unit)
                one, other = (x.at(numeric, X, C, rho, constants(x, directions)) for x in (series, closed))
                share, largest = 1e-9 + series.missed(float(C.diagonal().max())), np.abs(other["K2"]).max()
                for name, x in other.items():
                    assert np.abs(one[name] - x).max() <= share * max(np.abs(x).max(), largest), (text, name, unit)


@pytest.mark.parametrize("text", ["tanh(4*z)", "h3", "relu"])
def test_what_is_closed_and_not_held_by_a_series_as_well_is_taken_as_it_is(text: str) -> None:
    assert type(known_integrals(act(text), additive(text), True, False, True, 1.0)) is Integrals


def test_what_a_series_leaves_out_is_not_left_out_in_silence() -> None:
    """A slope too steep, by itself or where fields vary much; and a jump."""
    directions = Directions.orthonormal(Inputs.isotropic(9), 2)
    steep = DeclaredModel(directions, additive("erf(1e20*z)"), two_homogeneous(act("erf(1e20*z)"), 3), Rule(0.1))
    with pytest.raises(InputError, match="closed two-point kernel at every variance"):
        population_flow(steep)
    narrow = replace(steep, target=additive("mish"), student=committee(act("exp(-4*z**2)+z"), 3))
    assert population_flow(narrow)
    wide = Directions.orthonormal(Inputs.blocks((20.0, 2), (1.0, 7)), 2)
    with pytest.raises(InputError, match=r"leaves out 0\..* at fields of variance 20"):
        population_flow(replace(narrow, directions=wide))
    jump = Activation.from_expression(z + sp.sign(z) / 100, "jump")
    target = Additive(jump, (0.8, 0.5))
    with pytest.raises(InputError, match="'jump' is no function"):
        _ = in_series(jump, target, True, False, True).error
    with pytest.raises(InputError, match="'jump' has no closed two-point kernel at every variance: use a polynomial"):
        population_flow(DeclaredModel(directions, target, two_homogeneous(jump, 3), Rule(0.1)))


# ----------------------------------------------------------------- the present systems


def symbolic(student: Student, text: str, T: np.ndarray, Q: np.ndarray) -> dict[str, np.ndarray]:
    """The flow with one eigenvalue 1, orthonormal directions, the same link and plain SGD, in symbols: T, Q (2, 2)."""
    weights = sp.symbols("a_1 a_2")
    known = integrals(act(text), student.homogeneous, additive(text, 1.0, 1.0))
    second = [sp.Symbol(f"b_{k}") if not student.homogeneous else sp.Integer(1) for k in range(2)]
    arrays: dict[str, np.ndarray] = {
        "T": T[None], "Q": Q[None], "Z": np.array([[[1, 0], [0, 1]]], dtype=object), "lambda": np.array([sp.Integer(1)]),
        "X": T, "C": Q, "rho": Q.diagonal(), "b": np.array(second), "nu": np.array(sp.Integer(1)),
        "kappa": np.array(sp.Integer(0)),
    }  # fmt: skip
    for name, kernel in known.pair.items():
        arrays[name] = np.array(
            [[kernel.subs({q11: Q[k, k], q12: Q[k, l], q22: Q[l, l], rho1: Q[k, k], rho2: Q[l, l]}, simultaneous=True)
              for l in range(2)] for k in range(2)]
        )  # fmt: skip
    for name, kernel in known.cross.items():
        each = np.array(
            [[weights[p] * kernel.subs({q11: Q[k, k], q12: T[k, p], q22: 1, rho1: Q[k, k]}, simultaneous=True)
              for p in range(2)] for k in range(2)]
        )  # fmt: skip
        arrays[name] = each if name == "Mt" else each.sum(axis=1)
    drift = drift_sums(student, True)
    found = {str(x.base): evaluate(sums, x.indices, arrays, sp.Function("none"))[0] for x, sums in drift.items()}
    return found | {"a": np.array(weights), "b": np.array(second)}


def matrices(letter: str, symmetric: bool) -> np.ndarray:
    if not symmetric:
        return np.array([[sp.Symbol(f"{letter}_{k}{p}", real=True) for p in range(2)] for k in range(2)])
    names = {(k, l): sp.Symbol(f"{letter}_{k}{l}", positive=True) for k in range(2) for l in range(k, 2)}
    return np.array([[names[min(k, l), max(k, l)] for l in range(2)] for k in range(2)])


@pytest.mark.parametrize("text", ["h2", "z**3"])
def test_one_eigenvalue_is_the_committee_symbol_by_symbol(text: str) -> None:
    T, Q = matrices("T", False), matrices("Q", True)
    found = symbolic(committee(act(text), 1, 1.0), text, T, Q)
    gram = np.block([[np.array([[1, 0], [0, 1]], dtype=object), T.T], [T, Q]])
    w = np.concatenate([-found["a"], found["b"]])
    arrays = {"C": gram, "X": gram[2:], "Z": gram[:, :2], "T": T, "Q": Q, "w": w, "b": found["b"]}
    for component, sums in committee_system(act(text)).drift.items():
        first = Sums(term for term in sums if not term.body.has(sp.Symbol("eta", positive=True)))
        known = evaluate(first, component.indices, arrays, sp.Function("none"))
        gaps = [sp.expand(x - y) for x, y in zip(found[str(component.base)].ravel(), known.ravel(), strict=True)]
        assert gaps == [0] * 4


@pytest.mark.parametrize("text", ["h2", "h3+z"])
def test_one_eigenvalue_is_the_overlap_flow_symbol_by_symbol(text: str) -> None:
    t, root = matrices("t", False), np.array(sp.symbols("s_1 s_2", positive=True))
    c = matrices("c", True)
    c[0, 0] = c[1, 1] = sp.Integer(1)
    T, Q = root[:, None] * t, root[:, None] * c * root[None, :]
    found = symbolic(two_homogeneous(act(text), 1), text, T, Q)
    growth = found["Q"].diagonal() / (2 * root**2)  # of √r
    moved = {
        "t": found["T"] / root[:, None] - t * growth[:, None],
        "c": found["Q"] / (root[:, None] * root[None, :]) - c * (growth[:, None] + growth[None, :]),
        "r": found["Q"].diagonal(),
    }
    arrays = {"t": t, "c": c, "r": root**2, "a": found["a"]}
    for component, sums in overlap_flow(act(text)).drift.items():
        known = evaluate(sums, component.indices, arrays, act(text).kernel_at)
        pairs = zip(np.ravel(moved[str(component.base)]), known.ravel(), strict=True)
        assert all(sp.expand(sp.expand(x - y)) == 0 for x, y in pairs)


@pytest.mark.slow
def test_a_row_that_decays_by_fifty_orders_turns_as_it_would() -> None:
    """Decay shrinks a lone row and does not turn it: half of 0.2h₄ is found when its one-task path says, ‖v‖² near 10⁻¹⁰⁰."""
    sigma, directions = act("0.2*h4"), Directions.orthonormal(Inputs.isotropic(100), 1)
    model = DeclaredModel(directions, Additive(sigma, (0.8,)), two_homogeneous(sigma, 1), Rule(1e-3, decay=0.1))
    start = draw_start(directions, 1, 0.3, seed=5)
    half = float(lone_path(sigma, 1).half_time(np.array(abs(start.overlaps(directions)[0, 0, 0]) / 0.3))) / 0.8
    flow = declared_flow(model, start, half, np.array([half])).dataset
    square = flow.gram.values[-1, 0, 0, 0]
    assert flow.overlap.values[-1, 0, 0, 0] ** 2 / square == pytest.approx(0.5, abs=1e-3)
    assert np.log(square) < -200


def test_a_gentle_gate_keeps_its_digits() -> None:
    """z·erf(z/1000) is z² nearly, and ρσ(h/√ρ) then h² whatever ρ: what is left of the derivative by ρ, in 60 digits."""
    found = integrals(act("z*erf(z/1000)"), True, additive("z*erf(z)"))
    place = dict(zip(found.pair_symbols, map(sp.Rational, ("1", "0.3", "1", "1", "1", "0.3")), strict=True))
    K, Kr = numeric((found.pair["K"], found.pair["Kr"]), found.pair_symbols)(*map(float, place.values()))
    assert abs(Kr - float(sp.N(found.pair["Kr"].subs(place), 60))) < 1e-9 * K


def test_a_steep_gate_keeps_its_digits_at_parallel_rows() -> None:
    """z·erf(1000z), q = 1: E F'² and (E F'Fh − E F'²)/2 by mpmath; terms of order 1000 lost seven digits of them."""
    steep = 1000
    found = integrals(act(f"z*erf({steep}*z)"), False, additive("z*erf(z)"))
    names = ("K1", "K2")
    K1, K2 = numeric(tuple(found.pair[x] for x in names), found.pair_symbols)(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)

    def value(x: mp.mpf) -> mp.mpf:
        return x * mp.erf(steep * x)

    def slope(x: mp.mpf) -> mp.mpf:
        return mp.erf(steep * x) + 2 * steep * x / mp.sqrt(mp.pi) * mp.exp(-((steep * x) ** 2))

    def mean(f: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
        return 2 * mp.quad(lambda x: f(x) * mp.npdf(x), [0, 1e-3, 4e-3, 1, 4, 12])

    both = mean(lambda x: slope(x) ** 2)
    assert abs(K2 / both - 1) < 1e-12
    assert abs(K1 - (mean(lambda x: slope(x) * value(x) * x) - both) / 2) < 1e-12


@pytest.mark.slow_for("projected")
@pytest.mark.parametrize("rows", ["free", "sphere", "projected"])
def test_one_eigenvalue_is_the_committee_of_erf(rows: str) -> None:
    """For any rule of rows, in numbers."""
    vectors = np.random.default_rng(3).standard_normal((3, 7)) / 3
    vectors /= 1 if rows == "free" else np.linalg.norm(vectors, axis=1, keepdims=True)
    a, second = np.array([0.8, 0.6]), np.array([0.7, -0.4, 0.5])
    known = order_parameters(vectors, a, second, 0.0)
    directions = Directions.orthonormal(Inputs.isotropic(7), 2)
    student = committee(act("erf"), 3, second.tolist(), rows=rows)
    model = DeclaredModel(directions, additive("erf", *a), student, Rule(0.1))
    state = {"T": jnp.asarray(known["T"][None]), "Q": jnp.asarray(known["Q"][None])}
    found = lowered_population(model).drift(state, parameters_of(model))
    for component, sums in committee_system(act("erf"), rows).drift.items():
        name = str(component.base)
        np.testing.assert_allclose(found[name][0], evaluate_floats(sums, known), rtol=1e-12, atol=1e-13)


def test_a_unit_row_sees_a_polynomial_by_its_hermite_coefficients() -> None:
    r"""$E f_*\sigma(h)=\sum_k\hat\sigma_k\sum_{|\alpha|=k}c_\alpha\sqrt{k!/\alpha!}\,t^\alpha$ on orthonormal directions."""
    sigma = act("h1+0.5*h2+0.25*h3")
    known_to_it = integrals(sigma, False, STAIRCASE)
    found = known_to_it.cross["M"].subs(q11, 1)
    numbers = constants(known_to_it, Directions.orthonormal(Inputs.isotropic(5), 2))["moments"]
    found = found.subs(dict(zip(map(moment_symbol, degrees(STAIRCASE)), numbers, strict=True)))
    t = covariances(2)
    known = sum(
        sigma.coefficients.get(sum(alpha), 0)
        * c
        * sp.sqrt(sp.factorial(sum(alpha)) / sp.prod([sp.factorial(n) for n in alpha]))
        * sp.prod([x**n for x, n in zip(t, alpha, strict=True)])
        for alpha, c in monomials(STAIRCASE).items()
    )
    gap = sp.Poly(sp.expand(sp.N(found - known)), *t)
    assert max(abs(x) for x in gap.coeffs()) < 1e-14
    assert len(monomials(STAIRCASE)) == 4


# ---------------------------------------------------------------------------- in time


def linear(rule: Rule, **parts: object) -> DeclaredModel:
    student = committee(act("z"), 1, 1.0)
    return DeclaredModel(DIRECTIONS, additive("z", 1.0, 1.0), replace(student, **parts), rule)


@pytest.mark.slow_for("0.0")
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_the_linear_model_is_its_exponentials(decay: float) -> None:
    r"""$\dot v^i=-\lambda_i(v^i-w^i)-\kappa v^i$ in every eigenspace."""
    start = draw_start(DIRECTIONS, 1, 0.5, seed=2)
    flow = declared_flow(linear(Rule(0.1, decay=decay)), start, 3.0, rtol=1e-9).dataset
    lam = np.array(INPUTS.eigenvalues)[:, None, None]
    end = lam / (lam + decay) * DIRECTIONS.grams.sum(axis=1)[:, None, :]
    shrunk = np.exp(-(lam + decay) * flow.time.values[:, None, None, None])
    known = end + shrunk * (start.overlaps(DIRECTIONS) - end)
    np.testing.assert_allclose(flow.overlap, known, atol=1e-8)
    wrong = end + shrunk ** (1 + 1e-4) * (start.overlaps(DIRECTIONS) - end)
    assert np.abs(flow.overlap - wrong).max() > 1e-6
    residual = np.einsum("i,tikl->t", INPUTS.eigenvalues, flow.gram.values) - 2 * np.einsum(
        "i,tikq->t", INPUTS.eigenvalues, flow.overlap.values
    )
    np.testing.assert_allclose(flow.loss, (residual + DIRECTIONS.covariance.sum()) / 2, atol=1e-10)


def test_momentum_is_a_faster_clock_of_the_rows() -> None:
    start = draw_start(DIRECTIONS, 1, 0.5, seed=2)
    plain = declared_flow(linear(Rule(0.1)), start, 4.0, np.array([4.0])).dataset
    for kind, end in (("heavy", 1.0), ("nesterov", 1.0), ("average", 4.0)):
        fast = declared_flow(linear(Momentum(0.1, beta=0.75, kind=kind)), start, end, np.array([end])).dataset
        np.testing.assert_allclose(fast.overlap, plain.overlap, rtol=1e-6)


def test_loss_of_any_states_is_that_of_the_flow() -> None:
    model = model_of("steep erf, own link, trained")
    flow = declared_flow(model, draw_start(DIRECTIONS, 3, 1.0), 1.0, np.array([0.0, 0.5, 1.0])).dataset
    names = ("overlap", "gram", "second")
    again = declared_loss(model, *(np.stack([flow[name].values] * 2, axis=1) for name in names))
    np.testing.assert_allclose(again, np.stack([flow.loss.values] * 2, axis=1), rtol=1e-13)
    with pytest.raises(InputError, match=r"overlap, gram and second have shapes .*: give \(…, 3, 3, 2\)"):
        declared_loss(model, flow.overlap.values, flow.gram.values[:, :, :2], flow.second.values)


@pytest.mark.slow
def test_recording_a_flow_costs_it_few_steps() -> None:
    """No more than a step for each recorded time beside those of the flow alone, and numbers within its tolerance."""
    model, start = model_of("relu, polynomial link, sphere"), draw_start(DIRECTIONS, 3, 1.0)
    flow, alone = (declared_flow(model, start, 20.0, times) for times in (np.linspace(0.0, 20.0, 41), np.array([20.0])))
    assert alone.steps < flow.steps < alone.steps + 40
    few = declared_flow(model, start, 20.0, np.array([5.0, 12.5, 20.0]), rtol=1e-11).dataset
    np.testing.assert_allclose(flow.dataset.overlap.values[[10, 25, 40]], few.overlap, rtol=1e-6, atol=1e-8)


def test_rows_of_a_sphere_stay_on_it() -> None:
    model = model_of("relu, polynomial link, sphere")
    flow = declared_flow(model, draw_start(DIRECTIONS, 3, 1.0), 20.0, np.array([20.0])).dataset
    np.testing.assert_allclose(np.einsum("tikk->tk", flow.gram), 1.0, atol=1e-9)


def test_a_flow_that_stops_keeps_what_it_has() -> None:
    """Without a bound by correlation with a square; and stopped by Ctrl-C."""
    model = replace(
        linear(Rule(0.1)), student=committee(act("z**4"), 1, 1.0), target=additive("z**2"), loss=Correlation()
    )
    start = draw_start(DIRECTIONS, 1, 0.5, seed=2)
    with pytest.raises(IntegrationError, match=r"declared flow stopped at time .* of 5: its numbers grow") as stop:
        declared_flow(model, start, 5.0)
    assert 0 < stop.value.dataset.time[-1] < 5
    # (Many records of one call of the integrator: none before the end is lost.)
    last, fine = float(str(stop.value).split("at time ")[1].split()[0]), np.linspace(0.0, 5.0, 2001)
    with pytest.raises(IntegrationError) as stop:
        declared_flow(model, start, 5.0, np.append(fine[fine < last - 0.01], 5.0))
    assert stop.value.dataset.sizes["time"] == np.sum(fine < last - 0.01)

    def stop_here(share: float, text: str) -> None:
        if share > 0.1:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as halted:
        declared_flow(model, start, 0.01, progress=stop_here)
    assert halted.value.dataset.sizes["time"] == 12


@pytest.mark.parametrize("cosine", [0.0, 0.95])
def test_a_link_without_closed_kernel_has_the_second_moment_of_its_target(cosine: float) -> None:
    """E f*² along two directions by product quadrature."""
    vectors, target = np.array([[1.0, 0.0], [cosine, np.sqrt(1 - cosine**2)]]), additive("z*exp(-z**2/2)+z")
    directions = Directions(Inputs.isotropic(2), (vectors @ vectors.T)[None])
    points, weights = product_rule(gauss_legendre(-12.0, 12.0, 400), gauss_legendre(-12.0, 12.0, 400))
    weights = weights * np.exp(-(points**2).sum(axis=1) / 2) / (2 * np.pi)
    fields = points @ vectors.T
    known = weights @ ((fields * np.exp(-(fields**2) / 2) + fields) @ np.array(target.weights)) ** 2
    assert square(target, directions) == pytest.approx(known, rel=1e-12)


def test_a_half_line_sees_half_of_a_variance() -> None:
    """Whatever its expansion leaves out: E relu(g)² is v/2 of any variance v."""
    np.testing.assert_allclose(second_moments(act("relu(z)"), np.diag([1.7, 0.6])).diagonal(), [0.85, 0.3], rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": Muon(0.1)}, "rule is Muon: its mean step is not a multiple of the population gradient"),
        (
            {"student": committee(Activation.from_expression(sp.sign(z), "sign"), 1)},
            r"activation 'sign' has no closed two-point kernel at every variance: use .* erf, tanh, z\*erf",
        ),
        ({"student": committee(act("tanh(101*z)"), 1)}, "has no closed two-point kernel"),
        ({"loss": object()}, "loss is object: its population value is not known"),
        ({"student": committee(act("z"), 1, rows="sphere")}, r"squared norms .* give unit rows"),
        ({"student": committee(act("z"), 2)}, "start has 1 rows, the student 2"),
    ],
)
def test_what_has_no_flow_is_told_so(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        declared_flow(replace(linear(Rule(0.1)), **changes), draw_start(DIRECTIONS, 1, 0.5), 1.0)


def test_a_target_of_ones_own_has_no_flow() -> None:
    class Own:
        count = 2

        def value(self, fields: object, lower: object) -> object:
            return fields

    with pytest.raises(
        InputError, match=r"target is of type Own: .* run declared-sgd, .* or a polynomial \(Polynomial\)"
    ):
        population_flow(replace(linear(Rule(0.1)), target=Own()))


@pytest.mark.parametrize("asked", [["predict", "--model", "declared"], ["simulate", "declared-flow"]])
def test_of_a_sign_it_is_said_what_can_be_done(asked: list[str], run: Callable, refused: Callable) -> None:
    """In words that the command line knows: it had the names of two classes of Python."""
    flags = ["--inputs", "6", "--student", "committee", "--student-width", "1", "--target", "sign(z1*z2)"]
    said = (
        "target is the sign of a function: .* run declared-sgd, which needs none, or give the function without its sign"
    )
    if asked[0] == "predict":
        reasons = [x["reason"] for x in run(*asked, *flags)[1]["unknown"] if x["quantity"] == "exponents"]
        assert re.match(said, reasons[0])
    else:
        assert re.search(said, refused(*asked, *flags))


def test_a_whitened_student_is_simulated_in_coordinates_only() -> None:
    """In structured inputs; in isotropic ones it is the plain student."""
    alike = Directions.orthonormal(Inputs.isotropic(12), 2)
    start, ran = draw_start(alike, 3, 0.5), {}
    for made in (whitened, two_homogeneous):
        plain = DeclaredModel(alike, additive("h3"), made(act("h3"), 3), Rule(0.01))
        ran[made] = declared_sgd(plain, start, steps=20, replicas=2).dataset.gram.values
    np.testing.assert_array_equal(ran[whitened], ran[two_homogeneous])
    model = DeclaredModel(DIRECTIONS, additive("h3"), whitened(act("h3"), 3), Rule(0.01))
    start = draw_start(DIRECTIONS, 3)
    with pytest.raises(InputError, match="ambient"):
        declared_sgd(model, start, steps=2, replicas=1)
    assert not declared_sgd(model, start, steps=2, replicas=1, method="ambient").diverged.any()
    with pytest.raises(InputError, match="whitened"):
        replace(committee(act("h3"), 2), whitened=True)


@pytest.mark.parametrize("change", [{"second": (1.0, 3.0)}, {"trained": True}, {"rows": "sphere"}])
def test_a_2_homogeneous_student_has_no_second_layer_but_its_norms(change: dict) -> None:
    with pytest.raises(InputError, match="give weights of 1, or use a committee"):
        replace(two_homogeneous(act("h3"), 2), **change)
