r"""Symmetric components of a state, held as the entries above their diagonal: symmetric by construction.

Where the overlaps of students repel, the antisymmetric part of a full array c (or Q) obeys a linear equation with a positive
rate: rounding grows exponentially until the numbers are no Gram matrix of any students. So no integrator, map or ensemble
holds the full array. It holds what lies above the diagonal (with the diagonal, unless that is 1), and drifts are evaluated
at the array that those entries stand for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.lowering import State


@lru_cache(maxsize=64)
def _places(width: int, unit: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of the entries that are held, and for every entry (m, m) its place among them (the diagonal's, where
    that is not held, is the place behind the last)."""
    above = np.triu_indices(width, int(unit))
    place = np.full((width, width), above[0].size, dtype=np.int32)
    place[above] = place[above[::-1]] = np.arange(above[0].size)
    return *above, place


@dataclass(frozen=True)
class Symmetric:
    """One symmetric component of a state, by name; `unit`: its diagonal is 1 (cosines), and is not held.

    ``pack`` and ``open`` change between the full array (m, m) and the entries held, (m(m−1)/2,) or (m(m+1)/2,); other
    components pass. ``packed`` makes a drift of full states one of packed states. Nothing is checked: an array that is not
    symmetric loses what lies below its diagonal.
    """

    name: str
    unit: bool

    def above(self, array: jax.Array) -> jax.Array:
        """Entries of a symmetric array (m, m) that are held, row by row."""
        rows, columns, _ = _places(array.shape[0], self.unit)
        return array[rows, columns]

    def full(self, held: jax.Array) -> jax.Array:
        """The symmetric array (m, m) of the entries held."""
        root = isqrt(8 * held.shape[0] + 1)
        place = _places((root + 1) // 2 if self.unit else (root - 1) // 2, self.unit)[2]
        return (jnp.append(held, 1.0) if self.unit else held)[place]

    def pack(self, state: Mapping[str, jax.Array]) -> State:
        """The state as an integrator holds it."""
        return {**state, self.name: self.above(state[self.name])}

    def open(self, state: Mapping[str, jax.Array]) -> State:
        """The state with its full array."""
        return {**state, self.name: self.full(state[self.name])}

    def packed(self, drift: Callable[..., State]) -> Callable[..., State]:
        """``drift(state, …)`` as a function of packed states."""
        return lambda state, *rest: self.pack(drift(self.open(state), *rest))


#: Cosines between students; raw overlaps of students, of any norms or of unit norms.
COSINES, GRAM, UNIT_GRAM = Symmetric("c", True), Symmetric("Q", False), Symmetric("Q", True)
