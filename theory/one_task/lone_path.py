r"""One student and one teacher, direction and norm together: the whole path as quadratures, for any activation.

With $u=\pm\tanh y$ the direction moves by $\dot y=\pm a\varphi'(u)$: time and growth are quadratures in y that know the
weight by a factor only. Given the path the norm obeys a Bernoulli equation, $\dot r=r(g-4\varphi(1)r)$ with
$g=4a\varphi(u)$:
$$r(t)=\frac{r_0e^{\Phi}}{1+4\varphi(1)r_0\int_0^te^{\Phi}},\qquad\Phi=\int_0^tg$$
(`derive norm`). Weight decay κ turns no row and takes 2κ off g, so that r rests at
$r^*=(4a\varphi(1)-2\kappa)/4\varphi(1)$. On a plateau without growth the student shrinks, $r_0/(1+4\varphi(1)r_0t)$, so
that the later it finds its direction, the longer its norm takes. Valid while nothing else pulls (otherwise
`theory.additive.flow`); times are gradient-flow times of ½E(f*−f)².
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from theory.additive import flow as additive
from theory.core.activation import Activation
from theory.core.indexed import Dual, k, q
from theory.core.indexed import t as overlaps
from theory.core.quadrature import gauss_legendre
from theory.one_task.single_task import SingleTask, a, alone, r0, u

#: Squared overlap ½ in y.
_HALF = float(np.arctanh(np.sqrt(0.5)))
#: The panels of the quadratures in y: from, to, and the factor from one to the next; nodes in each.
_NEAREST, _FARTHEST, _FACTOR = 1e-12, 3e3, 1.005
#: Stands for the infinite y of u = ±1, where all rows of d = 1 are; the next double below 1 has a y of 19.
_AT_END = 20.0
#: A small overlap, by which the sign of φ′ is asked for.
_SMALL = np.array(1e-6)
_NODES = 5


def log_waited(rate: np.ndarray | float, time: float) -> np.ndarray:
    r"""$\ln\int_0^Te^{gt}dt$ at T > 0, elementwise in g: $\dot r=gr-br^2$ has $r_0e^{gT}/(1+br_0\int_0^Te^{gt}dt)$ then."""
    return np.log(time) + _log_average(np.asarray(rate, dtype=float) * time)


def _log_average(growth: np.ndarray) -> np.ndarray:
    r"""$\ln\int_0^1e^{gs}ds$, elementwise in g, in which nothing overflows."""
    size = np.where(growth == 0, 1.0, np.abs(growth))
    return np.where(growth == 0, 0.0, np.maximum(growth, 0.0) + np.log(-np.expm1(-size) / size))


@lru_cache(maxsize=64)
def _rates(activation: Activation) -> Callable[[np.ndarray], list[np.ndarray]]:
    """u ↦ φ′(u), and the norm's growth rate 4φ(u), of unit weight: both from the derived flow, made once for both ends."""
    slope = sp.cancel(alone(additive.overlap_drift()[overlaps[k, q]]) / (a * (1 - u**2)))
    growth = sp.expand(SingleTask(activation).norm_rate.subs(a, 1)).coeff(r0, 1)
    found: Callable[[np.ndarray], list[np.ndarray]] = sp.lambdify(
        u, [slope.replace(Dual, activation.kernel_at), growth], modules=["scipy", "numpy"]
    )
    return found


