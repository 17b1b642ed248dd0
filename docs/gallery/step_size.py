"""How large may a step be?

Above the line the drift of a step no longer finds a direction of that weight; the slope is −J/2, here −2.

docs/finite_step.md
"""

import numpy as np

from emergence import Activation, stability_map
from emergence.plot import Plot, colours

dims, weights = np.geomspace(100, 1e5, 20).astype(int), (1.0, 0.3, 0.1)
found = stability_map(Activation.parse("h4"), dims, weights, reach=np.sqrt(2 * np.log(32)))

plot = Plot("dimension", "critical step size", "xy")
for weight, critical, colour in zip(weights, found.critical.T, colours(3), strict=True):
    plot.curve(dims, critical, f"weight {weight}", colour)
figure = plot.done()
