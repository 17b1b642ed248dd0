"""How large may a step be?

Above the line the drift of a step no longer finds a direction of that weight; the slope is −J/2, here −2.

docs/finite_step.md
"""

import numpy as np
from matplotlib.figure import Figure

from theory import Activation, stability_map

dims, weights = np.geomspace(100, 1e5, 20).astype(int), (1.0, 0.3, 0.1)
found = stability_map(Activation.parse("h4"), dims, weights, reach=np.sqrt(2 * np.log(32)))

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="dimension", ylabel="critical step size", xscale="log", yscale="log")
for weight, critical in zip(weights, found.critical.T, strict=True):
    axes.plot(dims, critical, label=f"weight {weight}")
axes.legend()
