r"""All rows of a declared model, and a second layer that is trained, as one vector that the derived flow moves.

The equations are those of `theory.declared.flow`; lengths are in logarithms, as `UnitRows` holds them.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from theory.declared.flow import integrals_of
from theory.declared.kicks import Kicks
from theory.declared.lone_row import rest_norm
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import LEAST, Rates, UnitRows
from theory.declared.start import Start
from theory.declared.target import Additive

#: Growth of the logarithm of a squared norm that is followed.
_MOST = 40.0
#: What an evaluation costs beside its pairs; and a product of matrices.
_CALL, _PRODUCT = 5e3, 1 / 30


class AllRows(UnitRows):
    """The state of all rows, and of a second layer that is trained, as one vector."""

    def __init__(self, model: DeclaredModel, start: Start) -> None:
        super().__init__(start.overlaps(model.directions), start.grams, _MOST)
        self.model, self.rates, self.evaluations = model, Rates(model), 0
        # (Flips are in the square of the labels; noise that pauses is on half of the time.)
        often = 0.5 if model.rule.noise_period else 1.0
        self.kicks = Kicks(model, often * model.rule.noise**2 if model.rule.signal == 1 else 0.0)
        self.variance = np.diag(model.directions.covariance)
        self.fixed = np.asarray(model.student.second)
        if model.student.trained:
            self.begin = np.concatenate([self.begin, self.fixed])

    @property
    def cost(self) -> float:
        """Of an evaluation, in products of pairs."""
        blocks, m, P = self.shape
        pairs = m * (m + P)
        return _CALL + integrals_of(self.model).cost(pairs) + pairs * blocks * m * _PRODUCT

    def parts(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T (L, m, P), Q (L, m, m) and b (m,) of a vector."""
        if not self.model.student.trained:
            return *self.split(y), self.fixed
        m = self.shape[1]
        return *self.split(y[:-m]), y[-m:]

    def rate(self, time: float, y: np.ndarray) -> np.ndarray:
        """Of the vector, in its shape (n,), per unit of the sum of step sizes; it counts itself."""
        self.evaluations += 1
        overlap, gram, second = self.parts(y)
        turned, grown, *trained = self.rates.of_all(overlap, gram, second)
        return np.concatenate([self.moved(overlap, gram, turned, grown), *trained])

    def lost(self, y: np.ndarray) -> bool:
        """Whether a row leaves what is followed, at a vector (n,)."""
        m = self.shape[1]
        size = y[-2 * m : -m] if self.model.student.trained else y[-m:]
        return not (np.all(np.isfinite(y)) and size.min() > LEAST and size.max() < _MOST)

    def correlations(self, y: np.ndarray) -> np.ndarray:
        """Of the rows' fields with the directions', squared, (m, P)."""
        overlap, gram, _ = self.parts(y)
        X, C = self.rates.fields(overlap, gram)
        return X * np.abs(X) / (np.diag(C)[:, None] * self.variance)

    def kick(self, y: np.ndarray, row: int) -> float:
        """E|g|² of a row over its squared norm, times B and the rule's speed squared, at a vector (n,): one number."""
        return self.kicks.of_row(*self.parts(y), row)

    def grown(self, overlap: np.ndarray, gram: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Growth of the logarithms of lengths that rows are scaled back from, (m,); 0 of free ones."""
        student, decay = self.model.student, self.model.rule.decay
        if student.rows != "sphere":
            return np.full(student.width, 0.0 if student.rows == "free" else -decay)
        A, B, _ = self._as_they_step.coefficients(overlap, gram, second)
        return np.asarray(np.einsum("ikk->k", A @ gram + B @ overlap.transpose(0, 2, 1)) / np.einsum("ikk->k", gram))

    @cached_property
    def _as_they_step(self) -> Rates:
        """Of rows that are not scaled back."""
        return Rates(replace(self.model, student=replace(self.model.student, rows="free")))

    @cached_property
    def rests(self) -> np.ndarray:
        """What is fitted of each direction in the end, (P,); inf where that is not known."""
        model = self.model
        if not (isinstance(model.target, Additive) and model.student.homogeneous):
            return np.full(model.target.count, np.inf)
        return np.array([rest_norm(model, p) or np.inf for p in range(model.target.count)])

    def aligned(self, y: np.ndarray, leaning: bool = True) -> np.ndarray:
        """The share of each direction's rest that rows have along it, (P,); of those that lean away only if `leaning`."""
        overlap, gram, _ = self.parts(y)
        sizes = self.rho(self.rates.fields(overlap, gram)[1], np.einsum("ikk->k", gram))
        correlations = self.correlations(y)
        return sizes @ (np.abs(correlations) if leaning else np.maximum(correlations, 0.0)) / self.rests

    def fit(self, y: np.ndarray) -> np.ndarray:
        """The share of each direction that is fitted, (P,)."""
        return self.aligned(y, self.model.student.activation.parity is not None)

    def rho(self, C: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """ρ of each neuron ρσ(h/√ρ), (m,): of a whitened row the variance of its field; 1 in a committee."""
        if not self.model.student.homogeneous:
            return np.ones(len(norms))
        return np.diag(C) if self.model.student.whitened else norms
