"""A staircase that adds up to a power law

Loss of a thousand directions against time: every step is sudden, their sum is a power.

docs/scaling.md
"""

import numpy as np
from matplotlib.figure import Figure

from theory import Activation, Student, Teacher, draw_initial_state, predict

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="gradient-flow time", ylabel="loss", xscale="log", yscale="log")
for width in (10, 100, 1000):
    teacher = Teacher.power_law(width, exponent=0.8, dim=4000)
    start = draw_initial_state(teacher, Student(width=2 * width, init_scale=0.01), seed=1)
    prediction = predict(Activation.parse("h4"), teacher, start)
    times = np.geomspace(prediction.time_loss.min() / 3, 3 * prediction.last_time, 2000)
    axes.plot(times, prediction.loss(times), label=f"{width} directions")
axes.legend()
