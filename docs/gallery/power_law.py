"""A staircase that adds up to a power law

Loss of a thousand directions against time: every step is sudden, their sum is a power.

docs/scaling.md
"""

import numpy as np

from emergence import Activation, Student, Teacher, draw_initial_state, predict
from emergence.plot import Plot, colours

plot = Plot("gradient-flow time", "loss", "xy")
for width, colour in zip((10, 100, 1000), colours(3), strict=True):
    teacher = Teacher.power_law(width, exponent=0.8, dim=4000)
    start = draw_initial_state(teacher, Student(width=2 * width, init_scale=0.01), seed=1)
    prediction = predict(Activation.parse("h4"), teacher, start)
    times = np.geomspace(prediction.time_loss.min() / 3, 3 * prediction.last_time, 2000)
    plot.curve(times, prediction.loss(times), f"{width} directions", colour)
figure = plot.done()
