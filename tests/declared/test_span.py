"""Vectors by their coefficients: their inner products are those of the vectors."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.declared.span import Frame, Norms, Span

ROWS, SAMPLES, DIM = 3, 2, 7
RNG = np.random.default_rng(0)
#: Vectors of two kinds, and samples.
KINDS, X = RNG.standard_normal((2, ROWS, DIM)), RNG.standard_normal((SAMPLES, DIM))


def frame(pairs: bool) -> Frame:
    """`pairs`: with every row's products with every row."""
    products = {(i, j): jnp.asarray(KINDS[i] @ KINDS[j].T) for i in (0, 1) for j in range(i, 2)}
    norms: Norms = {key: value if pairs else jnp.diagonal(value) for key, value in products.items()}
    return Frame(jnp.asarray(KINDS @ X.T), norms, lambda: jnp.asarray(X @ X.T))


def drawn(frame: Frame, mixed: bool, tail: bool) -> tuple[Span, np.ndarray]:
    """A span, and its vectors."""
    own = {kind: RNG.standard_normal((ROWS, ROWS) if mixed and kind else ROWS) for kind in (0, 1)}
    coefficients = RNG.standard_normal((ROWS, SAMPLES)) if tail else np.zeros((ROWS, SAMPLES))
    parts = [a @ KINDS[kind] if a.ndim == 2 else a[:, None] * KINDS[kind] for kind, a in own.items()]
    given = {kind: jnp.asarray(a) for kind, a in own.items()}
    return Span(frame, given, jnp.asarray(coefficients) if tail else None), sum(parts) + coefficients @ X


@pytest.mark.parametrize("tails", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("mixed", [False, True])
def test_products_of_every_row_with_every_row(mixed: bool, tails: tuple[bool, bool]) -> None:
    there = frame(True)
    (one, u), (two, v) = drawn(there, mixed, tails[0]), drawn(there, False, tails[1])
    np.testing.assert_allclose(one.gram(two), u @ v.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(two.gram(one), v @ u.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.dot(two), np.sum(u * v, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.fields(), u @ X.T, rtol=1e-12, atol=1e-12)


def test_products_row_by_row_need_no_pairs() -> None:
    there = frame(False)
    (one, u), (two, v) = drawn(there, False, True), drawn(there, False, True)
    np.testing.assert_allclose(one.dot(two), np.sum(u * v, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.norms(), np.linalg.norm(u, axis=1), rtol=1e-12)
