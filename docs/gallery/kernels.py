"""What a kernel needs for it

Predicted error of kernel ridge regression for single Hermite targets: degree k waits for d^k/k! samples (dotted).

docs/baselines.md
"""

from math import factorial

import numpy as np
from matplotlib.figure import Figure

from theory import Activation, Teacher
from theory.baselines.kernel_ridge import Kernel, KernelRidge

samples = np.geomspace(1, 1e8, 200)
figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="samples", ylabel="share of the error left", xscale="log")
for degree in (1, 2, 3, 4):
    target = KernelRidge(Activation.from_degree(degree), Teacher.of([1.0, 1.0], 50), Kernel.parse("exp"))
    axes.plot(samples, [target.risk(n) / target.total for n in samples], label=f"h{degree}")
    axes.axvline(50**degree / factorial(degree), color=f"C{degree - 1}", linestyle=":")
axes.set_ylim(0, 1.5)
axes.legend()
