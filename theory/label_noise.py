r"""Label-noise SGD on the two-layer linear network: exact identities, mean drift, least-squares error, escape.

$\hat y=a^\top Wx$, one sample a step, $\ell'=\langle e,x\rangle-\epsilon$ with $e=\theta-\theta^*$, $\theta=W^\top a$ and
$\epsilon=\pm\sigma$, $g=\ell'x$; $W\leftarrow W-\eta ag^\top$ and $a\leftarrow a-\eta Wg$ at once
(arXiv:2603.10397, eqs. 2-4).
"""

from functools import partial

import numpy as np
import sympy as sp
from scipy.special import betainc

from theory.derivation import Assumption, Derivation, Step
from theory.errors import InputError
from theory.gaussian import standard_expectation

REFERENCE = "arXiv:2603.10397, sections 4.1-4.2, appendix B; drift, least-squares error and escape time derived"
eta, sigma, k, d, m = sp.symbols("eta sigma k d m", positive=True)
rho2, E2 = sp.symbols(r"{\varrho^2} {E|e|^2}", positive=True)
ONE = sp.Integer(1)


def second_moment(error: sp.Matrix, noise: sp.Expr) -> sp.Matrix:
    r"""$E\,gg^\top=(\sigma^2+|e|^2)I+2ee^\top$ for fresh Gaussian inputs."""
    return (noise**2 + error.dot(error)) * sp.eye(len(error)) + 2 * error * error.T


def mean_drift(first: sp.Matrix, second: sp.Matrix, target: sp.Matrix, step: sp.Expr, noise: sp.Expr) -> sp.Matrix:
    r"""$E\,\Delta(WW^\top-aa^\top)=-\eta^2\{WSW^\top-\mathrm{tr}S\,aa^\top\}$, exact for one step from given weights."""
    moment = second_moment(first.T * second - target, noise)
    return -(step**2) * (first * moment * first.T - moment.trace() * second * second.T)


def stationary_error(k: sp.Expr = k, d: sp.Expr = d, sigma: sp.Expr = sigma) -> sp.Expr:
    r"""$E|e|^2=k\sigma^2d/(2-k(d+2))$ at isotropic weights, $k=\eta(\|W\|_F^2/d+\|a\|^2)$."""
    return k * sigma**2 * d / (2 - k * (d + 2))


def error_recursion() -> sp.Expr:
    r"""$E|e'|^2=(1-2k+k^2(d+2))|e|^2+k^2d\sigma^2$: one step of $e'=e-kg$."""
    return (1 - 2 * k + k**2 * (d + 2)) * E2 + k**2 * d * sigma**2


def critical_step(width: float, dim: int, second_norm2: float = 1.0) -> float:
    r"""Least-squares stability limit $\eta_c=2/((d+2)\Lambda)$, $\Lambda=m/d+\|a\|^2$, at the published initialisation."""
    if width < 1 or dim < 1:
        raise InputError(f"width is {width} and dim {dim}: give whole numbers, 1 or more")
    return 2 / ((dim + 2) * (width / dim + second_norm2))


def escape_time() -> sp.Expr:
    r"""$t_{esc}=2/(\sqrt m\,\eta^2\varrho^2)$: $|w|(1-e^{-\eta^2\varrho^2t/2})=1/\sqrt m$ at $|w|=1$, leading order."""
    return 2 / (sp.sqrt(m) * eta**2 * rho2)


def printed_escape_bound() -> sp.Expr:
    r"""$T_1=384\sqrt{\ln m}/(\sigma^2\eta^2\sqrt m)$, theorem 4.2 as printed."""
    return 384 * sp.sqrt(sp.log(m)) / (sigma**2 * eta**2 * sp.sqrt(m))


def norm_step(input_overlap: np.ndarray, second: np.ndarray, input_norm2: np.ndarray, slope: np.ndarray) -> np.ndarray:
    r"""$\Delta W_i=-\ell'^2\{\langle x,w_i\rangle^2-a_i^2|x|^2\}$, the step of $|w_i|^2-a_i^2$ over $\eta^2$."""
    return -(slope**2) * (input_overlap**2 - second**2 * input_norm2)


def growth_probability(ratio: np.ndarray, dim: int) -> np.ndarray:
    r"""$\Pr(\Delta W_i>0)=I_{r^2}(\tfrac12,\tfrac{d-1}2)\approx\sqrt{2d/\pi}\,r$, $r=|a_i|/|w_i|$; exact for Gaussian inputs.

    ΔW > 0 says that the squared cosine of x and $w_i$, a Beta(½, (d−1)/2) variable, is below r².
    """
    if dim < 2:
        raise InputError(f"dim is {dim}: give 2 or more")
    return np.asarray(betainc(0.5, (dim - 1) / 2, np.minimum(np.asarray(ratio) ** 2, 1.0)))


# ----------------------------------------------------------------------------- derivation


