"""Activations: dual kernels against quadrature, exact reading of text, and refusal of everything else."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import numpy as np
import pytest
import sympy as sp
from scipy import special

from theory import Activation, InputError
from theory.additive.exact_points import HAT
from theory.additive.flow import loss_derivation
from theory.core import activation_text
from theory.core.activation import c
from theory.core.activation_text import parse_expression
from theory.core.hermite import hermite

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
OVERLAPS = (-0.9, -0.3, 0.0, 0.25, 0.7, 0.95)
#: Seconds that reading a text may take, refusal included.
PATIENCE = 4


def by_grid(function: Callable[[np.ndarray], np.ndarray], overlap: float) -> float:
    """E σ(g)σ(h) for smooth σ on a two-dimensional Gauss–Hermite grid."""
    other = overlap * NODES[:, None] + np.sqrt(1 - overlap**2) * NODES[None, :]
    return float(np.einsum("n,nk,n,k->", function(NODES), function(other), WEIGHTS, WEIGHTS))


def by_angle(function: Callable[[np.ndarray], np.ndarray], overlap: float) -> float:
    """The same for σ(sz) = sσ(z), s > 0: radius and angle separate, and E radius² = 2."""
    angle = np.linspace(0, 2 * np.pi, 400_001)[:-1]
    return float(2 * np.mean(function(np.cos(angle)) * function(np.cos(angle - np.arccos(overlap)))))


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """Fail, rather than hang, if the block takes more processor time (which other work on the machine does not change)."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("erf", special.erf),
        ("2*erf(z/sqrt(2))", lambda x: 2 * special.erf(x / np.sqrt(2))),
        ("-erf(0.7*z)/3", lambda x: -special.erf(0.7 * x) / 3),
        ("h4", lambda x: (x**4 - 6 * x**2 + 3) / np.sqrt(24)),
        ("0.8*h4+0.6*h6", lambda x: (
            0.8 * (x**4 - 6 * x**2 + 3) / np.sqrt(24) + 0.6 * (x**6 - 15 * x**4 + 45 * x**2 - 15) / np.sqrt(720))),
        ("quadratic", lambda x: x**2 - 1),
        ("z**3/2-z+1/3", lambda x: x**3 / 2 - x + 1 / 3),
        ("tanh", np.tanh),
    ],
)  # fmt: skip
def test_dual_kernel_of_smooth_activations(
    text: str, function: Callable[[np.ndarray], np.ndarray], overlap: float
) -> None:
    dual = float(Activation.parse(text).dual.subs(c, overlap))
    expected = by_grid(function, overlap)
    assert dual == pytest.approx(expected, abs=2e-5 if text == "tanh" else 1e-8)


def test_the_series_that_defines_the_kernel_is_the_moment() -> None:
    activation, overlap = Activation.parse("0.8*h1+0.6*h2"), 0.7
    (series,) = (x.claim for x in loss_derivation(activation).steps if x.title == "Dual kernel of the activation")
    ((i, *_),) = series.limits
    terms = [
        series.function.xreplace({HAT[i]: x}).subs({i: k, "c": overlap}) for k, x in activation.coefficients.items()
    ]
    expected = by_grid(lambda x: 0.8 * x + 0.6 * (x**2 - 1) / np.sqrt(2), overlap)
    assert float(sum(terms)) == pytest.approx(expected, abs=1e-12)


