"""Vectors as they are: rows in coordinates, for SGD in R^d; the same operations as `dynamics.declared.span.Span`."""

from typing import Any

import jax
import jax.numpy as jnp

from dynamics.declared.span import RANK


class Rows:
    """An array (m, d), with what a rule may do to it; `scale`: √λ of each coordinate (d,), 1 if left out."""

    def __init__(self, array: jax.Array, samples: jax.Array, scale: jax.Array | None = None) -> None:
        self.array, self.samples, self.scale = array, samples, scale

    def _new(self, array: jax.Array) -> "Rows":
        return Rows(array, self.samples, self.scale)

    def weighted(self) -> "Rows":
        """Λv, for the gradient of a whitened student."""
        return self if self.scale is None else self._new(self.array * self.scale**2)

    def __add__(self, other: "Rows") -> "Rows":
        return self._new(self.array + other.array)

    def __sub__(self, other: "Rows") -> "Rows":
        return self._new(self.array - other.array)

    def __neg__(self) -> "Rows":
        return self._new(-self.array)

    def __mul__(self, factor: Any) -> "Rows":
        return self._new((factor[:, None] if jnp.ndim(factor) == 1 else factor) * self.array)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "Rows":
        return self * (1 / divisor)

    def elementwise(self, function: Any, *others: "Rows") -> "Rows":
        """``function(array, …)`` on coordinates."""
        return self._new(function(self.array, *[other.array for other in others]))

    def combination(self, coefficients: jax.Array) -> "Rows":
        """Σ_s coefficients_ks x_s."""
        return self._new(coefficients @ self.samples)

    def fields(self) -> jax.Array:
        """With the samples, (m, b)."""
        return self.array @ self.samples.T

    def dot(self, other: "Rows") -> jax.Array:
        """Row by row, (m,)."""
        return jnp.sum(self.array * other.array, axis=1)

    def gram(self, other: "Rows") -> jax.Array:
        """Of every row with every row, (m, m)."""
        return self.array @ other.array.T

    def norms(self) -> jax.Array:
        """Lengths (m,)."""
        return jnp.linalg.norm(self.array, axis=1)

    def norm(self) -> jax.Array:
        """Length of all rows together."""
        return jnp.linalg.norm(self.array)

    def total(self, numbers: jax.Array) -> jax.Array:
        """Sum of numbers, one for each row, (m,)."""
        return jnp.sum(numbers)

    def mixed(self, matrix: jax.Array) -> "Rows":
        """Row k becomes Σ_l matrix_kl · row l."""
        return self._new(matrix @ self.array)

    def polar(self) -> "Rows":
        """The nearest partial isometry, from singular vectors."""
        left, values, right = jnp.linalg.svd(self.array, full_matrices=False)
        return self._new((left * (values > RANK * values[0])) @ right)
