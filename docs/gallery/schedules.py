"""The best schedule there is

Step sizes that end a run of a linear model with label noise at the least risk, for three horizons: by gradient through
the exact recursion, and in closed form (dashed).

docs/schedules.md
"""

import numpy as np

from dynamics.declared.optimal_schedule import optimal_schedule
from emergence.plot import Plot, colours
from theory.declared.optimal_schedule import best_schedule, power_law

model, plot = power_law(1000, a=2.5, b=1.5), Plot("share of the run", "step size", "y")
for steps, colour in zip((50, 100, 200), colours(3), strict=True):
    share = (np.arange(steps) + 0.5) / steps
    plot.curve(share, optimal_schedule(model, 4, steps).step_sizes, f"{steps} steps", colour)
    plot.theory(share, best_schedule(model, 4, steps).step_sizes, "", colour)
figure = plot.done()
