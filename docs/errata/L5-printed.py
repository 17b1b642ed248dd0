"""Neurons of one run leave the lazy regime about the predicted time, hundreds of times before the printed one."""

import numpy as np

from emergence import draw_linear_start, draw_linear_task, label_noise_sgd
from emergence.plot import Plot
from theory.linear.phases import predict_phases

width, size = 250, {"step_size": 1e-3, "noise": 8.0}
task = draw_linear_task(dim=20, target_norm=1.0, train_size=None, seed=0)
phases = predict_phases(task, width=width, horizon=20_000, **size)
start = draw_linear_start(width=width, dim=20, seed=0)
run = label_noise_sgd(task, start, steps=int(3 * phases.escape_steps), tracked=width, saves=200, **size)

plot = Plot("steps", "share of neurons that have escaped", "x")
plot.shares(np.ravel(run.escape_steps), "SGD with label noise", "#0072B2", end=2 * phases.escape_bound)
plot.vertical(phases.escape_steps, "predicted for the median neuron")
plot.vertical(phases.escape_bound, "as printed: T₁, all of them", "#D55E00", ":")
plot.ax.set_xlim(phases.escape_steps / 30, 2 * phases.escape_bound)
figure = plot.done(loc=(0.42, 0.4))
