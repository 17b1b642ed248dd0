"""Vectors by their coefficients: their inner products are those of the vectors."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.declared.rows import Rows
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


@pytest.mark.parametrize("mixed", [(True, False), (False, True), (True, True), (False, False)])
def test_sums_of_mixtures_and_of_plain_rows(mixed: tuple[bool, bool]) -> None:
    """And differences, and a mixture of them; plain arrays do the same."""
    there = frame(True)
    (one, u), (two, v) = (drawn(there, x, True) for x in mixed)
    matrix = jnp.asarray(RNG.standard_normal((ROWS, ROWS)))
    first, second = (Rows(jnp.asarray(x), jnp.asarray(X)) for x in (u, v))
    for found, plain, known in (
        (one + two, first + second, u + v),
        (one - two, first - second, u - v),
        ((-one + two).mixed(matrix), (-first + second).mixed(matrix), np.asarray(matrix) @ (v - u)),
    ):
        np.testing.assert_allclose(found.gram(two), known @ v.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(plain.gram(second), known @ v.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.fields(), known @ X.T, rtol=1e-12, atol=1e-12)


def test_products_row_by_row_need_no_pairs() -> None:
    there = frame(False)
    (one, u), (two, v) = drawn(there, False, True), drawn(there, False, True)
    np.testing.assert_allclose(one.dot(two), np.sum(u * v, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.norms(), np.linalg.norm(u, axis=1), rtol=1e-12)
