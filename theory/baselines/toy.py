r"""Toy losses of one number: when a plateau ends sharply, and when it does not.

$L(w)=(w_*-w^k)^2$ (``power``) and $L(w_1,\dots,w_k)=(w_*-w_1\cdots w_k)^2$ (``product``), gradient flow $\dot w=-\partial
L/\partial w$ from a small start (slides of arXiv:2504.19983; no ½ in this loss, so its own time). With $x=w/w_*^{1/k}$ the
power loss reaches $w^k=qw_*$ at
$$t(q)=\frac{w_*^{2/k-2}}{2k}\int_{x_0}^{q^{1/k}}\frac{dx}{x^{k-1}(1-x^k)},$$
and its sharpness is $S=(t_{90\%}-t_{10\%})/t_{50\%}$: $\ln9/\ln2$ for k = 1, $\ln81/\ln(x_0^{-2}-1)$ for k = 2, and
$\propto x_0^{k-2}$ for k ≥ 3. Products conserve $w_i^2-w_j^2$; from a balanced start all factors stay equal and run through
the power loss k times as slowly, with the same sharpness. From unequal starts $s_i$ all squares grow by the same v,
$\dot v=4(w_*-p)p$ with $p(v)=\prod_i\sqrt{s_i^2+v}$, so
$$t(q)=\int_0^{v(q)}\frac{dv}{4(w_*-p)p},\qquad p(v(q))=qw_*:$$
a factor that starts at the size of the goal multiplies the speed and adds nothing to the plateau, and k of them that start
small behave as a product of k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import mpmath
import numpy as np
import scipy
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_one_of, check_positive, is_whole
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.indexed import Index, Sums, Term, collect
from theory.core.indexed import k as start_index
from theory.core.system import System

REFERENCE = "slides of arXiv:2504.19983 (toy losses); exact times and sharpness derived"
TIME_UNIT = "time of the flow −∂L/∂w of the toy loss, which has no ½"
SHAPES = ("power", "product")
#: Shares of the goal between which a transition's width is measured.
_WINDOW = 0.1, 0.9
#: Largest exponent: beyond it a start of 0.01 leaves its plateau after more than 1e15 units of time.
MAX_EXPONENT = 10
target = sp.Symbol("W", positive=True)
x, x0, w = sp.symbols("x x_0 w", positive=True)
_POINT = {x: sp.Rational(2, 5), w: sp.Rational(3, 7), target: sp.Rational(5, 4)}
_FACTORS = sp.symbols(f"w1:{MAX_EXPONENT + 1}", positive=True)


@dataclass(frozen=True)
class Toy:
    r"""One toy loss. Raises `InputError` for an exponent outside 1 … 10 or an unknown shape.

    Attributes:
        exponent: k. shape: ``power``, one variable to the k-th power, or ``product`` of k variables.
    """

    exponent: int
    shape: str = "power"

    def __post_init__(self) -> None:
        if not (is_whole(self.exponent) and 1 <= self.exponent <= MAX_EXPONENT):
            raise InputError(f"exponent is {self.exponent!r}: give a whole number from 1 to {MAX_EXPONENT}")
        check_one_of(SHAPES, shape=self.shape)

    @property
    def variables(self) -> tuple[sp.Symbol, ...]:
        return (w,) if self.shape == "power" else _FACTORS[: self.exponent]

    @property
    def fitted(self) -> sp.Expr:
        r"""What is compared with $w_*$: $w^k$, or the product."""
        return sp.Pow(w, self.exponent) if self.shape == "power" else sp.Mul(*self.variables)

    @property
    def loss(self) -> sp.Expr:
        return (target - self.fitted) ** 2

    @cached_property
    def rates(self) -> tuple[sp.Expr, ...]:
        r"""$-\partial L/\partial w$ for each variable."""
        return tuple(-sp.diff(self.loss, variable) for variable in self.variables)

    @cached_property
    def speed(self) -> sp.Expr:
        r"""$\dot x$ at $w=w_*^{1/k}x$, all variables equal."""
        k = self.exponent
        scale = target ** sp.Rational(1, k)
        return sp.powsimp(sp.expand(self.rates[0].subs(dict.fromkeys(self.variables, scale * x)) / scale), force=True)

    @cached_property
    def integrand(self) -> sp.Expr:
        r"""$\propto dt/dx$: $1/(x^{k-1}(1-x^k))$, from the derived speed."""
        return sp.cancel(sp.simplify(self.unit / self.speed))

    @property
    def unit(self) -> sp.Expr:
        r"""$\dot x$ over $x^{k-1}(1-x^k)$: $2kw_*^{2-2/k}$, a k-th of it for the balanced product."""
        small = sp.Symbol("epsilon", positive=True)  # the lowest power of x in the speed
        return sp.limit(self.speed.subs(x, small) / small ** (self.exponent - 1), small, 0)

    # ----------------------------------------------------------------- exact times

    def antiderivative(self) -> sp.Expr:
        r"""$\int dx/(x^{k-1}(1-x^k))$ in elementary functions, by partial fractions; k ≤ 4 (else quadrature)."""
        if self.exponent > 4:
            raise InputError(f"exponent is {self.exponent}: the closed form is given up to 4, use passage_time")
        found = sp.integrate(sp.apart(self.integrand, x), x)
        # The real branch on (0, 1).
        return found.replace(sp.log, lambda y: sp.log(-y) if y.subs(x, sp.Rational(1, 2)) < 0 else sp.log(y))

    def passage_time(self, start: float, level: float, goal: float = 1.0) -> float:
        r"""Time from $w=$ `start` (all factors equal) to $w^k=$ level·goal, by quadrature; 0 if already there.

        Args: start > 0; level in (0, 1); goal: $w_*$ > 0.
        """
        self._check_numbers(start, level, goal)
        return self._between(start, 0.0, level, goal)

    def _between(self, start: float, low: float, high: float, goal: float) -> float:
        """Time from the share `low` of the goal to `high`, of what is beyond the start; 0 if that is nothing."""
        k = self.exponent
        begin, end = max(start / goal ** (1 / k), low ** (1 / k)), high ** (1 / k)
        if begin >= end:
            return 0.0
        unit = float(self.unit.subs(target, goal))
        # In s = ln x the integrand is smooth and of one scale at a time.
        value, _ = scipy.integrate.quad(
            lambda s: np.exp(-(k - 2) * s) / -np.expm1(k * s), np.log(begin), np.log(end), epsrel=1e-12, limit=500
        )
        return float(value) / unit

    def sharpness(self, start: float, goal: float = 1.0) -> float:
        r"""$S=(t_{90\%}-t_{10\%})/t_{50\%}$ from all factors at `start`. Raises `InputError` from above half the goal.

        The window is an integral of its own: beside a long plateau the difference of two times would be rounding.
        """
        half = self.passage_time(start, 0.5, goal)
        if half == 0:
            raise InputError(f"start is {start!r}: it is beyond half the goal {goal:g}, give a smaller one")
        return self._between(start, *_WINDOW, goal) / half

    def leading_sharpness(self, start: float, goal: float = 1.0) -> float:
        r"""S as $w_0\to0$: $\ln9/\ln2$ (k = 1), $\ln9/\ln(1/x_0)$ (k = 2), $(k-2)C_kx_0^{k-2}$, $C_k$ from 10 to 90 %."""
        self._check_numbers(start, 0.5, goal)
        k, begin = self.exponent, start / goal ** (1 / self.exponent)
        if k == 1:
            return float(np.log(9) / np.log(2))
        if k == 2:
            return float(np.log(9) / np.log(1 / begin))
        return (k - 2) * self._between(0.0, *_WINDOW, 1.0) * float(self.unit.subs(target, 1)) * begin ** (k - 2)

    @staticmethod
    def _check_numbers(start: float, level: float, goal: float) -> None:
        check_positive(start=start, goal=goal)
        if not 0 < level < 1:
            raise InputError(f"level is {level!r}: give a share of the goal between 0 and 1")

    def product_time(self, starts: Sequence[float], level: float, goal: float = 1.0) -> float:
        r"""Time of a product's flow from factors at `starts` (k,) to the share `level` of the goal; 0 if already there.

        Raises `InputError` for a power loss, another number of starts, and numbers out of range.
        """
        if self.shape != "product" or len(starts) != self.exponent:
            raise InputError(f"starts has {len(starts)} numbers: give one for each of a product's factors")
        for start in starts:
            self._check_numbers(start, level, goal)
        return self._product_between(starts, 0.0, level, goal)

    def _product_between(self, starts: Sequence[float], low: float, high: float, goal: float) -> float:
        """`_between` of a product from factors at `starts`, in the clock of the logarithm of their least square."""
        squares, least = np.square(starts), min(starts) ** 2

        def fitted(log_square: float) -> float:
            """The product where the least square is e^log_square."""
            return float(np.sqrt(np.prod(squares + (np.exp(log_square) - least))))

        first = np.log(least)

        def reached(level: float) -> float:
            """Where the product is this share of the goal; the start, if it is beyond."""
            share = level * goal / fitted(first)
            if share <= 1:
                return float(first)
            # Every square grows, so that of the least is below what it would need if all others stayed.
            # (A little more, since one factor needs just that.)
            last = first + 2 * np.log(share) + 1e-9
            return float(scipy.optimize.brentq(lambda y: np.log(fitted(y) / (level * goal)), first, last, xtol=1e-14))

        def rate(y: float) -> float:
            return float(np.exp(y) / (4 * (goal - fitted(y)) * fitted(y)))

        return float(scipy.integrate.quad(rate, reached(low), reached(high), epsrel=1e-12, limit=500)[0])

    def product_sharpness(self, starts: Sequence[float], goal: float = 1.0) -> float:
        r"""$S=(t_{90\%}-t_{10\%})/t_{50\%}$ from factors at `starts` (k,). Raises `InputError`, as for `product_time`."""
        half = self.product_time(starts, 0.5, goal)
        if half == 0:
            raise InputError(f"starts reach half the goal {goal:g}: give smaller ones")
        return self._product_between(starts, *_WINDOW, goal) / half

    # ------------------------------------------------------------------- the system

    def system(self) -> System:
        """The flow as a `System`: state arrays ``w`` (or ``w1`` … ``wk``) over independent starts, parameter ``W``.

        Observable ``loss``: summed over the starts.
        """
        indexed = {variable: sp.IndexedBase(variable.name)[start_index] for variable in self.variables}

        def sums(body: sp.Expr, *bound: Index) -> Sums:
            return collect([Term(sp.expand(body).xreplace(indexed), bound)])

        drift = {indexed[variable]: sums(rate) for variable, rate in zip(self.variables, self.rates, strict=True)}
        return System(
            name=f"toy-{self.shape}-{self.exponent}",
            activation=None,
            drift=drift,
            observables={"loss": sums(self.loss, start_index)},
            parameters=(target.name,),
            derivation=self.derivation(),
            time_unit=TIME_UNIT,
            limit="gradient flow",
        )

    def derivation(self) -> Derivation:
        """Flow, exact time and, for products, conserved quantities."""
        names = [rf"\dot {sp.latex(variable)}" for variable in self.variables]
        steps = [Step("Loss", equation("L", self.loss))]
        steps += [
            Step(
                f"Gradient flow of the {self.shape} loss",
                equation(name, sp.factor(rate)),
                partial(self._difference_quotient, variable),
                1e-20,
            )
            for name, variable, rate in zip(names, self.variables, self.rates, strict=True)
        ]
        equations = {name: sp.factor(rate) for name, rate in zip(names, self.rates, strict=True)}
        if len(self.variables) > 1:
            one, other = self.variables[:2]
            steps.append(
                Step(
                    "Differences of squares are conserved, so a balanced start stays balanced",
                    equation(r"\mathrm{const}", one**2 - other**2),
                    lambda shown: sp.expand(
                        sum(sp.diff(shown, w) * rate for w, rate in zip(self.variables, self.rates, strict=True))
                    ),
                )
            )
        steps += self._time_steps()
        equations[r"\dot x"] = sp.factor(self.speed)
        assumptions = [Assumption("start above 0 and below the goal")]
        if self.shape == "product":
            assumptions.append(Assumption("exact times: all factors equal at the start"))
        return Derivation("toy", tuple(steps), equations, tuple(assumptions), REFERENCE)

    def _time_steps(self) -> list[Step]:
        k = self.exponent
        integral = sp.Integral(self.integrand, (x, x0, sp.Symbol("q") ** sp.Rational(1, k))) / self.unit
        steps = [
            Step(
                "In units of the goal, all variables equal",
                equation(r"\dot x", sp.factor(self.speed)),
                lambda shown: sp.simplify((shown - self.unit * x ** (k - 1) * (1 - x**k)).subs(_POINT)),
            ),
            Step("Time to the share q of the goal", equation("t(q)", integral)),
        ]
        if k <= 4:
            closed = self.antiderivative()
            steps.append(
                Step(
                    "The integral in closed form",
                    equation(sp.Integral(self.integrand, x), closed),
                    partial(_quadrature_residual, self.integrand),
                )
            )
        return steps

    def _difference_quotient(self, variable: sp.Symbol, shown: sp.Expr) -> sp.Expr:
        """A rate against central differences of the loss at a rational point, to 40 digits."""
        values = {variable: sp.Rational(2 + place, 7) for place, variable in enumerate(self.variables)}
        values[target] = sp.Rational(5, 4)
        step = sp.Rational(1, 10**15)
        ends = [self.loss.subs(values | {variable: values[variable] + sign * step}) for sign in (1, -1)]
        return sp.N((ends[0] - ends[1]) / (2 * step) + shown.subs(values), 50)


def _quadrature_residual(integrand: sp.Expr, closed: sp.Expr) -> sp.Expr:
    """Closed form against mpmath's quadrature between two points."""
    ends = sp.Rational(1, 5), sp.Rational(4, 5)
    difference = sp.N(closed.subs(x, ends[1]) - closed.subs(x, ends[0]), 45)
    with mpmath.workdps(50):
        number = mpmath.quad(sp.lambdify(x, integrand, "mpmath"), [mpmath.mpf(1) / 5, 0.5, mpmath.mpf(4) / 5])
        return difference - sp.Float(number, 45)


def derivation(activation: Activation) -> Derivation:
    """``derive toy``: both toy losses at the activation's information exponent k, one derivation after the other.

    Near zero overlap $\\dot u\\propto u^{k-1}$ in the additive model as in the toy: the exponent is what they share.
    """
    exponent = activation.information_exponent
    if exponent == 1:
        return Toy(1).derivation()
    power, product = Toy(exponent).derivation(), Toy(exponent, "product").derivation()
    equations = power.equations | {name: value for name, value in product.equations.items() if name != r"\dot x"}
    equations[r"\dot x_{product}"] = product.equations[r"\dot x"]
    assumptions = dict.fromkeys([*power.assumptions, *product.assumptions])
    return Derivation("toy", (*power.steps, *product.steps), equations, tuple(assumptions), REFERENCE)
