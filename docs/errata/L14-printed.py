"""What the oscillation adds to the mean square error, in units of √η E‖W‖²: a half, not the printed one."""

import numpy as np

from emergence import draw_linear_start, draw_linear_task, oscillation
from emergence.plot import Plot

step_size, width = 4e-3, 16
task, start = draw_linear_task(4, 1.0, None, 0), draw_linear_start(width, 4, seed=0)
run = oscillation(task, start, step_size=step_size, steps=6_000, replicas=512, saves=20, tracked=1)
theta, norm2 = run.values("theta")[:, 1:], run.values("frobenius2")[:, 1:]
added = np.sum(theta**2, axis=2) - 2 * theta[..., 0]  # |θ − θ*|² − ‖θ*‖²
unit = np.sqrt(step_size) * norm2.mean(axis=0)

plot = Plot("steps", "added error / √η E‖W‖²")
error = added.std(axis=0, ddof=1) / np.sqrt(len(added)) / unit
plot.points(run.step[1:], added.mean(axis=0) / unit, "512 runs", "#0072B2", error)
plot.level(1.0, "as printed", "#D55E00")
plot.level(0.5, "corrected", ls="--")
figure = plot.done(loc=(0.02, 0.62))
