"""When will a run of SGD find it?

Mean and spread of the recovery time against the step size, from the backward equation: no run is made.

docs/sde.md
"""

import numpy as np

from emergence import Activation, hitting_law
from emergence.plot import Plot, colours

steps = np.geomspace(1e-6, 4e-4, 25)
laws = [hitting_law(Activation.parse("h4"), 1.0, 0.15, step, total=1.0, dim=100) for step in steps]

plot = Plot("step size", "recovery time (gradient-flow units)", "xy")
for name, text, colour in zip(("mean", "std"), ("mean", "standard deviation"), colours(2), strict=True):
    plot.curve(steps, [getattr(law, name) for law in laws], text, colour)
figure = plot.done()