#: What each name stands for, written by means of another library.
NAMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gelu": lambda x: x * special.ndtr(x),
    "silu": lambda x: x * special.expit(x),
    "swish": lambda x: x * special.expit(x),
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "tanh": np.tanh,
    "erf": special.erf,
    "relu": lambda x: np.maximum(x, 0),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_are_the_functions_they_say(name: str) -> None:
    points = np.linspace(-12, 12, 97)
    for text, scale in ((name, 1.0), (f"{name}(z)", 1.0), (f"{name}(-2*z)", -2.0)):
        value = sp.lambdify(sp.Symbol("z", real=True), parse_expression(text), ["scipy", "numpy"])
        np.testing.assert_allclose(value(points), NAMED[name](scale * points), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", sorted(set(NAMED) - {"swish"}))
def test_a_named_activation_keeps_its_second_moment_up_to_the_error_it_states(name: str) -> None:
    """By a rule of its own, with a break where some have a kink."""
    points = (np.arange(200_000) + 0.5) * 8e-5
    density = np.exp(-points * points / 2) / np.sqrt(2 * np.pi) * 8e-5
    expected = float(np.sum(density * (NAMED[name](points) ** 2 + NAMED[name](-points) ** 2)))
    activation = Activation.parse(name)
    kept = float(sum(value**2 for value in activation.coefficients.values()))
    assert kept == pytest.approx(expected * (1 - activation.truncation_error), rel=1e-8)


def test_selu_has_mean_zero_and_keeps_the_variance() -> None:
    activation = Activation.parse("selu")
    assert 0 not in activation.coefficients
    assert sum(value**2 for value in activation.coefficients.values()) == pytest.approx(1 - activation.truncation_error)


def test_powers_and_jumps_are_refused_with_what_to_write() -> None:
    with pytest.raises(
        InputError, match=r"'z\^2-1' is not understood \(\^ is no power\): write \*\* for powers, and use h1"
    ):
        Activation.parse("z^2-1")
    for name in ("sign(z)", "Sgn(z)", "heaviside"):
        with pytest.raises(InputError, match=r"\): it has a jump, so no gradient: use h1"):
            Activation.parse(name)
    for name, meant in (("ln(z)", "log is the natural logarithm"), ("log10(z)", r"write log\(x\)/log\(10\)")):
        with pytest.raises(InputError, match=rf"\): {meant}: use h1"):
            Activation.parse(name)


@pytest.mark.parametrize(
    ("text", "same"),
    [("relu(z)-relu(-z)", "z"), ("relu(2*z)-relu(-2*z)+h2", "2*z+h2"), ("abs(z)**2+relu**3-relu(-z)**3", "z**2+z**3")],
)
def test_kinks_that_cancel_leave_a_polynomial(text: str, same: str) -> None:
    """A relu and its mirror image differ by their argument: exactly that polynomial is meant, and nothing is expanded."""
    found, meant = Activation.parse(text), Activation.parse(same)
    assert (found.coefficients, found.dual, found.is_polynomial) == (meant.coefficients, meant.dual, True)


@pytest.mark.parametrize(("slope", "known"), [(6, True), (8, False), (20, False)])
def test_waves_that_are_too_fast_for_forty_degrees_are_told_so(slope: int, known: bool) -> None:
    """E h_j(z)sin(bz) = ±e^(−b²/2)bʲ/√j!, so that odd degrees up to 40 hold e^(−b²)Σb²ʲ/j! of E sin² = (1 − e^(−2b²))/2: more
    than half up to b = 6. It is bounded: nothing is wrong with its growth.
    """
    held = sum(np.exp(-(slope**2) + j * np.log(slope**2) - special.gammaln(j + 1)) for j in range(1, 41, 2))
    share = held / (0.5 * -np.expm1(-2 * slope**2))
    assert (share > 0.5) == known
    if known:
        assert Activation.parse(f"sin({slope}*z)").truncation_error == pytest.approx(1 - share, abs=1e-9)
        return
    with pytest.raises(InputError, match=r"hold only .*lower the scale of z") as refused:
        Activation.parse(f"sin({slope}*z)")
    assert "grows" not in str(refused.value)


def test_kinks_that_cancel_to_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="is constant"):
        Activation.parse("relu(2*z)-2*relu(z)")


@pytest.mark.parametrize(
    ("text", "meant"), [("gleu", "gelu"), ("ReLU", "relu"), ("sine(z)", "sin"), ("quadratik", "quadratic")]
)
def test_a_name_that_is_nearly_right_is_guessed(text: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"did you mean {meant}"):
        Activation.parse(text)


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("-3*relu", lambda x: -3 * np.maximum(x, 0)),
        ("abs(z)", np.abs),
        ("2*abs(z)", lambda x: 2 * np.abs(x)),
    ],
)
def test_dual_kernel_of_homogeneous_activations(
    text: str, function: Callable[[np.ndarray], np.ndarray], overlap: float
) -> None:
    dual = float(Activation.parse(text).dual.subs(c, overlap))
    assert dual == pytest.approx(by_angle(function, overlap), abs=1e-8)


