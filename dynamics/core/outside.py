r"""What a block of samples is outside everything known: only its Gram matrix matters, a Wishart matrix.

With the coordinates on what is known it makes chains of overlaps that are exact in law, at any dimension.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Mistakes:
    """Errors built in on purpose, as controls of the law tests; never set in a real run.

    Attributes:
        forget_known: draw the outside part with d degrees of freedom instead of d − P − m.
        transpose: use Bartlett's factor transposed.
        forget_scale: leave the input's standard deviation out of the new columns.
        share_outside: draw all eigenspaces' outside parts from the same random numbers.
    """

    forget_known: bool = False
    transpose: bool = False
    forget_scale: bool = False
    share_outside: bool = False


NO_MISTAKES = Mistakes()


def outside_factor(key: jax.Array, count: int, freedom: int | jax.Array, transpose: bool = False) -> jax.Array:
    r"""A with $AA^\top$ distributed as the Gram matrix of `count` standard Gaussians of $R^{freedom}$.

    Shape (count, min(count, freedom)). Lower triangular Bartlett factor ($A_{ii}=\chi_{freedom-i+1}$) if
    count < freedom, else the vectors themselves; a freedom that is known at run time only must be above count.
    """
    if isinstance(freedom, int) and freedom <= count:
        return jax.random.normal(key, (count, freedom))

    def draw() -> tuple[jax.Array, jax.Array]:
        below, diagonal = jax.random.split(key)
        chi2 = chi_square(diagonal, freedom - jnp.arange(count, dtype=float))
        return jax.random.normal(below, (count * (count - 1) // 2,)), chi2

    lower, chi2 = drawn_once(draw, jnp.asarray(freedom) > 0)
    factor = strictly_lower(lower.reshape(count // 2, count - 1 + count % 2), count) + jnp.diag(jnp.sqrt(chi2))
    return factor.T if transpose else factor


def drawn_once(draw: Callable[[], Any], ready: jax.Array) -> Any:
    """What `draw` draws, arrays of any shape, if `ready`, a scalar that is always true and that the compiler does not know.

    In a branch of its own what is drawn is kept; else it would be drawn anew for every array that it enters. Numbers are best
    drawn in one row, however they stand later: along short rows they are computed one by one.
    """
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(draw))
    return jax.lax.cond(ready, draw, lambda: nothing)


def chi_square(key: jax.Array, freedom: jax.Array) -> jax.Array:
    r"""Independent $\chi^2_\nu$ for each of `freedom` (n,), all of them at least 2.

    Twice a gamma variable of shape α = ν/2 (Marsaglia and Tsang 2000): with $\delta=\alpha-\tfrac13$ it is
    $\delta(1+x/\sqrt{9\delta})^3$ for a Gaussian x, which is nearly always accepted. The first proposals are made inside
    the loop, too: a second copy of what draws them takes a sixth of a simulator's time to compile.
    """
    delta = freedom / 2 - 1 / 3

    def propose(now: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Number of the next round, the cubes so far, and which are refused."""
        number, v, refused = now
        gaussian, uniform = jax.random.split(jax.random.fold_in(key, number))
        x = jax.random.normal(gaussian, delta.shape)
        new = (1 + x / (3 * jnp.sqrt(delta))) ** 3
        bound = x**2 / 2 + delta * (1 - new + jnp.log(jnp.maximum(new, 1e-300)))
        good = (new > 0) & (jnp.log(jax.random.uniform(uniform, delta.shape)) < bound)
        return number + 1, jnp.where(refused, new, v), refused & ~good

    first = (jnp.asarray(0), jnp.ones_like(delta), jnp.ones(delta.shape, bool))
    return 2 * delta * jax.lax.while_loop(lambda now: jnp.any(now[2]), propose, first)[1]


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
