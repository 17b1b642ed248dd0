"""When runs of declared SGD find a direction (derived: the first squared correlation of ½)."""

import numpy as np

from dynamics.declared.simulate import declared_sgd
from theory.declared.model import DeclaredModel
from theory.declared.start import Start
from validation.comparisons.declared import emergence_times, squared_correlations


def emergences(
    model: DeclaredModel, start: Start, p: int, steps: int, replicas: int, seed: int, saves: int = 200
) -> np.ndarray:
    """Sums of step sizes until some row's squared correlation with direction p, of place from 0, is ½, (replicas,).

    A run that is not there after these steps counts with its end. Saved states are the simulation's own number unless given.
    """

    def found(overlap: np.ndarray, gram: np.ndarray) -> bool:
        return bool(np.all(squared_correlations(model, overlap, gram)[:, p] >= 0.5))

    run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, until=found, saves=saves)
    return np.minimum(emergence_times(model, run.dataset)[:, p], float(run.dataset["time"][-1]))
