r"""Constant steps of the linear model (`theory.declared.linear_model`): when its mean square stays finite, and where it ends.

Each eigenspace moves by a matrix of its own, $s=(C,X,V)$, $s'=M_\lambda s+B_\lambda(R+\sigma^2)$, and all of them meet in
$R=\sum\lambda C$ alone. The gain of that loop is

$$\mathcal K=\sum_\lambda\lambda\,[(1-M_\lambda)^{-1}B_\lambda]_C,\qquad
\det(1-M)=(1-\mathcal K)\prod_\lambda\det(1-M_\lambda).$$

M maps covariance matrices to such, so that (Krein and Rutman 1948) it contracts if and only if every $M_\lambda$ does and
$\mathcal K<1$; then $R_n\to\sigma^2\mathcal K/(1-\mathcal K)$. Plain SGD (arXiv:2405.15074):
$\mathcal K=\sum n\,(\eta\lambda/b)/(2-\tfrac{b+1}b\eta\lambda)$. Derived here from the exact recursion, for momentum too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.declared import linear_model as exact
from theory.declared.linear_model import LinearModel
from theory.declared.rule import Rule

REFERENCE = "derived; plain SGD: arXiv:2405.15074"

_STATE = (exact.C, exact.X, exact.V)
_NAMES = (*exact.PLAIN, exact.batch, exact.eta, exact.lam, exact.n)
gain_all = sp.Symbol(r"\mathcal{K}", real=True)
#: C, X and V after a step: `exact.step_equations()` where nothing else is said.
Equations = Mapping[str, sp.Expr]
#: Halvings of the interval of the edge.
_HALVINGS = 50


def modes(equations: Equations | None = None) -> tuple[sp.Matrix, sp.Matrix]:
    r"""$M_\lambda$, (3, 3), and $B_\lambda$, (3, 1)."""
    found = equations or exact.step_equations()
    moved = sp.Matrix([found[str(name)] for name in _STATE])
    return moved.jacobian(_STATE), moved.diff(exact.R)


@cache
def _lowered(moved: tuple[sp.Expr, ...]) -> Callable[..., list[Any]]:
    """Of the numbers of a model: the entries of both, from C, X and V after a step."""
    own, pushed = modes(dict(zip(map(str, _STATE), moved, strict=True)))
    return _function([*own, *pushed])


def _function(what: Any) -> Callable[..., Any]:
    lowered: Callable[..., Any] = sp.lambdify(_NAMES, what, modules="numpy", cse=True)
    return lowered


@cache
def _gain() -> Callable[..., np.ndarray]:
    return _function(gain_of_mode())


@cache
def gain_of_mode() -> sp.Expr:
    r"""The eigenspace's share of $\mathcal K$."""
    own, pushed = modes()
    return sp.factor(exact.lam * (sp.eye(3) - own).LUsolve(pushed)[0])


def plain_gain() -> sp.Expr:
    r"""The same for plain SGD, $n\,(\eta\lambda/b)/(2-\tfrac{b+1}b\eta\lambda)$."""
    return sp.cancel(gain_of_mode().subs(exact.PLAIN))


def floor_of_gain() -> sp.Expr:
    r"""$R_\infty=\sigma^2\mathcal K/(1-\mathcal K)$."""
    return exact.sigma**2 * gain_all / (1 - gain_all)


def _numbers(model: LinearModel, rule: Rule) -> list[Any]:
    """In the order of `_NAMES`."""
    if callable(rule.step_size):
        raise InputError("the step size is a schedule: stability and floor are those of one step size; give a number")
    known: dict[sp.Symbol, Any] = {**exact.coefficients(rule), exact.batch: rule.batch, exact.eta: rule.step_size}
    known |= {exact.lam: model.eigenvalues, exact.n: model.multiplicities}
    return [known[name] for name in _NAMES]


def _parts(model: LinearModel, rule: Rule, equations: Equations | None) -> tuple[np.ndarray, np.ndarray]:
    """Every eigenspace's matrix (L, 3, 3) and push (L, 3)."""
    moved = equations or exact.step_equations()
    values = _lowered(tuple(moved[str(name)] for name in _STATE))(*_numbers(model, rule))
    table = np.stack([np.broadcast_to(x, model.eigenvalues.shape) for x in values], axis=-1).astype(float)
    return table[:, :9].reshape(-1, 3, 3), table[:, 9:]


def matrix(model: LinearModel, rule: Rule, equations: Equations | None = None) -> np.ndarray:
    """The whole recursion without label noise, (3L, 3L), over the eigenspaces' (C, X, V) one after the other.

    `equations`: in the place of the derived ones. Raises `InputError` for a schedule and for rules whose moments do not close.
    """
    own, pushed = _parts(model, rule, equations)
    count = len(own)
    whole = np.zeros((count, 3, count, 3))
    whole[np.arange(count), :, np.arange(count), :] = own
    whole[:, :, :, 0] += pushed[:, :, None] * model.eigenvalues
    return whole.reshape(3 * count, 3 * count)


