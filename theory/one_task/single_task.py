r"""One task alone: the ODE of a single overlap, its closed forms, emergence time, window and norm lag.

Everything is obtained from the overlap flow by keeping one teacher and one light student (all other overlaps and all
student masses zero): $\dot u = a\,\varphi'(u)(1-u^2)$ for $u=\langle\bar v,e_p\rangle$. With $M = u^2$ and the leading
Hermite degree $J$ alone, $\dot M = 2J\hat\sigma_J^2 a M^{J/2}(1-M)$ (arXiv:2504.19983, proof sketch of Theorem 2.1).
All times are gradient-flow times; divide by the step size for steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import mpmath
import numpy as np
import scipy
import sympy as sp

from theory.additive import flow as additive
from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.indexed import Dual, Sums, k, q, r, specialise
from theory.core.indexed import a as weights
from theory.core.indexed import t as overlaps

u, M, M0, a, time, r0, eps = sp.symbols("u M M_0 a t r_0 epsilon", positive=True)
#: The squared norm itself, in the equations of `SingleTask.norm_derivation`; r₀ is what it starts from.
_norm = sp.Symbol("r", positive=True)
#: Φ(t), the growth of a norm that nothing holds back; b = 4φ(1), its own repulsion; an earlier time.
risen, repulsion, _past = sp.Function(r"\Phi")(time), sp.Symbol("b", positive=True), sp.Symbol("s", positive=True)
REFERENCE = "arXiv:2504.19983, Theorem 2.1 and its proof sketch; constants derived for every J"
ALONE = Assumption("one teacher, one light student: all other overlaps and all student masses are zero")


def alone(sums: Sums) -> sp.Expr:
    """A drift of the overlap flow with every other teacher and every student mass removed, in u and a.

    Sums over students vanish with their masses; in sums over teachers only p = q is left.
    """
    total = sp.Integer(0)
    for term in sums:
        body = term.body
        for index in term.bound:
            body = body.subs(index, q)
        total += sp.Integer(0) if body.has(r.label) else body
    return total.xreplace({overlaps[k, q]: u, weights[q]: a})


@dataclass(frozen=True)
class SingleTask:
    """The single-task dynamics of one activation, derived.

    Raises `InputError` from `require_transition` where the information exponent is below 3: then there is no T_p.
    """

    activation: Activation

    @property
    def exponent(self) -> int:
        return self.activation.information_exponent

    # ----------------------------------------------------------- the equations

    @cached_property
    def rate(self) -> sp.Expr:
        r"""$\dot u = a\,\varphi'(u)(1-u^2)$ with every Hermite degree, from the overlap flow."""
        drift = alone(additive.overlap_drift()[overlaps[k, q]])
        return _with_factor(drift).replace(Dual, self.activation.kernel_at)

    @cached_property
    def leading_rate(self) -> sp.Expr:
        r"""$\dot u = J\hat\sigma_J^2a\,u^{J-1}(1-u^2)$: the rate with the leading degree of $\varphi$ alone."""
        drift = alone(additive.overlap_drift()[overlaps[k, q]])
        kernel = self.activation.leading * kernel_variable**self.exponent
        return specialise(_with_factor(drift), kernel, kernel_variable)

    @cached_property
    def squared_rate(self) -> sp.Expr:
        r"""$\dot M = 2u\dot u$ at $u=\sqrt M$, every degree."""
        return sp.expand((2 * u * self.rate).subs(u, sp.sqrt(M)))

    @cached_property
    def leading_squared_rate(self) -> sp.Expr:
        r"""$\dot M = 2J\hat\sigma_J^2a\,M^{J/2}(1-M)$."""
        return (2 * u * self.leading_rate).subs(u, sp.sqrt(M))

    @cached_property
    def plateau_rate(self) -> sp.Expr:
        """The leading rate of M before recovery, 1 − M → 1."""
        return sp.powsimp(sp.cancel(self.leading_squared_rate / (1 - M)))

    # ------------------------------------------------------------ closed forms

    def require_transition(self) -> None:
        self.activation.require_exponent(3, "a sharp transition at a finite T_p")

    @cached_property
    def pre_recovery(self) -> sp.Expr:
        r"""$M(t)=\big(M_0^{1-J/2}-J(J-2)\hat\sigma_J^2at\big)^{-2/(J-2)}$, by separation of the plateau rate."""
        self.require_transition()
        antiderivative = sp.integrate(1 / self.plateau_rate, M)
        power = sp.Rational(self.exponent - 2, 2)
        scale = sp.powsimp(antiderivative * M**power)  # antiderivative = scale · M^(1−J/2)
        return (M0**-power + time / scale) ** (-1 / power)

    @cached_property
    def emergence_time(self) -> sp.Expr:
        r"""$T_p=1/(J(J-2)\hat\sigma_J^2\,a\,M_0^{(J-2)/2})$: where the pre-recovery form blows up."""
        base = self.pre_recovery.as_base_exp()[0]
        return sp.cancel(sp.solve(base, time, simplify=False)[0])

    @cached_property
    def implicit_antiderivative(self) -> sp.Expr:
        r"""$F(M)$ with $F(M(t))-F(M_0) = 2J\hat\sigma_J^2\,a\,t$, leading degree, exact.

        $J$ even, $n=J/2$: $\ln\frac{M}{1-M}-\sum_{j<n}\frac1{jM^j}$; for odd $J$ the same integral in $\sqrt M$.
        """
        scale = 2 * self.exponent * self.activation.leading * a
        in_u = sp.cancel(2 * u * scale / (2 * u * self.leading_rate))  # dF/du
        antiderivative = sp.integrate(sp.apart(in_u, u), u)
        return sp.expand(_real_logarithms(antiderivative, u).subs(u, sp.sqrt(M)))

    def implicit_time(self, start: sp.Expr, end: sp.Expr) -> sp.Expr:
        """[F(end) − F(start)] / (2Jσ̂²a): exact leading-degree time between two squared overlaps."""
        F = self.implicit_antiderivative
        return (F.subs(M, end) - F.subs(M, start)) / (2 * self.exponent * self.activation.leading * a)

    @property
    def window(self) -> sp.Expr:
        """10–90 % window of M in time (leading degree)."""
        return self.implicit_time(sp.Rational(1, 10), sp.Rational(9, 10))

    @property
    def relative_window(self) -> sp.Expr:
        r"""The 10–90 % window over $T_p$: $13.28\,M_0$ for $J=4$, $\propto M_0^{J/2-1}$ in general."""
        return sp.expand(sp.expand_log(sp.expand(self.window / self.emergence_time), force=True))

    @cached_property
    def convergence_rate(self) -> sp.Expr:
        r"""$1-M$ decays at rate $2a\varphi'(1)$ once aligned."""
        return sp.simplify(-sp.diff(self.squared_rate, M).subs(M, 1))

    # ------------------------------------------------------------------- norm

    @cached_property
    def norm_rate(self) -> sp.Expr:
        r"""$\dot r = 4r(a\varphi(u)-r\varphi(1))$: norm of a lone student, own repulsion kept."""
        return sp.factor(_lone_norm_rate()).replace(Dual, self.activation.kernel_at)

    @cached_property
    def plateau_norm(self) -> sp.Expr:
        r"""$r(t)=r_0/(1+4\varphi(1)r_0t)$, Φ = 0: before it finds anything a lone student shrinks (needs φ(0) = 0)."""
        still = norm_law().replace(risen.func, lambda moment: sp.Integer(0)).doit()
        return still.subs(repulsion, 4 * self.activation.second_moment)

    def _norm_law_residual(self, shown: sp.Expr) -> sp.Expr:
        """The law's rate, with Φ′ = 4aφ(u) at a point of the path, against the derived one; and its start."""
        law = shown.subs(repulsion, 4 * self.activation.second_moment)
        rate = sp.diff(law, time).subs(sp.Derivative(risen, time), 4 * a * self.activation.kernel_at(u))
        there = sp.Symbol("I", positive=True)  # the integral, whatever it is
        integral = sp.Integral(sp.exp(risen.subs(time, _past)), (_past, 0, time))
        instant = {integral: there, risen: sp.Rational(2, 3)}
        value, start = law.subs(instant), law.subs({integral: 0, risen: 0})
        gap = (rate.subs(instant) - self.norm_rate.subs(r0, value)).subs(there, sp.Rational(5, 7))
        return abs(_at_point(gap)) + abs(_at_point(start - r0))

    @cached_property
    def norm_lag(self) -> sp.Expr:
        r"""Time of an aligned neuron from $r_0=\sigma_0^2$ to $(1-\epsilon)a$, by separation of the logistic.

        $\frac1{4a\varphi(1)}\big[\ln\frac{a-r_0}{r_0}+\ln\frac{1-\epsilon}{\epsilon}\big]$.
        """
        return _scaled_lag() / self.activation.second_moment

    # ---------------------------------------------------------------- numbers

    def leading_time(self, weight: float, overlap: float) -> float:
        """T_p for numbers; inf where an odd exponent starts from a negative overlap. Needs J ≥ 3."""
        if overlap == 0 or (self.exponent % 2 and overlap < 0):
            return float("inf")
        return float(self._emergence(weight, overlap * overlap))

    def half_time(self, weight: float, overlap: float, level: float = 0.5) -> float:
        r"""Exact time to squared overlap `level`, all degrees: $\int du/(a\varphi'(u)(1-u^2))$; inf if never.

        Args:
            weight: $a_p$.
            overlap: $\bar v_p(0)$, signed (the sign matters unless the activation is even).
            level: squared overlap to reach, in (0, 1).
        """
        return self.passage_time(weight, overlap, float(np.sqrt(level)))

    def passage_time(self, weight: float, start: float, end: float) -> float:
        """Exact single-task time from overlap `start` to absolute overlap `end` (0 if already there)."""
        if abs(start) >= end:
            return 0.0
        velocity = float(self.speed(start, weight))
        goal = end if velocity > 0 else -end
        crosses = start * goal <= 0  # only an exponent of 1 has a velocity at zero overlap
        path = np.linspace(start, goal, 200) if crosses else np.sign(goal) * np.geomspace(abs(start), end, 200)
        stalled = crosses and float(self.speed(0.0, weight)) == 0
        if velocity == 0 or stalled or np.any(np.sign(goal) * self.speed(path, weight) <= 0):
            return float("inf")
        if crosses:
            value, _ = scipy.integrate.quad(
                lambda x: 1 / abs(self.speed(x, weight)), *sorted((start, goal)), epsrel=1e-11
            )
            return float(value)
        # In s = ln|u| the integrand is smooth and of one scale at a time.
        value, _ = scipy.integrate.quad(
            lambda s: abs(np.exp(s) / self.speed(np.sign(goal) * np.exp(s), weight)),
            np.log(abs(start)),
            np.log(end),
            epsrel=1e-11,
            epsabs=0.0,
            limit=500,
        )
        return float(value)

    def lag(self, weight: float, init_norm2: float) -> float:
        r"""$\frac1{4a\varphi(1)}\ln\frac{a-r_0}{r_0}$, of an aligned student from r₀ to half the target norm; 0 if there.

        A student that aligns first has another r₀ by then, and loses time on the way: `theory.one_task.lone_path` has it
        exactly.
        """
        if init_norm2 >= weight / 2:
            return 0.0
        return float(self._lag(weight, init_norm2))

    def step_lag(self, start: float, end: float) -> float:
        r"""Time over η by which explicit steps of a light student lag behind the flow between two overlaps of one sign.

        To second order a step turns the student by $\eta\dot\vartheta(1-\eta\dot\rho)$ ($u=\cos\vartheta$, ρ = ln‖v‖), the
        flow by $\eta\dot\vartheta+\frac{\eta^2}2\ddot\vartheta$: to first order in η the lag is
        $\frac12\ln(\dot\vartheta_{end}/\dot\vartheta_0)+\rho_{end}-\rho_0$, with $d\rho/du=2\varphi/(\varphi'(1-u^2))$.
        """
        turning = np.abs(self.speed(np.array([start, end]), 1.0)) / np.sqrt(1 - np.array([start, end]) ** 2)
        grown, _ = scipy.integrate.quad(lambda x: self._growth(x) / self.speed(x, 1.0), start, end, epsrel=1e-9)
        return float(np.log(turning[1] / turning[0]) / 2 + grown)

    @cached_property
    def _growth(self) -> Callable:
        """ρ̇ of a light student at weight 1, half of that of ln r."""
        half = sp.expand(sp.diff(_lone_norm_rate(), r0).subs({r0: 0, a: 1}) / 2)
        return sp.lambdify(u, half.replace(Dual, self.activation.kernel_at), modules=["scipy", "numpy"])

    def speed(self, overlap: np.ndarray | float, weight: float) -> np.ndarray:
        r"""$\dot u = a\varphi'(u)(1-u^2)$ for numbers. Elementwise in u."""
        return self._rate(overlap, weight) + 0.0 * np.asarray(overlap)

    @cached_property
    def _rate(self) -> Callable:
        return sp.lambdify((u, a), self.rate, modules=["scipy", "numpy"])

    @cached_property
    def _emergence(self) -> Callable:
        return sp.lambdify((a, M0), self.emergence_time)

    @cached_property
    def _lag(self) -> Callable:
        return sp.lambdify((a, r0), self.norm_lag.subs(eps, sp.Rational(1, 2)))

    # ------------------------------------------------------------- derivations

    def derivation(self) -> Derivation:
        """``derive single-task``: from the overlap flow to T_p, the exact implicit form and the window."""
        dot_u, dot_M = sp.Symbol(r"\dot u"), sp.Symbol(r"\dot M")
        generic = alone(additive.overlap_drift()[overlaps[k, q]])
        tolerance = self.activation.check_tolerance
        steps = [
            Step(
                "Keep one teacher and one light student of the overlap flow",
                equation(dot_u, _with_factor(generic)),
                lambda shown: sp.expand(shown - a * Dual(u, 1) * (1 - u**2)),
            ),
            Step(
                "All Hermite degrees of this activation",
                equation(dot_u, self.rate),
                lambda shown: _at_point(shown - a * self.activation.kernel_at(u, 1) * (1 - u**2)),
                tolerance,
            ),
            Step(
                "Leading degree, squared overlap M = u²",
                equation(dot_M, self.leading_squared_rate),
                lambda shown: _at_point(
                    shown
                    - 2 * self.exponent * self.activation.leading * a * M ** sp.Rational(self.exponent, 2) * (1 - M)
                ),
                tolerance,
            ),
        ]
        equations = {r"\dot u": self.rate, r"\dot M": self.leading_squared_rate}
        if self.exponent >= 3:
            steps += self._transition_steps()
            equations |= {"M(t)": self.pre_recovery, "T_p": self.emergence_time}
        equations["F(M)"] = self.implicit_antiderivative
        steps.append(self._implicit_step())
        return Derivation("single-task", tuple(steps), equations, (ALONE,), REFERENCE)

    def _transition_steps(self) -> list[Step]:
        closed, tolerance = self.pre_recovery, self.activation.check_tolerance
        return [
            Step(
                "Before recovery (1 − M → 1) the equation separates",
                equation("M(t)", closed),
                lambda shown: (
                    _at_point(sp.diff(shown, time) - self.plateau_rate.subs(M, shown))
                    + abs(sp.N(shown.subs(time, 0).subs(_POINT) - _POINT[M0], 40))
                ),
                tolerance,
            ),
            Step(
                "It blows up at the emergence time",
                equation("T_p", self.emergence_time),
                lambda shown: _at_point(1 / closed.subs(time, shown)),
                tolerance,
            ),
            Step(
                "Relative 10–90 % window",
                equation("w/T_p", self.relative_window),
                lambda shown: _at_point(shown * self.emergence_time) - self._window_by_quadrature(),
                max(tolerance, 1e-25),
            ),
        ]

    def _window_by_quadrature(self) -> sp.Expr:
        """∫ dM / Ṁ over 10–90 % at the check's point, by mpmath's quadrature to 40 digits."""
        slowness = sp.lambdify(M, 1 / self.leading_squared_rate.subs(a, _POINT[a]), modules="mpmath")
        with mpmath.workdps(50):
            return sp.Float(mpmath.quad(slowness, [mpmath.mpf(1) / 10, mpmath.mpf(1) / 2, mpmath.mpf(9) / 10]), 50)

    def _implicit_step(self) -> Step:
        scale = 2 * self.exponent * self.activation.leading * a
        F = self.implicit_antiderivative
        return Step(
            "Exact implicit solution F(M(t)) − F(M₀) = 2Jσ̂²at",
            equation("F(M)", F),
            lambda shown: _at_point(sp.diff(shown, M) * self.leading_squared_rate - scale),
            self.activation.check_tolerance,
        )

    def norm_derivation(self) -> Derivation:
        """``derive norm``: the norm's rate, the logistic lag, and the two invariants that tie norm to direction."""
        J = self.exponent
        pure = SingleTask(Activation.from_coefficients({J: self.activation.coefficients[J]}))
        rate, pure_rate = (x.norm_rate.subs(r0, _norm) for x in (self, pure))
        light = sp.expand(pure_rate).coeff(_norm, 1).subs(u, sp.sqrt(M))
        early = _norm * (1 - M) ** sp.Rational(2, J)
        late = (1 - M) * (_norm / (a - _norm)) ** sp.Rational(J, 2)
        rate_late = pure_rate.subs(u, 1)
        tolerance = self.activation.check_tolerance
        steps = [
            Step(
                "A lone student's squared norm",
                equation(r"\dot r", rate),
                lambda shown: _at_point(
                    shown - 4 * _norm * (a * self.activation.kernel_at(u) - _norm * self.activation.second_moment)
                ),
                tolerance,
            ),
            Step(
                "The path given, its norm is a Bernoulli equation: g = 4aφ(u), Φ = ∫g",
                equation("r(t)", norm_law()),
                self._norm_law_residual,
                tolerance,
            ),
            Step(
                "Plateau without growth, φ(u) → 0: the student shrinks",
                equation("r(t)", self.plateau_norm),
                lambda shown: (
                    _at_point(sp.diff(shown, time) + 4 * self.activation.second_moment * shown**2)
                    + abs(_at_point(shown.subs(time, 0) - r0))
                ),
                tolerance,
            ),
            Step(
                "Aligned: logistic growth, time from r₀ to (1−ε)a",
                equation("t_{norm}", self.norm_lag),
                lambda shown: (
                    _at_point(sp.diff(shown, eps) * self.norm_rate.subs({u: 1, r0: (1 - eps) * a}) / a + 1)
                    + abs(_at_point(shown.subs(eps, 1 - r0 / a)))
                ),
                tolerance,
            ),
            Step(
                "Pure degree, light student: r(1−M)^{2/J} is constant",
                equation(r"\mathrm{const}", early),
                lambda shown: _at_point(
                    sp.diff(shown, _norm) * light * _norm + sp.diff(shown, M) * pure.leading_squared_rate
                ),
                tolerance,
            ),
            Step(
                "Pure degree, aligned student: (1−M)(r/(a−r))^{J/2} is constant",
                equation(r"\mathrm{const}", late),
                lambda shown: _at_point(
                    sp.diff(shown, _norm) * rate_late + sp.diff(shown, M) * pure.convergence_rate * (1 - M)
                ),
                tolerance,
            ),
        ]
        equations = {r"\dot r": rate, "r(t)": self.plateau_norm, "t_{norm}": self.norm_lag}
        return Derivation("norm", tuple(steps), equations, (ALONE,), REFERENCE)


