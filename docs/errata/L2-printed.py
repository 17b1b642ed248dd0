"""Squared steps of a second-layer weight against ℓ′²⟨x, w⟩², a hundred steps of SGD: they lie on η² times it."""

import numpy as np

from emergence import draw_linear_start
from emergence.plot import Plot

step_size, noise, rng = 0.02, 1.0, np.random.default_rng(0)
start = draw_linear_start(width=12, dim=5, seed=0)
first, second, moves, forces = start.first, start.second, [], []
for x in rng.standard_normal((100, 5)):
    slope = (first.T @ second - np.eye(5)[0]) @ x - noise * rng.choice([-1, 1])
    after = second - step_size * slope * (first @ x)
    moves, forces = [*moves, (after - second) ** 2], [*forces, slope**2 * (first @ x) ** 2]
    first, second = first - step_size * slope * np.outer(second, x), after

force = np.sort(np.ravel(forces))
plot = Plot("ℓ′²⟨x, w⟩²", "(a(t+1) − a(t))²", "xy")
plot.points(np.ravel(forces), np.ravel(moves), "steps of SGD", "#0072B2")
plot.limit(force, force, "as printed: equal", "#D55E00")
plot.theory(force, step_size**2 * force, "corrected: η² times")
figure = plot.done()