def gain(model: LinearModel, rule: Rule) -> float:
    r"""$\mathcal K$; means nothing where an eigenspace alone grows. Raises `InputError` as `matrix` does."""
    return float(np.sum(_gain()(*_numbers(model, rule))))


def is_stable(model: LinearModel, rule: Rule) -> bool:
    r"""Whether the mean square stays finite: every $M_\lambda$ contracts and $\mathcal K<1$. Raises as `matrix` does."""
    own, _ = _parts(model, rule, None)
    return bool(np.abs(np.linalg.eigvals(own)).max() < 1) and gain(model, rule) < 1


def edge(model: LinearModel, rule: Rule) -> float:
    """The step size up to which `rule` is stable, whatever its own is, by halving. Raises `InputError` as `matrix` does."""
    low, high = 0.0, 4 / float(model.eigenvalues.max())
    while is_stable(model, replace(rule, step_size=high)):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(model, replace(rule, step_size=middle)) else (low, middle)
    return low


def floor(model: LinearModel, rule: Rule) -> float:
    r"""$R_\infty$, twice the excess loss that constant steps end at. Raises `InputError` as `matrix`, and beyond the edge."""
    if not is_stable(model, rule):
        raise InputError(
            f"step size is {rule.step_size}: the mean square grows; take one below {edge(model, rule):.4g}"
        )
    return float(floor_of_gain().subs({gain_all: gain(model, rule), exact.sigma: model.noise}))


# ----------------------------------------------------------------------- the derivation

#: Two eigenspaces of a rule with momentum, in exact numbers.
_SPACES = ({exact.lam: 2, exact.n: 3}, {exact.lam: sp.Rational(1, 2), exact.n: 5})
_RULE = {exact.eta: sp.Rational(1, 7), exact.beta: sp.Rational(3, 5), exact.alpha: sp.Rational(2, 7)}
_RULE |= {exact.gamma: -sp.Rational(5, 4), exact.c: 2, exact.batch: 2}


def _whole(known: Mapping[sp.Symbol, Any]) -> tuple[sp.Matrix, sp.Matrix, list[sp.Matrix]]:
    """M of both eigenspaces together, what noise of variance 1 adds, and each eigenspace's own matrix."""
    parts = [[x.subs(space).subs(known) for x in modes()] for space in _SPACES]
    risk = sp.Matrix([[value for space in _SPACES for value in (space[exact.lam], 0, 0)]])
    pushed = sp.Matrix.vstack(*[push for _, push in parts])
    return sp.diag(*[own for own, _ in parts]) + pushed * risk, pushed, [own for own, _ in parts]


def _gain_residual(known: Mapping[sp.Symbol, Any], claim: sp.Basic) -> sp.Expr:
    """1 − Σ of the shares against det(1 − M)/∏ det(1 − M_λ)."""
    whole, _, own = _whole(known)
    ratio = (sp.eye(6) - whole).det() / sp.prod([(sp.eye(3) - one).det() for one in own])
    return sp.nsimplify(1 - sp.Add(*[claim.subs(space).subs(known) for space in _SPACES]) - ratio)


def _floor_residual(claim: sp.Basic) -> sp.Expr:
    """R of the recursion's fixed point, the linear equations of both eigenspaces solved."""
    whole, pushed, _ = _whole(_RULE)
    rest = (sp.eye(6) - whole).LUsolve(pushed * exact.sigma**2)
    risk = sum(space[exact.lam] * rest[3 * place] for place, space in enumerate(_SPACES))
    total = sp.Add(*[gain_of_mode().subs(space).subs(_RULE) for space in _SPACES])
    return sp.simplify(claim.subs(gain_all, total) - risk)


def derivation() -> Derivation:
    """The gain, in general and of plain SGD, and the floor, against the matrices of two eigenspaces."""
    shown = {r"\mathcal{K}_\lambda": gain_of_mode(), r"\mathcal{K}_{SGD}": plain_gain(), r"R_\infty": floor_of_gain()}
    plain = {**_RULE, **exact.PLAIN}
    checks: list[Callable[[sp.Basic], sp.Expr]] = [
        partial(_gain_residual, _RULE),
        partial(_gain_residual, plain),
        _floor_residual,
    ]
    titles = ("An eigenspace's share of the gain", "Plain SGD", "Where constant steps end")
    steps = [
        Step(title, equation(name, value), check)
        for title, (name, value), check in zip(titles, shown.items(), checks, strict=True)
    ]
    assumptions = (Assumption("one step size, Gaussian inputs, fresh samples"),)
    return Derivation("linear-stability", tuple(steps), shown, assumptions, REFERENCE)
