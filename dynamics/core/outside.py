r"""What a block of samples is outside everything known: only its Gram matrix matters, a Wishart matrix.

With the coordinates on what is known it makes chains of overlaps that are exact in law, at any dimension.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

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


class _Proposal(NamedTuple):
    """Of a gamma variable: the next one's key, a Gaussian and a uniform number."""

    key: jax.Array
    normal: jax.Array
    uniform: jax.Array


@jax.vmap
def _propose(key: jax.Array) -> _Proposal:
    # (The keys are those by which JAX draws such a variable.)
    key, normal, uniform = jax.random.split(key, 3)
    return _Proposal(key, jax.random.normal(jax.random.split(normal)[1]), jax.random.uniform(uniform))


def chi_square(key: jax.Array, freedom: jax.Array) -> jax.Array:
    r"""Independent $\chi^2_\nu$ for each of `freedom` (n,), all of them at least 2.

    Twice a gamma variable of shape α = ν/2 (Marsaglia and Tsang 2000): with $\delta=\alpha-\tfrac13$ it is
    $\delta(1+x/\sqrt{9\delta})^3$ for a Gaussian x, which is nearly always accepted. So the first proposals are made outside
    the loop, which runs only where one was refused.
    """
    delta = freedom / 2 - 1 / 3

    def cube(now: _Proposal) -> jax.Array:
        return (1 + now.normal / (3 * jnp.sqrt(delta))) ** 3

    def refused(now: _Proposal) -> jax.Array:
        v, log_u = cube(now), jnp.log(now.uniform)
        return ~((v > 0) & (log_u < now.normal**2 / 2 + delta * (1 - v + jnp.log(jnp.maximum(v, 1e-300)))))

    def again(now: _Proposal) -> _Proposal:
        return jax.tree.map(partial(jnp.where, refused(now)), _propose(now.key), now)

    first = _propose(jax.vmap(lambda key: jax.random.split(key)[0])(jax.random.split(key, freedom.size)))
    return 2 * delta * cube(jax.lax.while_loop(lambda now: jnp.any(refused(now)), again, first))


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
