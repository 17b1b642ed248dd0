r"""A row on the sphere and its second layer, trained together at one rate (arXiv:2504.19983 leaves this case open).

One direction of weight a and one row, $f=b\,\sigma(\langle v,x\rangle)$ with $|v|=1$, t the overlap and φ the kernel:
$\mathcal L=\tfrac12a^2\varphi(1)-ab\,\varphi(t)+\tfrac12b^2\varphi(1)$, so that gradient flow is

$$\dot t=ab\,\varphi'(t)(1-t^2),\qquad\dot b=a\varphi(t)-b\varphi(1).$$

While the row searches, b forgets its start within a time of 1/φ(1) and follows $a\varphi(t)/\varphi(1)$: the row moves as
fast as it has already succeeded. With $\varphi\simeq\hat\sigma_J^2t^J$, J ≥ 2, of an activation without a mean, that is
$\dot t=(a\hat\sigma_J^2)^2Jt^{2J-1}/\varphi(1)$, hence

$$T\simeq\frac{\varphi(1)}{2J(J-1)\,a^2\hat\sigma_J^4\,t_0^{2J-2}}\propto d^{J-1}$$

and not $d^{J/2-1}$; it goes as $a^{-2}$, and from either sign of $t_0$. A 2-homogeneous student moves at a speed that does not
know its norm.
"""

from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np
import scipy
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_positive
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError

REFERENCE = "derived"

t, a, s, one = sp.symbols(r"t a \hat{\sigma}_J^2 varphi(1)", positive=True)
t0 = sp.Symbol("t_0", positive=True)
b = sp.Symbol("b", real=True)
J = sp.Symbol("J", positive=True)
phi, slope = sp.Function(r"\varphi"), sp.Function(r"\varphi'")
#: When a run is given up: leading times, and units of the clock, each of a leading time or a factor e in t.
_PATIENCE, _MOST = 20.0, 1e4
#: Errors of a step that do not matter, as shares of the overlap and the second layer of the search's beginning.
_PRECISION = 1e-10


def loss() -> sp.Expr:
    r"""$\tfrac12a^2\varphi(1)-ab\,\varphi(t)+\tfrac12b^2\varphi(1)$."""
    return a**2 * one / 2 - a * b * phi(t) + b**2 * one / 2


def rates() -> tuple[sp.Expr, sp.Expr]:
    r"""$\dot t$ and $\dot b$: down the loss, t along the sphere."""
    return -(1 - t**2) * sp.diff(loss(), t).subs(sp.Derivative(phi(t), t), slope(t)), -sp.diff(loss(), b)


@cache
def followed() -> sp.Expr:
    r"""$a\varphi(t)/\varphi(1)$, at which b rests while t hardly moves."""
    return sp.solve(rates()[1], b)[0]


@cache
def search_rate() -> sp.Expr:
    r"""$\dot t$ at small t, b at rest."""
    power = s * t**J
    slow = rates()[0].subs(b, followed()).subs({phi(t): power, slope(t): sp.diff(power, t)})
    return sp.powsimp(sp.simplify(slow / (1 - t**2)))


@cache
def leading_time() -> sp.Expr:
    r"""T, by separation: $\int_{t_0}^\infty dt/\dot t$."""
    speed = sp.simplify(search_rate() / t ** (2 * J - 1))
    return sp.simplify(t0 ** (2 - 2 * J) / ((2 * J - 2) * speed))


def passage_time(activation: Activation, weight: float, overlap: float, second: float, level: float = 0.5) -> float:
    """Exact flow time from `overlap` and b = `second` to squared overlap `level`, by integration of the two rates.

    Any activation, with a mean too; `weight` is a.

    Raises `InputError` for an information exponent below 2, a weight that is not positive, an overlap of 0 or beyond ±1, a
    level that is not between its square and 1, a `second` that is not finite, and where the level is not reached within 20
    leading times.
    """
    check_positive(weight=weight)
    if not 0 < abs(overlap) < 1:
        raise InputError(f"overlap is {overlap!r}: give a cosine between -1 and 1 that is not 0")
    if not overlap**2 < level < 1:
        raise InputError(f"level is {level!r}: give a squared overlap between that of the start, {overlap**2:g}, and 1")
    if not np.isfinite(second):
        raise InputError(f"second is {second!r}: give a finite number")
    if activation.information_exponent < 2:
        raise InputError(f"activation is {activation.name!r}, of information exponent 1: no search; give 2 or more")
    J_ = activation.information_exponent
    numbers = {a: weight, s: activation.leading, one: activation.second_moment, J: J_, t0: abs(overlap)}
    unit, move = float(leading_time().subs(numbers)), _lowered(activation)

    def arrived(_: float, y: np.ndarray) -> float:
        return float(y[0] ** 2) - level

    def late(_: float, y: np.ndarray) -> float:
        return float(y[2]) - _PATIENCE

    arrived.terminal = late.terminal = True  # type: ignore[attr-defined]
    resting = float(followed().subs(phi(t), s * t0**J).subs(numbers))
    least = _PRECISION * np.array([abs(overlap), resting, 1.0])  # (b can be smaller than t by many orders.)
    with np.errstate(over="ignore"):  # no rate depends on time: the step of its difference grows on and on
        found = scipy.integrate.solve_ivp(
            _clocked(move, weight, unit),
            (0.0, _MOST),
            (overlap, second, 0.0),
            "Radau",
            events=(arrived, late),
            rtol=1e-9,
            atol=least,
        )
    if not found.t_events[0].size:
        raise InputError(
            f"overlap is {overlap:g}, second layer {second:g}: not at {level:g} by time {_PATIENCE * unit:.3g}; give others"
        )
    return unit * float(found.y_events[0][0, 2])


