r"""The law of greedy selection on random initial overlaps: which directions a width-m student learns, and when.

Scores $S_{kq}=a_qg_{kq}^{n}$, $n=J-2$, with independent reaches $g$ (`OverlapLaw`; in units of $d^{-1/2}$, so these scores
are $d^{n/2}$ times those of `theory.prediction.greedy`). Lower a threshold s from infinity and let a pair be taken when it
is met.

*Exact.* A pair whose neuron and direction are both free has $S<s$, and nothing else is known about it: given the past,
free entries are independent with the law of S conditioned to lie below s. So the free directions form a Markov chain:
with $N$ pairs taken, each free direction q is taken at the rate $(m-N)\,d\ln F_q(s)$, $F_q(s)=P(S_{kq}\le s)$.

*Equal weights.* All rates agree, and $-\ln F(S_{(N)})=\sum_{i<N}E_i/((m-i)(P-i))$ with independent standard exponentials
$E_i$: the whole law is explicit (`EqualWeights`).

*Fluid limit.* For many directions the number of free neurons is nearly deterministic, $r=m-P+\sum_q\phi_q$, and
$$\frac{d\phi_q}{d\ln s}=r\,\phi_q\,\frac{d\ln F_q}{d\ln s},\qquad\phi_q(\infty)=1,$$
for the probability $\phi_q(s)$ that q is still free at s, which is the distribution function of its selected score. The
first correction in the inverse size (linear noise around the fluid limit) follows along with the covariances.

Source: the selection rule is arXiv:2504.19983, eq. (5); the law is derived here. J ≥ 3, or exact times (`TimedCompetition`);
for odd J, and for even J if odd degrees make them stall, negative overlaps score 0 and may leave a direction without a neuron.
"""

from dataclasses import dataclass
from functools import cached_property

import mpmath
import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.teacher import Teacher
from theory.one_task.lone_path import one_sided
from theory.scaling.competition import Competition
from theory.scaling.extreme_overlaps import GAUSSIAN, OverlapLaw
from theory.scaling.selection_count import none_missed
from theory.scaling.selection_sets import MOST_DIRECTIONS, free_sets
from theory.scaling.timed_competition import TimedCompetition

#: The integration ends when fewer than this many free neurons, or free directions, are left to expect.
_LEFT = 1e-7
#: `selection_probability` corrects the fluid limit up to this number of directions.
_CORRECTED = 64
#: Largest step in the logarithm of the threshold; keeps the interpolation between steps at the integrator's accuracy.
_LARGEST_STEP = 0.05
#: Alternating terms above e to this power are added in more digits.
_FEW_DIGITS = 2.0


