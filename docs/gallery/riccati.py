"""Quadratic networks: a Riccati flow

Overlaps of the student's column space with eight teacher directions, from a random subspace, in closed form.

docs/quadratic.md
"""

import numpy as np
from matplotlib.figure import Figure

from emergence import draw_subspace, riccati_flow

spectrum = np.arange(1.0, 9.0) ** -0.5
flow = riccati_flow(spectrum, draw_subspace(teacher_width=8, width=8, dim=1000, seed=0))
times = np.linspace(0, 20, 300)

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="Riccati time", ylabel="share of direction in the student's span")
axes.plot(times, flow.diagonal(times))
