r"""The equation that discrete steps follow, one order beyond the flow: schedules and momentum.

Order parameters move by $y_{n+1}=y_n+\eta_nF+\eta_n^2F_2$ in the mean, $F_2=F_2^{cov}+F_2^{mean}$, the gradient's covariance
and the product of its means. Where steps are small,

* *sum clock* $\tau_n=\sum_{j<n}\eta_j$: $\dot y=F+\eta(F_2-\tfrac12F'F)$; a schedule's slope does not enter at this order;
* *integral clock* $\int_0^n\eta\,dn$: $-\tfrac12\dot\eta F$ is added;
* momentum $w_{n+1}=w_n-\eta\sum_j\kappa_jg_{n-j}$ with $h=\eta\sum_j\kappa_j$ and mean lag
  $\ell=\sum_jj\kappa_j/\sum_j\kappa_j$, in the clock nh:
  $\dot y=F+h\{F_2^{cov}+(1+2\ell)(F_2^{mean}-\tfrac12F'F)\}$ from $y_0-\ell hF(y_0)$. Fluctuations know h only, the lag enters
  where the mean moves: where $F_2^{mean}$ is none, one number's mean path comes from speed $F_0$ to $F_1$ later than that of
  plain SGD with step h, by $\ell h(1+\ln F_1/F_0)$.

Errors are of second order in the step size, derived here and checked by expanding exact steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import sympy as sp

from theory.core.arguments import check_one_of
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.declared import linear_model as exact
from theory.declared.rule import Rule

REFERENCE = "derived; backward error analysis, arXiv:2009.11162"

CLOCKS = ("sum", "integral")

F, F_cov, F_mean, curve, slope = sp.symbols(r"F F_2^{cov} F_2^{mean} F'F \dot{\eta}", real=True)
h, lag, y = sp.symbols(r"h \ell y_{0}", real=True)
F_begin, F_end = sp.symbols("F_0 F_1", positive=True)


def rate(clock: str = "sum") -> sp.Expr:
    r"""$\dot y$ in one of `CLOCKS`: h is η without momentum, $\dot\eta$ its slope in that clock. Raises `InputError`."""
    check_one_of(CLOCKS, clock=clock)
    second = F_cov + (1 + 2 * lag) * (F_mean - curve / 2)
    return F + h * second - (slope * F / 2 if clock == "integral" else 0)


def begin() -> sp.Expr:
    r"""Where the equation begins, $y_0-\ell hF(y_0)$."""
    return y - lag * h * F


def delay() -> sp.Expr:
    r"""$\ell h(1+\ln F_1/F_0)$: by how much momentum is later than plain SGD with step h, in the clock nh, first order."""
    return lag * h * (1 + sp.log(F_end / F_begin))


@dataclass(frozen=True)
class Memory:
    r"""Of past gradients.

    Attributes: total: $\sum_j\kappa_j$, so that h = η · total. lag: ℓ, in steps. square: $\sum_j\kappa_j^2$ over total².
    """

    total: float
    lag: float
    square: float


def memory(rule: Rule) -> Memory:
    r"""Of plain SGD (1, 0), heavy ball $\kappa_j=\beta^j$, average $(1-\beta)\beta^j$, Nesterov $1+\beta,\beta^2,\dots$

    All three follow from $u'=\beta u-cg$, $w'=w+\eta(\alpha u+\gamma g)$: $\kappa_0=-\gamma$, $\kappa_j=\alpha c\beta^{j-1}$.
    Raises `InputError` for any other rule.
    """
    x = {name.name: value for name, value in exact.coefficients(rule).items()}
    left = 1 - x["beta"]
    later = x["alpha"] * x["c"]
    total = -x["gamma"] + later / left
    square = x["gamma"] ** 2 + later**2 / (1 - x["beta"] ** 2)
    return Memory(total, later / left**2 / total, square / total**2)


def age(rule: Rule) -> float:
    """ℓ in steps, of weight decay, which stays out of the velocity, nothing. Raises `InputError` as `memory`."""
    return memory(replace(rule, decay=0.0, samples=0)).lag


# ----------------------------------------------------------------------- the derivation

_t, _small, _y = sp.symbols("t epsilon Y", real=True)
_POINT = {_t: sp.Rational(1, 3), _y: sp.Rational(2, 5)}


def _order(expression: sp.Expr, variable: sp.Symbol, last: int) -> sp.Expr:
    """Sum of the sizes of its expansion's coefficients up to order `last`."""
    series = sp.series(expression, variable, 0, last + 1).removeO()
    return sp.Add(*[abs(sp.nsimplify(series.coeff(variable, order))) for order in range(last + 1)])


