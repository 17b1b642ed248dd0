r"""The least error that any estimator can have: the Bayes-optimal floor of the additive teacher in n/d.

$y=\sum_pa_ph_J(\langle w_p,x\rangle)+\sqrt\Delta\,\xi$, $x\sim N(0,I)$, independent $w_p\sim N(0,I/d)$, $n=\alpha d$ samples,
$d\to\infty$. A direction is known up to an overlap $q_p=\langle w_p,\hat w_p\rangle$, and the q maximise the free
entropy

$$\mathcal F=\sum_p\tfrac12[q_p+\ln(1-q_p)]-\tfrac\alpha2\ln\Delta_e,\qquad
\Delta_e=\Delta+\varepsilon,\quad\varepsilon=\sum_pa_p^2(1-q_p^J),$$

where what is not explained acts as noise: right as long as each direction is weak, $a_p^2\ll\Delta_e$, where it is decided.
ε is the mean squared error of the noiseless output, twice the loss. Since $-\ln\Delta_e=\max_v(\ln v-v\Delta_e+1)$, at its
maximum $v=1/\Delta_e$ each direction is a channel of its own, of signal $s_p=\alpha a_p^2/\Delta_e$, in which q maximises
$\tfrac12[q+\ln(1-q)+sq^J]$: the spiked tensor of order J.

Sources: arXiv:2605.10395 (the additive teacher), arXiv:1701.08010 (the channel); constants of the power law derived.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
import scipy
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_positive, check_whole
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.power_sums import power_sum
from theory.scaling.bayes_phases import phases
from theory.scaling.ideal_loss import beta, tail
from theory.scaling.ideal_loss import learned as directions

REFERENCE = "arXiv:2605.10395; constants of the power law derived"

q, s, alpha, a, noise, others, x = sp.symbols("q s alpha a Delta Q x", positive=True)
#: Of one direction: overlap, what it leaves of the weight, and the noise that all see.
ENTROPY = (q + sp.log(1 - q)) / 2
#: Steps of Newton's method for overlaps, and the one that is no step.
_NEWTON, _SETTLED = 100, 1e-15
#: Directions of a power law that are looked at one by one.
_EXPLICIT = 10**5


_entropy = sp.lambdify(q, ENTROPY, modules="numpy")


def free_entropy(effective: sp.Expr) -> sp.Expr:
    r"""$\tfrac12[q+\ln(1-q)]-\tfrac\alpha2\ln\Delta_e$ of one direction."""
    return ENTROPY - alpha / 2 * sp.log(effective)


@dataclass(frozen=True)
class Channel:
    r"""One direction of signal $s=\alpha a^2/\Delta_e$, of link $h_J$.

    Attributes:
        degree: J ≥ 2. Below, nothing has to be found first: without a threshold.

    Raises `InputError` for another degree.
    """

    degree: int

    def __post_init__(self) -> None:
        check_whole(2, degree=self.degree)

    @classmethod
    def of(cls, activation: Activation) -> "Channel":
        r"""Of the link $ch_J$; $|c|$ is a factor of all weights, and the sign of all labels tells nothing.

        Raises `InputError` for a mixture of degrees, and for degree 1.
        """
        degree = activation.information_exponent
        mixed = list(activation.coefficients) != [degree]
        if mixed or degree < 2:
            what = "no multiple of one Hermite polynomial" if mixed else f"of degree {degree}"
            raise InputError(
                f"activation is {activation.name!r}, {what}: the floor is known for a Hermite polynomial of degree 2 or more; "
                "use one such as h4"
            )
        return cls(degree)

    @property
    def left(self) -> sp.Expr:
        r"""$1-q^J$: what a direction known up to q leaves of its weight $a^2$."""
        return 1 - q**self.degree

    @cached_property
    def signal(self) -> sp.Expr:
        r"""$s(q)=q^{2-J}/(J(1-q))$, at which q is stationary: the derivative of the free entropy, solved."""
        effective = noise + others + a**2 * self.left
        slope = sp.diff(free_entropy(effective), q).subs(alpha, s * effective / a**2)
        return sp.factor(sp.solve(slope, s)[0])

    @cached_property
    def gain(self) -> sp.Expr:
        r"""$\tfrac12[q+\ln(1-q)+sq^J]$: the free entropy over that at q = 0, the noise $1/v=\Delta_e$ given."""
        explained = -s / 2 * (self.left - self.left.subs(q, 0))
        return ENTROPY + explained

    @cached_property
    def spinodal(self) -> tuple[sp.Expr, sp.Expr]:
        r"""s and q from which on a second maximum exists, $q=\tfrac{J-2}{J-1}$: the least s(q)."""
        found = sp.solve(sp.numer(sp.cancel(sp.diff(self.signal, q))), q)
        least = found[0] if found else sp.Integer(0)  # for J = 2 the overlap rises from 0
        return self.signal.subs(q, least), least

    @cached_property
    def threshold(self) -> tuple[float, float]:
        """s and q from which on the second maximum is the higher one: a Bayes-optimal estimator finds the direction."""
        begin, least = (float(value) for value in self.spinodal)
        if least == 0:
            return begin, least
        at = sp.lambdify(q, self.gain.subs(s, self.signal), modules="numpy")
        found = float(scipy.optimize.brentq(at, least, 1 - 1e-12, xtol=1e-15, rtol=1e-14))
        return float(self._signal(found)), found

    @cached_property
    def _signal(self) -> Callable:
        return sp.lambdify(q, self.signal, modules="numpy")

    @cached_property
    def found_from(self) -> float:
        """Signal from which on the direction is found."""
        return self.threshold[0]

    @cached_property
    def _inverse(self) -> tuple[Callable, Callable]:
        """1/s(q) and its derivative."""
        inverse = sp.expand(sp.cancel(1 / self.signal))
        return sp.lambdify(q, inverse, modules="numpy"), sp.lambdify(q, sp.diff(inverse, q), modules="numpy")

    def overlap(self, signal: np.ndarray) -> np.ndarray:
        """q of the maximum, 0 below the threshold; shape of `signal`.

        By Newton's method from q = 1: above the spinodal 1/s(q) falls and is concave, so that every step falls short of q.
        """
        strength = np.asarray(signal, dtype=float)
        found = strength > self.found_from
        goal, at = 1 / strength[found], np.ones(np.count_nonzero(found))
        value, slope = self._inverse
        for _ in range(_NEWTON):
            move = (value(at) - goal) / slope(at)
            at = at - move
            if not np.any(move > _SETTLED):
                break
        overlaps = np.zeros(strength.shape)
        overlaps[found] = at
        return overlaps


@dataclass(frozen=True, eq=False)
class BayesFloor:
    r"""Bayes-optimal error of one teacher.

    Attributes:
        channel: of the link. squares: $a_p^2$, (P,), the largest first. noise: Δ. beyond: Σ a_p² of directions that are too
            weak to be found, and not listed.

    Raises `InputError` for squares that do not fall, or a noise that is not positive.
    """

    channel: Channel
    squares: np.ndarray
    noise: float = 1.0
    beyond: float = 0.0

    def __post_init__(self) -> None:
        check_positive(noise=self.noise)
        if not (np.all(np.diff(self.squares) <= 0) and np.all(self.squares > 0)):
            raise InputError("squares of the weights are not positive, or rise: give them largest first")

    @classmethod
    def power_law(cls, degree: int, decay: float, teachers: float = np.inf, noise: float = 1.0) -> "BayesFloor":
        r"""$a_p=p^{-\beta}/Z$, $\sum a_p^2=1$; `teachers` P may be inf for β > ½. Raises `InputError`."""
        check_positive(decay=decay)
        norm2 = float(power_sum(2 * decay, 0, teachers))
        listed = int(min(teachers, _EXPLICIT))
        squares = np.arange(1, listed + 1.0) ** (-2 * decay) / norm2
        return cls(Channel(degree), squares, noise, float(power_sum(2 * decay, listed, teachers)) / norm2)

    def overlaps(self, samples: float) -> np.ndarray:
        """q_p at n/d = `samples`, (P,)."""
        return self._overlaps(samples, self.error(samples))

    def learned(self, samples: float) -> int:
        """Directions that are found."""
        return int(np.count_nonzero(self.overlaps(samples)))

    def error(self, samples: float) -> float:
        r"""ε at n/d = `samples`: where it reproduces itself, $\varepsilon=\sum a_p^2(1-q_p^J)$.

        Of several such errors (`theory.scaling.bayes_phases`) the one of the highest free entropy; 0 where noise is lost to
        rounding and there are more samples than unknown numbers.
        Raises `InputError` unless `samples` is positive, and where directions beyond the listed ones would be found.
        """
        check_positive(samples=samples)
        end = (float(self.squares.sum()) + self.beyond) * (1 + 1e-9)  # (all of it is left where nothing is found)
        jumps = samples * self.squares / self.channel.found_from - self.noise

        def left(error: float) -> float:
            return self._left(self._overlaps(samples, error))

        found = phases(left, jumps, self.noise, end)
        if left(0.0) <= 0 and (not found or samples > np.count_nonzero(self._overlaps(samples, 0.0))):
            # Noise is lost to rounding. Then all is found exactly from one sample for each unknown number on: the free
            # entropy is ½(n/d − k) ln(1/Δ) of k directions.
            return 0.0
        best = max(found, key=partial(self._free_entropy, samples))
        if self.beyond and self._overlaps(samples, best)[-1] > 0:
            raise InputError(f"samples is {samples:g}: more than the {len(self.squares)} listed directions are found")
        return float(best)

    def _overlaps(self, samples: float, error: float) -> np.ndarray:
        return self.channel.overlap(samples * self.squares / (self.noise + error))

    def _left(self, overlaps: np.ndarray) -> float:
        return float(self.squares @ self._kept(overlaps)) + self.beyond

    @cached_property
    def _kept(self) -> Callable:
        return sp.lambdify(q, self.channel.left, modules="numpy")

    def _free_entropy(self, samples: float, error: float) -> float:
        return float(_entropy(self._overlaps(samples, error)).sum() - samples / 2 * np.log(self.noise + error))


# ------------------------------------------------------------------------ many directions of a power law


#: Z², the sum of the squared weights.
norm2 = sp.Symbol("Z2", positive=True)


def learned() -> sp.Expr:
    r"""$k=(\alpha/(s_B\Delta Z^2))^{1/(2\beta)}$ of $a_p=p^{-\beta}/Z$ are above the threshold s; $\Delta_e\to\Delta$."""
    return sp.solve(sp.Eq(alpha * directions ** (-2 * beta) / (norm2 * noise), s), directions)[0]


def exponent() -> sp.Expr:
    r"""$\tfrac1{2\beta}-1$ of ε in α: as many directions are found, each at an error ∝ 1/α."""
    return sp.simplify(alpha * sp.diff(sp.log(learned() / alpha), alpha))


def constant(channel: Channel, decay: float) -> float:
    r"""$\lim\varepsilon\alpha/(\Delta k)=s_B[\int_0^1x^{-2\beta}(1-q(s_Bx^{-2\beta})^J)dx+\tfrac1{2\beta-1}]$, $x=p/k$.

    Integrated over $y=(1-q)^{1/2\beta}$ with x from s(q): nothing is singular where $s\to\infty$, $q\to1$. Raises `InputError`
    for β ≤ ½, where most of the error is never explained.
    """
    _above_half(decay)
    begin, least = channel.threshold
    power = 1 / (2 * decay)
    kept, signal, rate = _at_the_end(channel)

    def found(y: float) -> float:
        left = y ** (2 * decay)
        return float(kept(left) * signal(left) ** (1 - power) * rate(left) * begin**power)

    whole, _ = scipy.integrate.quad(found, 0, (1 - least) ** power, epsabs=0, epsrel=1e-13, limit=200)
    return float(whole) + begin / (2 * decay - 1)


def _at_the_end(channel: Channel) -> tuple[Callable, ...]:
    r"""$(1-q^J)/u$, $su$ and $u\,d\ln s/dq=-2\beta u\,d\ln x/dq$ in u = 1 − q, where they are finite."""
    u = sp.Symbol("u", positive=True)
    slope = sp.diff(channel.signal, q) / channel.signal
    shown = (channel.left / u, channel.signal * u, slope * u)
    return tuple(sp.lambdify(u, sp.cancel(one.subs(q, 1 - u)), "math") for one in shown)


@cache
def quadratic_constant() -> sp.Expr:
    r"""The same for J = 2, in β: $1-\tfrac1{2(2\beta+1)}+\tfrac1{2(2\beta-1)}$."""
    channel = Channel(2)
    begin = channel.spinodal[0]
    at = sp.solve(sp.Eq(channel.signal, begin * x ** (-2 * beta)), q)[0]
    kept = sp.expand(x ** (-2 * beta) * channel.left.subs(q, at))
    return begin * (sp.integrate(sp.powsimp(kept), (x, 0, 1)) + 1 / (2 * beta - 1))


def _above_half(decay: float) -> None:
    if not decay > 0.5:
        raise InputError(f"decay is {decay:g}: give one above one half, else most of the error is in the tail")


# ------------------------------------------------------------------------------------- the derivation


def derivation(activation: Activation) -> Derivation:
    """``derive bayes-floor``. Raises `InputError` unless the link is a multiple of a Hermite polynomial $h_J$, J ≥ 2; then a
    is the weight of $h_J$ itself.
    """
    channel = Channel.of(activation)
    spinodal, least = channel.spinodal
    shown = {"s(q)": channel.signal, "s_{sp}": spinodal, "q_{sp}": least, r"\gamma_n": exponent()}
    residuals: tuple[Callable[[sp.Basic], sp.Expr], ...] = (
        partial(_fixed_point_residual, channel),
        partial(_spinodal_residual, channel),
        partial(_least_residual, channel),
        _exponent_residual,
    )
    titles = (
        "The free entropy is stationary at the signal s = αa²/Δ_e",
        "Spinodal: the least signal at which a direction can be known",
        "The overlap there",
        "Power-law weights: exponent of the error in n",
    )
    steps = [
        Step(
            "Free entropy of one direction, the others' error given",
            equation(r"{\mathcal F}", free_entropy(noise + others + a**2 * channel.left)),
        ),
        *(
            Step(title, equation(name, value), residual)
            for title, (name, value), residual in zip(titles, shown.items(), residuals, strict=True)
        ),
    ]
    if channel.degree == 2:
        name, value = r"\lim\varepsilon\alpha/(\Delta k)", quadratic_constant()
        steps.append(Step("Its constant, k directions found", equation(name, value), _constant_residual, 1e-14))
        shown[name] = value
    assumptions = (
        Assumption("n and d to infinity at n/d = α; independent Gaussian directions"),
        Assumption("each direction weak where it is found: a² ≪ Δ_e"),
        Assumption("β > ½ for the power law"),
    )
    return Derivation("bayes-floor", tuple(steps), shown, assumptions, REFERENCE)


def _fixed_point_residual(channel: Channel, shown: sp.Expr) -> sp.Expr:
    """The free entropy of two directions, by central differences in the first overlap, at the signal that is shown."""
    other, weights, size = sp.Rational(3, 10), (sp.Rational(1, 5), sp.Rational(1, 7)), sp.Rational(1, 10**20)
    at = sp.Rational(9, 10)
    left = channel.left

    def effective(first: sp.Expr) -> sp.Expr:
        return 1 + weights[0] ** 2 * left.subs(q, first) + weights[1] ** 2 * left.subs(q, other)

    samples = shown.subs(q, at) * effective(at) / weights[0] ** 2
    high, low = (ENTROPY.subs(q, first) - samples / 2 * sp.log(effective(first)) for first in (at + size, at - size))
    return sp.N(high - low, 80) / (2 * size)


def _least_residual(channel: Channel, shown: sp.Expr) -> sp.Expr:
    """Signals on both sides, equally far, differ by a third order only; for J = 2 the least one is at the end."""
    if channel.degree == 2:
        return shown
    size = sp.Rational(1, 10**20)
    high, low = (channel.signal.subs(q, shown + way * size) for way in (1, -1))
    return sp.N(high - low, 80) / (2 * size)


def _spinodal_residual(channel: Channel, shown: sp.Expr) -> sp.Expr:
    r"""$(J-1)^{J-1}/(J(J-2)^{J-2})$, of the spiked tensor."""
    J = sp.Integer(channel.degree)
    return shown - (J - 1) ** (J - 1) / (J * (J - 2) ** (J - 2))


def _exponent_residual(shown: sp.Expr) -> sp.Expr:
    """Counted at β = 4/5: 2⁸ times the samples find 2⁵ times the directions, and leave what is beyond these."""
    decay, times = sp.Rational(4, 5), 2**8
    ratio = tail().subs({beta: decay, directions: 2**5}) / tail().subs({beta: decay, directions: 1})
    return sp.N(sp.log(ratio) / sp.log(times) - shown.subs(beta, decay), 50)


def _constant_residual(shown: sp.Expr) -> float:
    return float(shown.subs(beta, sp.Rational(4, 5))) - constant(Channel(2), 0.8)
