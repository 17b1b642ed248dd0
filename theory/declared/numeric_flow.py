"""The derived flow of a declared model on NumPy arrays, for what must answer without a compiler."""

from typing import Any

import numpy as np

from theory.core.errors import InputError
from theory.core.indexed import j, k, q
from theory.core.numeric_sums import NumericSums
from theory.declared import population
from theory.declared.flow import Q, T, i, integrals_of, is_quadratic, population_system, speed
from theory.declared.model import DeclaredModel


class Rates:
    """The derived rates (`theory.declared.flow`) per unit of the sum of step sizes, at T (L, m, P) and Q (L, m, m).

    Attributes:
        eigenvalues: of the inputs, (L,). constants: of what the labels show of the target in the mean, as
            `theory.declared.population.constants` has them; others may be put in their place.

    Raises `InputError` for models without a flow, and for a trained second layer.
    """

    def __init__(self, model: DeclaredModel) -> None:
        if model.student.trained:
            raise InputError("the second layer is trained: rows by themselves have no flow; run declared-flow")
        system, activation = population_system(model), model.student.activation
        free = {T[i, k, q]: (i, k, q), Q[i, k, j]: (i, k, j)}
        self._sums = [NumericSums(system.drift[name], letters, activation) for name, letters in free.items()]
        self._integrals, self._square = integrals_of(model), is_quadratic(model.loss)
        numbers = population.constants(self._integrals, model.directions)
        self.constants = population.shown(numbers, model.rule.signal)
        self.eigenvalues = np.asarray(model.inputs.eigenvalues)
        self._given = {
            "lambda": self.eigenvalues,
            "Z": model.directions.grams,
            "nu": np.asarray(speed(model.rule)),
            "kappa": np.asarray(model.rule.decay),
            "b": np.asarray(model.student.second),
        }

    def fields(self, overlap: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Covariances X (m, P) and C (m, m)."""
        return np.einsum("i,ikp->kp", self.eigenvalues, overlap), np.einsum("i,ikl->kl", self.eigenvalues, gram)

    def __call__(self, overlap: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of T and Q, in their shapes."""
        X, C = self.fields(overlap, gram)
        rho = np.einsum("ikk->k", gram)
        arrays: dict[str, Any] = self._given | {"T": overlap, "Q": gram, "X": X, "C": C, "rho": rho}
        arrays |= self._integrals.at(population.numeric, X, C, rho, self.constants, self._square)
        moved = [sums(arrays) for sums in self._sums]
        return moved[0], moved[1]
