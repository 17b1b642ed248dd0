"""How far a network on noisy labels is from two linearised networks: from the one on clean labels, as printed, as far as the
labels are; from the one on the same noisy labels hardly at all."""

import numpy as np

from dynamics.networks import LazyRich, digits, lazy_rich
from dynamics.networks.lazy_rich import CLEAN, NOISY
from emergence.plot import Plot

found = lazy_rich(digits(), LazyRich(images=32, hidden=128, step_size=0.05, steps=600, replicas=4, saves=6))
pairs = [(ends[NOISY].network, ends[NOISY].linearised, ends[CLEAN].linearised) for ends in found.ends]
own, other = (np.array([np.linalg.norm(pair[0] - pair[k]) for pair in pairs]) for k in (1, 2))

plot = Plot("replica", "distance from the noisy network")
plot.points(np.arange(len(pairs)), other, "linearised, clean labels (as printed)", "#D55E00")
plot.points(np.arange(len(pairs)), own, "linearised, the same noisy labels", "#0072B2")
plot.ax.set(xticks=range(len(pairs)), ylim=(0, None))
figure = plot.done()