@dataclass(frozen=True)
class SelectionLaw:
    """What the fluid limit says about one competition.

    Attributes:
        competition: the problem.
        log_score: (K,) logarithms of the thresholds of the integration, decreasing.
        log_fluid: (K, P) ln φ. slope: (K, P) its derivative in ln s.
        shift: (K, P) first correction to φ in the inverse size, over φ (0 without fluctuations). shift_slope: its derivative.
        covariance: (P, P) of the final indicators "never selected", to leading order (0 without fluctuations).
    """

    competition: Competition
    log_score: np.ndarray
    log_fluid: np.ndarray
    slope: np.ndarray
    shift: np.ndarray
    shift_slope: np.ndarray
    covariance: np.ndarray

    @cached_property
    def _curves(self) -> "tuple[scipy.interpolate.CubicHermiteSpline, scipy.interpolate.CubicHermiteSpline]":
        x = self.log_score[::-1]
        return (
            scipy.interpolate.CubicHermiteSpline(x, self.log_fluid[::-1], self.slope[::-1]),
            scipy.interpolate.CubicHermiteSpline(x, self.shift[::-1], self.shift_slope[::-1]),
        )

    @property
    def _last_score(self) -> float:
        return float(np.exp(self.log_score[-1]))

    def free(self, score: ArrayLike, corrected: bool = True) -> np.ndarray:
        """P(direction q has no score above s), shape (..., P): the distribution function of its selected score.

        Tends to `missed` as s → 0. `corrected`: with the first correction in the inverse size.
        """
        x = np.log(np.clip(np.asarray(score, dtype=float), *np.exp(self.log_score[[-1, 0]])))
        log_fluid, shift = self._curves
        fluid = np.exp(np.minimum(log_fluid(x), 0.0))
        return np.clip(fluid * (1 + shift(x)) if corrected else fluid, 0.0, 1.0)

    @property
    def missed(self) -> np.ndarray:
        """(P,) probability that a direction is never selected; they sum to P − m if m < P (even activations)."""
        return self.free(self._last_score)

    def residual(self, weights: ArrayLike, score: float = 0.0, corrected: bool = True) -> float:
        r"""$E\sum_qw_q1\{\text{q has no score above s}\}$: with $w=a^2$ twice the idealised loss when s is met."""
        free = self.free(max(score, self._last_score), corrected)
        return float(np.sum(np.asarray(weights) * free))

    def all_selected(self, correlated: bool = True) -> np.ndarray:
        r"""(P + 1,) probability that directions 1 … q (in the order given) are all selected, q = 0 … P.

        Exact up to `MOST_DIRECTIONS` directions. For more the number of missed ones among them is taken for a sum of
        independent indicators, of the mean and variance that the law says (`none_missed`), and 0 for q > m: beside draws of
        P = 9 to 64 off by at most 0.01 at m ≤ P/2, and at P − 1 to P + 1 by up to 0.06, for even activations (m < P) 0.03.
        Without `correlated` the fluid limit, in which directions are independent: up to 0.36.
        """
        count = len(self.competition.weights)
        if correlated and count <= MOST_DIRECTIONS:
            return free_sets(self.competition).all_selected
        if not correlated:
            return np.cumprod(np.append(1.0, 1 - self.free(self._last_score, corrected=False)))
        most = min(self.competition.width, count)
        found = none_missed(self.missed[:most], self.covariance[:most, :most])
        return np.append(found, np.zeros(count - most))

    def first_missed(self, correlated: bool = True) -> float:
        """Mean index (from 1) of the first direction that is never selected; P + 1 if all are."""
        return float(np.sum(self.all_selected(correlated)))

    def score_of_rank(self, rank: float) -> float:
        """The score at which `rank` pairs are taken in the mean. Raises `InputError` if so many never are."""
        taken = np.sum(-np.expm1(self.log_fluid), axis=1)
        if not taken[0] <= rank < taken[-1]:
            raise InputError(
                f"rank is {rank!r}: in the mean between {taken[0]:.3g} and {taken[-1]:.6g} pairs are selected"
            )
        return float(np.exp(np.interp(rank, taken, self.log_score)))


def selection_law(competition: Competition, fluctuations: bool = True) -> SelectionLaw:
    """Integrate the fluid limit, by default with its first correction, whose cost grows as P² a step.

    While m ≥ P the last free direction still has m − P + 1 neurons, so each direction sees the others' mean plus itself;
    for m < P it is the neurons that run out, and the plain mean conserves their number. Both are right to leading order.
    Raises `InputError` where the scores leave double precision.
    """
    equations = _Equations(competition, fluctuations)
    begin, end = competition.interval
    solver = scipy.integrate.RK45(equations, begin, equations.start, end, max_step=_LARGEST_STEP, rtol=1e-6, atol=1e-9)
    rows = [(solver.t, solver.y, equations(solver.t, solver.y))]
    kept = 2 * len(competition.weights)
    while solver.status == "running" and not equations.finished(solver.y):
        solver.step()
        rows.append((solver.t, solver.y[:kept].copy(), solver.f[:kept].copy()))
    if solver.status == "failed":
        raise InputError(
            f"width is {competition.width}: the fluid limit of greedy selection could not be integrated, its scores leave "
            "double precision: bring the weights closer together"
        )
    states = np.array([y[:kept] for _, y, _ in rows]).reshape(len(rows), 2, -1)
    rates = -np.array([f[:kept] for _, _, f in rows]).reshape(len(rows), 2, -1)
    return SelectionLaw(
        competition,
        -np.array([t for t, _, _ in rows]),
        states[:, 0],
        rates[:, 0],
        states[:, 1],
        rates[:, 1],
        equations.covariance(solver.y),
    )


