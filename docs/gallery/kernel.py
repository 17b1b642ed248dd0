"""Your activation, as the dynamics see it

Hermite weights of a few activations: the first degree decides how long the search takes.

docs/theory.md
"""

import numpy as np

from emergence import Activation
from emergence.plot import Plot, colours

plot, names = Plot("Hermite degree", "squared coefficient", "y"), ("tanh(2*z)", "relu", "z**3*exp(-z**2/4)")
for place, (name, colour) in enumerate(zip(names, colours(3), strict=True)):
    found = {degree: float(c) ** 2 for degree, c in Activation.parse(name).coefficients.items() if 0 < degree < 16}
    plot.ax.bar(np.array(list(found)) + 0.25 * (place - 1), list(found.values()), 0.25, label=name, color=colour)
figure = plot.done()