@pytest.mark.parametrize(
    "text",
    ["erf", "relu", "abs(z)", "2*erf(z/sqrt(2))", "Max(2*z,0)", "relu(-3*z)", "Max(z,z/10)", "abs(2*z)-z",
     "relu+h3/2-1/sqrt(2*pi)", "z*abs(z)-h1", "relu**2", "abs(z)**3+h3", "erf(2*z)-z", "erf-h3+1", "gelu",
     "2*gelu-h3/2+1", "-z*erf(z/5)/3", "z*erf(2*z)"],
)  # fmt: skip
def test_closed_dual_and_hermite_series_are_one_function(text: str) -> None:
    activation = Activation.parse(text)
    assert activation.closed_dual is not None
    series = sum(float(value) ** 2 * 0.4**j for j, value in activation.coefficients.items())
    assert float(activation.dual.subs(c, 0.4)) == pytest.approx(series, rel=1e-9)
    assert float(activation.second_moment) * (1 - activation.truncation_error) == pytest.approx(
        sum(float(value) ** 2 for value in activation.coefficients.values()), rel=1e-9)  # fmt: skip
    assert activation.drift_truncation_error == 0
    J = activation.information_exponent
    assert float(activation.leading) == pytest.approx(float(activation.coefficients[J]) ** 2, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "order", "derivative"),
    [
        ("relu**2", 1, lambda x: 2 * np.maximum(x, 0)),
        ("relu**2", 2, lambda x: 2.0 * (x > 0)),
        ("abs(z)*z+h3", 1, lambda x: 2 * np.abs(x) + 3 * (x**2 - 1) / np.sqrt(6)),
        ("relu**3/2", 1, lambda x: 1.5 * np.maximum(x, 0) ** 2),
        ("relu**3/2", 2, lambda x: 3 * np.maximum(x, 0)),
        ("relu**3/2", 3, lambda x: 3.0 * (x > 0)),
    ],
)
def test_derivatives_of_the_kernels_of_powers_of_relu_have_no_poles(
    text: str, order: int, derivative: Callable[[np.ndarray], np.ndarray]
) -> None:
    r"""$\varphi^{(n)}(c)=E\sigma^{(n)}(g)\sigma^{(n)}(h)$, at ±1, too, where single terms are infinite; exact and compiled."""
    activation, line = Activation.parse(text), np.linspace(-10, 10, 200_001)
    weight = np.exp(-(line**2) / 2) / np.sqrt(2 * np.pi) * 1e-4
    for end in (1, -1):
        known = float(weight @ (derivative(line) * derivative(end * line)))
        assert float(activation.kernel_at(end, order)) == pytest.approx(known, rel=1e-3)
        lowered = sp.lambdify(c, activation.dual_derivative(order))(float(end))
        assert lowered == pytest.approx(known, rel=1e-3)
    series = sum(special.poch(j - order + 1, order) * float(x) ** 2 * 0.3 ** (j - order)
                 for j, x in activation.coefficients.items() if j >= order)  # fmt: skip
    assert float(activation.kernel_at(sp.Float(0.3), order)) == pytest.approx(series, rel=1e-9)


def test_floats_leave_no_poles_of_their_rounding() -> None:
    """A square of a relu in floats, alone or so small that its decimals become floats."""
    small, exact = Activation.parse("1e-9*relu**2+h4"), Activation.parse("h4")
    floats = Activation.from_expression(sp.Float(0.3) * sp.Max(sp.Symbol("z", real=True), 0) ** 2)
    for end, mirrored in ((1, 1), (-1, 0)):  # both slopes are positive on one side only
        for order in (1, 2):
            assert float(small.kernel_at(end, order)) == pytest.approx(float(exact.kernel_at(end, order)), rel=1e-6)
            assert float(floats.kernel_at(end, order)) == pytest.approx(0.18 * mirrored, abs=1e-12)
    assert not floats.kernel_at(1, 3).is_finite  # a pole that is one


def test_derivative_of_the_kernel_is_the_kernel_of_the_derivative() -> None:
    """φ'(c) = Eσ'(g)σ'(h)."""
    activation = Activation.parse("0.8*h4+0.6*h6")
    slope = sp.lambdify(sp.Symbol("z", real=True), sp.diff(activation.function, sp.Symbol("z", real=True)))
    for overlap in OVERLAPS:
        found = float(activation.dual_derivative().subs(c, overlap))
        assert found == pytest.approx(by_grid(slope, overlap), rel=1e-9)


def test_numbers_in_text_are_exact() -> None:
    activation = Activation.parse(" 0.8*h4+0.6*h6 ")
    assert activation.coefficients == {4: sp.Rational(4, 5), 6: sp.Rational(3, 5)}
    assert activation.second_moment == 1
    assert activation.leading == sp.Rational(16, 25)
    assert (activation.information_exponent, activation.degree, activation.parity) == (4, 6, "even")
    assert activation.truncation_error == 0
    assert activation.check_tolerance == 1e-30


