r"""Label-noise SGD on the two-layer linear network: exact identities, mean drift, least-squares error, escape.

$\hat y=a^\top Wx$, one sample a step, $\ell'=\langle e,x\rangle-\epsilon$ with $e=\theta-\theta^*$, $\theta=W^\top a$ and
$\epsilon=\pm\sigma$, $g=\ell'x$; $W\leftarrow W-\eta ag^\top$ and $a\leftarrow a-\eta Wg$ at once
(arXiv:2603.10397, eqs. 2-4).
"""

from functools import partial
from typing import Any

import numpy as np
import scipy
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.gaussian import standard_expectation
from theory.core.matrices import Inner, at, d, m, total

REFERENCE = "arXiv:2603.10397, sections 4.1-4.2, appendix B; drift, least-squares error and escape time derived"
eta, sigma, k = sp.symbols("eta sigma k", positive=True)
rho2, E2 = sp.symbols(r"{\varrho^2} {E|e|^2}", positive=True)
#: All weights; the sample, its gradient g = ℓ′x and E ggᵀ; one neuron.
W, a = sp.MatrixSymbol("W", m, d), sp.MatrixSymbol("a", m, 1)
x, e, g, S = *(sp.MatrixSymbol(letter, d, 1) for letter in "xeg"), sp.MatrixSymbol("S", d, d)
w_i, a_i, slope = sp.MatrixSymbol("w_i", d, 1), sp.Symbol("a_i"), sp.Symbol(r"{\ell'}")

#: One step of W and of a.
UPDATE = W - eta * a * g.T, a - eta * W * g
#: E ggᵀ for fresh Gaussian inputs, and the mean of Δ(WWᵀ − aaᵀ), exact for one step from given weights.
SECOND_MOMENT = (sigma**2 + Inner(e, e)) * sp.Identity(d) + 2 * e * e.T
MEAN_DRIFT = -(eta**2) * (W * S * W.T - sp.Trace(S) * a * a.T)
#: A step on [W a].
BOOST = sp.Identity(d + 1) - eta * sp.BlockMatrix([[sp.ZeroMatrix(d, d), g], [g.T, sp.ZeroMatrix(1, 1)]])


def stationary_error(k: sp.Expr = k, d: sp.Expr = d, sigma: sp.Expr = sigma) -> sp.Expr:
    r"""$E|e|^2=k\sigma^2d/(2-k(d+2))$ at isotropic weights, $k=\eta(\|W\|_F^2/d+\|a\|^2)$."""
    return k * sigma**2 * d / (2 - k * (d + 2))


def error_recursion() -> sp.Expr:
    r"""$E|e'|^2=(1-2k+k^2(d+2))|e|^2+k^2d\sigma^2$: one step of $e'=e-kg$."""
    return (1 - 2 * k + k**2 * (d + 2)) * E2 + k**2 * d * sigma**2


#: Largest stable $k=\eta\Lambda$.
CRITICAL = 2 / (d + 2)


def escape_time() -> sp.Expr:
    r"""$t_{esc}=2/(\sqrt m\,\eta^2\varrho^2)$: $|w|(1-e^{-\eta^2\varrho^2t/2})=1/\sqrt m$ at $|w|=1$, leading order."""
    return 2 / (sp.sqrt(m) * eta**2 * rho2)


def printed_escape_bound() -> sp.Expr:
    r"""$T_1=384\sqrt{\ln m}/(\sigma^2\eta^2\sqrt m)$, theorem 4.2 as printed."""
    return 384 * sp.sqrt(sp.log(m)) / (sigma**2 * eta**2 * sp.sqrt(m))


def escape_bound(width: int, step_size: float, noise: float, batch: int = 1) -> float:
    r"""`printed_escape_bound` for numbers; inf without noise.

    The theorem takes single samples. The mean of b has noise of variance σ²/b, whose part of $E\,gg^\top$ is what moves the
    norms: so has σ² here.
    """
    if not noise:
        return float("inf")
    return float(printed_escape_bound().subs({m: width, eta: step_size, sigma: noise / batch**0.5}))


