"""How far may a prediction be off?

Interval of each emergence time, relative to the prediction, and the measured time (circle), of three
directions at four dimensions: it narrows with d.

docs/validity.md
"""

from matplotlib.figure import Figure

from emergence import Activation, Student, Teacher, draw_initial_state, gradient_flow, predict
from theory.prediction.validity import validity

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="dimension", ylabel="time / prediction", xscale="log", ylim=(0.5, 2))
activation, student = Activation.parse("h4"), Student(width=8, init_scale=0.01)
for dim in (60, 120, 300, 1000):
    start = draw_initial_state(teacher := Teacher.power_law(width=3, exponent=1.0, dim=dim), student, seed=3)
    prediction = predict(activation, teacher, start)
    flow = gradient_flow(activation, teacher, start, t_end=1.3 * prediction.last_time)
    for q, (found, scale) in enumerate(zip(validity(prediction), prediction.time_half, strict=True)):
        axes.plot([dim * 1.2**q] * 2, [found.low / scale, found.high / scale], color=f"C{q}", linewidth=3, alpha=0.4)
        axes.plot(dim * 1.2**q, flow.half_time[q] / scale, "o", color=f"C{q}")
