r"""What a block of samples is outside everything known: only its Gram matrix matters, a Wishart matrix.

With the coordinates on what is known it makes chains of overlaps that are exact in law, at any dimension.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Mistakes:
    """Errors built in on purpose, as controls of the law tests; never set in a real run.

    Attributes:
        forget_known: draw the outside part with d degrees of freedom instead of d − P − m.
        transpose: use Bartlett's factor transposed.
        forget_scale: leave the input's standard deviation out of the new columns.
    """

    forget_known: bool = False
    transpose: bool = False
    forget_scale: bool = False


NO_MISTAKES = Mistakes()


def outside_factor(key: jax.Array, count: int, freedom: int | jax.Array, transpose: bool = False) -> jax.Array:
    r"""A with $AA^\top$ distributed as the Gram matrix of `count` standard Gaussians of $R^{freedom}$.

    Shape (count, min(count, freedom)). Lower triangular Bartlett factor ($A_{ii}=\chi_{freedom-i+1}$) if
    count ≤ freedom, else the vectors themselves; a freedom that is known at run time only must be at least count.
    """
    if isinstance(freedom, int) and freedom < count:
        return jax.random.normal(key, (count, freedom))
    below, diagonal = jax.random.split(key)
    chi2 = jax.random.chisquare(diagonal, freedom - jnp.arange(count, dtype=float))
    factor = strictly_lower(jax.random.normal(below, (count // 2, count - 1 + count % 2)), count)
    factor = factor + jnp.diag(jnp.sqrt(chi2))
    return factor.T if transpose else factor


def strictly_lower(packed: jax.Array, count: int) -> jax.Array:
    """Fill the strictly lower triangle with `packed` numbers, none wasted: short rows share a line with long ones.

    A line of `packed` holds a row from its left end and another, reversed, from its right end. Reversals and masks
    only: a gather would cost as much as the random numbers it saves. `packed`: (count // 2, count − 1 + count % 2); result
    (count, count).
    """
    if count % 2:  # lines hold row r and row count − r
        lines = [jnp.zeros((1, count)), packed, packed[::-1, ::-1]]
    else:  # lines hold row r and row count − 1 − r, one column short
        lines = [jnp.pad(x, ((0, 0), (0, 1))) for x in (packed, packed[::-1, ::-1])]
    return jnp.tril(jnp.concatenate(lines), -1)


def outside_columns(
    key: jax.Array, gradients: jax.Array, freedom: int | jax.Array, transpose: bool = False
) -> jax.Array:
    r"""Columns appended to R by one batch: $B$ with $BB^\top\sim gWg^\top$, W Wishart of size b, at least cost.

    For b ≤ m: gA. For b > m: LA with g = LQ, A of size m (LQ, since gradients can be rank-deficient). `gradients`: (m, b);
    result (m, min(m, b, freedom)).
    """
    width, batch = gradients.shape
    if batch <= width:
        return gradients @ outside_factor(key, batch, freedom, transpose)
    lower = jnp.linalg.qr(gradients.T, mode="r").T
    return lower @ outside_factor(key, width, freedom, transpose)


def rotate_back(residual: jax.Array) -> jax.Array:
    r"""(m, m) lower triangular L with $LL^\top=RR^\top$: the residuals in a basis of m vectors.

    The law depends on R through its Gram matrix only, so it is the Gram matrix that must be kept to rounding. Rows are
    scaled to unit length, and a ridge of a few rounding errors (its effect on the norms taken out again) keeps the
    factorisation defined when students are parallel; this is as accurate as an LQ factorisation and much faster.
    """
    size = jnp.sqrt(jnp.sum(residual**2, axis=1))
    rows = residual / jnp.where(size > 0, size, 1.0)[:, None]
    ridge = 4 * residual.shape[1] * jnp.finfo(residual.dtype).eps
    gram = rows @ rows.T + ridge * jnp.eye(size.size)
    return size[:, None] / jnp.sqrt(1 + ridge) * jnp.linalg.cholesky(gram)