_POINT = {
    M: sp.Rational(3, 10),
    M0: sp.Rational(1, 7),
    a: sp.Rational(4, 5),
    time: sp.Rational(1, 9),
    r0: sp.Rational(1, 11),
    _norm: sp.Rational(1, 13),
    u: sp.Rational(2, 5),
    eps: sp.Rational(1, 3),
}


def _lone_norm_rate() -> sp.Expr:
    """The norm's drift in the overlap flow with one teacher and one student, in u, a and r₀, for any kernel."""
    total = sp.Integer(0)
    for term in additive.overlap_drift()[r[k]]:
        body = term.body
        for index in term.bound:
            body = body.subs(index, q if index.name == "p" else k)
        total += body
    own = {overlaps[k, q]: u, weights[q]: a, r[k]: r0}
    # c_kk = 1
    return total.xreplace({x: sp.Integer(1) for x in total.atoms(sp.Indexed) if str(x.base) == "c"}).xreplace(own)


@lru_cache(maxsize=1)
def norm_law() -> sp.Expr:
    r"""$r_0e^\Phi/(1+b\,r_0\int_0^te^\Phi)$: solves $\dot r=r(\dot\Phi-br)$, a linear equation for 1/r."""
    inverse = sp.exp(-risen) * (1 / r0 + repulsion * sp.Integral(sp.exp(risen.subs(time, _past)), (_past, 0, time)))
    return 1 / inverse


