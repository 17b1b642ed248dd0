"""When rare samples decide

Share of runs that have recovered a direction by each time, at d = 64: by the law of real steps, and by the diffusion with the
same mean and variance of a step, which spreads them too widely.

docs/real_steps.md
"""

import numpy as np

from dynamics.one_task.chain import one_task_chain
from emergence import Activation, Teacher
from emergence.plot import PALETTE, Plot
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution

dim, step, overlap, activation = 64, 0.5 * 64**-1.5, (8 / 64) ** 0.5, Activation.parse("h3")
times, teacher = np.linspace(0.01, 2.5, 200), Teacher.of([1.0], dim)
chain = one_task_chain(activation, teacher, 0, overlap, step, time=2.5, cells=150, order=48)
law = hitting_distribution(OneTaskDiffusion(activation, 1.0, step, total=1.0, dim=dim), overlap)

plot = Plot("gradient-flow time", "share of runs that have recovered")
plot.curve(times, chain.cdf(times), "real steps", PALETTE[0])
plot.limit(times, law.cdf(times), "diffusion", PALETTE[1])
figure = plot.done()
