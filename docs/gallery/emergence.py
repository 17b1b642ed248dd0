"""Emergence, predicted

Squared overlaps of eight directions under gradient flow, each at the time predicted from the start alone (dashed).

docs/theory.md
"""

from emergence import Activation, Student, Teacher, draw_initial_state, gradient_flow, plot, predict

activation, teacher = Activation.parse("h4"), Teacher.power_law(width=8, exponent=1.0, dim=10_000)
start = draw_initial_state(teacher, Student(width=32, init_scale=0.03), seed=0)
prediction = predict(activation, teacher, start)
flow = gradient_flow(activation, teacher, start, t_end=1.1 * prediction.last_time)
data, names = flow.dataset, [f"direction {p}" for p in range(1, 9)]

squares = (data.overlap**2).max("neuron")
figure = plot.common.overlap_curves(data.time, squares, prediction.time_half, names, flow.half_time)
