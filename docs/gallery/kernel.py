"""Your activation, as the dynamics see it

Hermite weights of a few activations: the first degree decides how long the search takes.

docs/theory.md
"""

import numpy as np
from matplotlib.figure import Figure

from theory import Activation

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="Hermite degree", ylabel="squared coefficient", yscale="log")
for place, name in enumerate(("tanh(2*z)", "relu", "z**3*exp(-z**2/4)")):
    found = {degree: float(c) ** 2 for degree, c in Activation.parse(name).coefficients.items() if 0 < degree < 16}
    axes.bar(np.array(list(found)) + 0.25 * (place - 1), list(found.values()), 0.25, label=name)
axes.legend()