def name(latex: str) -> sp.Symbol:
    """A symbol that prints as `latex` (braces keep SymPy from reading sub- and superscripts into it)."""
    return sp.Symbol(latex if "{" in latex else "{" + latex + "}")


def _point() -> tuple[sp.Matrix, sp.Matrix, sp.Matrix]:
    """W (3, 2), a (3,), θ* (2,) at exact numbers."""
    R = sp.Rational
    first = sp.Matrix([[R(1, 2), R(-2, 3)], [R(3, 4), R(1, 5)], [R(-1, 7), R(5, 6)]])
    return first, sp.Matrix([R(1, 3), R(-2, 5), R(1, 4)]), sp.Matrix([R(4, 5), R(-1, 6)])


def _stepped(x: sp.Matrix, epsilon: sp.Expr) -> tuple[sp.Matrix, sp.Matrix, sp.Matrix, sp.Matrix, sp.Matrix, sp.Expr]:
    """W, a before, W, a after one step, g and ℓ′, with η = 1/7."""
    first, second, target = _point()
    slope = (first.T * second - target).dot(x) - epsilon
    step = sp.Rational(1, 7)
    return first, second, first - step * slope * second * x.T, second - step * slope * first * x, slope * x, slope


def _total(matrix: sp.Matrix) -> sp.Expr:
    return sp.Add(*[abs(x) for x in matrix])


def identity_residual(kind: str, broken: sp.Expr = ONE) -> sp.Expr:
    """One step at exact numbers against an identity; `broken` ≠ 1 multiplies its right-hand side."""
    x, square = sp.Matrix([sp.Rational(3, 2), sp.Rational(-5, 4)]), sp.Rational(1, 49)
    before, a0, after, a1, g, slope = _stepped(x, sp.Rational(2, 3))
    if kind == "neuron":
        gap = [
            after.row(i).dot(after.row(i)) - a1[i] ** 2 - before.row(i).dot(before.row(i)) + a0[i] ** 2
            + broken * square * slope**2 * (before.row(i).dot(x) ** 2 - a0[i] ** 2 * x.dot(x))
            for i in range(3)
        ]  # fmt: skip
        return _total(sp.Matrix(gap))
    if kind == "second":
        return _total(sp.Matrix([(a1[i] - a0[i]) ** 2 - broken * square * slope**2 * before.row(i).dot(x) ** 2
                                 for i in range(3)]))  # fmt: skip
    if kind == "matrix":
        change = after * after.T - a1 * a1.T - before * before.T + a0 * a0.T
        return _total(change - broken * square * (g.dot(g) * a0 * a0.T - before * g * (before * g).T))
    joint, moved = before.row_join(a0), after.row_join(a1)
    boost = sp.zeros(3, 3)
    boost[:2, 2], boost[2, :2] = g, g.T
    factor = sp.eye(3) - broken * sp.Rational(1, 7) * boost
    determinant = factor.det() - (1 - broken**2 * square * g.dot(g))
    return _total(moved - joint * factor) + abs(determinant)


def drift_residual(broken: sp.Expr = ONE) -> sp.Expr:
    """The mean of one step over ε and Gaussian x, all products expanded, against `mean_drift`."""
    x1, x2 = sp.symbols("x1 x2")
    total = sp.zeros(3, 3)
    for epsilon in (sp.Rational(2, 3), -sp.Rational(2, 3)):
        before, a0, after, a1, _, _ = _stepped(sp.Matrix([x1, x2]), epsilon)
        change = after * after.T - a1 * a1.T - before * before.T + a0 * a0.T
        total += change.applyfunc(lambda entry: standard_expectation(sp.expand(entry), x1, x2)) / 2
    return _total(total - broken * mean_drift(*_point(), sp.Rational(1, 7), sp.Rational(2, 3)))


def error_residual() -> sp.Expr:
    """One least-squares step in three dimensions, averaged by expansion, against `error_recursion`."""
    xs = sp.symbols("x1:4")
    error = sp.Matrix([sp.Rational(1, 2), sp.Rational(-2, 3), sp.Rational(3, 5)])
    total = sp.Integer(0)
    for epsilon in (sigma, -sigma):
        moved = error - k * (error.dot(sp.Matrix(xs)) - epsilon) * sp.Matrix(xs)
        total += standard_expectation(sp.expand(moved.dot(moved)), *xs) / 2
    return sp.expand(total - error_recursion().subs({d: 3, E2: error.dot(error)}))


def _growth_residual() -> sp.Expr:
    """Small r: the Beta law's density at 0 against √(2d/π), at large d."""
    log_ratio = sp.loggamma(sp.Float(10**6) / 2) - sp.loggamma(sp.Float(10**6 - 1) / 2)
    return sp.N(2 * sp.exp(log_ratio) / sp.sqrt(sp.pi) / sp.sqrt(2 * sp.Float(10**6) / sp.pi) - 1)


