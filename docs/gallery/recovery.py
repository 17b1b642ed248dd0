"""When will a run of SGD find it?

Mean and spread of the recovery time against the step size, from the backward equation: no run is made.

docs/sde.md
"""

import numpy as np
from matplotlib.figure import Figure

from theory import Activation, hitting_law

steps = np.geomspace(1e-6, 4e-4, 25)
laws = [hitting_law(Activation.parse("h4"), 1.0, 0.15, step, total=1.0, dim=100) for step in steps]
mean, spread = (np.array([getattr(law, name) for law in laws]) for name in ("mean", "std"))

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="step size", ylabel="recovery time (gradient-flow units)", xscale="log", yscale="log")
axes.plot(steps, mean, label="mean")
axes.plot(steps, spread, label="standard deviation")
axes.legend()
