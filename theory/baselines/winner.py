r"""Which direction a neuron takes when nothing learned is ever cancelled: the tensor-power argument.

Without deflation (correlation loss, arXiv:2504.19983's baselines) every neuron goes on its own to
$\arg\max_qa_q|\bar v_q|^{n}$, $n=J-2$, so a direction is learned only if some neuron happens to prefer it. For one
neuron, with reaches $g=\sqrt d|\bar v|$ taken to be independent,
$$P(\text{p wins})=\int f(g)\prod_{q\ne p}F\big(g(a_p/a_q)^{1/n}\big)dg.$$
With P − 1 rivals of weight κ times one's own and $c=\kappa^{2/n}$, for large P and Gaussian reaches,
$$P(\text{weakest wins})\approx\kappa^{1/n}\,\Gamma(c)\,\Big(\frac{\pi u^2}2\Big)^{(c-1)/2}P^{-c},\qquad P\cdot P(g>u)=1:$$
the width needed is a power of P whose exponent $\kappa^{2/n}$ is approached only logarithmically.
"""

import numpy as np
import scipy

from theory.core.errors import InputError
from theory.core.quadrature import gauss_legendre
from theory.scaling.competition import Competition
from theory.scaling.extreme_overlaps import GAUSSIAN, OverlapLaw

#: Gauss–Legendre nodes between breaks; dimension up to which the ends of the rivals' reaches are breaks.
_NODES, _KINKS = 200, 12


def weakest_wins(condition: float, directions: float, power: float = 2.0, law: OverlapLaw = GAUSSIAN) -> float:
    """P(the weakest of P directions wins one neuron), the other P − 1 weighing κ times as much; 1/P at κ = 1.

    Args: condition κ ≥ 1; directions P ≥ 2, also far beyond what can be enumerated; power n = J − 2.
    Raises: `InputError` outside these ranges.
    """
    if not condition >= 1 or not directions >= 2 or not power > 0:
        raise InputError(
            f"condition {condition!r}, directions {directions!r}, power {power!r}: give condition >= 1, 2 or more "
            "directions and a positive power"
        )
    return _wins(np.array([condition]), np.array([directions - 1.0]), power, law)


def winning_probabilities(competition: Competition) -> np.ndarray:
    """(P,) probability that each direction wins a given neuron; they sum to 1 (even activations)."""
    weights, counts = np.unique(competition.a, return_counts=True)
    found = {
        own: _wins(weights / own, counts - (weights == own), competition.power, competition.law) for own in weights
    }
    return np.array([found[own] for own in competition.a])


def covering_probability(competition: Competition) -> np.ndarray:
    r"""(P + 1,) probability that directions 1 … q are each preferred by some neuron: $\prod(1-e^{-mP(p\text{ wins})})$.

    The m neurons choose independently; their numbers are taken as Poisson, which makes directions independent.
    """
    covered = -np.expm1(-competition.width * winning_probabilities(competition))
    return np.concatenate([[1.0], np.cumprod(covered)])


def width_exponent(condition: float, directions: float, power: float = 2.0, law: OverlapLaw = GAUSSIAN) -> float:
    r"""$-\ln P(\text{weakest wins})/\ln P$: the width that covers the weakest direction is P to this power."""
    return -float(np.log(weakest_wins(condition, directions, power, law)) / np.log(directions))


def _wins(ratios: np.ndarray, counts: np.ndarray, power: float, law: OverlapLaw) -> float:
    r"""∫ f(g) ∏ F(g ratio^{−1/n})^{count} dg, scaled by its largest value so that tiny probabilities keep their digits.

    In finite dimension over the angle, $g=\sqrt d\sin\theta$: $f\,dg\propto\cos^{d-2}\theta\,d\theta$ has no end to jump or to
    diverge at. What is left are the ends $\sqrt d$ of the rivals' reaches, where F is no longer analytic: the rule is
    broken there (in dimensions in which that shows).
    """
    shrink, finite = ratios ** (-1 / power), np.isfinite(law.dim)
    end, breaks = float(law.from_tail(1e-290)), np.zeros(0)
    if finite:
        end = float(np.arcsin(min(end / np.sqrt(law.dim), 1.0)))
        top_density = np.log(2 * law.share / scipy.special.beta(0.5, (law.dim - 1) / 2))
        if law.dim <= _KINKS:
            breaks = np.arcsin(1 / shrink[shrink > 1])

    def log_integrand(place: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            own = top_density + (law.dim - 2) * np.log(np.cos(place)) if finite else np.log(law.density(place))
        reach = np.sqrt(law.dim) * np.sin(place) if finite else place
        return own + law.log_cdf(np.multiply.outer(reach, shrink)) @ counts

    grid = np.linspace(0.0, end, 400)[1:-1]
    values = log_integrand(grid)
    top = float(values.max())
    kept = grid[values > top - 45]
    # Twice the grid's spacing beyond what matters on both sides; analytic, so that Gauss–Legendre converges fast.
    low, high = max(kept[0] - 2 * grid[0], 0.0), min(kept[-1] + 2 * grid[0], end)
    edges = np.unique([low, *np.clip(breaks, low, high), high])
    place, weights = gauss_legendre(edges[:-1], edges[1:], _NODES)
    return float(np.sum(weights * np.exp(log_integrand(place.ravel()) - top).reshape(weights.shape)) * np.exp(top))
