r"""When a direction is found if the inputs have a covariance: emergence times under $x\sim N(0,\Lambda)$.

Teachers $a_p\sigma(\langle w_p,x\rangle)$ along eigenvectors, $\langle w_p,x\rangle$ of unit variance; a student
$\sum_k\|v_k\|_\Lambda^2\,\sigma(\langle v_k,x\rangle/\|v_k\|_\Lambda)$ with $\|v\|_\Lambda^2=v^\top\Lambda v$, the variance of
its field (`theory.declared.student.whitened`). With $u=\Lambda^{1/2}v$ the loss is that of isotropic inputs, a function of
cosines of whitened vectors and of $r=\|u\|^2$; gradient flow of v is $\dot u=-\Lambda\nabla_u\mathcal L$. So only the metric
differs. Of one neuron, $\hat u=te_p+\sqrt{1-t^2}\,n$ and $\mu=n^\top\Lambda n$,

$$\dot t=(1-t^2)\big\{a\varphi'(t)[\lambda_p(1-t^2)+\mu t^2]+2(a\varphi(t)-r\varphi(1))\,t\,(\lambda_p-\mu)\big\}.$$

Small overlaps grow as with isotropic inputs and weight $a_p\lambda_p$. A row without a preferred direction begins at
$t_p(0)^2=g_p^2\lambda_p/\mathrm{Tr}\Lambda$, $g_p$ nearly standard normal, hence for information exponent $J\ge3$

$$T_p=\frac{(\mathrm{Tr}\Lambda)^{J/2-1}}{J(J-2)\hat\sigma_J^2\,a_p\lambda_p^{J/2}|g_p|^{J-2}}:$$

the effective dimension of direction p is $\mathrm{Tr}\Lambda/\lambda_p$. Derived here; for isotropic inputs
arXiv:2504.19983, Theorem 2.1.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core.activation import Activation
from theory.core.arguments import check_positive
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.declared.inputs import Inputs
from theory.declared.population import numeric
from theory.one_task import single_task
from theory.scaling import ideal_loss

REFERENCE = "derived; arXiv:2504.19983, Theorem 2.1 for isotropic inputs"

#: Overlaps at which growth is looked at before it is integrated.
_LOOKS = 400

#: Cosine, weight, squared norm, eigenvalue of the direction, mean eigenvalue μ of the rest, φ(1), Tr Λ, g, t(0).
t, a, r, lam, mu, one, total, g, begin = sp.symbols(
    r"t a r lambda mu varphi(1) \mathrm{Tr}\Lambda g t_0", positive=True
)
#: Leading coefficient squared, exponents of spectrum and weights, rank.
s, alpha, beta, p = sp.symbols(r"\hat{\sigma}_J^2 alpha beta p", positive=True)
#: J − 2, so that integrals of powers are known to converge.
_above = sp.Symbol("j", positive=True)
J = sp.Symbol("J", positive=True)
phi = sp.Function(r"\varphi")


def lone_loss() -> sp.Expr:
    r"""$\tfrac12a^2\varphi(1)-ar\varphi(t)+\tfrac12r^2\varphi(1)$ of one neuron and one direction."""
    return a**2 * one / 2 - a * r * phi(t) + r**2 * one / 2


def rates() -> tuple[sp.Expr, sp.Expr]:
    r"""$\dot t$ and $\dot r$ of one neuron, any overlap: $\dot u=-\Lambda\nabla_u\mathcal L$ in the plane of $e_p$ and n."""
    unit = sp.Matrix([t, sp.sqrt(1 - t**2)])
    metric = sp.diag(lam, mu)
    toward = (sp.Matrix([1, 0]) - t * unit) / sp.sqrt(r)
    outward = 2 * sp.sqrt(r) * unit
    by_t, by_r = (sp.diff(lone_loss(), x) for x in (t, r))
    moved = -metric * (by_t * toward + by_r * outward)
    return sp.factor(sp.simplify(toward.dot(moved))), sp.factor(sp.simplify(outward.dot(moved)))


@lru_cache(maxsize=1)
def emergence_law() -> sp.Expr:
    r"""$T_p$ in `a`, `lam`, `total`, `g`, `s` and `J`: small overlaps, integrated from $t_p(0)$."""
    growth = a * lam * s * (_above + 2) * t ** (_above + 1)
    start = g * sp.sqrt(lam / total)
    time = sp.integrate(1 / growth, (t, begin, sp.oo)).subs(begin, start)
    return sp.powsimp(sp.simplify(time.subs(_above, J - 2)))


@lru_cache(maxsize=1)
def exponents() -> dict[str, sp.Expr]:
    r"""Of $T_p$ with $\lambda_p\propto p^{-\alpha}$, $a_p\propto p^{-\beta}$, in `J`, `alpha`, `beta`.

    ``rank`` $\beta+\alpha J/2$, ``trace`` $J/2-1$, and ``loss`` $(1-2\beta)/(\beta+\alpha J/2)$ of the loss in time, by the
    tail of the directions that are not learned (β > ½).
    """
    law = emergence_law().subs({lam: p**-alpha, a: p**-beta}, simultaneous=True)
    rank = ideal_loss.exponent_in(law, p)
    left = ideal_loss.tail().subs(ideal_loss.beta, beta)
    loss = ideal_loss.exponent_in(left.subs(ideal_loss.learned, p ** (1 / rank)), p)
    return {"rank": rank, "trace": ideal_loss.exponent_in(emergence_law(), total), "loss": loss}


# ------------------------------------------------------------------------------- numbers


def effective_dimension(inputs: Inputs, eigenvalue: ArrayLike) -> np.ndarray:
    r"""$\mathrm{Tr}\Lambda/\lambda_p$, of the shape of `eigenvalue`: what d is for isotropic inputs.

    Raises `InputError` unless all eigenvalues are positive.
    """
    given = np.asarray(eigenvalue, dtype=float)
    check_positive(eigenvalue=float(np.min(given)))
    return inputs.trace / given


def emergence_time(
    activation: Activation, weight: ArrayLike, eigenvalue: ArrayLike, trace: float, size: ArrayLike = 1.0
) -> np.ndarray:
    r"""$T_p$, elementwise in flow time: `weight` $a_p$, `eigenvalue` $\lambda_p$, `trace` $\mathrm{Tr}\Lambda$,
    `size` $|g_p|$.

    Valid for $\lambda_p\ll\mathrm{Tr}\Lambda$ and $\mathrm{Tr}\Lambda^2\ll(\mathrm{Tr}\Lambda)^2$, one neuron for one
    direction (others: learned, or slower); odd J needs $g_p>0$. Raises `InputError` for an information exponent below 3, or
    numbers that are not positive.
    """
    J_ = _transition(activation)
    numbers = [np.asarray(x, dtype=float) for x in (weight, eigenvalue, trace, size)]
    for name, value in zip(("weight", "eigenvalue", "trace", "size"), numbers, strict=True):
        check_positive(**{name: float(np.min(value))})
    law = emergence_law().subs({J: J_, s: activation.leading})
    return np.asarray(numeric((law,), (a, lam, total, g))(*numbers)[0])


def half_time(activation: Activation, weight: float, eigenvalue: float, overlap: float, rest: float) -> float:
    r"""Flow time from cosine `overlap` to $t^2=\tfrac12$, every degree of σ, a light neuron (r → 0), μ = `rest` throughout.

    While light the row forgets its largest eigenvalues first, so μ falls, and the time rises as μ falls: the true time lies
    between those at `rest` $=\mu(0)=\mathrm{Tr}\Lambda^2/\mathrm{Tr}\Lambda$ (nearly) and at 0. It is inf if the cosine
    does not grow on the whole way.

    Raises `InputError` for an information exponent below 3, and unless 0 < overlap² < ½, weight and eigenvalue are positive
    and rest is 0 or more.
    """
    _transition(activation)
    check_positive(weight=weight, eigenvalue=eigenvalue)
    if not (0 < overlap**2 < 0.5 and rest >= 0):
        raise InputError(
            f"overlap is {overlap!r}, rest {rest!r}: give 0 < overlap² < ½ and a mean eigenvalue, 0 or more"
        )
    side, ends = np.sign(overlap), (np.log(abs(overlap)), np.log(0.5) / 2)

    def growth(y: ArrayLike) -> np.ndarray:
        """Of ln|t|."""
        return side * _speed(activation)(side * np.exp(y), weight, eigenvalue, rest) / np.exp(y)

    if np.min(growth(np.linspace(*ends, _LOOKS))) <= 0:
        return float("inf")
    return float(scipy.integrate.quad(lambda y: 1 / growth(y), *ends, limit=500)[0])


@lru_cache(maxsize=16)
def _speed(activation: Activation) -> np.ufunc:
    """ṫ of a light neuron in t, a, λ, μ."""
    rate = rates()[0].subs(r, 0).replace(phi, activation.kernel_at).doit()
    return sp.lambdify((t, a, lam, mu), sp.N(rate, 17), modules=["scipy", "numpy"])


def _transition(activation: Activation) -> int:
    activation.require_exponent(3, "an emergence time that small overlaps decide")
    return activation.information_exponent


# ---------------------------------------------------------------------- the derivation

_LAMBDA = sp.diag(sp.Rational(3, 2), sp.Rational(2, 5), 2)
_POINT = sp.Matrix([sp.Rational(3, 5), sp.Rational(-1, 2), sp.Rational(1, 4)])
_WEIGHT, _KERNEL = sp.Rational(4, 5), t**4 + t**3 / 2


def _rate_residual(which: int, claim: sp.Basic) -> sp.Expr:
    """In R³, the loss differentiated by v itself: no whitening, no plane."""
    v = sp.Matrix(sp.symbols("v1:4", real=True))
    teacher = sp.Matrix([1 / sp.sqrt(_LAMBDA[0, 0]), 0, 0])
    size = (v.T * _LAMBDA * v)[0]
    cosine = (v.T * _LAMBDA * teacher)[0] / sp.sqrt(size)
    known = {one: _KERNEL.subs(t, 1), a: _WEIGHT}
    loss = lone_loss().subs(known).replace(phi, lambda x: _KERNEL.subs(t, x)).subs({t: cosine, r: size})
    gradient = [sp.diff(loss, x) for x in v]
    moved = -sum(sp.diff((cosine, size)[which], x) * y for x, y in zip(v, gradient, strict=True))
    at = dict(zip(v, _POINT, strict=True))
    angle, length = cosine.subs(at), size.subs(at)
    rest = sum(_LAMBDA[i, i] ** 2 * _POINT[i] ** 2 for i in (1, 2)) / sum(
        _LAMBDA[i, i] * _POINT[i] ** 2 for i in (1, 2)
    )
    shown = claim.replace(phi, lambda x: _KERNEL.subs(t, x)).doit().subs(known)
    return sp.N(shown.subs({t: angle, r: length, lam: _LAMBDA[0, 0], mu: rest}) - moved.subs(at), 50)


def _law_residual(claim: sp.Basic) -> sp.Expr:
    """The isotropic time of weight aλ from squared overlap g²λ/TrΛ, by another integral, for J = 3 … 6."""
    gap = sp.Integer(0)
    for degree in (3, 4, 5, 6):
        task = single_task.SingleTask(Activation.from_degree(degree))
        known = task.emergence_time.subs(
            {single_task.a: a * lam, single_task.M0: g**2 * lam / total}, simultaneous=True
        )
        at = {a: sp.Rational(2, 3), lam: sp.Rational(3, 7), g: sp.Rational(5, 4), total: 11}
        gap += abs(sp.N((claim.subs({J: degree, s: task.activation.leading}) - known).subs(at), 50))
    return gap


def _exponent_residual(name: str, claim: sp.Basic) -> sp.Expr:
    """A finite difference of logarithms: exact, since the law is a power."""
    numbers = {J: 5, alpha: sp.Rational(2, 3), beta: sp.Rational(3, 4)}
    law = emergence_law().subs({g: 1, s: 1}).subs(J, 5)
    ranked = law.subs({lam: p ** -numbers[alpha], a: p ** -numbers[beta]}, simultaneous=True)
    if name == "trace":
        found = sp.log(law.subs(total, 6) / law.subs(total, 3)) / sp.log(2)
    else:
        found = sp.log(ranked.subs(p, 8) / ranked.subs(p, 4)) / sp.log(2)
    if name == "loss":
        found = (1 - 2 * numbers[beta]) / found
    return sp.N((claim.subs(numbers) - found).subs({a: 1, lam: 1, total: 1}), 50)


def conditions() -> tuple[Assumption, ...]:
    """Under which T_p holds."""
    texts = (
        "teachers on eigenvectors of Λ with fields of unit variance; student normed by its field",
        "λ_p ≪ Tr Λ: the overlap at the start is small",
        "Tr Λ² ≪ (Tr Λ)²: the row is spread over many eigenvectors at the start",
        "light student, directions learned before are fitted exactly",
    )
    return tuple(map(Assumption, texts))


def derivation() -> Derivation:
    """Rates of one neuron, the time of small overlaps, and its exponents."""
    cosine, norm = rates()
    rows: dict[str, tuple[str, sp.Expr, Callable[[sp.Basic], sp.Expr]]] = {
        r"\dot{t}": ("Cosine of one neuron in the metric Λ", cosine, partial(_rate_residual, 0)),
        r"\dot{r}": ("Squared norm of its field", norm, partial(_rate_residual, 1)),
        "T_{p}": ("Small overlaps from g²λ/TrΛ", emergence_law(), _law_residual),
    }
    titles = {"rank": r"d\ln T_{p}/d\ln p", "trace": r"d\ln T_{p}/d\ln\mathrm{Tr}\Lambda", "loss": r"d\ln L/d\ln t"}
    for name, value in exponents().items():
        rows[titles[name]] = (f"Exponent: {name}", value, partial(_exponent_residual, name))
    steps = tuple(Step(title, equation(left, shown), check) for left, (title, shown, check) in rows.items())
    shown = {left: row[1] for left, row in rows.items()}
    return Derivation("anisotropic-emergence", steps, shown, conditions(), REFERENCE)
