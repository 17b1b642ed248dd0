"""A limit that no size reaches

Slope of the staircase's loss in time over the window that theory fixes, for eight starts at each width,
beside its limit (dashed).

docs/exponents.md
"""

import numpy as np

from emergence import Activation, Student, Teacher, draw_initial_state, predict
from emergence.plot import PALETTE, Plot

widths, slopes = (32, 64, 128, 256, 512), []
for width in widths:
    teacher = Teacher.power_law(width, exponent=0.8, dim=4096)
    starts = [draw_initial_state(teacher, Student(width=width, init_scale=0.003), seed) for seed in range(8)]
    runs = [predict(Activation.parse("h4"), teacher, start) for start in starts]
    windows = [np.geomspace(run.time_loss[3], run.time_loss[width // 8], 100) for run in runs]
    slopes.append([np.polyfit(np.log(t), np.log(run.loss(t)), 1)[0] for run, t in zip(runs, windows, strict=True)])

plot, error = Plot("width P = m", "d ln(loss) / d ln(time)", "x"), np.std(slopes, axis=1, ddof=1) / 8**0.5
plot.points(widths, np.mean(slopes, axis=1), "eight starts", PALETTE[0], error)
plot.level((1 - 2 * 0.8) / 0.8, "limit", ls="--")
figure = plot.done()
