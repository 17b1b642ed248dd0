r"""Random features of power-law inputs, their deterministic equivalent, and the phases of the compute-optimal risk.

Inputs $g\sim N(0,I_v)$, features $x=W^\top D^{1/2}g$, $D=\mathrm{diag}(j^{-2\alpha})$, $W_{jk}\sim N(0,1/d)$, target
$\langle b,D^{1/2}g\rangle$ with $b_j=j^{-\beta}$ (arXiv:2405.15074). What the features cannot express is Gaussian and
independent of them, so that this is *exactly* the linear model of spectrum $S=W^\top DW$ with $w^*=S^{-1}W^\top Db$ and label
noise of variance $\sigma^2=b^\top Db-w^{*\top}Sw^*$, the least risk (derived).

*Deterministic equivalent* (arXiv:2405.15074; its error in averages is of order 1/d, `RandomFeatures.width_error`):
$D^{1/2}WW^\top D^{1/2}$ has the resolvent $\mathrm{diag}(1/(j^{-2\alpha}m-z))$ with

$$m(z)=\Big(1+\frac1d\sum_j\frac{j^{-2\alpha}}{j^{-2\alpha}m(z)-z}\Big)^{-1}.$$

An integral around the positive spectrum, taken at points on the curve, makes a linear model of it whose eigenvalues and
weights are complex: no random matrix is drawn, no v is too large.

*Phases* (2α + 2β > 1). With step sizes $\eta\asymp1/\mathrm{Tr}D$, constant for 2α > 1 and $d^{2\alpha-1}$ for
2α < 1 and v in proportion to d, let τ = ηr after r samples. The excess risk is a sum of four terms:
$F_0\asymp d^{-2\alpha+(1-2\beta)_+}$, what the features cannot express; $F_{pp}\asymp\tau^{-\rho/2\alpha}$,
$\rho=2\alpha+2\beta-1$, the signal; $F_{ac}\asymp d^{-1}\tau^{-1+1/2\alpha}$ for β > ½, the features' distortion (below
$F_0$ for 2α < 1); $K_{pp}\asymp\eta\,\tau^{-2+1/2\alpha}$, noise of SGD (below $F_{pp}$ for 2α < 1 and β < ½). At compute
f = rd the best width balances two of them: for 2α > 1 in phases I (β < ½), II (½ < β < α), III (β > α); for 2α < 1 in
Ib (β < ½), Ic (α < ¼ < ½ < β), IVb (¼ < α < 1 − 1/√2) and IVa above.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core.arguments import check_one_of, check_positive, check_whole
from theory.core.errors import InputError
from theory.core.quadrature import gauss_legendre
from theory.core.streams import stream
from theory.declared import linear_model as exact
from theory.declared.linear_model import LinearModel
from theory.declared.linear_stability import modes

#: A risk at any steps, or compute, in their shape.
Curve = Callable[[ArrayLike], np.ndarray]

#: Terms summed one by one; Gauss–Legendre in ln j beyond, this many panels per unit with these many points.
_FIRST, _PANELS, _POINTS = 150, 2, 8
#: From where on all of infinite v have little variance; v − d at least, in roundings of a sum over v.
_FAR, _ROOM = 1e16, 10
#: Beyond, units of ln j in a panel, and in how many the rest of Tr D falls by this many powers of e; the last that is summed.
_WIDE, _POWERS, _LAST = 8.0, 40.0, 1e300
#: Height of the curve around the spectrum in ln z; points per unit of ln z; what its number and trace may be off by.
_HEIGHT, _DENSITY, _MISSED = 0.8, 50, 1e-6
#: The same around the decays of the risk: begins at this share of the smallest.
_OUTER, _OUTER_HEIGHT = 0.3, 1.2
#: Of ln z, the path to the curve; Newton's steps at a point at most.
_FAR_OUT, _NEWTON = np.arange(60, 0, -1) / 10, 30
#: Share of the W that may be unstable.
_RARE = 1e-4


@dataclass(frozen=True)
class RandomFeatures:
    r"""Attributes: alpha, beta: decays of $D^{1/2}$ and b. width: d. hidden: v, inf for as many as there are.

    Raises `InputError` unless 2α > 1 or v is finite (so that the trace is), α, β > 0, and the width is below v, both whole.
    """

    alpha: float
    beta: float
    width: int
    hidden: float = np.inf

    def __post_init__(self) -> None:
        check_positive(alpha=self.alpha, beta=self.beta)
        check_whole(width=self.width)
        if not (self.alpha > 0.5 or np.isfinite(self.hidden)):
            raise InputError(
                f"alpha is {self.alpha:g}: up to one half it takes a finite hidden for the variance to be finite; give one"
            )
        if self.hidden != np.floor(self.hidden):
            raise InputError(f"hidden is {self.hidden!r}: give a whole number, or inf for as many as there are")
        if not self.width < self.hidden:
            raise InputError(
                f"width is {self.width}, hidden {self.hidden:g}: take fewer features than hidden coordinates"
            )

    @property
    def trace(self) -> float:
        """Tr D, the mean of Tr S."""
        j, weights = _coordinates(self.hidden, self.alpha)
        return float(weights @ j ** (-2 * self.alpha))

    @cached_property
    def support(self) -> tuple[float, float]:
        r"""Ends of the equivalent's positive spectrum: where $z(s)=-\frac1s+\frac1d\sum_j\frac{D_j}{1+D_js}$ turns.

        (Silverstein and Choi 1995.) $z'=0$ is $\sum_jq_j^2=d$, $q_j=D_js/(1+D_js)$: once below the spectrum, s = y > 0, and
        once above it, s = −y/(1 + y). There $z=\frac1d\sum_jD_j/(1+D_js)^2$.

        The lower end is off by a share of up to 2δ/(v − d), where δ = εv ln v is what rounding (ε) costs a sum over v.
        Raises `InputError` for v − d below 10δ: from v ≈ 10¹³ on for v = d + 1, and for d ≈ 10¹⁶ at any v.
        """
        self._check_room()
        j, weights = _coordinates(self.hidden, self.alpha)
        d, variance = self.width, j ** (-2 * self.alpha)
        below, above = self._inverse(variance, 2), self._inverse(1 - variance, 2)
        low, high = below / (below + variance), (above + 1) / (above + 1 - variance)
        return float(weights @ (variance * low**2) / d), float(weights @ (variance * high**2) / d)

    def _check_room(self) -> None:
        last = min(self.hidden, _FAR)
        room = _ROOM * np.finfo(float).eps * last * np.log(last)
        if last - self.width < room:
            raise InputError(
                f"width is {self.width}, hidden {self.hidden - self.width:g} more: double precision needs {room:.2g} more "
                f"among {last:g} to tell them apart; take fewer features"
            )

    def _inverse(self, rest: np.ndarray, power: int) -> float:
        r"""1/y where $\sum_jq_j^{power}=d$, $q_j=D_j/(1/y+\text{rest}_j)$; rest: D or 1 − D, (n,)."""
        j, weights = _coordinates(self.hidden, self.alpha)
        d, variance = self.width, j ** (-2 * self.alpha)
        # No q is above Dy: y is at least where Σ(Dy)^power = d. At most the first few are d together, for which Dy = 2.5 d
        # is enough of the last of them, or the first is by itself (its rest being 0).
        least = np.log(d / (weights @ variance**power)) / power
        most = 2 * self.alpha * np.log(min(self.hidden, 4.0 * d)) + np.log(3.0 * d)

        def excess(log: float) -> float:
            return float(np.log(weights @ (variance / (np.exp(-log) + rest)) ** power / d))

        return float(np.exp(-scipy.optimize.brentq(excess, least - 1, most, xtol=1e-14)))

    def draw(self, seed: int = 0) -> "Spectrum":
        """S of random W. Raises `InputError` for infinite v."""
        if not np.isfinite(self.hidden):
            raise InputError("hidden is inf: a matrix to draw is finite; give a number, or take the equivalent")
        j = np.arange(1, int(self.hidden) + 1, dtype=float)
        drawn = stream(seed, "random features").standard_normal((j.size, self.width))
        half = drawn * (j**-self.alpha / np.sqrt(self.width))[:, None]
        values, axes = np.linalg.eigh(half.T @ half)
        signal = (axes.T @ (half.T @ j ** (-self.alpha - self.beta))) ** 2 / values
        whole = float(np.sum(j ** (-2 * self.alpha - 2 * self.beta)))
        return Spectrum(values, np.ones_like(values), signal, whole - float(signal.sum()))

    def equivalent(self) -> "Spectrum":
        """The deterministic one: complex points on one half of a curve around the spectrum.

        Raises `InputError` where numbers lose its eigenvalues: their count is to be d and their sum Tr D, to 1e-6.
        """
        j, weights = _coordinates(self.hidden, self.alpha)
        d, variance = self.width, j ** (-2 * self.alpha)
        low, high = np.log(self.support)
        # The spectrum's ends are the foci: no larger curve is needed for a large height.
        beyond = np.hypot((high - low) / 2, _HEIGHT) - (high - low) / 2
        z, around = _curve(low - beyond, high + beyond, _HEIGHT)
        m = _companion(z, variance, weights, d)
        seen = variance[:, None] * m
        # Without −1/z, which has no pole inside: v of them would drown the rest.
        resolvent = weights[:, None] * seen / (z * (seen - z))
        target = j ** (-2 * self.alpha - 2 * self.beta)
        signal, count = target @ resolvent * around, resolvent.sum(axis=0) * around
        number, trace = float(count.sum().real), float((count @ z).real)
        if not max(abs(number / d - 1), abs(trace / self.trace - 1)) < _MISSED:
            raise InputError(
                f"alpha is {self.alpha:g}, width {d}, hidden {self.hidden:g}: {number:g} eigenvalues of sum {trace:g} are "
                f"found in the place of {d} of sum {self.trace:g}; take a smaller alpha or width, or draw"
            )
        # What no feature sees: −z times the resolvent at z = 0, where Σ q = d, q = D/(1/y + D).
        unseen = self._inverse(variance, 1)
        least = float((weights * target) @ (unseen / (unseen + variance)))
        return Spectrum(z, count, signal, least)

    def width_error(self, step_size: float, steps: ArrayLike, batch: int = 1) -> np.ndarray:
        r"""Size of what is of order 1/d in the equivalent's `risk`, relative to it: shape of `steps`; valid where small.

        By one feature less or more, the larger; and by what all eigenvalues do to it that are off by a share of $\sqrt{2/d}$
        (the deviation of $\chi^2_d/d$, a large eigenvalue's), ½{R(ηe^s) + R(ηe^{−s})} − R. A mark, not a bound: the mean over
        400 drawn W was off, nearly always above, by 1.6 of it at most (2.2 once) beyond two standard errors, mostly by a fifth
        to a half, in 465 random problems at 1 to 30000 steps (α from .2 to 1.8, d to 60, v from d + 1 to 6d, ηTr D .01 to
        .3). inf where one of these is unstable, or d has no neighbour, or a step as much larger as Tr S is in one draw of ten
        thousand grows: the mean over many W is then that of the few that grow (of 70 random problems all 19 in which 2 to 125
        of 400 W do, 3 of 4 where one does, 5 where none does). Raises `InputError` as `equivalent` and `Spectrum.risk` do.
        """
        found, spread = self.equivalent(), np.sqrt(2 / self.width)
        risk = found.risk(step_size, steps, batch)
        widths = [d for d in (self.width - 1, self.width + 1) if 0 < d < self.hidden]
        try:
            others = [replace(self, width=d).equivalent().risk(step_size, steps, batch) for d in widths]
            low, high = (found.risk(step_size * np.exp(sign * spread), steps, batch) for sign in (-1, 1))
            found.curve(step_size * self._largest_trace(_RARE), batch)
        except InputError:
            return np.full_like(risk, np.inf)
        moved = np.max([np.abs(other - risk) for other in others], axis=0) if others else np.inf
        return np.asarray((moved + np.abs((low + high) / 2 - risk)) / risk)

    def _largest_trace(self, chance: float) -> float:
        r"""Which Tr S over its mean is seen as rarely: $\sum_jD_j\chi^2_d/d$ as $\chi^2_\nu/\nu$ of the same variance."""
        j, weights = _coordinates(self.hidden, self.alpha)
        freedom = self.width * self.trace**2 / float(weights @ j ** (-4 * self.alpha))
        return float(scipy.stats.chi2.isf(chance, freedom)) / freedom

    def truncated(self) -> "Spectrum":
        """The first d coordinates themselves in the place of features: what a diagonal model makes of it."""
        j = np.arange(1, self.width + 1, dtype=float)
        rest, weights = _coordinates(self.hidden, self.alpha)
        signal = j ** (-2 * self.alpha - 2 * self.beta)
        whole = float(weights @ rest ** (-2 * self.alpha - 2 * self.beta))
        return Spectrum(j ** (-2 * self.alpha), np.ones_like(j), signal, whole - float(signal.sum()))


@dataclass(frozen=True, eq=False)
class Spectrum:
    r"""Of features. Attributes: values: λ, (n,). count: their number, (n,). signal: $\lambda w^{*2}$, (n,). least: risk.

    Complex ones stand for half a curve: what is summed over it is the real part.
    """

    values: np.ndarray
    count: np.ndarray
    signal: np.ndarray
    least: float

    @property
    def model(self) -> LinearModel:
        """The linear model, from w = 0, of a drawn spectrum. Raises `InputError` for an equivalent."""
        if np.iscomplexobj(self.values):
            raise InputError("the spectrum is the equivalent's: a linear model has real eigenvalues; draw one")
        return LinearModel(self.values, self.count, float(np.sqrt(self.least)), self.signal / self.values)

    def risk(self, step_size: float, steps: ArrayLike, batch: int = 1, kernel: bool = True) -> np.ndarray:
        r"""$R_n+\sigma^2$ after `steps` (from 1) of plain SGD of one step size, exact for the spectrum: shape of `steps`.

        $R_n+\sigma^2=F_n+\sigma^2+\sum_{s<n}K_{n-1-s}(R_s+\sigma^2)$ is a product of generating functions,
        $\hat P=(\hat F-\sigma^2/\zeta)/(1-\hat K)$ at $\omega=1-\zeta$; its coefficients are $\sigma^2/(1-\mathcal K)$ and an
        integral of $-\hat P\,(1-\zeta)^n$ around the other poles. `kernel`: without it SGD's own noise K is left out.
        Raises `InputError` for a step size that is not positive, or beyond the edge of stability.
        """
        return self.curve(step_size, batch, kernel)(steps)

    def curve(self, step_size: float, batch: int = 1, kernel: bool = True) -> Curve:
        """`risk` as a function of the steps, in their shape; what does not depend on them is worked out once.

        Raises `InputError` as `risk` does.
        """
        check_positive(step_size=step_size)
        decay, push = _lowered()(self.values, self.count, step_size, batch)
        push = push * self.values if kernel else 0 * self.values
        if not (np.all(np.real(decay) > 0) and np.real(np.sum(push / decay)) < 1):
            raise InputError(f"step size is {step_size:g}: the mean square grows; take a smaller one")
        ends = np.abs(decay).min() * _OUTER, 1.0
        zeta, around = _curve(float(np.log(ends[0])), float(np.log(ends[1])), _OUTER_HEIGHT)
        known, noise = _transform(self.signal, decay, zeta), _transform(push, decay, zeta)
        poles = (known - self.least / zeta) / (1 - noise) * around
        limit, left = self.least / (1 - np.real(np.sum(push / decay))), np.log1p(-zeta)
        return lambda steps: np.real(np.exp(np.asarray(steps, dtype=float)[..., None] * left) @ poles) + limit


def phase_exponents(alpha: float, beta: float, without: str = "") -> tuple[float, float]:
    r"""(x, y) of the least risk $f^x$ and its width $f^y$ at compute f, in the limit: the balance of the four terms.

    Terms are $d^i\tau^j$, $\tau=\eta r$; with $d=f^y$, $r=f^{1-y}$ the largest exponent is least at y, a linear programme.

    Args:
        without: a term left out, ``F_ac`` or ``K_pp``; or ``target`` for what $F_0$ owes to β, ``step`` for how η shrinks.
    Raises `InputError` for 2α = 1 (logarithms), unless α > 0 and 2α + 2β > 1 (else nothing is learned), and for another name.
    """
    check_one_of(("", "F_ac", "K_pp", "target", "step"), without=without)
    check_positive(alpha=alpha)
    if alpha == 0.5:
        raise InputError("alpha is 0.5: between the phases there are logarithms; take another")
    if not 2 * alpha + 2 * beta > 1:
        raise InputError(f"beta is {beta:g}, alpha {alpha:g}: the risk falls for 2α + 2β > 1; raise one of them")
    wide = alpha > 0.5
    shrink = 0.0 if wide or without == "step" else 2 * alpha - 1
    beyond = 0.0 if without == "target" else max(0.0, 1 - 2 * beta)
    terms = {"F_0": (beyond - 2 * alpha, 0.0), "F_pp": (0.0, -(2 * alpha + 2 * beta - 1) / (2 * alpha))}
    if wide or beta > 0.5:
        terms["K_pp"] = (shrink, -2 + 1 / (2 * alpha))
    if wide and beta > 0.5:
        terms["F_ac"] = (-1.0, -1 + 1 / (2 * alpha))
    kept = [term for name, term in terms.items() if name != without]
    # ln τ = (1 − y + shrink·y) ln f
    rows = [[-1.0, width + time * (shrink - 1)] for width, time in kept]
    found = scipy.optimize.linprog([1, 0], A_ub=rows, b_ub=[-time for _, time in kept], bounds=[(None, 0), (0, 1)])
    return float(found.x[0]), float(found.x[1])


@cache
def _lowered() -> Any:
    """1 − A, what a step takes from C, and what SGD's noise adds to it for each unit of risk: of λ, n, η and b, as derived."""
    own, pushed = modes()
    parts = [sp.expand(part.subs(exact.PLAIN)) for part in (1 - own[0, 0], pushed[0])]
    return sp.lambdify((exact.lam, exact.n, exact.eta, exact.batch), parts, modules="numpy")


def _coordinates(hidden: float, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Points j and weights of a sum over 1 … v, the tail as an integral over ln j (midpoints: error of order 1/j²).

    Of infinite v what is left in the end of Tr D is all at the last point; it falls as slowly as $j^{1-2\alpha}$.
    """
    last = hidden if np.isfinite(hidden) else _FAR
    first = np.arange(1, min(_FIRST, last) + 1, dtype=float)
    if last <= _FIRST:
        return first, np.ones_like(first)
    low, high = (float(np.log(end + 0.5)) for end in (first[-1], last))
    edges = np.linspace(low, high, 1 + int(np.ceil(_PANELS * (high - low))))
    if np.isfinite(hidden):
        return _joined(first, edges)
    end = min(high + _POWERS / (2 * alpha - 1), float(np.log(_LAST)))
    j, weights = _joined(first, np.append(edges, np.linspace(high, end, 1 + int(np.ceil((end - high) / _WIDE)))[1:]))
    return np.append(j, np.exp(end)), np.append(weights, np.exp(end) / (2 * alpha - 1))


def _joined(first: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those, and panels in ln j between `edges`."""
    points, weights = (x.ravel() for x in gauss_legendre(edges[:-1], edges[1:], _POINTS))
    return np.concatenate([first, np.exp(points)]), np.concatenate([np.ones_like(first), weights * np.exp(points)])


def _curve(low: float, high: float, height: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Upper half of an ellipse in ln z, and $-dz/\pi i$, by the trapezoidal rule's midpoints: (n,) both."""
    half = (high - low) / 2
    count = int(np.ceil(_DENSITY * half))
    angle = np.pi * (np.arange(count) + 0.5) / count
    z = np.exp((low + high) / 2 + half * np.cos(angle) + 1j * height * np.sin(angle))
    return z, -z * (-half * np.sin(angle) + 1j * height * np.cos(angle)) / (1j * count)


def _transform(weights: np.ndarray, decay: np.ndarray, zeta: np.ndarray) -> np.ndarray:
    """Σ w/(decay − ζ) at each ζ; complex spectra stand for both halves of their curve."""
    here = (weights / (decay - zeta[:, None])).sum(axis=1)
    if not np.iscomplexobj(decay):
        return here
    return (here + (weights / (decay - zeta.conj()[:, None])).sum(axis=1).conj()) / 2


def _companion(z: np.ndarray, variance: np.ndarray, weights: np.ndarray, width: int) -> np.ndarray:
    """m(z) at points that follow one another, by Newton's method along a path from far out, where it is 1.

    (From 1 at once it may end on another sheet, where there are few more coordinates than features.)
    """
    m, found = 1.0 + 0.0j, []
    for point in np.concatenate([z[0] * np.exp(_FAR_OUT), z]):
        for _ in range(_NEWTON):
            ratio = variance / (variance * m - point)
            value, slope = weights @ ratio / width, -(weights @ ratio**2) / width
            step = (m * (1 + value) - 1) / (1 + value + m * slope)
            m = m - step
            if abs(step) < 1e-13 * abs(m):
                break
        found.append(m)
    return np.array(found[-z.size :])


@dataclass(frozen=True)
class Crossing:
    """Where the best of two widths changes. Attributes: compute: f = width · samples. risk: there. width: geometric mean."""

    compute: float
    risk: float
    width: float


@dataclass(frozen=True)
class Trained:
    """Features of some width under SGD. Attributes: width: d. spectrum: theirs. step_size: η."""

    width: int
    spectrum: Spectrum
    step_size: float

    def risk(self, compute: ArrayLike, kernel: bool = True) -> np.ndarray:
        """The whole risk after f/d samples, batch 1, at each compute f, in the shape of `compute`."""
        return self.curve(kernel)(compute)

    def curve(self, kernel: bool = True) -> Curve:
        """`risk` as a function of the compute f, in its shape. Raises `InputError` beyond the edge of stability."""
        after = self.spectrum.curve(self.step_size, kernel=kernel)
        return lambda compute: after(np.asarray(compute) / self.width)


def crossing(narrow: Trained, wide: Trained, kernel: bool = True) -> Crossing:
    """Where the wider of two becomes the better one: a point of the compute-optimal frontier.

    Raises `InputError` where the wider is not better after all.
    """
    curves = [one.curve(kernel) for one in (narrow, wide)]

    def gap(log_f: ArrayLike) -> np.ndarray:
        return np.subtract(*(np.log(risk(np.exp(log_f))) for risk in curves))

    grid = np.log(wide.width) + np.arange(1.0, 60.0)
    better = np.flatnonzero(gap(grid) > 0)
    if not better.size or not better[0]:
        raise InputError(
            f"widths {narrow.width} and {wide.width} do not cross: take a larger width or a smaller step size"
        )
    log_f = scipy.optimize.brentq(gap, grid[better[0] - 1], grid[better[0]], xtol=1e-12)
    width = np.sqrt(float(narrow.width) * wide.width)
    return Crossing(float(np.exp(log_f)), float(curves[0](np.exp(log_f))), float(width))