def norm_step(input_overlap: np.ndarray, second: np.ndarray, input_norm2: np.ndarray, slope: np.ndarray) -> np.ndarray:
    r"""$\Delta W_i=-\ell'^2\{\langle x,w_i\rangle^2-a_i^2|x|^2\}$, the step of $|w_i|^2-a_i^2$ over $\eta^2$; elementwise."""
    return -(slope**2) * (input_overlap**2 - second**2 * input_norm2)


def growth_probability(ratio: np.ndarray, dim: int) -> np.ndarray:
    r"""$\Pr(\Delta W_i>0)=I_{r^2}(\tfrac12,\tfrac{d-1}2)\approx\sqrt{2d/\pi}\,r$, $r=|a_i|/|w_i|$; exact for Gaussian inputs.

    ΔW > 0 says that the squared cosine of x and $w_i$, a Beta(½, (d−1)/2) variable, is below r². Elementwise in `ratio`.
    Raises `InputError` for d < 2.
    """
    if dim < 2:
        raise InputError(f"dim is {dim}: give 2 or more")
    return np.asarray(scipy.special.betainc(0.5, (dim - 1) / 2, np.minimum(np.asarray(ratio) ** 2, 1.0)))


# ----------------------------------------------------------------------------- derivation


def name(latex: str) -> sp.Symbol:
    """A symbol that prints as `latex` (braces keep SymPy from reading sub- and superscripts into it)."""
    return sp.Symbol(latex if "{" in latex else "{" + latex + "}")


_STEP, _NOISE = sp.Rational(1, 7), sp.Rational(2, 3)


def _point() -> tuple[sp.Matrix, sp.Matrix, sp.Matrix]:
    """W (3, 2), a (3,), θ* (2,) at exact numbers."""
    R = sp.Rational
    first = sp.Matrix([[R(1, 2), R(-2, 3)], [R(3, 4), R(1, 5)], [R(-1, 7), R(5, 6)]])
    return first, sp.Matrix([R(1, 3), R(-2, 5), R(1, 4)]), sp.Matrix([R(4, 5), R(-1, 6)])


def _stepped(sample: sp.Matrix, epsilon: sp.Expr) -> tuple[dict[sp.Basic, Any], sp.Matrix, sp.Matrix]:
    """Numbers for all symbols before one step with η = 1/7, and W, a after it."""
    first, second, target = _point()
    steep = (first.T * second - target).dot(sample) - epsilon
    values = {W: first, a: second, x: sample, g: steep * sample, slope: steep, eta: _STEP}
    return values, *(at(part, values) for part in UPDATE)


def _change(values: dict[sp.Basic, Any], after: sp.Matrix, a1: sp.Matrix) -> sp.Matrix:
    """Δ(WWᵀ − aaᵀ)."""
    return after * after.T - a1 * a1.T - values[W] * values[W].T + values[a] * values[a].T


def identity_residual(kind: str, shown: sp.Basic) -> sp.Expr:
    """An identity against one step at exact numbers: ``neuron``, ``second``, ``matrix``, ``boost`` or ``determinant``."""
    values, after, a1 = _stepped(sp.Matrix([sp.Rational(3, 2), sp.Rational(-5, 4)]), _NOISE)
    if kind == "matrix":
        return total(_change(values, after, a1) - at(shown, values))
    if kind == "boost":
        return total(after.row_join(a1) - at(shown, values))
    if kind == "determinant":
        return at(BOOST, values).det() - at(shown, values)
    change = _change(values, after, a1)
    gaps = []
    for i in range(3):
        found = change[i, i] if kind == "neuron" else (a1[i] - values[a][i]) ** 2
        gaps.append(found - at(shown, {**values, w_i: values[W].row(i).T, a_i: values[a][i]}))
    return total(sp.Matrix(gaps))


