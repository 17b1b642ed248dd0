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
    """(replicas,) steps until alignment has set in; inf if never."""
    return first_crossing(run.step, run.values("mean_alignment"), onset_level(dim))
