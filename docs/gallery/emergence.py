"""Emergence, predicted

Squared overlaps of eight directions under gradient flow, each at the time predicted from the start alone (dashed).

docs/theory.md
"""

from matplotlib.figure import Figure

from emergence import Activation, Student, Teacher, draw_initial_state, gradient_flow, predict

activation, teacher = Activation.parse("h4"), Teacher.power_law(width=8, exponent=1.0, dim=10_000)
start = draw_initial_state(teacher, Student(width=32, init_scale=0.03), seed=0)
prediction = predict(activation, teacher, start)
flow = gradient_flow(activation, teacher, start, t_end=1.1 * prediction.last_time).dataset

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="gradient-flow time", ylabel="largest squared overlap")
axes.plot(flow.time, (flow.overlap**2).max("neuron"))
for time in prediction.time_half:
    axes.axvline(time, color="0.6", linestyle="--", zorder=0)
