r"""The Markov oscillation algorithm: second-layer weights that jump, gradient descent on the first layer, exactly.

$a_i$: $\pm c\to0$ surely, $0\to\pm c$ with probability ½ each, $c=\eta^{1/4}$; $W\leftarrow W-\eta ae^\top$ (arXiv:2603.10397,
eqs. 6-7, population gradient). A neuron is at 0 every other step, so $\langle a(t+1),a(t)\rangle=0$ and its weights rest
before its next, fresh sign. With v the squared norm of the N neurons that are on, given everything before that sign,
$$E\,\theta=0,\quad E|\theta|^2=\sqrt\eta\,v,\quad v\leftarrow v(1-2\eta^{3/2}+N\eta^3)+N\eta^{5/2}\|\theta^*\|^2,$$
and the two halves take turns: the squared norm decays at rate $\eta^{3/2}$ per step, down to $\frac\eta2\|\theta^*\|^2$ a
neuron.
"""

from itertools import product

import numpy as np
import sympy as sp
from scipy.optimize import brentq

from theory.core import matrices
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.linear.label_noise import name

REFERENCE = "arXiv:2603.10397, section 4.3, appendix B.3-B.4; exact recursion derived"
eta, N, v, T2 = sp.symbols(r"eta N v {\|\theta^*\|^2}", positive=True)
lag = sp.Symbol("k", integer=True, nonnegative=True)

#: Transition matrix of one second-layer weight over (−c, 0, c).
TRANSITION = sp.Matrix([[0, 1, 0], [sp.Rational(1, 2), 0, sp.Rational(1, 2)], [0, 1, 0]])
#: Its stationary law.
STATIONARY = sp.Matrix([[sp.Rational(1, 4), sp.Rational(1, 2), sp.Rational(1, 4)]])
_LEVELS = sp.Matrix([-1, 0, 1])
#: Eigenvalues of a training set below this share of the largest are zero.
_NULL = 1e-12


def jump_covariance(later: int) -> sp.Expr:
    r"""$E\,\delta(t)\delta(t+\mathrm{later})/\sqrt\eta$, $\delta(t)=a(t+1)-a(t)$, by powers of the chain.

    1 at lag 0, since every step is a jump by $\pm\eta^{1/4}$; −½ at lag 1; 0 beyond.
    """
    total = sp.Integer(0)
    step = {(s, r): TRANSITION[s, r] for s, r in product(range(3), repeat=2)}
    for (s, r), chance in step.items():
        first = _LEVELS[r] - _LEVELS[s]
        if later == 0:
            total += STATIONARY[s] * chance * first**2
            continue
        reach = TRANSITION ** (later - 1)
        for u, w in product(range(3), repeat=2):
            total += STATIONARY[s] * chance * first * reach[r, u] * step[u, w] * (_LEVELS[w] - _LEVELS[u])
    return total


def half_step(norm2: sp.Expr = v, on: sp.Expr = N, step: sp.Expr = eta, target2: sp.Expr = T2) -> sp.Expr:
    """Mean squared norm of the neurons that are on, after their step."""
    three_halves = sp.Rational(3, 2)
    return norm2 * (1 - 2 * step**three_halves + on * step**3) + on * step ** sp.Rational(5, 2) * target2


#: By how much a turn shrinks the squared norm of the neurons that are on, above the floor: factor less 1; and the rate per
#: step, of which each neuron makes every other one.
SHRINKAGE = sp.expand(sp.diff(half_step(), v) - 1)
RATE = -sp.log(1 + SHRINKAGE) / 2
#: Step size from which the first layer grows instead.
(LIMIT,) = sp.solve(SHRINKAGE, eta)
_shrinkage_at = sp.lambdify((N, eta), SHRINKAGE)
_gain_at = sp.lambdify((N, eta, T2), half_step().subs(v, 0))


def floor() -> sp.Expr:
    r"""Fixed point of `half_step`: $\frac\eta2N\|\theta^*\|^2/(1-\frac N2\eta^{3/2})$."""
    return eta * N * T2 / 2 / (1 - N * eta ** sp.Rational(3, 2) / 2)