def derivation() -> Derivation:
    """``derive label-noise``."""
    S = sp.Symbol("S")
    stationary = stationary_error()
    growth = name(r"I_{r^2}(\tfrac12,\tfrac{d-1}{2})\approx\sqrt{2d/\pi}\,r")
    x = sp.Symbol("x", positive=True)  # 1/√m
    drift = name(r"-\eta^2\{WSW^{\top}-\mathrm{tr}(S)\,aa^{\top}\}")
    identities = {
        "Norm identity of one neuron": (
            r"\Delta(|w_i|^2-a_i^2)", r"-\eta^2\ell'^2\{\langle x,w_i\rangle^2-a_i^2|x|^2\}", "neuron"),
        "Step of the second layer": (r"(a_i(t+1)-a_i(t))^2", r"\eta^2\ell'^2\langle x,w_i\rangle^2", "second"),
        "The same for all pairs of neurons": (
            r"\Delta(WW^{\top}-aa^{\top})", r"\eta^2\{|g|^2aa^{\top}-Wgg^{\top}W^{\top}\}", "matrix"),
        "A step is a boost of [W a]": (
            r"[W\ a](t+1)", r"[W\ a](I-\eta\mathsf M_g),\ \det(I-\eta\mathsf M_g)=1-\eta^2|g|^2", "boost"),
    }  # fmt: skip
    steps = [
        Step("Update", sp.Eq(name(r"(W,a)(t+1)"), name(r"(W-\eta ag^{\top},\ a-\eta Wg)"), evaluate=False)),
        *[
            Step(title, sp.Eq(name(left), name(right), evaluate=False), partial(identity_residual, kind))
            for title, (left, right, kind) in identities.items()
        ],
        Step(
            "Second moment of the gradient, fresh Gaussian inputs",
            sp.Eq(S, name(r"(\sigma^2+|e|^2)I+2ee^{\top}"), evaluate=False),
            moment_residual,
        ),
        Step(
            "Mean drift, exact for one step",
            sp.Eq(name(r"E\,\Delta(WW^{\top}-aa^{\top})"), drift, evaluate=False),
            drift_residual,
        ),
        Step(
            "Least-squares error at isotropic weights, one step",
            sp.Eq(name(r"E|e'|^2"), error_recursion(), evaluate=False),
            error_residual,
        ),
        Step(
            "Stationary error",
            sp.Eq(name(r"E|e|^2"), stationary, evaluate=False),
            lambda: sp.simplify(error_recursion().subs(E2, stationary) - stationary),
        ),
        Step(
            "Stability limit: the error stops shrinking",
            sp.Eq(name(r"k_c"), 2 / (d + 2), evaluate=False),
            lambda: sp.simplify((sp.diff(error_recursion(), E2) - 1).subs(k, 2 / (d + 2))),
        ),
        Step(
            "Escape of the median neuron from the lazy regime",
            sp.Eq(name(r"t_{esc}"), escape_time(), evaluate=False),
            lambda: sp.series((1 - sp.exp(-(eta**2) * rho2 * escape_time().subs(m, 1 / x**2) / 2)), x, 0, 2).removeO() - x,
        ),
        Step(
            "Probability that the norm grows in one step",
            sp.Eq(name(r"\Pr(\Delta W_i>0)"), growth, evaluate=False),
            _growth_residual,
            1e-5,
        ),
    ]  # fmt: skip
    equations = {
        r"E\,\Delta(WW^{\top}-aa^{\top})": drift,
        r"E|e|^2": stationary,
        r"\varrho^2": sigma**2 + stationary,
        r"-\frac{d}{dt}\ln\|W\|_F^2": eta**2 * rho2 * (1 - d * name(r"\|a\|^2") / name(r"\|W\|_F^2")),
        r"t_{esc}": escape_time(),
        r"T_1 \text{ (as printed)}": printed_escape_bound(),
    }
    assumptions = (
        Assumption("x ~ N(0, I_d), independent samples (the identities hold for any x)"),
        Assumption("least-squares error and escape time: weights constant while e relaxes, isotropic W, m ≫ d"),
    )
    return Derivation("label-noise", tuple(steps), equations, assumptions, REFERENCE)


def moment_residual() -> sp.Expr:
    """E ℓ′² x xᵀ by expansion in two dimensions."""
    xs = sp.Matrix(sp.symbols("x1 x2"))
    error, noise = sp.Matrix([sp.Rational(2, 3), -sp.Rational(1, 5)]), sp.Rational(3, 7)
    found = sp.zeros(2, 2)
    for epsilon in (noise, -noise):
        square = (error.dot(xs) - epsilon) ** 2 / 2
        found += (xs * xs.T).applyfunc(lambda entry, s=square: standard_expectation(sp.expand(s * entry), *xs))
    return _total(found - second_moment(error, noise))