def _clock_residual(clock: str, claim: sp.Basic) -> sp.Expr:
    """One step of $\\eta_n=\\epsilon s(\\epsilon n)$ along the equation's Taylor series, against the step, to order ε²."""
    first, second, given = 1 + _y**2, _y**3 - _y, 1 + _t / 2 + _t**2
    size = _small * given
    bend = _small * sp.diff(given, _t) / given
    step = size + (_small**2 * sp.diff(given, _t) / 2 if clock == "integral" else 0)
    known = {F: first, curve: sp.diff(first, _y) * first, F_cov: second, F_mean: 0, h: size, slope: bend, lag: 0}
    velocity = claim.subs(known, simultaneous=True)
    path = _y + step * velocity + step**2 / 2 * sp.diff(velocity, _y) * velocity
    return _order((path - (_y + size * first + size**2 * second)).subs(_POINT), _small, 2)


_BETA, _LAM, _BATCH = sp.Rational(3, 5), sp.Rational(3, 2), 2
#: Heavy ball, h = η/(1 − β).
_HEAVY = {exact.alpha: _BETA, exact.beta: _BETA, exact.gamma: -1, exact.c: 1, exact.eta: h * (1 - _BETA)}
_ONE = {exact.lam: _LAM, exact.n: 1, exact.batch: _BATCH, exact.sigma: 0, exact.R: _LAM * exact.C}


def _slow(claim: sp.Basic) -> tuple[sp.Matrix, sp.Expr]:
    """The exact recursion of one mode, (3, 3), and the growth of a step that the equation gives."""
    state = (exact.C, exact.X, exact.V)
    moves = [exact.step_equations()[str(x)].subs({**_ONE, **_HEAVY}) for x in state]
    square = exact.gradient_square().subs(_ONE) / exact.C
    mean = _LAM**2
    one = {F: -2 * _LAM, curve: 4 * _LAM**2, F_mean: mean, F_cov: sp.expand(square) - mean, lag: _BETA / (1 - _BETA)}
    exponent = claim.subs(one)
    return sp.Matrix([[sp.expand(move).coeff(x) for x in state] for move in moves]), sp.exp(h * exponent)


def _momentum_residual(claim: sp.Basic) -> sp.Expr:
    """The growth put into the characteristic polynomial, to order h²."""
    matrix, growth = _slow(claim)
    return _order((matrix - growth * sp.eye(3)).det(), h, 2)


def _begin_residual(claim: sp.Basic) -> sp.Expr:
    """The slow mode's share of a start without velocity, by the resolvent's residue, to order h."""
    matrix, growth = _slow(rate())
    known = {y: 1, F: -2 * _LAM, lag: _BETA / (1 - _BETA)}
    value = sp.Symbol("mu")
    whole = value * sp.eye(3) - matrix
    share = whole[1:, 1:].det() / sp.diff(whole.det(), value)
    return _order(share.subs(value, growth) - claim.subs(known), h, 1)


def _delay_residual(claim: sp.Basic) -> sp.Expr:
    """The time of the equation from where it begins to 4/5 at F = y² + y/2, against that of plain SGD, to order h."""
    path, span = sp.Symbol("x", positive=True), (sp.Rational(1, 5), sp.Rational(4, 5))
    first = path**2 + path / 2
    known = {F: first, curve: sp.diff(first, path) * first, F_cov: 0, F_mean: 0}
    pace = rate().subs(known)
    slower = sp.diff(1 / pace, h).subs(h, 0)
    later = sp.integrate(sp.simplify(slower - slower.subs(lag, 0)), (path, *span))
    early = sp.diff(y - begin(), h).subs(F, first.subs(path, span[0])) / first.subs(path, span[0])
    speeds = {name: first.subs(path, at) for name, at in zip((F_begin, F_end), span, strict=True)}
    return sp.simplify(sp.expand_log(claim.subs(speeds) - h * (later + early), force=True))


def derivation() -> Derivation:
    """Clocks and momentum, each against exact steps expanded in their size."""
    found: dict[str, tuple[str, sp.Basic, Callable[[sp.Basic], sp.Expr]]] = {
        r"dy/d\tau": ("A schedule in the sum clock", rate(), partial(_clock_residual, "sum")),
        r"dy/d\tilde{\tau}": (
            "A schedule in the integral clock",
            rate("integral"),
            partial(_clock_residual, "integral"),
        ),
        r"\dot{y}": ("Momentum: drift", rate(), _momentum_residual),
        "y(0)": ("Momentum: where the equation begins", begin(), _begin_residual),
        r"\Delta(nh)": ("Momentum: how much later", delay(), _delay_residual),
    }
    steps = tuple(Step(title, equation(name, shown), check) for name, (title, shown, check) in found.items())
    assumptions = (
        Assumption("step size to 0, errors of second order in it"),
        Assumption("schedules smooth in the clock"),
    )
    return Derivation("modified-equation", steps, {name: x[1] for name, x in found.items()}, assumptions, REFERENCE)
