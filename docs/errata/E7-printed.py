"""A neuron with J = 6 at d = 1000 emerges where J(J − 2) in the constant says, long before the printed 8 lets it."""

import numpy as np

from emergence import Activation, InitialState, SingleTask, Teacher, gradient_flow
from emergence.plot import Plot
from theory.one_task.single_task import M0, a

dim, activation = 1000, Activation.parse("h6")
start = InitialState(1e-3 * np.array([[dim**-0.5]]), 1e-3 * np.array([[(1 - 1 / dim) ** 0.5]]))
printed = dim**2 / 8  # 1/(8 a v⁴), v² = 1/d
right = float(SingleTask(activation).emergence_time.subs({M0: 1 / dim, a: 1}))
times = np.linspace(0, 1.05 * printed, 400)
flow = gradient_flow(activation, Teacher.of([1.0], 10), start, t_end=times[-1], times=times).dataset

plot = Plot("gradient-flow time", "squared overlap")
plot.curve(flow.time, flow.overlap[:, 0, 0] ** 2, "gradient flow", "#0072B2")
plot.vertical(printed, "as printed: 8", "#D55E00", ":")
plot.vertical(right, "corrected: J(J − 2)")
figure = plot.done(loc="center")
