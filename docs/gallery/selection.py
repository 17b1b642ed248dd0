"""Who learns what

Squared overlaps of 24 random neurons with six directions: the greedy pairs (framed, numbered in the order of learning)
are decided here.

docs/selection.md
"""

from matplotlib.figure import Figure

from theory import Activation, Student, Teacher, draw_initial_state, predict

teacher = Teacher.power_law(width=6, exponent=0.5, dim=400)
start = draw_initial_state(teacher, Student(width=24, init_scale=0.03), seed=2)
pairs = predict(Activation.parse("h4"), teacher, start).selection

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="neuron", ylabel="direction", yticks=range(6), yticklabels=range(1, 7))
figure.colorbar(axes.imshow(start.overlap.T**2, cmap="Blues", vmax=0.03), label="squared overlap", shrink=0.6)
axes.scatter(pairs.neurons, pairs.directions, s=260, marker="s", facecolors="none", edgecolors="tab:red")
for place, (neuron, direction) in enumerate(zip(pairs.neurons, pairs.directions, strict=True), start=1):
    axes.text(neuron, direction, place, ha="center", va="center", color="tab:red")
