"""Quadratic networks: a Riccati flow

Overlaps of the student's column space with eight teacher directions, from a random subspace, in closed form.

docs/quadratic.md
"""

import numpy as np

from emergence import draw_subspace, riccati_flow

spectrum = np.arange(1.0, 9.0) ** -0.5
flow = riccati_flow(spectrum, draw_subspace(teacher_width=8, width=8, dim=1000, seed=0))
figure = flow.plot("diagonal")
