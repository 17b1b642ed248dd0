"""How large a step may be, and what it costs

Floor of the excess risk of a linear model against the step size, for three rules: it grows without bound at the edge of
stability (dotted).

docs/linear_model.md
"""

from dataclasses import replace

import numpy as np

from emergence.plot import Plot, colours
from theory.declared.linear_model import LinearModel
from theory.declared.linear_stability import edge, floor
from theory.declared.rule import Momentum, Rule

model = LinearModel(np.array([1.5, 0.6, 0.2]), np.array([2.0, 3.0, 8.0]), 0.5, np.ones(3))
rules = {"SGD": Rule(1), "SGD, batch 3": Rule(1, batch=3), "momentum 0.9": Momentum(1, beta=0.9, kind="average")}
plot = Plot("step size", "floor of the excess risk", "xy")
for (name, rule), colour in zip(rules.items(), colours(3), strict=True):
    steps = edge(model, rule) * (1 - np.geomspace(0.98, 0.003, 40))
    plot.curve(steps, [floor(model, replace(rule, step_size=step)) for step in steps], name, colour)
    plot.vertical(edge(model, rule), "", colour, ":")
figure = plot.done()
