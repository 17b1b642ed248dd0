"""E45: the power law of the compute frontier with its constant, as the limit of the exact sums."""

from collections.abc import Iterator

import numpy as np

from theory.scaling import frontiers
from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.power_law_loss import PowerLawLoss
from validation.judge.claim import Control, Controls, Measurement, claim
from validation.judge.context import Context
from validation.judge.under_test import built_in
from validation.statistics.exponents import continued

COST = 3

#: Directions learned at the costs, each four times as many as before.
_LEARNED = np.array([10, 40, 160, 640, 2560])
#: Widths are tried from an eighth of these to eight times as many, then between the neighbours of the best.
_REACH, _WIDTHS = 8.0, 60
_SOURCE = "what continuing the change from one cost to the next adds"


def _frontier(law: PowerLawLoss, schedule: str) -> tuple[np.ndarray, np.ndarray]:
    """Costs and least share, shapes (5,)."""
    costs = frontiers.cost_of(law, _LEARNED, schedule)
    shares = []
    for learned, cost in zip(_LEARNED, costs, strict=True):
        low, high = learned / _REACH, learned * _REACH
        for _ in range(2):
            widths = np.unique(np.geomspace(low, high, _WIDTHS).round())
            best = frontiers.frontier(law, np.array([cost]), widths, schedule)
            place = int(np.searchsorted(widths, best.width[0]))
            low, high = widths[place - 1], widths[place + 1]
        shares.append(float(best.share[0]))
    return costs, np.array(shares)


@claim(
    id="E45",
    title="Power law of the compute frontier, with its constant",
    statement="For an infinite teacher the least loss at compute C is a constant times C^e, at fixed and re-tuned step sizes.",
    latex=r"Z^2\ell\simeq\frac{C^e}{2\beta-1}\min_ww^{\kappa e}E\max\big(1,(w/g^{J-2})^{(2\beta-1)/\beta}\big),\quad "
    r"e=\frac{1-2\beta}{1+\kappa\beta}",
    source="arXiv:2504.19983, section 2.4 and Corollary 2.3; constant derived",
    kind="asymptotic",
    regime="P infinite, 10 to 2560 directions learned; exact sums",
    controls=("the other schedule", "off by 5 %", "every overlap typical"),
)
def run_limits(context: Context) -> Iterator[Measurement]:
    """Slope between costs, and the least loss over the law with its constant, where costs go to infinity."""
    for schedule, other in (("fixed", "unstable"), ("unstable", "fixed")):
        for decay in (0.8, 1.5):
            law = PowerLawLoss(decay, np.inf, LargestOverlap(3000))
            costs, shares = _frontier(law, schedule)
            key, what = f"{schedule}.beta{decay:g}", f"{schedule} step size, β = {decay:g}, P infinite"
            slopes = np.diff(np.log(shares)) / np.diff(np.log(costs))
            limit, added = map(float, continued(slopes))
            predicted = frontiers.exponent(decay, schedule)
            controls: Controls = {
                "the other schedule": frontiers.exponent(decay, other),
                "off by 5 %": 1.05 * predicted,
            }
            details = {"slopes": slopes.tolist()}
            yield Measurement(
                f"slope of the frontier, {what}", predicted, limit, 0.0, added, controls, _SOURCE, key, details
            )
            ratios = shares / frontiers.corrected_frontier(law, costs, schedule)
            limit, added = map(float, continued(ratios))
            typical = law.typical_overlap ** ((law.exponent - 2) * frontiers.SCHEDULES[schedule] * predicted)
            wrong = Control(1.0, limit * built_in(frontiers.constant)(law, schedule) / typical)
            text = f"least loss over the power law with its constant, {what}"
            yield Measurement(
                text, 1.0, limit, 0.0, added, {"every overlap typical": wrong}, _SOURCE, f"{key}.constant",
                {"values": ratios.tolist()},
            )  # fmt: skip
