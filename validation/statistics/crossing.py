"""When a recorded curve first passes a level."""

import numpy as np

#: The accuracy of the averaged flow's times, as judged by claim L11.
ACCURACY = 0.1


def crossing(steps: np.ndarray, curve: np.ndarray, level: float) -> float:
    """First time at which a curve passes a level (either way), linear between records; inf if it never does."""
    side = curve > level
    change = np.flatnonzero(side != side[0])
    if not len(change):
        return float("inf")
    last = change[0]
    share = (level - curve[last - 1]) / (curve[last] - curve[last - 1])
    return float(steps[last - 1] + share * (steps[last] - steps[last - 1]))