@lru_cache(maxsize=1)
def _scaled_lag() -> sp.Expr:
    """The norm lag times φ(1): of any activation."""
    x, scale = sp.symbols("x S", positive=True)
    # ṙ at u = 1 is 4r(a − r)φ(1); φ(1) stays a symbol so that the integral is exact for any activation.
    aligned = sp.factor(_lone_norm_rate().subs({u: 1, r0: x}).replace(Dual, lambda at, order: scale))
    antiderivative = _real_logarithms(sp.integrate(sp.apart(sp.cancel(scale / aligned), x), x), x)
    span = antiderivative.subs(x, (1 - eps) * a) - antiderivative.subs(x, r0)
    return sp.simplify(sp.expand_log(span, force=True))


def _with_factor(rate: sp.Expr) -> sp.Expr:
    """The rate of any kernel written with its factor 1 − u² in front, as one reads it."""
    return sp.cancel(rate / (1 - u**2)) * (1 - u**2)


def _real_logarithms(expression: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    """SymPy integrates 1/(x − 1) to log(x − 1); inside (0, 1), or (0, a), the real branch is log(1 − x)."""
    small = {symbol: sp.Rational(1, 2) if symbol == variable else 1 for symbol in expression.free_symbols}
    return expression.replace(sp.log, lambda x: sp.log(-x) if x.subs(small) < 0 else sp.log(x))


def _at_point(expression: sp.Expr) -> sp.Expr:
    """The expression at one exact rational point, to 40 digits: zero there only if the identity holds."""
    return sp.N(sp.sympify(expression).subs(_POINT), 50)