@dataclass(frozen=True)
class LonePath:
    """The way of one student to one end, squared overlap 1 at u = `end` = ±1, for unit weight."""

    activation: Activation
    end: int

    @cached_property
    def repulsion(self) -> float:
        """4φ(1), by which a student's own norm holds it back."""
        return -float(sp.expand(SingleTask(self.activation).norm_rate).coeff(r0, 2))

    @cached_property
    def _edges(self) -> np.ndarray:
        """(n,) edges of the panels in y; with a way across zero only where there is a velocity (exponent 1)."""
        beyond = np.geomspace(_HALF, _FARTHEST, round(np.log(_FARTHEST / _HALF) / np.log(_FACTOR)))
        within = np.geomspace(_NEAREST, _HALF, round(np.log(_HALF / _NEAREST) / np.log(_FACTOR)))
        positive = np.concatenate([within, beyond[1:]])
        if self.activation.information_exponent > 1:
            return positive
        return np.concatenate([-positive[::-1], [0.0], positive])

    def _integrate(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Time and growth of unit weight from y = `low` to `high`, elementwise; inf where the student stalls."""
        y, weights = gauss_legendre(low, high, _NODES)
        slope, growth = (x + 0.0 * y for x in _rates(self.activation)(self.end * np.tanh(y)))
        stalled = np.any(self.end * slope <= 0, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # (h40: what is beyond all numbers is inf)
            slowness = weights / (self.end * slope)
            found = np.sum(slowness, axis=-1), np.sum(growth * slowness, axis=-1)
        return np.where(stalled, np.inf, found[0]), np.where(stalled, 0.0, found[1])

    @cached_property
    def _panels(self) -> tuple[np.ndarray, np.ndarray]:
        return self._integrate(self._edges[:-1], self._edges[1:])

    @cached_property
    def stall(self) -> float:
        """The overlap at which φ′ changes its sign on this way: 0 if a small one shrinks, ±1 if nothing holds it back."""
        stalled = np.isinf(self._panels[0])
        return self.end * float(np.tanh(self._edges[int(np.argmax(stalled))])) if stalled.any() else float(self.end)

    def half_time(self, overlap: np.ndarray) -> np.ndarray:
        """Time to squared overlap ½ of unit weight, shape of `overlap` (signed): inf if it stalls or leaves for elsewhere.

        (From 0 or beyond it there is no way where a small overlap has no velocity.)
        """
        start = self._start(overlap)
        last = int(np.searchsorted(self._edges, _HALF))
        with np.errstate(over="ignore"):
            left = np.append(np.cumsum(self._panels[0][:last][::-1])[::-1], 0.0)  # from each edge on
        place = np.minimum(np.searchsorted(self._edges[: last + 1], start), last)
        first, _ = self._integrate(start, self._edges[place])
        return np.where(start >= _HALF, 0.0, np.where(self._cut_off(start), np.inf, first + left[place]))

    def rest(self, weight: float, decay: float = 0.0) -> float:
        r"""$r^*$, where the norm of a student at u = 1 rests, at least 0: what it fits of its teacher."""
        _, growth = _rates(self.activation)(np.array(1.0))
        return max(float(weight * growth - 2 * decay) / self.repulsion, 0.0)

    def loss_time(
        self,
        weight: float,
        overlap: float,
        norm2: float,
        share: float = 0.5,
        decay: float = 0.0,
        half: float | None = None,
    ) -> float:
        r"""Time until $ru^2$ reaches `share` of $r^*$; inf if never, as at −e where that fits less.

        It is `half`, the time to squared overlap ½ (as `half_time` has it unless given), and from there on to about 1e-5 of
        what is left: beside a wait so long that double precision does not hold both, it is not lost.
        """
        start, rest = self._start(np.array(overlap)), self.rest(weight, decay)
        if self._cut_off(start) or rest == 0:
            return float("inf")
        if start >= _AT_END:
            rate = weight * float(_rates(self.activation)(np.array(float(self.end)))[1]) - 2 * decay
            goal = share * rest
            return 0.0 if norm2 >= goal else self._grown_later(float(np.log(norm2)), rate, goal)
        first = int(np.searchsorted(self._edges, start, side="right"))
        begun = self._integrate(start, self._edges[first])
        time, growth = (np.append(own, rest[first:]) for own, rest in zip(begun, self._panels, strict=True))
        kept = slice(0, int(np.argmax(~np.isfinite(time))) if not np.isfinite(time).all() else None)
        time = time[kept] / weight
        growth = growth[kept] - 2 * decay * time
        y = np.concatenate([[start], self._edges[first:]])[: len(time) + 1]
        with np.errstate(divide="ignore"):  # u = 0 on the way from a negative overlap
            reached = self._log_norm(norm2, time, growth) + np.log(np.tanh(y) ** 2) - np.log(share * rest)
        there = np.flatnonzero(reached >= 0)
        middle = int(np.searchsorted(y, _HALF))  # counted from there: both sides are sums of what is of one size
        if middle > len(time):  # (not on this way)
            middle, half = 0, 0.0
        elif half is None:
            half = float(self.half_time(np.array(overlap))) / weight
        clock = np.concatenate([-np.cumsum(time[:middle][::-1])[::-1], [0.0], np.cumsum(time[middle:])])
        if there.size == 0:
            if not time.size or kept.stop is not None:
                return float("inf")
            log_norm = reached[-1] + np.log(share * rest)
            return half + float(clock[-1] + self._grown_later(log_norm, growth[-1] / time[-1], share * rest))
        after = int(there[0])
        if after == 0:
            return 0.0
        part = -reached[after - 1] / (reached[after] - reached[after - 1])
        return half + float(clock[after - 1] + part * time[after - 1])

    def _grown_later(self, log_norm: float, rate: float, goal: float) -> float:
        r"""How long an aligned norm takes to its goal: logistic, to the rest $g/4\varphi(1)$ of this end; inf beyond."""
        if self.repulsion * goal >= rate:  # (at −e, where less is fitted; or by decay)
            return float("inf")
        here, there = (x + np.log(self.repulsion / rate) for x in (log_norm, np.log(goal)))
        return float((there - np.log1p(-np.exp(there)) - here + np.log1p(-np.exp(here))) / rate)

    def _log_norm(self, norm2: float, time: np.ndarray, growth: np.ndarray) -> np.ndarray:
        """ln r at the start and after each panel, the growth rate taken as constant within one; in logarithms throughout."""
        risen = np.concatenate([[0.0], np.cumsum(growth)])
        with np.errstate(divide="ignore"):  # (a first panel of no length)
            held_back = np.log(self.repulsion * time) + _log_average(growth) + risen[:-1]
        return np.log(norm2) + risen - np.logaddexp.accumulate(np.append(0.0, held_back + np.log(norm2)))

    def _cut_off(self, start: np.ndarray) -> np.ndarray:
        """Whether 0, where nothing moves, lies between the start and the end, or the start is the other end itself."""
        return (start <= -_AT_END) | ((start <= 0) & (self.activation.information_exponent > 1))

    def _start(self, overlap: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.clip(np.arctanh(self.end * np.asarray(overlap, dtype=float)), -_AT_END, _AT_END)


@lru_cache(maxsize=64)
def lone_path(activation: Activation, end: int) -> LonePath:
    """The path, with its panels, made once for an activation and an end."""
    return LonePath(activation, end)


@lru_cache(maxsize=64)
def one_sided(activation: Activation) -> bool:
    """Whether small negative overlaps never reach squared overlap ½: odd J ≥ 3, or odd degrees that hold them back."""
    return activation.information_exponent > 1 and bool(np.isinf(lone_path(activation, -1).half_time(-_SMALL)))
