"""How far may a prediction be off?

Interval of each emergence time, relative to the prediction, and the measured time (circle), of three
directions at four dimensions: it narrows with d.

docs/validity.md
"""

from emergence import Activation, Student, Teacher, draw_initial_state, gradient_flow, predict
from emergence.plot import PALETTE, Plot
from theory.prediction.validity import validity

plot, activation, student = Plot("dimension", "time / prediction", "x"), Activation.parse("h4"), Student(8, 0.01)
for dim in (60, 120, 300, 1000):
    start = draw_initial_state(teacher := Teacher.power_law(width=3, exponent=1.0, dim=dim), student, seed=3)
    prediction = predict(activation, teacher, start)
    flow = gradient_flow(activation, teacher, start, t_end=1.3 * prediction.last_time)
    for q, (found, scale) in enumerate(zip(validity(prediction), prediction.time_half, strict=True)):
        at, name = dim * 1.2**q, f"direction {q + 1}" if dim == 60 else ""
        plot.curve([at] * 2, [found.low / scale, found.high / scale], "", PALETTE[q], lw=3, alpha=0.4)
        plot.points([at], [flow.half_time[q] / scale], name, PALETTE[q])
plot.ax.set_ylim(0.5, 2)
figure = plot.done()
