r"""Phase II: noise-free gradient descent from small weights. Spectrum, alignment time, balanced limit, late rates.

While $\theta\approx0$ a neuron obeys $(w,a)\leftarrow(I+\eta\mathsf M)(w,a)$,
$\mathsf M=\begin{psmallmatrix}0&\theta^*\\\theta^{*\top}&0\end{psmallmatrix}$, with eigenvalues $\pm\|\theta^*\|$ and 0
(d − 1 times): only $p_i=\hat\theta\cdot w_i+a_i$ grows, by $(1+\eta\|\theta^*\|)^t$, until
$\frac14\sum p_i^2e^{2\tau}\approx\|\theta^*\|$ (arXiv:2603.10397, section 4.4, appendix C; the alignment time printed in
Lemma 4.5 lacks a factor 1/η).
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import sympy as sp
from sympy.codegen.rewriting import log1p_opt, optimize

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.linear.label_noise import name

REFERENCE = "arXiv:2603.10397, section 4.4, Lemmas 4.5-4.6; alignment time corrected, late rates derived"
eta, T, P2 = sp.symbols(r"eta {\|\theta^*\|} {\sum_ip_i^2}", positive=True)
_X, _D = sp.symbols("x d")


def linear_map(target: sp.Matrix) -> sp.Matrix:
    r"""$\mathsf M$ of the linearised dynamics, shape (d + 1, d + 1)."""
    size = len(target)
    matrix = sp.zeros(size + 1, size + 1)
    matrix[:size, size], matrix[size, :size] = target, target.T
    return matrix


def alignment_time() -> sp.Expr:
    r"""Steps until the growth saturates: $\frac1{2\ln(1+\eta\|\theta^*\|)}\ln\frac{4\|\theta^*\|}{\sum p_i^2}$."""
    return sp.log(4 * T / P2) / (2 * sp.log(1 + eta * T))


def printed_alignment_time(step_size: float, target_norm: float) -> float:
    r"""$T_2=\ln(1/\eta)/\|\theta^*\|$ steps, Lemma 4.5 as printed."""
    return float(np.log(1 / step_size) / target_norm)


def corrected_alignment_time(step_size: float, target_norm: float) -> float:
    r"""$\ln(1/\eta)/(\eta\|\theta^*\|)$ steps: the printed time over η."""
    return printed_alignment_time(step_size, target_norm) / step_size


def convergence_time(step_size: float, target_norm: float) -> float:
    r"""$\ln(1/\eta)/(\eta\|\theta^*\|^2)$ steps of Lemma 4.6."""
    return float(np.log(1 / step_size) / (step_size * target_norm**2))


def saturation_time(first: np.ndarray, second: np.ndarray, target: np.ndarray, step_size: float) -> float:
    """`alignment_time` for given weights W (m, d), a (m,). Raises `InputError` where phase II has not begun or p = 0."""
    norm = float(np.linalg.norm(target))
    if norm == 0:
        raise InputError("target is 0: there is nothing to align with, give a non-zero target")
    growing = float(np.sum((first @ target / norm + second) ** 2))
    if not 0 < growing < 4 * norm:
        raise InputError(
            f"first: its growing part has squared norm {growing:.3g}: give weights below 4‖θ*‖ = {4 * norm:.3g}"
        )
    return float(_alignment_time_at()(step_size, norm, growing))


@lru_cache(maxsize=1)
def _alignment_time_at() -> Callable[..., float]:
    """`alignment_time` in doubles, in which 1 + η‖θ*‖ forgets a small step size and log1p does not."""
    return sp.lambdify((eta, T, P2), optimize(alignment_time(), (log1p_opt,)), "numpy")


def linear_cosines(
    first: np.ndarray, second: np.ndarray, target: np.ndarray, step_size: float, steps: float
) -> np.ndarray:
    r"""(m,) $|\cos(w_i,\theta^*)|$ after `steps` of the linearised dynamics, in closed form by the spectrum of $\mathsf M$."""
    norm = float(np.linalg.norm(target))
    direction = target / norm
    along, rate = first @ direction, step_size * norm
    grow = np.exp(steps * np.log1p(rate))
    shrink = np.exp(steps * np.log1p(-rate)) if rate < 1 else (1 - rate) ** steps
    moved = (along + second) / 2 * grow + (along - second) / 2 * shrink
    across2 = np.sum(first**2, axis=1) - along**2
    return np.asarray(np.abs(moved) / np.sqrt(moved**2 + across2))


#: Rates per gradient-flow time of the error along θ* and across it, balanced limit.
LATE_RATES = sp.Tuple(2 * T, T)


def late_rates(target_norm: float) -> tuple[float, float]:
    """`LATE_RATES` for a target of this norm."""
    along, across = (float(rate.subs(T, target_norm)) for rate in LATE_RATES)
    return along, across


def _spectrum_residual(shown: sp.Expr) -> sp.Expr:
    """Characteristic polynomial in four input dimensions at exact numbers."""
    target, x = sp.Matrix([sp.Rational(2, 3), sp.Rational(-1, 2), sp.Rational(3, 4), 2]), _X
    found = linear_map(target).charpoly(x).as_expr()
    return sp.expand(found - shown.subs({_D: 4, T: sp.sqrt(target.dot(target))}))


def _late_residual(shown: sp.Tuple) -> sp.Expr:
    """Jacobian of $-\\dot e$ at a rank-one balanced end state, by differentiating $\\theta=W^\\top a$ along the flow."""
    R = sp.Rational
    neurons, goal = sp.Matrix([R(3, 5), R(4, 5)]), sp.Matrix([R(5, 13), R(12, 13)])
    size = R(3, 4)
    second, first = sp.sqrt(size) * neurons, sp.sqrt(size) * neurons * goal.T
    error = sp.Matrix(sp.symbols("e1 e2"))
    speed = (second * error.T).T * second + first.T * (first * error)
    jacobian = speed.jacobian(error)
    across = sp.Matrix([-goal[1], goal[0]])
    along, other = (rate.subs(T, size) for rate in shown)
    gaps = [jacobian * goal - along * goal, jacobian * across - other * across, first.T * second - size * goal]
    return sp.Add(*[abs(sp.nsimplify(x)) for gap in gaps for x in gap])


def derivation() -> Derivation:
    """Phase II, each step checked."""
    time = alignment_time()
    spectrum = _X ** (_D - 1) * (_X**2 - T**2)
    steps = (
        Step("Spectrum of the linearised map", equation(name(r"\det(x-\mathsf M)"), spectrum), _spectrum_residual),
        Step(
            "Growth saturates",
            equation(name("t_2"), time),
            lambda shown: sp.simplify(P2 / 4 * (1 + eta * T) ** (2 * shown) - T),
        ),
        Step(
            "Small steps: the printed time lacks 1/η",
            equation(name(r"\lim\eta t_2"), sp.log(4 * T / P2) / (2 * T)),
            lambda shown: sp.simplify(sp.limit(eta * time, eta, 0) - shown),
        ),
        Step(
            "Balanced limit and late rates",
            equation(name(r"(\lambda_\parallel,\lambda_\perp)"), LATE_RATES),
            _late_residual,
        ),
    )
    equations = {"t_2": time, r"\lambda_\parallel": LATE_RATES[0], r"\lambda_\perp": LATE_RATES[1]}
    return Derivation(
        "alignment", steps, equations, (Assumption("|w_i|, |a_i| ≪ 1 at the start; population gradient"),), REFERENCE
    )
