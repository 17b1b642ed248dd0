"""Who learns what

Squared overlaps of 24 random neurons with six directions: the greedy pairs (framed, numbered in the order of learning)
are decided here.

docs/selection.md
"""

from emergence import Activation, Student, Teacher, draw_initial_state, predict
from emergence.plot import PALETTE, Plot

teacher = Teacher.power_law(width=6, exponent=0.5, dim=400)
start = draw_initial_state(teacher, Student(width=24, init_scale=0.03), seed=2)
pairs = predict(Activation.parse("h4"), teacher, start).selection

plot, red = Plot("neuron", "direction", grid=False), PALETTE[1]
image = plot.ax.imshow(start.overlap.T**2, cmap="Blues", vmax=0.03)
plot.figure.colorbar(image, label="squared overlap", shrink=0.6)
plot.ax.scatter(pairs.neurons, pairs.directions, s=260, marker="s", facecolors="none", edgecolors=red)
for place, (neuron, direction) in enumerate(zip(pairs.neurons, pairs.directions, strict=True), start=1):
    plot.ax.text(neuron, direction, place, ha="center", va="center", color=red)
plot.ax.set_yticks(range(6), range(1, 7))
figure = plot.figure