def drift_residual(shown: sp.Basic) -> sp.Expr:
    """The mean of one step over ε and Gaussian x, all products expanded, against what is shown."""
    xs = sp.symbols("x1 x2")
    found = sp.zeros(3, 3)
    for epsilon in (_NOISE, -_NOISE):
        values, after, a1 = _stepped(sp.Matrix(xs), epsilon)
        change = _change(values, after, a1)
        found += change.applyfunc(lambda entry: standard_expectation(sp.expand(entry), *xs)) / 2
    first, second, target = _point()
    moment = at(SECOND_MOMENT, {e: first.T * second - target, sigma: _NOISE})
    return total(found - at(shown, {W: first, a: second, S: moment, eta: _STEP}))


def norm_residual(shown: sp.Expr) -> sp.Expr:
    """The trace of the mean drift at S = ϱ²I and exact weights, over ‖W‖²."""
    first, second, _ = _point()
    drift = at(MEAN_DRIFT, {W: first, a: second, S: sp.eye(2) * 3, eta: _STEP})
    norms = {_FROBENIUS: (first.T * first).trace(), _NORM: second.dot(second)}
    return drift.trace() / norms[_FROBENIUS] + shown.subs({**norms, rho2: 3, eta: _STEP, d: 2})


def error_residual(shown: sp.Expr) -> sp.Expr:
    """One least-squares step in three dimensions, averaged by expansion, against what is shown."""
    xs = sp.symbols("x1:4")
    error = sp.Matrix([sp.Rational(1, 2), sp.Rational(-2, 3), sp.Rational(3, 5)])
    found = sp.Integer(0)
    for epsilon in (sigma, -sigma):
        moved = error - k * (error.dot(sp.Matrix(xs)) - epsilon) * sp.Matrix(xs)
        found += standard_expectation(sp.expand(moved.dot(moved)), *xs) / 2
    return sp.expand(found - shown.subs({d: 3, E2: error.dot(error)}))


def growth_residual(shown: sp.Expr) -> sp.Expr:
    """In two dimensions the angle between x and a neuron is uniform, in three its cosine; and `growth_probability`."""
    at_ratio = {r: sp.Rational(3, 8)}
    plane, space = (sp.N(shown.subs(d, size).subs(at_ratio), 40) for size in (2, 3))
    code = float(growth_probability(np.array(0.375), 3)) - 0.375
    return abs(plane - sp.N(2 * sp.asin(at_ratio[r]) / sp.pi, 40)) + abs(space - at_ratio[r]) + int(abs(code) > 1e-12)


def _small_residual(shown: sp.Expr) -> sp.Expr:
    """Against the exact probability at small r and large d."""
    point = {d: 10**6, r: sp.Float("1e-6", 40)}
    return sp.N(shown.subs(point) / GROWTH.subs(point), 40) - 1


#: |a_i|/|w_i|, and the exact probability that ΔW_i > 0.
r = sp.Symbol("r", positive=True)
GROWTH = sp.betainc_regularized(sp.Rational(1, 2), (d - 1) / 2, 0, r**2)
_FROBENIUS, _NORM = name(r"\|W\|_F^2"), name(r"\|a\|^2")


def _identities() -> list[Step]:
    change = eta**2 * (Inner(g, g) * a * a.T - W * g * g.T * W.T)
    shown = {
        "Norm identity of one neuron": (
            r"\Delta(|w_i|^2-a_i^2)",
            -(eta**2) * slope**2 * (Inner(x, w_i) ** 2 - a_i**2 * Inner(x, x)),
            "neuron",
        ),
        "Step of the second layer": (r"(a_i(t+1)-a_i(t))^2", eta**2 * slope**2 * Inner(x, w_i) ** 2, "second"),
        "The same for all pairs of neurons": (r"\Delta(WW^{\top}-aa^{\top})", change, "matrix"),
        "A step is a boost of [W a]": (r"[W\ a](t+1)", sp.BlockMatrix([[W, a]]) * BOOST, "boost"),
        "Determinant of the boost": (r"\det(I-\eta\mathsf M_g)", 1 - eta**2 * Inner(g, g), "determinant"),
    }
    return [
        Step(title, equation(name(left), right), partial(identity_residual, kind))
        for title, (left, right, kind) in shown.items()
    ]


