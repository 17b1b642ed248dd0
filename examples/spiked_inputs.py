r"""Inputs of one's own: the sample covariance of noise with a few strong directions, as Marchenko and Pastur (1967) have it.

Its spectrum is cut into blocks of equal mass at quantiles of the eigenvalues of one drawn matrix; the spikes stay alone.
"""

import numpy as np

from theory.declared.inputs import Inputs

dim, aspect, spikes, blocks = 256, 0.5, (12.0, 8.0), 6
noise = np.random.default_rng(0).standard_normal((dim - len(spikes), round(dim / aspect)))
bulk = np.linalg.eigvalsh(noise @ noise.T / noise.shape[1])
INPUTS = Inputs.blocks(
    *((value, 1) for value in spikes), *((float(part.mean()), part.size) for part in np.array_split(bulk, blocks))
)
