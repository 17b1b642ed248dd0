"""SGD beside gradient flow

Online SGD, exact in law, at d = 64: sixteen runs scatter about the flow of the same start (black).

docs/simulator.md
"""

from matplotlib.figure import Figure

from emergence import Activation, Student, Teacher, draw_initial_state, gradient_flow, online_sgd, predict

activation, teacher = Activation.parse("h3"), Teacher.power_law(width=2, exponent=1.0, dim=64)
start = draw_initial_state(teacher, Student(width=6, init_scale=0.03), seed=1)
end = 1.5 * predict(activation, teacher, start).last_time
flow = gradient_flow(activation, teacher, start, t_end=end).dataset
sgd = online_sgd(activation, teacher, start, step_size=4e-4, steps=int(end / 4e-4), replicas=16).dataset

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="time = step size × steps", ylabel="largest squared overlap")
for direction, colour in ((1, "tab:blue"), (2, "tab:orange")):
    runs, path = ((x.overlap.sel(direction=direction) ** 2).max("neuron") for x in (sgd, flow))
    axes.plot(sgd.time, runs.T, color=colour, alpha=0.4, linewidth=0.8)
    axes.plot(flow.time, path, color="black")
