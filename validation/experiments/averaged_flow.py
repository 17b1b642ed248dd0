"""Times of label-noise SGD that the averaged flow predicts, as read off its runs."""

import numpy as np

from dynamics import LinearRun
from theory.core.curves import crossing_time, first_crossing
from theory.linear.phases import Phases, onset_level

#: The accuracy of the averaged flow's times, as judged by claim L11.
ACCURACY = 0.1


def halving_steps(run: LinearRun, phases: Phases, level: float) -> tuple[np.ndarray, float]:
    """Steps until ‖W‖²_F has fallen to `level`, (replicas,) measured and one predicted; inf if never."""
    measured = first_crossing(run.step, run.values("frobenius2"), level, falling=True)
    return measured, crossing_time(phases.times, phases.frobenius2, level, falling=True)


def onset_steps(run: LinearRun, dim: int) -> np.ndarray:
    r"""(replicas,) pseudo-values of the step at which alignment has set in, all inf if never.

    That is when the mean over replicas passes the level: RT − (R − 1)T₋ᵢ, T₋ᵢ without replica i (jackknife). Replicas by
    themselves first pass it early, as they fluctuate about their mean (2 dimensions, 60 neurons, tr β = 0.06: by 6 %).
    """
    curves, level = run.values("mean_alignment"), onset_level(dim)
    count = len(curves)
    whole = float(first_crossing(run.step, curves.mean(axis=0), level))
    if count == 1:
        return np.array([whole])
    without = (curves.sum(axis=0) - curves) / (count - 1)
    left = first_crossing(run.step, without, level)
    if not np.all(np.isfinite([whole, *left])):
        return np.full(count, np.inf)
    return np.asarray(count * whole - (count - 1) * left)
