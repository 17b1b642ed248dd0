"""What a kernel needs for it

Predicted error of kernel ridge regression for single Hermite targets: degree k waits for d^k/k! samples (dotted).

docs/baselines.md
"""

from math import factorial

import numpy as np

from emergence import Activation, Teacher
from emergence.plot import Plot, colours
from theory.baselines.kernel_ridge import Kernel, KernelRidge

samples, plot = np.geomspace(1, 1e8, 200), Plot("samples", "share of the error left", "x")
for degree, colour in zip((1, 2, 3, 4), colours(4), strict=True):
    target = KernelRidge(Activation.from_degree(degree), Teacher.of([1.0, 1.0], 50), Kernel.parse("exp"))
    plot.curve(samples, [target.risk(n) / target.total for n in samples], f"h{degree}", colour)
    plot.vertical(50**degree / factorial(degree), "", colour, ":")
plot.ax.set_ylim(0, 1.5)
figure = plot.done()