def test_one_activation_four_ways() -> None:
    z = sp.Symbol("z", real=True)
    expression = (z**4 - 6 * z**2 + 3) / sp.sqrt(24)
    made = [
        Activation.parse("h4"),
        Activation.from_degree(4),
        Activation.from_coefficients({4: 1}),
        Activation.from_expression(expression),
    ]
    assert all(activation.coefficients == {4: 1} for activation in made)
    opaque = Activation.from_function(lambda x: (x**4 - 6 * x**2 + 3) / 24**0.5)
    assert set(opaque.coefficients) == {4}
    assert float(opaque.coefficients[4]) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_decimals_of_sixteen_digits_keep_their_information_exponent(scale: float) -> None:
    """Their rounding is no Hermite coefficient, neither as text nor as floats; a small one that is given is one."""
    z, rng = sp.Symbol("z", real=True), np.random.default_rng(5)
    for degree in (3, 4, 5, 6):
        powers = scale * rng.uniform(0.5, 2) * np.array([float(x) for x in sp.Poly(hermite(degree), z).all_coeffs()])
        terms = [f"{x!r}*z**{degree - k}" for k, x in enumerate(powers.tolist())]
        floats = sum(sp.Float(x) * z ** (degree - k) for k, x in enumerate(powers.tolist()))
        for made in (Activation.parse("+".join(terms)), Activation.from_expression(floats)):
            assert (made.information_exponent, made.degree) == (degree, degree)
            assert set(Activation.from_expression(made.function).coefficients) == {degree}
    assert Activation.parse("h4 + 1e-9*h2").information_exponent == 2


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_small_and_large_functions_keep_their_information_exponent(scale: float) -> None:
    """Quadrature noise must not pass for a Hermite coefficient, at any scale of the function."""
    found = Activation.from_function(lambda x: scale * (x**4 - 6 * x**2 + 3) / 24**0.5)
    assert set(found.coefficients) == {4}


@pytest.mark.parametrize(
    ("text", "parity", "exponent"),
    [("h3", "odd", 3), ("h3+h4", None, 3), ("erf", "odd", 1), ("relu", None, 1), ("abs(z)", "even", 2),
     ("quadratic", "even", 2), ("h4+h6", "even", 4), ("h4+1", "even", 4), ("tanh", "odd", 1)],
)  # fmt: skip
def test_parity_and_information_exponent(text: str, parity: str | None, exponent: int) -> None:
    activation = Activation.parse(text)
    assert (activation.parity, activation.information_exponent) == (parity, exponent)


def test_truncation_error_is_the_weight_beyond_the_last_degree() -> None:
    """|z|: Eσ² = 1, so what is missing is one minus the weight that is kept."""
    activation = Activation.parse("abs(z)")
    kept = sum(float(value) ** 2 for value in activation.coefficients.values())
    assert activation.truncation_error == pytest.approx(1 - kept, abs=1e-9)
    assert 1e-5 < activation.truncation_error < 1e-2


@pytest.mark.parametrize(
    ("text", "slope"),  # Eσ'²
    [
        ("exp(-abs(z))", float(np.exp(2) * special.erfc(np.sqrt(2)))),
        ("relu(z-1)", special.ndtr(-1)),
        ("tanh", WEIGHTS @ np.cosh(NODES) ** -4.0),
        ("tanh(z)/z", WEIGHTS @ ((np.cosh(NODES) ** -2.0 - np.tanh(NODES) / NODES) / NODES) ** 2),
    ],
)
def test_truncation_of_the_drift_is_that_of_its_kernel_at_1(text: str, slope: float) -> None:
    """φ'(1) = Eσ'² = Σjσ̂_j² converges more slowly than φ(1): 1e-6 for tanh, a quarter where σ has a cusp."""
    activation = Activation.parse(text)
    kept = float(activation.dual_derivative().subs(c, 1))
    assert activation.drift_truncation_error == pytest.approx(1 - kept / slope, abs=2e-7)
    assert activation.drift_truncation_error > 10 * activation.truncation_error


def test_the_drift_of_a_jump_is_all_left_out() -> None:
    step = Activation.from_function(lambda x: float(x > 0.3))
    assert step.drift_truncation_error > 0.98
    assert Activation.from_expression(sp.sign(sp.Symbol("z", real=True))).dual == 2 / sp.pi * sp.asin(c)