def mean_norm2(
    times: np.ndarray, start: np.ndarray, on: np.ndarray, step_size: float, target_norm: float
) -> np.ndarray:
    r"""Exact $E\|W(t)\|_F^2$ at whole steps.

    Args:
        times: (T,) whole steps. start: (2,) squared norms at t = 0 of the neurons that are on, and of the others.
        on: (2,) how many of each. step_size: η. target_norm: ‖θ*‖.

    Raises `InputError` beyond η³N = 2η^{3/2}, where the first layer grows instead.
    """
    shrinkage = _shrinkage_at(np.asarray(on, dtype=float), step_size)
    if np.any(shrinkage >= 0):
        raise InputError(
            f"width is {int(np.sum(on))}: at step size {step_size:g} the oscillation shrinks W only with fewer than "
            f"{2 * step_size**-1.5:.3g} neurons on: lower the width or the step size"
        )
    level = _gain_at(np.asarray(on, dtype=float), step_size, target_norm**2) / -shrinkage
    turns = np.stack([(np.asarray(times) + 1) // 2, np.asarray(times) // 2])
    left = np.exp(turns * np.log1p(shrinkage)[:, None])
    return np.sum(level[:, None] + (np.asarray(start) - level)[:, None] * left, axis=0)


def stability_limit(on: int, largest: float = 1.0) -> float:
    r"""`LIMIT` of a training set: η from which $\|W\|_F^2$ of the neurons that are on grows in every run.

    Not only in the mean: fresh signs s change it by exactly $\eta^{3/2}(N\eta^{3/2}-2)|W^\top s|^2$ where θ* = 0 (derived).
    Args: N. largest: eigenvalue λ of the training inputs' covariance, along which that is so of steps $\eta\lambda^{2/3}$.
    """
    return float(LIMIT.subs(N, on)) / largest ** (2 / 3)


def decay_rate(width: int, step_size: float) -> float:
    r"""`RATE` with half of the neurons on: $-\frac12\ln(1-2\eta^{3/2}+\frac m2\eta^3)\approx\eta^{3/2}$ per step."""
    return float(-0.5 * np.log1p(_shrinkage_at(width / 2, step_size)))


def time_to_level(
    width: int,
    step_size: float,
    target_norm: float,
    level: float | None = None,
    spectrum: tuple[np.ndarray, np.ndarray] | None = None,
) -> float:
    r"""Steps until $E\frac1m\sum|w_i|^2$ falls from 1 to `level` (default √η): $t_0\approx\frac12\eta^{-3/2}\ln\frac1\eta$.

    `spectrum`: of a training set, eigenvalues λ (d,) of X'X/n and θ* (d,) along its eigenvectors, in place of `target_norm`;
    rows then begin alike in all of them, and each is a population of its own with step $\eta\lambda^{2/3}$ and target
    $\lambda^{1/6}\theta_j$ (derived: these give its $\eta^{3/2}\lambda$ and $\eta^{5/2}\lambda^2\theta_j^2$).

    0 if the level is 1 or more, inf if the floor is above the level, or the first layer grows.
    """
    level = step_size**0.5 if level is None else level
    if level >= 1:
        return 0.0
    values, target = (np.ones(1), np.full(1, target_norm)) if spectrum is None else spectrum
    seen = values > _NULL * np.max(values)
    steps, start = step_size * values[seen] ** (2 / 3), 1 / values.size
    rates = -0.5 * np.log1p(_shrinkage_at(width / 2, steps))
    if np.any(rates <= 0):
        return float("inf")
    squares = values[seen] ** (1 / 3) * target[seen] ** 2
    bottom = _gain_at(width / 2, steps, squares) / -_shrinkage_at(width / 2, steps) / (width / 2)
    rest = float(np.sum(bottom) + start * np.sum(~seen))
    if rest >= level:
        return float("inf")
    if len(rates) == 1:
        return float(np.log((start - bottom[0]) / (level - rest)) / rates[0])
    # (After this long what is left above the floor is less than the level.)
    longest = np.log(np.sum(np.abs(start - bottom)) / (level - rest)) / np.min(rates)
    return float(
        brentq(lambda t: rest - level + np.sum((start - bottom) * np.exp(-rates * t)), 0.0, 1.01 * longest + 1)
    )


def _step_residual(shown: sp.Expr) -> sp.Expr:
    """Both recursions by enumerating the fresh signs of two neurons that are on, at exact weights."""
    R = sp.Rational
    first, target = sp.Matrix([[R(1, 2), R(-2, 3)], [R(3, 4), R(1, 5)]]), sp.Matrix([R(4, 5), R(-1, 6)])
    step = R(1, 16)
    level = step ** R(1, 4)
    total, size = sp.Integer(0), sp.Integer(0)
    mean = sp.zeros(2, 1)
    for signs in product((1, -1), repeat=2):
        second = level * sp.Matrix(signs)
        theta = first.T * second
        moved = first - step * second * (theta - target).T
        total += (moved.T * moved).trace() / 4
        size += theta.dot(theta) / 4
        mean += theta / 4
    norm2 = (first.T * first).trace()
    expected = shown.subs({v: norm2, N: 2, eta: step, T2: target.dot(target)})
    return abs(total - expected) + abs(size - sp.sqrt(step) * norm2) + mean.dot(mean)


def _stationary_residual(shown: sp.Matrix) -> sp.Expr:
    return matrices.total(shown * TRANSITION - shown) + abs(sum(shown) - 1)


def _turn_residual(shown: sp.Expr) -> sp.Expr:
    return abs(shown) + sum(abs(TRANSITION[s, r] * _LEVELS[s] * _LEVELS[r]) for s, r in product(range(3), repeat=2))


def _covariance_residual(shown: sp.Expr) -> sp.Expr:
    """Against powers of the chain, lags 0 to 4."""
    return sp.Add(*[abs(jump_covariance(n) - (shown / sp.sqrt(eta)).subs(lag, n)) for n in range(5)])


def _rate_residual(shown: sp.Expr) -> sp.Expr:
    """Three turns from twice the floor, a turn being two steps; η^{3/2} for small steps; and `decay_rate` is this."""
    small = sp.limit(shown.subs(N, 1) / eta ** sp.Rational(3, 2), eta, 0) - 1
    point = {N: 3, eta: sp.Rational(1, 16), T2: sp.Rational(4, 5)}
    rest, norm2 = floor().subs(point), 2 * floor().subs(point)
    for _ in range(3):
        norm2 = half_step(norm2).subs(point)
    fall = sp.exp(-6 * shown.subs(point)) - (norm2 - rest) / rest
    code = decay_rate(6, 1 / 16) / float(shown.subs(point)) - 1
    return abs(sp.N(fall, 40)) + abs(small) + int(abs(code) > 1e-12)


def derivation() -> Derivation:
    """``derive oscillation``."""
    covariance = sp.sqrt(eta) * (sp.KroneckerDelta(lag, 0) - sp.KroneckerDelta(lag, 1) / 2)
    still = sp.Integer(0)
    steps = (
        Step("Chain of one second-layer weight", equation(name("Q"), TRANSITION)),
        Step("Its stationary law", equation(sp.Symbol("pi"), STATIONARY), _stationary_residual),
        Step("Covariance of the jumps", equation(name(r"E\,\delta(t)\delta(t+k)"), covariance), _covariance_residual),
        Step("A neuron is at 0 every other step", equation(name(r"\langle a(t+1),a(t)\rangle"), still), _turn_residual),
        Step("Mean over fresh signs of one step", equation(name(r"E\,v(t+1)"), half_step()), _step_residual),
        Step("Floor", equation(name("v_*"), floor()), lambda shown: sp.simplify(half_step(shown) - shown)),
        Step("Rate per step", equation(name("r"), RATE), _rate_residual),
    )
    equations = {r"E\,v(t+1)": half_step(), "v_*": floor(), "r": RATE}
    assumptions = (
        Assumption("a(0) from the stationary law, independent of W(0)"),
        Assumption("population gradient (n → ∞)"),
    )
    return Derivation("oscillation", steps, equations, assumptions, REFERENCE)
