"""When runs of declared SGD find a direction (derived: the first squared correlation of ½)."""

import numpy as np

from dynamics.declared.simulate import declared_sgd
from theory.declared.model import DeclaredModel
from theory.declared.start import Start
from validation.comparisons.declared import emergence_times, squared_correlations

#: Steps of a block of few rows, see `dynamics.declared.engine.block_length`.
_BLOCK = 8


def emergences(
    model: DeclaredModel, start: Start, p: int, steps: int, replicas: int, seed: int, saves: int = 200
) -> np.ndarray:
    """Sums of step sizes until some row's squared correlation with direction p, of place from 0, is ½, (replicas,).

    A run that is not there after these steps, or up to `_BLOCK` more for each saved state, counts with its end. Saved states
    are the simulation's own number unless given.
    """
    if steps >= _BLOCK * saves:  # samples are drawn in blocks where saves end some: these are the longest
        steps += -steps % (_BLOCK * saves)

    def found(overlap: np.ndarray, gram: np.ndarray) -> bool:
        return bool(np.all(squared_correlations(model, overlap, gram)[:, p] >= 0.5))

    run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, until=found, saves=saves)
    return np.minimum(emergence_times(model, run.dataset)[:, p], float(run.dataset["time"][-1]))
