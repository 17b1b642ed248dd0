"""On the plateau 1/M falls in a straight line for J = 4: with the slope −8a, not with the printed −a."""

import numpy as np

from emergence import Activation, InitialState, SingleTask, Teacher, gradient_flow
from emergence.plot import Plot
from theory.one_task.single_task import M0, a

dim, activation = 1000, Activation.parse("h4")
start = InitialState(1e-3 * np.array([[dim**-0.5]]), 1e-3 * np.array([[(1 - 1 / dim) ** 0.5]]))
blow_up = float(SingleTask(activation).emergence_time.subs({M0: 1 / dim, a: 1}))
times = np.linspace(0, 0.9 * blow_up, 200)
flow = gradient_flow(activation, Teacher.of([1.0], 10), start, t_end=times[-1], times=times).dataset

plot = Plot("gradient-flow time", "1 / M")
plot.curve(flow.time, flow.overlap[:, 0, 0] ** -2, "gradient flow", "#0072B2")
plot.limit(times, dim - times, "as printed: slope −a", "#D55E00")
plot.theory(times, dim * (1 - times / blow_up), "corrected: slope −8a")
figure = plot.done()