HOSTILE = [
    "", "   ", "__import__('os').system('true')", "z.__class__", "().__class__.__bases__[0]", "9**9**9", "9**(9**9)",
    "lambda z: z", "[z for z in (1, 2)]", "{z: z}", "z if z else z", "z and z", "z < 1", "z@z", "z//2", "z%2", "z[0]",
    "f'{z}'", "'h4'", "True", "None", "...", "1j*z", "sqrt(-1)*h4", "eval(z)", "exp(z, z)", "exp(*z)", "exp(z=z)",
    "Max(z)", "unknown", "h100", "h-4", "hh4", "nan", "inf", "oo", "1/0", "z/(z-z)", "h4; h4", "h4\nimport os", "z\0",
    "z :=1", "(" * 300 + "z" + ")" * 300, "-" * 5000 + "z", "+".join(["z"] * 5000), "z" * 5000, "z**41", "z**z",
    "z**(-1/0)", "é", "lambda: 0", "0x10*h4", "z**(log(0)-log(0))", "Max(sqrt(-1), z)", "exp(40**20)*h4",
    "exp(exp(exp(exp(9))))*h4", "1e99999999*h4", "((z**40)**40)**40", "(((1+z)**40)**40)**40",
    f"({'+'.join(f'exp(z/{k})' for k in range(1, 10))})**-40", "*".join(["(exp(z)+exp(z/2)+exp(z/3))"] * 9),
    "cos(cos(exp(1e29))**40*cos(exp(1e29))**40)", "sin(exp(1e29))*z", "z/log(0)",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:24]))
def test_hostile_text_is_refused_in_one_line(text: str) -> None:
    with patience(PATIENCE), pytest.raises(InputError) as caught:
        Activation.parse(text)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith("activation ")
    assert len(message) < 400


def test_what_takes_long_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of which SymPy would never have done."""

    def endless(_: sp.Expr) -> sp.Expr:
        while True:
            pass

    monkeypatch.setattr(activation_text, "SECONDS", 0.1)
    grammar = replace(activation_text.ACTIVATION, function=lambda _: (1, endless))
    before = signal.getsignal(signal.SIGVTALRM)
    with patience(PATIENCE), pytest.raises(InputError, match=r"it takes more than 0\.1 s to read"):
        grammar.parse("tanh(z)")
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


@pytest.mark.parametrize(
    "text", ["h0", "3", "h4-h4", "0*z", "h99", "h40*h2", "sqrt(z)", "log(z)", "z**0.5", "exp(z**4)"]
)
def test_text_that_is_no_activation_is_refused(text: str) -> None:
    with patience(PATIENCE), pytest.raises(InputError) as caught:
        Activation.parse(text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["exp(z**2)", "exp(z**2/3)", "1/z", "abs(z)**-1"])
def test_functions_outside_gaussian_l2_are_refused(text: str) -> None:
    """Eσ² is infinite: there is no Hermite expansion, whatever numbers a finite grid returns."""
    with patience(PATIENCE), pytest.raises(InputError):
        Activation.parse(text)


@pytest.mark.parametrize("coefficients", [{-1: 1}, {2.5: 1}, {"4": 1}, {4: float("nan")}, {4: float("inf")}, {4: 1j}])
def test_bad_coefficients_are_refused(coefficients: dict[int, object]) -> None:
    with pytest.raises(InputError, match="coefficients"):
        Activation.from_coefficients(coefficients)


@pytest.mark.parametrize(
    ("coefficients", "said"),
    [({}, "is constant"), ({0: 1}, "is constant"), ({4: 0}, "is constant"), ({41: 1}, "degree")],
)
def test_constant_and_huge_activations_are_refused(coefficients: dict[int, object], said: str) -> None:
    with pytest.raises(InputError, match=f"activation.*{said}"):
        Activation.from_coefficients(coefficients)


def test_requirements_name_the_activation_and_the_remedy() -> None:
    with pytest.raises(InputError, match=r"'h3' is odd.*h4"):
        Activation.parse("h3").require_even("this")
    with pytest.raises(InputError, match="neither even nor odd"):
        Activation.parse("h3+h4").require_even("this")
    with pytest.raises(InputError, match=r"information exponent 2.*h4"):
        Activation.parse("quadratic").require_exponent(4, "this")
    Activation.parse("h4").require_even("this")
    Activation.parse("h4").require_exponent(4, "this")


def test_derivatives_as_arrays_end_at_a_kink() -> None:
    points = np.array([-1.0, 2.0])
    assert Activation.parse("h3").arrays(2)(points) == pytest.approx(np.sqrt(6) * points)
    assert Activation.parse("relu(z)").arrays(1)(points).tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match=r"order is 2: .* take a lower one"):
        Activation.parse("abs(z)").arrays(2)


def test_a_mean_that_is_rounding_is_none() -> None:
    """|z| less its degrees 0 and 2 as decimals of 16 digits; of 7 digits a mean is left."""
    kinked = "abs(z) - {} - 0.3989422804014327*(z**2 - 1)"
    assert Activation.parse(kinked.format("0.7978845608028654")).squared_mean == 0
    left = float(Activation.parse(kinked.format("0.7978846")).squared_mean)
    assert left == pytest.approx((np.sqrt(2 / np.pi) - 0.7978846) ** 2, rel=1e-6)
