r"""The law of SGD's emergence times about the flow of all rows, to first order in the step size (derived).

Let $t(w)$ be the time that the flow $\dot w=F(w)$ takes to where row k has a squared correlation of ½ with direction p. Its
gradient $\lambda=-\partial t/\partial w$ obeys $\dot\lambda=-J^\top\lambda$ along the flow, with λ·F = 1 throughout. Steps of
size η with batch B, independent given where they begin, of gradients g, make the times $T_a$ of rows and directions

$$E\,T_a=t_a+\int\eta\Bigl(\lambda_a\cdot(\tfrac12JF+rF)-\frac1B\lambda_a\cdot\mathrm{kick}\Bigr)dt,\qquad
\operatorname{Cov}(T_a,T_b)=\int\frac\eta B\operatorname{Cov}(\lambda_a\cdot g,\lambda_b\cdot g)\,dt,$$

until the first of both, up to higher orders: whole steps are behind the flow by half of a step's turn (arXiv:2009.11162),
rows that a step lengthens at the rate r before they are scaled back turn by as much less, the kick is what the scatter of g
adds to the mean of products of rows ($\operatorname{Cov}\langle g_k,g_l\rangle$; what scales rows back on a sphere is along
them, where λ is not). Overlaps that grow scatter more than their share of that. A row that noise has stray to other
directions, by $s_q^2=\int\frac\eta B\operatorname{Var}(\lambda_q\cdot g)\,dt$ in its correlation with q, has less of p
where that is ½ of its square, by half of their sum, as squares add up to 1, and is later by that over the square's rate (exact
of light rows by h₂, which turn as by a linear flow; else what it does to their rate is left out, and 1/d of the kick). So much
may stray that it goes elsewhere (`PassageLaw.lost`). A direction's time is the first of its rows': of Gaussian times. Where
rows are held with curvature h, the largest eigenvalue of −J, steps scatter $1/(1-\eta h/2)$ times as wide: that is of higher
order, and said. Gradients that are ℓ steps old in the mean add
$\int\eta\,\ell\,\lambda_a\cdot(JF+(r+\kappa)F)\,dt$, κ the decay, which is not old: the tangent part of $G(v-\ell\eta F)$, G
the step of a row on a sphere, $F=G-rv$; and $\ell\eta\,\lambda_a\cdot(F+\kappa v)$ of the start, before which there are none.

F is minus a gradient, so that J is symmetric, and $J\lambda$ is the derivative of F along λ. (Momentum does not move a second
layer: F is D times one, D the speed of rows and 1, and Dλ for λ is that derivative.) All of it lives on the span:
with $\dot v_k=\sum_jA_{kj}v_j+\sum_pB_{kp}w_p$ in each eigenspace and $\lambda_k=\sum_jG_{kj}v_j+\sum_pM_{kp}w_p$,

$$\dot G=-(\delta A+AG+GA),\qquad\dot M=-(\delta B+AM+GB),$$

δ the derivative along $\delta T=GT+MZ$, $\delta Q=GQ+QG+MT^\top+TM^\top$ (and of a second layer that is trained). On a sphere
λ stays tangent, by a multiple of $v_k$. No vector of the inputs' dimension is formed.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from theory.core.curves import passed_between
from theory.core.errors import InputError
from theory.declared.all_rows import AllRows
from theory.declared.flow import speed
from theory.declared.lone_row import FOUND
from theory.declared.modified_equation import age
from theory.declared.near_misses import NearMiss, chance, near_misses
from theory.declared.rule import Momentum, Rule
from theory.declared.sample_gradients import SampleGradients
from theory.declared.schedule import Size
from theory.one_task.hitting_distribution import HittingLaw
from theory.prediction.rivals import FLUCTUATIONS

REFERENCE = "derived; noise of single steps along the flow of all rows, theory.declared.passage_law"

#: A flow in time: where each of its steps begins and ends, and its vector at times between.
Steps = list[tuple[float, float, Callable[[float], np.ndarray]]]

#: Tolerance of λ, and of those that only a scatter is of; and of how many rows of a direction the law is at most.
_COSTATE, _SCATTER, _ROWS = 1e-3, 0.03, 4
#: Intervals of the integrals, about; the step of a derivative; points of a Gaussian law, as a power of two.
_INTERVALS, _STEP, _POINTS = 48, 1e-5, 12
#: By which share of what a step adds points may miss it.
_SAMPLED = 0.1
#: Places on the way at which curvature is looked for, powers of J that are taken, and the share at which one has nothing new.
_LOOKS, _POWERS, _EXHAUSTED = 6, 10, 1e-6
#: Weights of Simpson's rule.
_SIMPSON = (1, 4, 1)
#: Products of pairs that are formed for all λ, at most (some seconds): an evaluation takes two of the flow's.
_WORK = 4e7


@dataclass(frozen=True, eq=False)
class PassageLaw:
    r"""Of n pairs of a direction and a row.

    Attributes:
        directions: (n,), by place from 0. times: of the flow, (n,). nodes: times between which the integrals are, their ends
            and middles, (N, 3). drift, turn, old, parts, noise: by what the mean is later, over η/B and, by whole steps and
            by old gradients, over η, the sizes of what the latter is made of, and the covariance over η/B, in a unit of time,
            (N, 3, n) four times and (N, 3, n, n).
            curvature: the largest until the first row is at each direction, (P,). sampled: of the row that is first at each
            direction, what a step adds to its squared norm there, by points over what it is exactly, (P,); nan where there
            is no law. begun: by what old gradients that are not there at the start make the mean later, over η there, (n,).
        strays: variances, over η/B, of what the row's correlations with other directions, which are made orthonormal for it,
            add up to with alternating signs, (N, 3, n). rates: of squared correlations at the times, (n,). tops: their largest
            with each direction, of any row, until the law no longer holds, (P,).
        misses: who turns back short of a direction (k of them). lower, missed: by what their squared correlations then are
            lower, over η/B and over η, (2, N, 3, k), and the variances, over η/B, (N, 3, k).
    """

    directions: np.ndarray
    times: np.ndarray
    nodes: np.ndarray
    drift: np.ndarray
    turn: np.ndarray
    old: np.ndarray
    parts: np.ndarray
    noise: np.ndarray
    curvature: np.ndarray
    sampled: np.ndarray
    begun: np.ndarray
    strays: np.ndarray
    rates: np.ndarray
    tops: np.ndarray
    misses: tuple[NearMiss, ...] = ()
    lower: np.ndarray | None = None
    missed: np.ndarray | None = None

    @property
    def later(self) -> np.ndarray:
        """(n,), by what means are later, over a constant η/B."""
        return np.tensordot(self._weights, self.drift, 2)

    @property
    def covariance(self) -> np.ndarray:
        """(n, n), over a constant η/B."""
        return np.tensordot(self._weights, self.noise, 2)

    @property
    def _weights(self) -> np.ndarray:
        """Of Simpson's rule."""
        return np.diff(self.nodes[:, ::2]) * _SIMPSON / sum(_SIMPSON)

    def of(self, p: int, size: Size, batch: int = 1) -> HittingLaw | None:
        """When SGD finds direction p, with steps of this size over the batch; None where the points do not suffice."""
        own = np.flatnonzero(self.directions == p)
        whole = (self.drift + batch * self.turn)[..., own]
        later = self._summed(size, whole) + batch * self._late(size, own)[0]
        covariance = self._summed(size, self.noise[..., own[:, None], own])
        if not (own.size and abs(self.sampled[p] - 1) <= _SAMPLED and np.all(np.isfinite(covariance))):
            return None
        values, vectors = np.linalg.eigh(covariance)
        spread = _gaussian(own.size) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        first = np.min(self.times[own] + later + spread, axis=1)
        return HittingLaw(float(first.mean()), float(first.std()))

    def sooner(self, p: int, size: Size, batch: int = 1) -> tuple[float, float] | None:
        """The chance that noise takes a row to direction p where it turns back by the flow, and when; None if none does."""
        for place, miss in enumerate(self.misses):
            if miss.p == p:
                return chance(miss, *self.at_top(place, size, batch)), miss.time
        return None

    def strayed(self, p: int, size: Size) -> float:
        """By how much the row that is first at p is later since noise has it stray, in the mean."""
        first = self._first(p)
        return FOUND * float(self._summed(size, self.strays[..., first])) / float(self.rates[first])

    def lost(self, p: int, size: Size) -> float:
        """The chance that noise has the row which is first at p, when it is there by the flow, lean as much to others."""
        stray = float(self._summed(size, self.strays[..., self._first(p)]))
        return float(2 * ndtr(-np.sqrt(FOUND / stray))) if stray > 0 else 0.0

    def resting(self, p: int, size: Size, batch: int = 1) -> float:
        r"""By which share more runs than `of` says are not at p at the last time at which SGD may be near the flow's, where it
        says anything: what noise moves $\ln(c/(1-c))$ by may be more than the flow adds to it from the time to then. (That is
        what the time's own spread is worth where the row goes on as a light one by h₂ does.)
        """
        law, first = self.of(p, size, batch), self._first(p)
        assert law is not None
        time, top = float(self.times[first]), float(self.tops[p])
        ahead = float(np.log(top / max(1 - top, np.finfo(float).eps))) * FOUND * (1 - FOUND) / float(self.rates[first])
        last = FLUCTUATIONS * time
        short, late = ndtr((law.mean - time - np.array([min(ahead, last), last])) / law.std)
        return float(short - late)

    def _first(self, p: int) -> int:
        """Place of the row that is first at p."""
        own = np.flatnonzero(self.directions == p)
        return int(own[self.times[own].argmin()])

    def at_top(self, place: int, size: Size, batch: int = 1) -> tuple[float, float]:
        """What steps move the squared correlation by of one that turns back, in the mean, and its variance."""
        assert self.lower is not None
        assert self.missed is not None
        lower = self.lower[0] + batch * self.lower[1]
        return -float(self._summed(size, lower[..., place])), float(self._summed(size, self.missed[..., place]))

    def late(self, p: int, size: Size) -> tuple[float, float]:
        """By what old gradients, at steps of this size, make the row that is first at p by the flow later; and the sum of its
        parts' sizes.
        """
        own = np.flatnonzero(self.directions == p)
        later, parts = (x[self.times[own].argmin()] for x in self._late(size, own))
        return float(later), float(parts)

    def _late(self, size: Size, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of some of the pairs."""
        begun = (size(np.zeros(1))[0] if callable(size) else size) * self.begun[own]
        later, parts = (self._summed(size, x[..., own]) for x in (self.old, self.parts))
        return later + begun, parts + np.abs(begun)

    def _summed(self, size: Size, integrand: np.ndarray) -> np.ndarray:
        """The integral along the flow."""
        return np.tensordot(self._weights * (size(self.nodes) if callable(size) else size), integrand, 2)


@lru_cache(maxsize=_ROWS)
def _gaussian(count: int) -> np.ndarray:
    """Standard, (points, count)."""
    import scipy

    return np.asarray(scipy.special.ndtri(scipy.stats.qmc.Sobol(count, seed=0).random_base2(_POINTS)))


def passage_law(flow: AllRows, steps: Steps, found: np.ndarray) -> PassageLaw:
    """Along the flow in `steps`, of the directions that it finds at `found` (P,): the first of them, as far as `_WORK` goes.

    Times are sums of step sizes. Valid to first order in the step size, where spreads and shifts are small shares of the
    times, and where `sampled` is near 1.
    """
    pace, lag, decay = speed(flow.model.rule), age(flow.model.rule), flow.model.rule.decay
    path, allowed = _Path(flow, steps, found), _Allowed(int(_WORK / (2 * flow.cost)))
    crossings, costates, astray = list[tuple[int, int, float]](), list[_Costate](), list[_Costate]()
    for rows in sorted(path.crossings.values(), key=lambda rows: rows[0][2]):
        with suppress(InputError):
            more = [(_Costate.at(path, *one, allowed), _Costate.astray(path, *one, allowed)) for one in rows]
            crossings = [*crossings, *rows]
            costates, astray = [*costates, *(x for x, _ in more)], [*astray, *(x for _, x in more)]
    misses, count = list[NearMiss](), len(crossings)
    costates = [*costates, *astray]
    for miss in near_misses(path.begins, path.correlations, found):
        with suppress(InputError):
            costates.append(_Costate.at(path, miss.row, miss.p, miss.time, allowed, passes=False))
            misses.append(miss)
    gradients, sampled = SampleGradients(flow.model, flow.kicks.noise), np.full(found.shape, np.nan)
    nodes, *sums, noise = _integrands(path, gradients, costates)
    lower, scatter = np.stack([pace**2 * sums[0], sums[1]])[..., 2 * count :], np.einsum("...aa->...a", noise)
    strays, missed = pace**2 * scatter[..., count : 2 * count], pace**2 * scatter[..., 2 * count :]
    (drift, turn, old, parts), noise = (x[..., :count] for x in sums), noise[..., :count, :count]
    costates = costates[:count]
    rates = np.array([one.rate for one in costates])
    drift = drift + FOUND * scatter[..., count : 2 * count] / rates
    for row, p, time in reversed(crossings):
        state = flow.parts(path.state(time))
        own = gradients.kicks(*state[:2], gradients.at(*state)).sum(axis=0)[row, row]
        sampled[p] = own * pace**2 / (flow.kicks.of_row(*state, row) * state[1].sum(axis=0)[row, row])
    directions, times = np.array([p for _, p, _ in crossings], dtype=int), np.array([one.time for one in costates])
    curvature = _stands(flow.model.rule) * np.array([_curvature(path, time) for time in found.tolist()])
    state = flow.parts(flow.begin)
    drawn, along, second = _drift(flow, state)
    pull = drawn + decay * np.eye(flow.shape[1]), along, second
    begins = [_inner(flow, state, _opened(flow.shape, one.value(0.0)), pull) for one in costates]
    begun = np.array([np.einsum("ikk->", one) for one in begins])
    means = pace**2 * drift, turn, lag * old, lag * parts
    own = pace**2 * noise, curvature, sampled, lag * begun, strays, rates, path.tops
    return PassageLaw(directions, times, nodes, *means, *own, tuple(misses), lower, missed)


def _stands(rule: Rule) -> float:
    """What curvature in the flow's time SGD stands at a step size, over what the rule does (derived, of one mode)."""
    if not isinstance(rule, Momentum):
        return 1.0
    beta = rule.beta
    return (1 - beta) / (1 + beta) * (1 + 2 * beta if rule.kind == "nesterov" else 1)


@dataclass
class _Allowed:
    """Evaluations that are left."""

    left: int

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise InputError("the flow is too long, or too stiff, for the law of SGD along it to be found here")


class _Path:
    """The flow in time.

    Attributes:
        begins: of its steps. crossings: of each direction that is found, row, direction and time, first to last, no later than
            SGD may be where the law holds. tops: the largest squared correlation until then, (P,).
    """

    def __init__(self, flow: AllRows, steps: Steps, found: np.ndarray) -> None:
        self.flow, self.steps, self.begins = flow, steps, np.array([begin for begin, *_ in steps])
        above = np.array([self._above(time) for time in (*self.begins, steps[-1][1])])
        self.crossings = dict[int, list[tuple[int, int, float]]]()
        for p in np.flatnonzero((found > 0) & np.isfinite(found)).tolist():
            own = sorted((self._crossed(above[:, row, p], row, p), row) for row in range(above.shape[1]))[:_ROWS]
            self.crossings[p] = [(row, p, time) for time, row in own if time <= (1 + FLUCTUATIONS) * found[p]]
        last = np.minimum((1 + FLUCTUATIONS) * found, steps[-1][1])
        ends = np.array([self.correlations(time).max(axis=0)[p] for p, time in enumerate(last)])
        seen = above[:-1].max(axis=1) + FOUND
        self.tops = np.maximum(ends, np.where(self.begins[:, None] <= last, seen, 0.0).max(axis=0))

    def state(self, time: float) -> np.ndarray:
        """The vector of the flow."""
        return self.steps[max(int(np.searchsorted(self.begins, time, "right")) - 1, 0)][2](time)

    def correlations(self, time: float) -> np.ndarray:
        """Squared, (m, P)."""
        return np.abs(self.flow.correlations(self.state(time)))

    def _above(self, time: float) -> np.ndarray:
        return self.correlations(time) - FOUND

    def _crossed(self, above: np.ndarray, row: int, p: int) -> float:
        """Inf of what is there from the start, or never; `above`: at all begins."""
        there = int(np.argmax(above >= 0))
        if not there:
            return np.inf

        def level(time: float) -> float:  # (by one step's own formula: the next one's may begin a rounding above)
            return float(np.abs(self.flow.correlations(self.steps[there - 1][2](time)))[row, p] - FOUND)

        begin, end, _ = self.steps[there - 1]
        return passed_between(level, begin, end)


@dataclass(frozen=True, eq=False)
class _Costate:
    """λ of one crossing: G (L, m, m), M (L, m, P) and that of a second layer (m,), 0 of one that is fixed, until its time; the
    latter over the rule's speed, for momentum does not move it. Of what turns back (not `passes`) that of the squared
    correlation itself. rate: of what it is of, at its time. ahead: λ·F.
    """

    path: _Path
    time: float
    value: Callable[[float], np.ndarray]
    rate: float
    ahead: float

    @classmethod
    def at(cls, path: _Path, row: int, p: int, time: float, allowed: _Allowed, passes: bool = True) -> "_Costate":
        X, C = (x[row] for x in path.flow.rates.fields(*path.flow.parts(path.state(time))[:2]))
        of_field = 2 * X[p] / C[row] * np.eye(1, len(X), p)[0]
        found = cls._of(path, row, time, of_field, -2 * (X[p] / C[row]) ** 2)
        if not passes:
            return found._followed(allowed, _COSTATE)
        if not np.all(np.isfinite(found.value(time) / found.rate)):
            raise InputError(f"direction {p + 1} is found where the flow rests: it has no slope of the time")
        now = found.value(time) / found.rate
        return cls(path, time, lambda t: now, found.rate, 1.0)._followed(allowed, _COSTATE)

    @classmethod
    def astray(cls, path: _Path, row: int, p: int, time: float, allowed: _Allowed) -> "_Costate":
        """Of correlations with what other directions have across p, orthonormal, by alternating signs: whose scatter is the
        sum of theirs, but for their products, which go either way.
        """
        X, C = (x[row] for x in path.flow.rates.fields(*path.flow.parts(path.state(time))[:2]))
        fields = path.flow.model.directions.covariance
        across = np.eye(len(X)) - np.outer(fields[p], np.eye(1, len(X), p)[0]) / fields[p, p]  # (P, P): of X
        sizes, vectors = np.linalg.eigh(across @ fields)
        kept = sizes > _EXHAUSTED * sizes.max()
        signs = (-1.0) ** np.arange(kept.sum())
        of_field = (vectors[:, kept] / np.sqrt(sizes[kept]) @ signs) @ across / np.sqrt(C[row])
        return cls._of(path, row, time, of_field, -(of_field @ X) / C[row])._followed(allowed, _SCATTER)

    @classmethod
    def _of(cls, path: _Path, row: int, time: float, of_field: np.ndarray, of_variance: float) -> "_Costate":
        """At its time, of what has these derivatives by a row's fields' covariances with directions (P,), and by its variance,
        there half of it.
        """
        flow = path.flow
        (blocks, m, P), eigenvalues = flow.shape, flow.rates.eigenvalues
        turned, grown, *_ = flow.rates.of_all(*flow.parts(path.state(time)))
        G, M = np.zeros((blocks, m, m)), np.zeros((blocks, m, P))
        M[:, row], G[:, row, row] = np.outer(eigenvalues, of_field), of_variance * eigenvalues
        rate = float(np.sum(M * turned) + np.sum(G * grown) / 2)
        now = np.concatenate([G.ravel(), M.ravel(), np.zeros(m)])
        return cls(path, time, lambda t: now, rate, rate)

    def _followed(self, allowed: _Allowed, tolerance: float) -> "_Costate":
        """Back to the start. Raises `InputError` where it cannot be."""
        import scipy

        path, time, now = self.path, self.time, self.value(self.time)

        def back(before: float, packed: np.ndarray) -> np.ndarray:
            allowed.take()
            moved = _moved(path.flow, path.flow.parts(path.state(time - before)), _opened(path.flow.shape, packed))
            return np.concatenate([x.ravel() for x in moved])

        if not now.any():
            return self
        atol = 1e-3 * tolerance * np.abs(now).max()
        solved = scipy.integrate.solve_ivp(back, (0.0, time), now, "RK23", rtol=tolerance, atol=atol, dense_output=True)
        if not solved.success:
            raise InputError("λ is not to be had: the flow is too stiff")
        return replace(self, value=lambda t: solved.sol(time - t))


Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def _opened(shape: tuple[int, ...], packed: np.ndarray) -> Parts:
    """G, M and that of the second layer."""
    blocks, m, _ = shape
    square = blocks * m * m
    return packed[:square].reshape(blocks, m, m), packed[square:-m].reshape(shape), packed[-m:]


def _products(flow: AllRows, state: Parts, costate: Parts) -> tuple[np.ndarray, np.ndarray]:
    r"""$\langle\lambda_k,w_q\rangle$ and $\langle\lambda_k,v_l\rangle$ in each eigenspace."""
    (overlap, gram, _), (G, M, _) = state, costate
    return G @ overlap + M @ flow.model.directions.grams, G @ gram + M @ overlap.transpose(0, 2, 1)


def _inner(flow: AllRows, state: Parts, one: Parts, other: Parts) -> np.ndarray:
    """Products of two displacements of the rows, each with each, in each eigenspace, (L, m, m)."""
    turned, mixed = _products(flow, state, one)
    return np.asarray(mixed @ other[0].transpose(0, 2, 1) + turned @ other[1].transpose(0, 2, 1))


def _derivative(flow: AllRows, state: Parts, along: Parts) -> tuple[Parts, Parts]:
    """F, and its derivative along a displacement, as displacements."""
    (overlap, gram, second), (G, M, layer) = state, along
    turned, mixed = _products(flow, state, along)
    grown = mixed + mixed.transpose(0, 2, 1)
    norms = np.sqrt(np.einsum("ikk->k", gram))
    largest = max(
        np.abs(turned / norms[:, None]).max(), np.abs(grown / np.outer(norms, norms)).max(), np.abs(layer).max()
    )
    step = _STEP / largest if largest else _STEP
    ends = [_drift(flow, (overlap + way * turned, gram + way * grown, second + way * layer)) for way in (step, -step)]
    (A, dA), (B, dB), (b, db) = [((x + y) / 2, (x - y) / (2 * step)) for x, y in zip(*ends, strict=True)]
    return (A, B, b), (dA + A @ G, dB + A @ M, db)


def _drift(flow: AllRows, state: Parts) -> Parts:
    """F as a displacement."""
    A, B, trained = flow.rates.coefficients(*state)
    return A, B, trained[0] if trained else np.zeros(len(state[2]))


def _moved(flow: AllRows, state: Parts, costate: Parts) -> Parts:
    """$J\\lambda$ in λ's own terms: what it loses in a unit of time."""
    (overlap, gram, _), (G, _, layer) = state, costate
    (A, B, _), (rows, directions, trained) = _derivative(flow, state, costate)
    if flow.model.student.rows != "free":  # λ stays at right angles to the rows, which turn
        turned, mixed = _products(flow, state, costate)
        radial = np.einsum("ikk->k", rows @ gram + directions @ overlap.transpose(0, 2, 1))
        radial -= np.einsum("ikl,ikl->k", mixed, A) + np.einsum("ikp,ikp->k", turned, B)
        rows = rows - np.diag(radial)
    return rows + G @ A, directions + G @ B, trained if flow.model.student.trained else layer


def _curvature(path: _Path, time: float) -> float:
    """The largest eigenvalue of −J on the way to a time; across what is known J is A. 0 of no way."""
    if not 0 < time < np.inf:
        return 0.0
    begins = path.begins[path.begins < time]
    looks = begins[np.unique(np.linspace(0, len(begins) - 1, _LOOKS).round().astype(int))]
    return max(0.0, *(_held(path.flow, path.flow.parts(path.state(t))) for t in looks))


def _held(flow: AllRows, state: Parts) -> float:
    """The largest eigenvalue of −J, by its first powers on a displacement of no symmetry (Lanczos)."""

    def dot(one: Parts, other: Parts) -> float:
        rows = np.einsum("ikk->", _inner(flow, state, one, other)) / speed(flow.model.rule)
        return float(rows + one[2] @ other[2])

    def less(one: Parts, share: float, other: Parts) -> Parts:
        return one[0] - share * other[0], one[1] - share * other[1], one[2] - share * other[2]

    G, M, layer = (np.cos(np.arange(1.0, x.size + 1)).reshape(x.shape) for x in (state[1], state[0], state[2]))
    along: Parts = G, M, layer * flow.model.student.trained
    basis, turned, first = list[Parts](), list[Parts](), 0.0
    for _ in range(_POWERS):
        size = np.sqrt(dot(along, along))
        first = first or size
        if not size > _EXHAUSTED * first:
            break
        basis.append((along[0] / size, along[1] / size, along[2] / size))
        turned.append(_derivative(flow, state, basis[-1])[1])
        along = turned[-1]
        for one in basis:
            along = less(along, dot(one, along), one)
    products = np.array([[dot(one, other) for other in turned] for one in basis])
    across = np.linalg.eigvals(-_drift(flow, state)[0]).real.max()
    return float(max(across, np.linalg.eigvalsh(-(products + products.T) / 2).max(initial=0.0)))


def _integrands(path: _Path, gradients: SampleGradients, costates: list[_Costate]) -> tuple[np.ndarray, ...]:
    """`PassageLaw.nodes`, between which are ends of steps, and times at which a row is there; `drift`, `turn`, `old` and
    `parts` of an age of one step, `noise`.
    """
    times, count = np.array([one.time for one in costates]), len(costates)
    if not count:
        return np.zeros((0, 3)), *[np.zeros((0, 3, 0))] * 4, np.zeros((0, 3, 0, 0))
    steps = path.begins[path.begins < times.max(initial=0.0)]
    kept = steps[np.unique(np.linspace(0, len(steps) - 1, _INTERVALS).round().astype(int))]
    ends = np.union1d(kept, times)
    middles = (ends[1:] + ends[:-1]) / 2
    found = [
        [
            _at(
                path.flow,
                gradients,
                path.state(t),
                [one.value(min(t, one.time)) for one in costates],
                [one.ahead for one in costates],
            )
            for t in some
        ]
        for some in (ends, middles)
    ]
    waits = (times > ends[:-1, None]).astype(float)[:, None]
    *means, noise = (
        np.stack([x[:-1], y, x[1:]], axis=1)
        for x, y in zip(*[[np.array(x) for x in zip(*some, strict=True)] for some in found], strict=True)
    )
    nodes = np.stack([ends[:-1], middles, ends[1:]], axis=1)
    return nodes, *[waits * x for x in means], waits[..., None] * waits[..., None, :] * noise


def _at(
    flow: AllRows, gradients: SampleGradients, y: np.ndarray, packed: list[np.ndarray], ahead: list[float]
) -> tuple[np.ndarray, ...]:
    r"""$-\lambda\cdot\mathrm{kick}$, $\lambda\cdot(\tfrac12JF+rF)$, of rows alone $\lambda\cdot(JF+(r+\kappa)F)$ and the sizes
    of its summands, each (n,), and
    $\operatorname{Cov}(\lambda_a\cdot g,\lambda_b\cdot g)$ (n, n), at one time. `ahead`: $\lambda_a\cdot F$.
    """
    state, student, rule, eigenvalues = flow.parts(y), flow.model.student, flow.model.rule, flow.rates.eigenvalues
    overlap, gram, _ = state
    samples = gradients.at(*state)
    drift = _drift(flow, state)
    # (Decay is no part of the gradient.)
    mean = drift[0] + rule.decay * np.eye(student.width), *drift[1:]
    kicks = gradients.kicks(overlap, gram, samples) - _inner(flow, state, mean, mean) / speed(rule) ** 2
    _, turn = _derivative(flow, state, drift)
    radial = flow.grown(*state)
    shifts, turns, olds, parts, means, seen, rest = [], [], [], [], [], [], []
    for one, forth in zip(packed, ahead, strict=True):
        costate = _opened(flow.shape, one)
        G, M, layer = costate
        shifts.append(-np.sum(G * kicks) / 2)
        turned, mixed = _products(flow, state, costate)
        curve, forward = (np.einsum("ikk->k", _inner(flow, state, costate, x)) for x in (turn, drift))
        old = curve.sum(), radial @ forward, rule.decay * forward.sum()
        turns.append((old[0] + speed(rule) * layer @ turn[2]) / 2 + old[1])
        olds.append(sum(old))
        parts.append(np.abs(old).sum())
        # (Of decay, which is no gradient's, F has −κv.)
        means.append((forth + rule.decay * np.einsum("ikk->", mixed)) / speed(rule))
        # What λ_k sees of x, in the fields of directions and rows, and what is left of it.
        known = np.concatenate([np.einsum("i,ikp->kp", eigenvalues, x) for x in (turned, mixed)], axis=1)
        seen.append(known @ samples.inverse.T)
        own = np.einsum("i,ikk->k", eigenvalues if student.whitened else np.ones_like(eigenvalues), mixed)
        rest.append((G, M, turned, mixed, samples.beta @ own + samples.neuron @ layer))
    points = gradients.points
    along = np.stack(
        [np.sum(samples.alpha * (points @ x.T), axis=1) + y for x, (*_, y) in zip(seen, rest, strict=True)], axis=1
    )
    square = along.T @ (along * samples.square[:, None])
    if len(eigenvalues) > 1:
        pairs = samples.alpha.T @ (samples.alpha * samples.square[:, None])
        for a, (G, M, *_) in enumerate(rest):
            for b, (*_, turned, mixed, _) in enumerate(rest):
                whole = np.einsum(
                    "i,ikl->kl", eigenvalues, mixed @ G.transpose(0, 2, 1) + turned @ M.transpose(0, 2, 1)
                )
                square[b, a] += np.sum((whole - seen[b] @ seen[a].T) * pairs)
    return *(np.array(x) for x in (shifts, turns, olds, parts)), square - np.outer(means, means)