def derivation() -> Derivation:
    """``derive label-noise``."""
    stationary = stationary_error()
    small = sp.Symbol("x", positive=True)  # 1/√m
    decay = eta**2 * rho2 * (1 - d * _NORM / _FROBENIUS)
    slow, falling = r"E\,\Delta(WW^{\top}-aa^{\top})", r"-\frac{1}{\|W\|_F^2}\frac{d}{dt}(\|W\|_F^2-\|a\|^2)"
    steps = [
        Step("Update of the first layer", equation(name(r"W(t+1)"), UPDATE[0])),
        Step("Update of the second layer", equation(name(r"a(t+1)"), UPDATE[1])),
        *_identities(),
        Step("Second moment of the gradient, fresh Gaussian inputs", equation(S, SECOND_MOMENT), moment_residual),
        Step("Mean drift, exact for one step", equation(name(slow), MEAN_DRIFT), drift_residual),
        Step("Decay of the norm at S = ϱ²I", equation(name(falling), decay), norm_residual),
        Step(
            "Least-squares error at isotropic weights, one step",
            equation(name(r"E|e'|^2"), error_recursion()),
            error_residual,
        ),
        Step(
            "Stationary error",
            equation(name(r"E|e|^2"), stationary),
            lambda shown: sp.simplify(error_recursion().subs(E2, shown) - shown),
        ),
        Step(
            "Stability limit: the error stops shrinking",
            equation(name(r"k_c"), CRITICAL),
            lambda shown: sp.simplify((sp.diff(error_recursion(), E2) - 1).subs(k, shown)),
        ),
        Step(
            "Escape of the median neuron from the lazy regime",
            equation(name(r"t_{esc}"), escape_time()),
            lambda shown: (
                sp.series((1 - sp.exp(-(eta**2) * rho2 * shown.subs(m, 1 / small**2) / 2)), small, 0, 2).removeO()
                - small
            ),
        ),
        Step(
            "Probability that the norm grows in one step, r = |a_i|/|w_i|",
            equation(name(r"\Pr(\Delta W_i>0)"), GROWTH),
            growth_residual,
        ),
        Step(
            "The same for small r in high dimension",
            equation(name(r"\Pr(\Delta W_i>0)|_{r\to0}"), sp.sqrt(2 * d / sp.pi) * r),
            _small_residual,
            1e-5,
        ),
    ]
    equations = {
        slow: MEAN_DRIFT,
        r"E|e|^2": stationary,
        r"\varrho^2": sigma**2 + stationary,
        falling: decay,
        r"t_{esc}": escape_time(),
        r"T_1 \text{ (as printed)}": printed_escape_bound(),
    }
    assumptions = (
        Assumption("x ~ N(0, I_d), independent samples (the identities hold for any x)"),
        Assumption("least-squares error and escape time: weights constant while e relaxes, isotropic W, m ≫ d"),
    )
    return Derivation("label-noise", tuple(steps), equations, assumptions, REFERENCE)


def moment_residual(shown: sp.Basic) -> sp.Expr:
    """E ℓ′² x xᵀ by expansion in two dimensions."""
    xs = sp.Matrix(sp.symbols("x1 x2"))
    error, noise = sp.Matrix([sp.Rational(2, 3), -sp.Rational(1, 5)]), sp.Rational(3, 7)
    found = sp.zeros(2, 2)
    for epsilon in (noise, -noise):
        square = (error.dot(xs) - epsilon) ** 2 / 2
        found += (xs * xs.T).applyfunc(lambda entry, s=square: standard_expectation(sp.expand(s * entry), *xs))
    return total(found - at(shown, {e: error, sigma: noise}))
