r"""Compute frontiers of the idealised loss sum: the least loss at compute C, over widths.

A student of width m run to reduced time s costs $C=m\,s^\kappa$: κ = 1 at a fixed step size (samples ∝ time), κ = 2 if the
step size is re-tuned to the horizon, since then samples ∝ s² (below). Learning p directions costs $p^{1+\kappa\beta}$, so
the exponent is $e=(1-2\beta)/(1+\kappa\beta)$. With random overlaps and $w=m^\beta/s$,

$$Z^2\ell_{opt}\simeq\frac{C^e}{2\beta-1}\min_w w^{\kappa e}\,E\Big[\max\big(1,(w/g^{J-2})^{(2\beta-1)/\beta}\big)\Big]
-\frac{(P+\frac12)^{1-2\beta}}{2\beta-1}.$$

Re-tuned step size ("unstable" discretisation of arXiv:2504.19983, Corollary 2.3): direction p survives steps up to
$\eta\le cS_p$, $S_p=1/s_p$ its score, and needs $n\ge1/(\eta S_p)$ of them. What n steps can learn at best, over η, are the
scores above $\max(\eta/c,1/(\eta n))\ge(cn)^{-1/2}$: the staircase at $s=\sqrt{cn}$, exactly.

One schedule for all horizons, $\eta_n=\sqrt{c/2n}$: a direction grows while $\eta_n\le cS_p$, from $n_0=1/(2cS_p^2)$ on, until
$\sum\eta_n\simeq\sqrt{2c}(\sqrt n-\sqrt{n_0})=1/S_p$: after twice the samples $1/(cS_p^2)$ of the step size that is tuned to
it, whatever its score (derived).
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.errors import InputError
from theory.scaling.ideal_loss import beta, compute_exponent
from theory.scaling.loss_sums import LossSum
from theory.scaling.power_law_loss import PowerLawLoss

#: Samples grow as this power of the reduced time.
SCHEDULES = {"fixed": 1, "unstable": 2}


def _schedule(name: str) -> int:
    if name not in SCHEDULES:
        raise InputError(f"schedule is {name!r}: use {' or '.join(SCHEDULES)}")
    return SCHEDULES[name]


@dataclass(frozen=True)
class Frontier:
    """Least share of the loss at each cost and the width that attains it, shapes of `cost`."""

    cost: np.ndarray
    share: np.ndarray
    width: np.ndarray


def frontier(law: PowerLawLoss, costs: ArrayLike, widths: ArrayLike, schedule: str = "fixed") -> Frontier:
    r"""Lower envelope of ℓ over `widths` at reduced costs $C=m\,s^\kappa$: exact finite sums.

    `costs` of any shape, `widths` (n,). Raises `InputError` for an unknown schedule.
    """
    cost, width = np.asarray(costs, dtype=float), np.asarray(widths)
    kappa = _schedule(schedule)
    rows = np.array([law.share((cost / m) ** (1 / kappa), float(m)) for m in width])
    best = np.argmin(rows, axis=0)
    return Frontier(cost, np.take_along_axis(rows, best[None], axis=0)[0], width[best])


def cost_of(law: PowerLawLoss, direction: ArrayLike, schedule: str = "fixed") -> np.ndarray:
    r"""$C=p\,s(p)^\kappa$: the cost of learning p directions at the typical overlap. Shape of `direction`.

    Raises `InputError` for an unknown schedule.
    """
    return np.asarray(direction, dtype=float) * law.time_of(direction) ** _schedule(schedule)


def exponent(decay: float, schedule: str = "fixed") -> float:
    r"""`compute_exponent`, $(1-2\beta)/(1+\kappa\beta)$, as a number. Raises `InputError` for an unknown schedule."""
    return float(compute_exponent(_schedule(schedule)).subs(beta, decay))


def corrected_frontier(law: PowerLawLoss, costs: ArrayLike, schedule: str = "fixed") -> np.ndarray:
    """The two-term law above, for 1 ≪ m ≪ P (asymptotic). Raises `InputError` for β ≤ ½. Shape of `costs`."""
    if not law.decay > 0.5:
        raise InputError(f"decay is {law.decay:g}: the frontier is a power law only for a decay above one half")
    steep, missing = 2 * law.decay - 1, 0.0
    if np.isfinite(law.teachers):
        missing = (law.teachers + 0.5) ** -steep
    power = np.asarray(costs, dtype=float) ** exponent(law.decay, schedule)
    return (constant(law, schedule) * power - missing) / (steep * law.norm2)


def constant(law: PowerLawLoss, schedule: str = "fixed") -> float:
    """The minimum over w in the frontier's law: what random overlaps change. Raises `InputError` for an unknown schedule."""
    kappa, gamma = _schedule(schedule), (2 * law.decay - 1) / law.decay
    reach = law.exponent - 2

    def level(log_w: float) -> float:
        kept = law.law.expect(lambda g: np.maximum(1.0, (np.exp(log_w) / g**reach) ** gamma))
        return float(kappa * exponent(law.decay, schedule) * log_w + np.log(kept))

    centre = reach * np.log(law.typical_overlap)
    found = scipy.optimize.minimize_scalar(
        level, bounds=(centre - 6, centre + 3), method="bounded", options={"xatol": 1e-10}
    )
    return float(np.exp(found.fun))


def unstable_share(law: PowerLawLoss, samples: ArrayLike) -> np.ndarray:
    """ℓ after reduced samples cn at the best step size for them: the staircase at s = √(cn), exactly. Shape of `samples`."""
    return law.share(np.sqrt(np.asarray(samples, dtype=float)))


#: Samples that η = √(c/2n) takes to any score, over those of the step size tuned to it.
ONE_SCHEDULE = 2.0


def one_schedule_share(law: PowerLawLoss, samples: ArrayLike) -> np.ndarray:
    """ℓ after reduced samples cn of η = √(c/2n): the staircase at s = √(cn/2). Shape of `samples`."""
    return unstable_share(law, np.asarray(samples, dtype=float) / ONE_SCHEDULE)


def one_schedule_price(decay: float) -> float:
    r"""Its loss over that of a tuned step size, $2^{(2\beta-1)/2\beta}$ at any number of samples (many directions, β > ½)."""
    return float(ONE_SCHEDULE ** ((2 * decay - 1) / (2 * decay)))


def stepped_loss(score: np.ndarray, weights: np.ndarray, step: float, samples: ArrayLike) -> np.ndarray:
    """Half the sum of squared weights not learned after `samples` steps of size `step` (c = 1): S < max(η, 1/(ηn)).

    `score` and `weights`: (P,); the result has the shape of `samples`.
    """
    threshold = np.maximum(step, 1 / (step * np.asarray(samples, dtype=float)))
    # LossSum counts times 1/S ≤ t as learned, i.e. scores of at least 1/t.
    return LossSum.of(weights, 1 / score)(1 / threshold)
