r"""Mean motion of a light student's overlap in one real SGD step, to all orders in the step size, at any dimension.

One step is made as it is (`dynamics.declared.step`, without any expansion in η) in the coordinates that
matter: on the teachers, along the student's own part orthogonal to them, and the squared length of the rest of the sample, a
$\chi^2_{d-P-1}$. Its mean is taken by Gaussian quadrature (Hermite and Laguerre), not by sampling: on the plateau the
signal $a\varphi'(u)\sim u^{J-1}$ lies so far below the noise of one sample that $10^{10}$ samples would not show it.
"""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, optimize

from dynamics.core.lowering import lower_scalar
from dynamics.core.precision import double_precision
from dynamics.declared.rows import Rows
from dynamics.declared.step import Parts, take
from theory import Activation, InputError, Teacher
from theory.core.hermite import z
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.loss import Square
from theory.declared.rule import SGD
from theory.declared.student import two_homogeneous

#: Norm of the student: so small that f ≈ 0.
_SCALE = 1e-6


@lru_cache(maxsize=64)
def nodes(freedom: int, teachers: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, teachers + 2) and weights (n,): standard Gaussians, and a χ² of `freedom` degrees of freedom last."""
    step = np.arange(1, 5)
    half = freedom / 2 - 1  # recurrence of the Laguerre polynomials, for x = χ²/2
    chi, vectors = linalg.eigh_tridiagonal(2 * np.arange(5) + 1 + half, np.sqrt(step * (step + half)))
    few = [gauss_hermite(max(order // 2, 12))] * (teachers - 1)
    grid, product = product_rule(*[gauss_hermite(order)] * 2, *few, (2 * chi, vectors[0] ** 2))
    kept = product > 1e-30 * product.max()
    return grid[kept], product[kept] / product.sum()


@double_precision
def one_step_drift(
    activation: Activation, teacher: Teacher, direction: int, overlap: float, step_size: float, *, order: int = 64
) -> float:
    r"""$E(u'-u)/\eta$ over one real step of size η from overlap `overlap`; every other overlap is zero.

    Args:
        direction: index from 0. order: nodes per Gaussian coordinate in the plane of direction and student.

    Returns: the mean, $a\varphi'(u)(1-u^2)-\eta K(u)+O(\eta^2)$. Cost: order² nodes times (order/2)^(P−1) · 5.

    Raises: `InputError` for more than two teachers, d < P + 2, or an overlap that is not inside (−1, 1).
    """
    check_quadrature(teacher, overlap)
    points, weights = nodes(teacher.dim - teacher.width - 1, teacher.width, order)
    return float(jnp.sum(moves(activation, teacher, direction, overlap, step_size, jnp.asarray(points)) * weights))


def check_quadrature(teacher: Teacher, overlap: float) -> None:
    """Raises `InputError` for more than two teachers, d < P + 2, or an overlap that is not inside (−1, 1)."""
    if teacher.width > 2:
        raise InputError(f"teacher width is {teacher.width}: quadrature is for 1 or 2 directions")
    if teacher.dim < teacher.width + 2:
        raise InputError(f"dim is {teacher.dim}: use at least teacher width + 2 = {teacher.width + 2}")
    if not -1 < overlap < 1:
        raise InputError(f"overlap is {overlap!r}: give a cosine between -1 and 1")


def moves(
    activation: Activation, teacher: Teacher, direction: int, overlap: float, step_size: float, points: jax.Array
) -> jax.Array:
    """(u′ − u)/η of one real step at each of the `nodes`, shape (n,)."""
    a = jnp.asarray(teacher.a)
    return _moves(activation, direction, a, jnp.asarray(overlap), jnp.asarray(step_size), points)


@double_precision
def critical_step(
    activation: Activation, teacher: Teacher, direction: int, overlap: float, guess: float, *, order: int = 64
) -> float:
    """The step size at which the mean motion of the overlap in one real step changes sign, near `guess`.

    Raises: `InputError` if it does not change sign between a tenth and ten times the guess.
    """
    drift = partial(one_step_drift, activation, teacher, direction, overlap, order=order)
    if drift(0.1 * guess) * drift(10 * guess) > 0:
        raise InputError(f"guess is {guess!r}: no change of sign within a factor of ten of it")
    return float(optimize.brentq(drift, 0.1 * guess, 10 * guess, rtol=1e-8))


@partial(jax.jit, static_argnums=(0, 1))
def _moves(
    activation: Activation, direction: int, a: jax.Array, overlap: jax.Array, step_size: jax.Array, points: jax.Array
) -> jax.Array:
    """(u′ − u)/η at each node (x_p, own, other teachers, χ²)."""
    parts = Parts(two_homogeneous(activation, 1), Square(), SGD(1.0))
    sigma = lower_scalar(z, activation.function)
    # Coordinates: the direction, the student's own, the other teachers, and one along what is left of the sample.
    row = jnp.zeros(a.size + 2).at[:2].set(_SCALE * jnp.stack([overlap, jnp.sqrt(1 - overlap**2)]))

    def one(point: jax.Array) -> jax.Array:
        target = a[direction] * sigma(point[0]) + jnp.sum(jnp.delete(a, direction) * sigma(point[2:-1]))
        sample = point.at[-1].set(jnp.sqrt(point[-1]))
        moved = take(parts, Rows(row[None], sample[None]), jnp.ones(1), {}, target[None], jnp.zeros(()), step_size)
        return (moved.rows.array[0, 0] / moved.rows.norm() - overlap) / step_size

    return jax.vmap(one)(points)
