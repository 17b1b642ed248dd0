"""How often a neuron's norm falls: the derived law gives the share; the printed lower bound is negative at these widths."""

import numpy as np

from emergence import draw_linear_start
from emergence.plot import Plot
from theory.linear.label_noise import growth_probability, norm_step

dim, step_size, noise, rng = 20, 1e-3, 4.0, np.random.default_rng(0)
plot, widths, seen, law = Plot("width m", "share of steps in which the norm falls", "x"), (30, 100, 300, 1000), [], []
for width in widths:
    start, falls, expected = draw_linear_start(width, dim, seed=0), [], []
    first, second = start.first, start.second
    for x in rng.standard_normal((400, dim)):
        slope = (first.T @ second - np.eye(dim)[0]) @ x - noise * rng.choice([-1, 1])
        falls.append(norm_step(first @ x, second, x @ x, slope) <= 0)
        expected.append(1 - growth_probability(np.abs(second) / np.linalg.norm(first, axis=1), dim))
        outer = np.outer(second, x)
        second, first = second - step_size * slope * (first @ x), first - step_size * slope * outer
    seen, law = [*seen, np.mean(falls)], [*law, np.mean(expected)]

shown = np.geomspace(widths[0], 1e10, 200)
plot.points(widths, seen, "SGD with label noise", "#0072B2")
plot.theory(widths, law, "derived: Beta law")
plot.limit(shown, 1 - 2 * np.sqrt(dim / np.pi) * shown**-0.125, "printed lower bound", "#D55E00")
figure = plot.done(loc="center right")
