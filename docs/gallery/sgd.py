"""SGD beside gradient flow

Online SGD, exact in law, at d = 64: sixteen runs scatter about the flow of the same start (dashed).

docs/simulator.md
"""

from emergence import Activation, Student, Teacher, draw_initial_state, gradient_flow, online_sgd, predict
from emergence.plot import Plot, colours

activation, teacher = Activation.parse("h3"), Teacher.power_law(width=2, exponent=1.0, dim=64)
start = draw_initial_state(teacher, Student(width=6, init_scale=0.03), seed=1)
end = 1.5 * predict(activation, teacher, start).last_time
flow = gradient_flow(activation, teacher, start, t_end=end).dataset
sgd = online_sgd(activation, teacher, start, step_size=4e-4, steps=int(end / 4e-4), replicas=16).dataset

plot = Plot("time = step size × steps", "largest squared overlap")
for direction, colour in zip((1, 2), colours(2), strict=True):
    runs, path = ((x.overlap.sel(direction=direction) ** 2).max("neuron") for x in (sgd, flow))
    plot.ax.plot(sgd.time, runs.T, color=colour, alpha=0.4, linewidth=0.8)
    plot.theory(flow.time, path, f"direction {direction}, flow", colour)
figure = plot.done()