def selection_probability(
    teacher: Teacher, width: int, activation: Activation, law: OverlapLaw = GAUSSIAN
) -> np.ndarray:
    """(P,) probability over random initial overlaps that each direction is selected; 1 for m ≥ P if both signs get there.

    By exact one-task times (`TimedCompetition`), of independent reaches of the `law`, by default that of d → ∞: beside drawn
    starts off by less than 0.01 from d = 5(P + m) on, by up to 0.03 at 2(P + m) and 0.12 at P + m.
    Exact up to `MOST_DIRECTIONS` directions; for more by the fluid limit, up to 64 with its first correction (beyond, that is
    worth less than it costs): beside draws of P = 9 to 32 off by at most 0.01, and by up to 0.06 for J = 2 and m near P,
    where scores of all neurons are nearly the same.
    Raises `InputError` for information exponent 1.
    """
    competition = TimedCompetition(tuple(teacher.a.tolist()), width, law=law, activation=activation, dim=teacher.dim)
    if width >= teacher.width and not one_sided(activation):
        return np.ones(teacher.width)
    if teacher.width <= MOST_DIRECTIONS:
        return 1 - free_sets(competition).missed
    return 1 - selection_law(competition, fluctuations=teacher.width <= _CORRECTED).missed


class _Equations:
    r"""Right-hand side in −ln s of $(\ln\phi,b,r,B)$, flat; without fluctuations b stays 0 and B is left out.

    The correction to φ is $\phi b$, the covariance of the indicators "still free" $\phi_p\phi_qB_{pq}+\phi_p\delta_{pq}$:
    in these variables nothing decays fast, so that an explicit method takes large steps at any width. The number r of
    free neurons is carried along rather than summed from φ, so that it vanishes without rounding errors.
    """

    def __init__(self, competition: Competition, fluctuations: bool) -> None:
        self.competition, self.fluctuations = competition, fluctuations
        self.count = len(competition.weights)
        self.spare = competition.width - self.count
        self.own = 1.0 if self.spare >= 0 else 0.0

    @property
    def start(self) -> np.ndarray:
        log_free = self.competition.width * self.competition.log_cdf(np.exp(-self.competition.interval[0]))
        pairs = -np.eye(self.count).ravel() if self.fluctuations else np.zeros(0)
        return np.concatenate([log_free, np.zeros(self.count), [self.spare + np.exp(log_free).sum()], pairs])

    def parts(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """φ, b, r and B (0 × 0 without fluctuations)."""
        count, size = self.count, self.count if self.fluctuations else 0
        pairs = state[2 * count + 1 :].reshape(size, size)
        return np.exp(state[:count]), state[count : 2 * count], float(state[2 * count]), pairs

    def covariance(self, state: np.ndarray) -> np.ndarray:
        """(P, P), 0 without fluctuations."""
        fluid, _, _, pairs = self.parts(state)
        if not self.fluctuations:
            return np.zeros((self.count, self.count))
        return np.outer(fluid, fluid) * pairs + np.diag(fluid)

    def finished(self, state: np.ndarray) -> bool:
        fluid, _, neurons, _ = self.parts(state)
        return bool(np.sum(fluid) < _LEFT or neurons + self.own < _LEFT)

    def __call__(self, minus_log: float, state: np.ndarray) -> np.ndarray:
        rate = self.competition.growth(np.exp(-minus_log))
        fluid, shift, neurons, pairs = self.parts(state)
        slope = rate * (neurons + self.own * (1 - fluid))
        taken = [-np.sum(slope * fluid)]
        if not self.fluctuations:
            return np.concatenate([-slope, np.zeros(self.count), taken])
        pull = pairs @ fluid + 1  # Σ of a row of the covariance, over φ
        mean = fluid @ shift - self.own * fluid * shift
        others = pull - self.own * (fluid * np.diag(pairs) + 1)
        cross = np.outer(rate, pull)
        return np.concatenate([-slope, -rate * (mean + others), taken, -(cross + cross.T).ravel()])


@dataclass(frozen=True)
class EqualWeights:
    """Greedy selection with P equal weights, exactly. m ≥ P.

    Attributes: directions P, width m, law of one reach. Raises `InputError` for m < P.
    """

    directions: int
    width: int
    law: OverlapLaw = GAUSSIAN

    def __post_init__(self) -> None:
        if not 1 <= self.directions <= self.width:
            raise InputError(
                f"width is {self.width!r} for {self.directions!r} directions: give at least as many neurons"
            )

    def success(self, reach: float) -> float:
        r"""P(every direction is selected with a reach above `reach`), by partial fractions of the sum of exponentials:

        $1-\sum_{j=1}^P(-1)^{j-1}\binom Pj\frac{M+2j}{M+j}\frac{(M+P)!\,(M+j)!}{M!\,(M+P+j)!}F^{j(M+j)}$, $M=m-P$.
        For large P this depends on M alone: a fixed number of spare neurons suffices for any number of directions.
        Absolute error below 1e-9: where the alternating terms are large, in as many digits as that takes.
        """
        spare, count = self.width - self.directions, self.directions
        j = np.arange(1, count + 1)
        log_cdf = float(self.law.log_cdf(reach))
        log_size = (
            scipy.special.gammaln(count + 1)
            - scipy.special.gammaln(j + 1)
            - scipy.special.gammaln(count - j + 1)
            + np.log((spare + 2 * j) / (spare + j))
            + scipy.special.gammaln(spare + count + 1)
            + scipy.special.gammaln(spare + j + 1)
            - scipy.special.gammaln(spare + 1)
            - scipy.special.gammaln(spare + count + j + 1)
            + j * (spare + j) * log_cdf
        )
        if np.max(log_size) > _FEW_DIGITS:
            return self._precise_success(log_cdf, float(np.max(log_size)))
        return float(np.clip(1 - np.sum(np.where(j % 2 == 1, 1.0, -1.0) * np.exp(log_size)), 0.0, 1.0))

    def _precise_success(self, log_cdf: float, log_size: float) -> float:
        """The same sum with terms as large as e^log_size, term from term."""
        spare, count = self.width - self.directions, self.directions
        with mpmath.workdps(25 + int(log_size / np.log(10))):
            level = mpmath.exp(mpmath.mpf(log_cdf))
            total, size = mpmath.mpf(1), mpmath.mpf(1)  # size: of the term without (M + 2j)/(M + j) and F
            for j in range(1, count + 1):
                size *= mpmath.mpf((count - j + 1) * (spare + j)) / (j * (spare + count + j))
                total += (-1) ** j * size * mpmath.mpf(spare + 2 * j) / (spare + j) * level ** (j * (spare + j))
            return float(total)


def success_probability(law: SelectionLaw, reach: float) -> float:
    r"""P(every direction is selected with a reach above `reach`) $\approx\exp(-\sum_q\phi_q(a_qg^n))$: rare failures.

    m ≥ P. Failures are counted as a Poisson number, which is right to leading order where they are rare.
    """
    x = law.competition
    score = x.a * reach**x.power
    return float(np.exp(-np.trace(law.free(score))))


def well_separated_success(directions: int, width: int, reach: float, law: OverlapLaw = GAUSSIAN) -> float:
    r"""The same for weights so far apart that directions are served in order: $\prod_{j\le P}(1-F(g)^{m-P+j})$, m ≥ P."""
    free = width - directions + np.arange(1, directions + 1)
    return float(np.prod(-np.expm1(free * float(law.log_cdf(reach)))))
