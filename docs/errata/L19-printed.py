"""At the printed time no neuron has moved; on average they align a factor 1/η later, as far as their start lets them."""

import numpy as np

from emergence import LinearStart, draw_linear_task, linear_descent
from emergence.plot import Plot
from theory.linear.alignment import corrected_alignment_time, linear_cosines, printed_alignment_time

step_size, norm, dim, width, rng = 1e-3, 0.5, 20, 64, np.random.default_rng(0)
first = rng.standard_normal((width, dim))
first *= np.sqrt(step_size) / np.linalg.norm(first, axis=1, keepdims=True)
start = LinearStart(first, np.sqrt(step_size) * rng.uniform(-1, 1, width))
printed, right = (time(step_size, norm) for time in (printed_alignment_time, corrected_alignment_time))
task = draw_linear_task(dim, norm, None, 0)
run = linear_descent(task, start, step_size=step_size, steps=int(2 * right), saves=2000, tracked=width)
early = np.geomspace(1, right / 3, 60)
law = [linear_cosines(start.first, start.second, norm * np.eye(dim)[0], step_size, x).mean() for x in early]

plot = Plot("steps", "mean |cos| of neuron and target", "x")
plot.curve(run.step[1:], run.values("mean_alignment")[0][1:], "gradient descent", "#0072B2")
plot.theory(early, law, "linear law")
plot.vertical(printed, "as printed: ln(1/η)/‖θ*‖", "#D55E00", ":")
plot.vertical(right, "corrected: over η")
figure = plot.done(loc=(0.28, 0.72))
