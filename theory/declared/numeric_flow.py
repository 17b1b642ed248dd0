"""The derived flow of a declared model on NumPy arrays, for what must answer without a compiler."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from theory.core.indexed import Sums, Term, k, l, p, q
from theory.core.numeric_sums import NumericSums
from theory.declared import population
from theory.declared.flow import T, Z, b, i, integrals_of, is_quadratic, shown, speed, system_of
from theory.declared.model import DeclaredModel
from theory.declared.population import Integrals
from theory.declared.student import Student

#: Bytes of an array that is asked for once and given back.
_KEPT = 30 << 20


@cache
def keep_freed() -> None:
    """Let the C library keep what arrays of up to 30 MB leave. glibc gives all above 128 kB back to the system at once until
    a larger one has been freed, and to be given it anew costs more than the sums on it (elsewhere this does nothing).
    """
    np.empty(_KEPT, np.uint8)


class Rates:
    """The derived rates (`theory.declared.flow`) per unit of the sum of step sizes, at T (L, m, P) and Q (L, m, m).

    Attributes:
        eigenvalues: of the inputs, (L,). constants: of what the labels show of the target in the mean, as
            `theory.declared.population.constants` has them; others may be put in their place. square: E f*².

    Raises `InputError` for models without a flow.
    """

    def __init__(self, model: DeclaredModel) -> None:
        keep_freed()
        self._sums, self._loss = _sums(*shown(model))
        self._integrals, self._square = integrals_of(model), is_quadratic(model.loss)
        numbers = population.constants(self._integrals, model.directions)
        self.constants = population.shown(numbers, model.rule.signal)
        self.eigenvalues, self.square = np.asarray(model.inputs.eigenvalues), float(numbers["square"])
        self._given = {
            "lambda": self.eigenvalues,
            "Z": model.directions.grams,
            "nu": np.asarray(speed(model.rule)),
            "kappa": np.asarray(model.rule.decay),
            "b": np.asarray(model.student.second),
            "S": np.asarray(self.square),
        }

    def fields(self, overlap: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Covariances X (m, P) and C (m, m)."""
        return np.einsum("i,ikp->kp", self.eigenvalues, overlap), np.einsum("i,ikl->kl", self.eigenvalues, gram)

    def __call__(self, overlap: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of T and Q, in their shapes; of a second layer as it is declared."""
        turned, grown, *_ = self.of_all(overlap, gram, self._given["b"])
        return turned, grown

    def of_all(self, overlap: np.ndarray, gram: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
        """Of T, Q and, if it is trained, the second layer b (m,)."""
        A, B, trained = self.coefficients(overlap, gram, second)
        half = A @ gram + B @ overlap.transpose(0, 2, 1)
        return [A @ overlap + B @ self._given["Z"], half + half.transpose(0, 2, 1), *trained]

    def coefficients(
        self, overlap: np.ndarray, gram: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        r"""A (L, m, m) and B (L, m, P) of $\dot v_k=\sum_jA_{kj}v_j+\sum_pB_{kp}w_p$, and the rate of a second layer that is
        trained, in a list.
        """
        arrays = self._arrays(overlap, gram, self._given | {"b": second})
        of_rows, of_itself, of_directions = np.ones_like(gram), np.ones(gram.shape[:2]), np.ones_like(overlap)
        arrays |= {"of_rows": of_rows, "of_itself": of_itself, "of_directions": of_directions}
        others, itself, B, *trained = [sums(arrays) for sums in self._sums]
        A = others * of_rows  # (where no row sees another it is a number: 0)
        np.einsum("ikk->ik", A)[:] += itself
        return A, B, trained

    def loss(self, overlap: np.ndarray, gram: np.ndarray, second: np.ndarray) -> float:
        """The population loss, noise of labels left out."""
        return float(self._loss(self._arrays(overlap, gram, self._given | {"b": second})))

    def _arrays(self, overlap: np.ndarray, gram: np.ndarray, given: Mapping[str, np.ndarray]) -> dict[str, Any]:
        X, C = self.fields(overlap, gram)
        rho = np.einsum("ikk->k", gram)
        found = self._integrals.at(population.numeric, X, C, rho, self.constants, self._square)
        return {**given, "T": overlap, "Q": gram, "X": X, "C": C, "rho": rho, **found}


@lru_cache(maxsize=32)
def _sums(student: Student, known: Integrals, quadratic: bool) -> tuple[tuple[NumericSums, ...], NumericSums]:
    """What rows are moved by: other rows, themselves, directions; of a second layer that is trained; and of the loss, of what
    is `shown` of a model. The rate of T is linear in products with whatever stands for the directions, and that of Q is its
    own with the rows themselves for them.
    """
    system, activation = system_of(student, known, quadratic), student.activation
    sources = {
        T[i, l, q]: (sp.IndexedBase("of_rows")[i, k, l], (i, k, l)),
        T[i, k, q]: (sp.IndexedBase("of_itself")[i, k], (i, k)),
        Z[i, p, q]: (sp.IndexedBase("of_directions")[i, k, p], (i, k, p)),
    }
    own = list(system.drift[T[i, k, q]])
    rates = [
        NumericSums(
            Sums(
                Term(term.body.xreplace({source: one}), tuple(x for x in term.bound if x not in letters))
                for term in own
                if term.body.has(source)
            ),
            letters,
            activation,
        )
        for source, (one, letters) in sources.items()
    ]
    if student.trained:
        rates.append(NumericSums(system.drift[b[k]], (k,), activation))
    return tuple(rates), NumericSums(system.observables["loss"], (), activation)


#: Changes of the logarithm of a squared norm that are followed.
LEAST = -120.0


#: Tolerances that Gram matrices may be off those of rows by: of 177 random problems 172 are so by 2.4 at most, five by 1e5.
_OFF = 10.0


def of_no_rows(gram: np.ndarray, rtol: float) -> bool:
    """Whether Gram matrices (L, m, m) are those of no rows by more than a tolerance makes them: their least eigenvalue, of
    rows of length 1 in all eigenspaces together, is that far below 0.

    In eigenspaces of fewer dimensions than there are rows they are singular, and so are those of rows that have aligned.
    Errors off these may grow along the flow where no row does, and nothing of it is seen in lengths (derived; in one problem,
    at tolerances from 1e-6 to 1e-11, variances of fields were off by up to five hundred times as much).
    """
    length = np.sqrt(np.einsum("ikk->k", gram))
    return bool(np.linalg.eigvalsh(gram / np.outer(length, length)).min() < -_OFF * rtol)


class UnitRows:
    r"""Rows as they are followed in time, by one vector: $T/\sqrt\rho$ (L, n, P), $Q/\sqrt{\rho\rho}$ (L, pairs) and
    $\ln(\rho/\rho(0))$ (n,), for a row that waits may shrink by any factor.

    Args:
        overlap, gram: where they begin. most: up to which the logarithms are followed.
    """

    def __init__(self, overlap: np.ndarray, gram: np.ndarray, most: float | np.ndarray) -> None:
        self.sizes, self.shape, self.most = np.einsum("ikk->k", gram), overlap.shape, most
        self._pairs = np.triu_indices(self.shape[1])
        begun = overlap / np.sqrt(self.sizes)[:, None], self._held(gram, self.sizes), np.zeros(self.shape[1])
        self.begin = np.concatenate([x.ravel() for x in begun])

    def _held(self, gram: np.ndarray, norm2: np.ndarray) -> np.ndarray:
        """What is held of Gram matrices (L, n, n), for rows of length 1, (L, pairs)."""
        return (gram / np.sqrt(np.outer(norm2, norm2)))[:, *self._pairs]

    def split(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """T (L, n, P) and Q (L, n, n)."""
        size, (blocks, count, _) = int(np.prod(self.shape)), self.shape
        # (A trial step may leave all bounds.)
        norm2 = self.sizes * np.exp(np.clip(y[-count:], LEAST, self.most))
        gram = np.empty((blocks, count, count))
        gram[:, *self._pairs] = gram[:, *self._pairs[::-1]] = y[size:-count].reshape(blocks, -1)
        return np.sqrt(norm2)[:, None] * y[:size].reshape(self.shape), np.sqrt(np.outer(norm2, norm2)) * gram

    def moved(self, overlap: np.ndarray, gram: np.ndarray, turned: np.ndarray, grown: np.ndarray) -> np.ndarray:
        """What rates `turned` of T and `grown` of Q make of the vector."""
        norm2 = np.einsum("ikk->k", gram)
        rate = np.einsum("ikk->k", grown) / norm2
        along = (rate[:, None] + rate) / 2
        unit = (turned - rate[:, None] / 2 * overlap) / np.sqrt(norm2)[:, None]
        return np.concatenate([unit.ravel(), self._held(grown - along * gram, norm2).ravel(), rate])