def _clocked(move: Callable[..., list[float]], weight: float, unit: float) -> Callable[..., list[float]]:
    """Rates of t, b and the time over `unit`, in a clock of ln t while t moves, and of the unit while it waits.

    In time itself, of which a search of 1e17 has no finer than 16, neither b's relaxation nor the end could be followed.
    """

    def rate(_: float, y: np.ndarray) -> list[float]:
        turning, growing = move(y[0], y[1], weight)
        pace = 1 / (abs(turning / y[0]) + 1 / unit)
        return [turning * pace, growing * pace, pace / unit]

    return rate


@lru_cache(maxsize=16)
def _lowered(activation: Activation) -> Callable[..., list[float]]:
    known = {one: activation.second_moment}
    shown = [
        x.replace(phi, activation.kernel_at).replace(slope, lambda at: activation.kernel_at(at, 1)).subs(known)
        for x in rates()
    ]
    lowered: Callable[..., list[float]] = sp.lambdify((t, b, a), shown, modules=["scipy", "numpy"])
    return lowered


# ----------------------------------------------------------------------- the derivation


def _rate_residuals(place: int, claim: sp.Basic) -> sp.Expr:
    """Gradient of the loss in coordinates: v = (cos ω, sin ω), t = cos ω, φ = t³."""
    angle = sp.Rational(3, 7)
    omega = sp.Symbol("omega")
    cost = loss().replace(phi, lambda x: x**3).subs(t, sp.cos(omega)).doit()
    # ω̇ = −∂L/∂ω, ṫ = −sin ω · ω̇.
    moved = sp.sin(omega) * sp.diff(cost, omega) if place == 0 else -sp.diff(cost, b)
    point = {a: sp.Rational(2, 3), b: sp.Rational(-1, 5), one: sp.Rational(5, 4)}
    shown = claim.replace(phi, lambda x: x**3).replace(slope, lambda x: 3 * x**2).subs(t, sp.cos(angle))
    return sp.N((shown - moved.subs(omega, angle)).subs(point), 50)


def _rest_residual(claim: sp.Basic) -> sp.Expr:
    """The loss in b is least there: completed square."""
    return sp.expand(loss() - one / 2 * (b - claim) ** 2 - loss().subs(b, claim))


def _time_residual(claim: sp.Basic) -> sp.Expr:
    """dT/dt₀ times the speed at t₀, of the loss's own power law at J = 3, is −1."""
    values = {J: 3, s: sp.Rational(4, 5), one: sp.Rational(3, 2), a: sp.Rational(2, 3)}
    resting = values[a] * values[s] * t0**3 / values[one]
    speed = values[a] * resting * 3 * values[s] * t0**2
    return sp.simplify(sp.diff(claim.subs(values), t0) * speed + 1)


def derivation() -> Derivation:
    """Both rates, where b rests, and the time."""
    moved = rates()
    shown = {
        r"\dot t": moved[0],
        r"\dot b": moved[1],
        "b": followed(),
        "T": leading_time(),
    }
    titles = ("A row on the sphere", "Its second layer", "It follows the row", "The search, t small")
    checks: list[Callable[[sp.Basic], sp.Expr]] = [
        partial(_rate_residuals, 0),
        partial(_rate_residuals, 1),
        _rest_residual,
        _time_residual,
    ]
    steps = [
        Step(title, equation(name, value), check)
        for title, (name, value), check in zip(titles, shown.items(), checks, strict=True)
    ]
    assumptions = (Assumption("one direction and one row; both layers at one rate"), Assumption("step size → 0"))
    return Derivation("second-layer", tuple(steps), shown, assumptions, REFERENCE)
