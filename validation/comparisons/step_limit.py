r"""A mean over runs of SGD, extrapolated to step size 0.

With $f(\eta)=f_0+a\eta+b\eta^2$ the mean at step size η, $R(\eta)=2f(\eta/2)-f(\eta)=f_0-b\eta^2/2$ is what is judged. Runs at
2η, for half the cost of those at η, tell how far that is from $f_0$: $R(\eta)-f_0=(R(2\eta)-R(\eta))/3$.
"""

from typing import Any

import numpy as np

from validation.comparison import FALSE_ALARMS, allowed
from validation.statistics.standard_errors import mean_and_error, sigmas

#: What is allowed, in words.
SECOND_ORDER = "second order of the extrapolation to η = 0"
#: Why nothing is judged, in words.
TOO_FEW = "No SGD is judged: fewer than two replicas are there, or did not diverge; give more, or a lower step-size."


def step_limit(double: np.ndarray, full: np.ndarray, half: np.ndarray) -> dict[str, Any] | None:
    """The limit of step size 0 from runs (replica,) at 2η, η and η/2: what `Measurement` takes, by its names.

    Runs that are not finite are left out; None if fewer than two remain at η and η/2. If fewer than two do at 2η, the first
    order, f(η/2) − f(η), is allowed whole.
    """
    kept = np.isfinite(full) & np.isfinite(half)
    if kept.sum() < 2:
        return None
    limit = 2 * half - full
    estimate, stderr = mean_and_error(limit[kept])
    within, coarse = allowed(int(kept.sum())), kept & np.isfinite(double)
    left, unsure = np.mean(half[kept] - full[kept]), 0.0
    if coarse.sum() > 1:
        second = full[coarse] - (double[coarse] + 2 * half[coarse]) / 3
        left = np.mean(second)
        # Runs at η that are high by chance make the limit low and its second order high: their difference errs more than it.
        unsure = sigmas(int(coarse.sum()), FALSE_ALARMS) * mean_and_error(limit[coarse] - second)[1]
    allowance = float(abs(left) + max(0.0, unsure - within * stderr))
    return {"estimate": estimate, "stderr": stderr, "allowance": allowance, "sigmas": within}
