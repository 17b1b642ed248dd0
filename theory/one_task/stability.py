r"""The stability map: up to which step size the mean drift of one step still learns a direction.

On the plateau a student with overlap u on a direction of weight a grows by $\eta a\varphi'(u)(1-u^2)$ and shrinks by
$\eta^2K(u;a,d)$ per step (`theory.plateau`). The drift vanishes at

$$\eta_c(u)=\frac{a\varphi'(u)(1-u^2)}{K(u)},\qquad
\eta_c\simeq\frac{2a\,u^{J-2}}{d+2J-1+8Ja^2}\ \text{ for }h_J,\ \sum a^2=1,\ u\to0,$$

and with u of the order of $d^{-1/2}$ the boundary is at $\eta\propto a\,d^{-J/2}$ (arXiv:2504.19983, Theorem 2.1 and
Corollary 2.3). It is the boundary of the *drift*: fluctuations delay recovery, and spread it, well below.

What has been found is held up to another step size (`largest_held`). An error δ of a student at rest on its direction, $r=a$,
steps to $\delta-\eta gg^\top\delta$, $g=\nabla_vf=\sqrt a\{2\sigma(z)\bar v+\sigma'(z)x_\perp\}$. In few dimensions that is
the smaller of the two, and for large batches, with which $\eta_c$ grows on while this ends at the step of descent. Students
that fit several directions hold less than each would alone (`largest_held_by_all`), the less the more there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, eigs, eigsh

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.one_task.errors_at_rest import errors_at_rest
from theory.one_task.plateau import plateau, signal

#: Of a quadrature of fourth powers: exact for polynomials up to degree 19.
_POINTS = 80
#: Below what one student holds, where 𝒦 of all is asked for; of an eigenvalue; students whose errors are taken together.
_ROUNDING, _EXACT, _EXACTLY = 1e-9, 1e-6, 6


def critical_step(activation: Activation) -> sp.Expr:
    r"""$\eta_c(u)$ as an expression in `theory.plateau`'s symbols u, a, A (Σa²) and d."""
    return sp.cancel(signal(activation) / plateau(activation).shrinkage_law)


def largest_held(activation: Activation, weight: float, dim: int, batch: float = 1) -> float:
    r"""The step size from which mean squares about a found direction grow: single runs are thrown off it, soon most of them.

    $C=E\,\delta\delta^\top$ has a part along the student, $c_r$, and one across it, $c_t$ in each of d − 1 dimensions. With
    $H=E\,gg^\top$ it steps to $C-\eta(HC+CH)+\eta^2\{(1-\frac1b)HCH+\frac1bE\,g(g^\top Cg)g^\top\}$: two equations, stable up
    to the smaller root of $(2h_r-\eta m_r)(2h_t-\eta m_t)=\eta^2m_{rt}m_{tr}$,
    $$h_r=4aE\sigma^2,\quad h_t=aE\sigma'^2,\quad m_r=(1-\tfrac1b)h_r^2+\tfrac{16a^2}bE\sigma^4,\quad
    m_t=(1-\tfrac1b)h_t^2+\tfrac{a^2}b(d+1)E\sigma'^4,\quad m_{rt}m_{tr}=(d-1)\Big(\tfrac{4a^2}bE\sigma^2\sigma'^2\Big)^2.$$
    Exact for one student that fits its direction by itself, labels without noise (derived). Args: activation, $a_p$, d of 2 or
    more, b; ``inf`` for gradient descent.
    """
    loop, rates = _loop(activation, dim, batch)
    return 1 / (weight * float(np.linalg.eigvals(loop).real.max())) if rates[0] > 0 else float("inf")


def excess_at_rest(
    activation: Activation, weights: Sequence[float], dim: int, step_size: float, batch: int, variance: float
) -> tuple[float, float]:
    r"""What noise on labels keeps the loss of SGD above its rest at, by students that fit these directions, and 𝒦 < 1.

    By the recursion of `largest_held` with $\eta^2\frac{s^2}bH$ added, where $s^2$ is the variance of the labels' noise and of
    what the other students miss, a student keeps $2\mathcal L_p=h_rc_r+(d-1)h_tc_t=k_ps^2$, so that
    $$2\mathcal L=\frac{\mathcal K}{1-\mathcal K}\varsigma^2,\qquad\mathcal K=\sum_p\frac{k_p}{1+k_p}$$
    (derived; to leading order $\mathcal K=\frac\eta{2b}\sum_pa_p(4\varphi(1)+(d-1)\varphi'(1))$). Beyond what is held
    (inf, 1).
    """
    if any(step_size >= largest_held(activation, weight, dim, batch) for weight in weights):
        return float("inf"), 1.0
    total = _shared(activation, np.asarray(weights, dtype=float), dim, step_size, batch)
    return (0.5 * variance * total / (1 - total) if total < 1 else float("inf")), total


def largest_held_by_all(activation: Activation, weights: Sequence[float], dim: int, batch: float = 1) -> float:
    r"""`largest_held` of students that fit these directions together: each step of one is lengthened by what the others miss.

    Exact for up to six students: second moments of all errors together (`_together`). Of more it is where $\mathcal K=1$
    (`excess_at_rest`), whose recursions leave out what rows have in common, times what that is off by for the six heaviest;
    and $2/\lambda$ at most, λ the largest eigenvalue of $E\,gg^\top$ of all rows (`_stiffest`).
    """
    if not len(weights):
        return float("inf")
    # (All rates go as the weight; what is rounding beside the largest holds any step that this one does.)
    a, unit = np.asarray(weights, dtype=float) / max(weights), float(max(weights))
    a = np.sort(a[a > _ROUNDING])[::-1]
    alone = largest_held(activation, 1.0, dim, batch)
    if a.size == 1 or not np.isfinite(alone):
        return alone / unit
    exact = _together(activation, tuple(a[:_EXACTLY].tolist()), dim, batch)
    if a.size <= _EXACTLY:
        return exact / unit
    descent = 2 / _stiffest(activation, tuple(a.tolist()), dim > a.size)
    all_, heaviest = (_at_one(activation, x, dim, batch, alone) for x in (a, a[:_EXACTLY]))
    return min(exact * all_ / heaviest, descent) / unit


def _at_one(activation: Activation, weights: np.ndarray, dim: int, batch: float, alone: float) -> float:
    r"""The step size at which $\mathcal K=1$, up to that which the heaviest holds `alone`."""
    last = alone * (1 - _ROUNDING)
    if _shared(activation, weights, dim, last, batch) <= 1:
        return alone
    return float(brentq(lambda step: _shared(activation, weights, dim, step, batch) - 1, 0.0, last))


@lru_cache(maxsize=64)
def _together(activation: Activation, weights: tuple[float, ...], dim: int, batch: float) -> float:
    r"""The least η with $HC+CH=\eta\{(1-\frac1b)HCH+\frac1bE\,g(g^\top Cg)g^\top\}$ for errors of all rows.

    Along the P directions $g_{kq}=\sqrt{a_k}\sigma'(z_k)z_q$ and $g_{kk}=2\sqrt{a_k}\sigma(z_k)$; in the d − P other ones
    C is the same in each, that of rows along one of them, as their place P. Moments are products over fields (derived).
    """
    points, mass = activation.gaussian(_POINTS)
    value, slope = (np.broadcast_to(activation.arrays(order)(points), points.shape) for order in (0, 1))
    count, up_to = len(weights), np.arange(5)
    moments = np.einsum("n,na,nb,nc->abc", mass, *(x[:, None] ** up_to for x in (value, slope, points)))
    rows, places = np.divmod(np.arange(count * (count + 1)), count + 1)  # (the place P stands for one of the others)
    own, within = rows == places, places < count
    here = np.arange(count)
    factors = np.stack(
        [
            own[:, None] & (rows[:, None] == here),
            ~own[:, None] & (rows[:, None] == here),
            ~own[:, None] & (places[:, None] == here),
        ]
    ).astype(int)  # of σ, σ' and z, (3, errors, P)
    size = np.sqrt(np.array(weights))[rows] * np.where(own, 2.0, 1.0)
    first, second = np.triu_indices(rows.size)
    first, second = (x[within[first] == within[second]] for x in (first, second))
    powers, sizes, inside = factors[:, first] + factors[:, second], size[first] * size[second], within[first]
    pairs = np.prod(moments[*(powers[:, :, None] + powers[:, None])], axis=-1) * np.outer(sizes, sizes)
    others = np.where(inside, 1.0, np.where(inside[:, None], dim - count, dim - count + 2))
    pairs = pairs * others * np.where(first == second, 1.0, 2.0)

    def matrix(x: np.ndarray) -> np.ndarray:
        C = np.zeros((rows.size, rows.size))
        C[first, second] = C[second, first] = x
        return C

    H = matrix(sizes * np.prod(moments[*powers], axis=-1))
    rates, axes = np.linalg.eigh(H)
    sums = rates[:, None] + rates
    slower = np.where(sums > _ROUNDING * sums.max(), 1 / np.maximum(sums, 1e-300), 0.0)

    def grown(x: np.ndarray) -> np.ndarray:
        more = (1 - 1 / batch) * H @ matrix(x) @ H + matrix(pairs @ x) / batch
        return np.asarray((axes @ (slower * (axes.T @ more @ axes)) @ axes.T)[first, second])

    operator = LinearOperator((first.size, first.size), matvec=grown, dtype=float)
    v0 = np.where(first == second, 1.0, 1 / first.size)
    return 1 / float(eigs(operator, k=1, which="LR", v0=v0, tol=_EXACT, return_eigenvectors=False)[0].real)


@lru_cache(maxsize=16)
def _stiffest(activation: Activation, weights: tuple[float, ...], more: bool) -> float:
    r"""The largest eigenvalue of $E\,gg^\top$ of students at rest on directions of weights a; `more`: and of other dimensions.

    Of row k along direction p, $g=\sqrt{a_k}\sigma'(z_k)z_p$, and $2\sqrt{a_k}\sigma(z_k)$ along its own: rows that move in
    one direction have their mean slopes in common, $E\sigma z=E\sigma'$; those along their own the mean $E\sigma$; and two
    that turn to each other $E\sigma'z$.
    """
    points, mass = activation.gaussian(_POINTS)
    a, value, slope = np.array(weights), activation.arrays(0)(points), activation.arrays(1)(points)
    mean, tilt, turn = float(mass @ value), float(mass @ slope), float(mass @ (slope * points))
    height, square, root = float(mass @ value**2), float(mass @ slope**2), np.sqrt(a)
    apart = np.outer(root, root) * tilt**2 + np.diag(a * (square - tilt**2))
    largest = float(np.linalg.eigvalsh(apart)[-1]) if more else 0.0

    def product(flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(a.size, a.size)  # (row, direction)
        own, others = np.diag(x), x - np.diag(np.diag(x))
        found = (apart - np.diag(np.diag(apart))) @ others + (a * square)[:, None] * others
        found += np.outer(root, root) * (2 * tilt**2 * own + turn**2 * others.T)
        along = 4 * (height - mean**2) * a * own + 4 * mean**2 * root * (root @ own)
        np.fill_diagonal(found, along + 2 * tilt**2 * root * (root @ others))
        return np.asarray(found.ravel())

    size = a.size**2
    start = np.eye(a.size).ravel() + 1 / size  # (no random one, for the same number in every run)
    operator = LinearOperator((size, size), matvec=product, dtype=float)
    return max(largest, float(eigsh(operator, k=1, which="LA", v0=start, tol=_EXACT, return_eigenvectors=False)[0]))


def _shared(activation: Activation, weights: np.ndarray, dim: int, step_size: float, batch: float) -> float:
    """𝒦 of students that each hold alone at this step size."""
    loop, rates = _loop(activation, dim, batch)
    step = step_size * weights
    errors = np.linalg.solve(np.eye(len(loop)) - step[:, None, None] * loop, np.array([[dim - 1.0], [1.0]]))[..., 0]
    kept = step / (2 * batch) * (errors @ rates)
    return float(np.sum(kept / (1 + kept)))


@lru_cache(maxsize=64)
def _loop(activation: Activation, dim: int, batch: float) -> tuple[np.ndarray, np.ndarray]:
    r"""`errors_at_rest` in a batch, and the rates, of weight 1: across the student, $(d-1)c_t$, and along it; no rate across
    where the points see no slope, of a jump.
    """
    points, mass = activation.gaussian(_POINTS)
    value, slope = (np.broadcast_to(activation.arrays(order)(points), points.shape) for order in (0, 1))
    if not float(mass @ slope**2) > 0:
        return np.zeros((2, 2)), np.zeros(2)
    one, mean, rates = errors_at_rest(mass, slope, 2 * value[None], 1.0, dim - 1.0)
    return one / batch + (1 - 1 / batch) * mean, rates


@dataclass(frozen=True)
class StabilityMap:
    """Critical step sizes on a grid.

    Attributes:
        dims: (n,) dimensions. weights: (k,) teacher weights. critical: (n, k) η_c at the start.
        reach: start overlap times √d.
    """

    dims: np.ndarray
    weights: np.ndarray
    critical: np.ndarray
    reach: float


def stability_map(
    activation: Activation,
    dims: Sequence[int],
    weights: Sequence[float],
    reach: float,
    total: float = 1.0,
    batch: int = 1,
) -> StabilityMap:
    r"""$\eta_c$ for students that start with overlap `reach`/√d.

    Args:
        reach: g, e.g. √(2 ln m) for the best of m random students. total: $\sum_pa_p^2$. batch: samples per step.

    Raises: `InputError` for an empty grid, or a start overlap that is not between 0 and 1.
    """
    sizes, masses = np.asarray(dims, dtype=float), np.asarray(weights, dtype=float)
    if sizes.size == 0 or masses.size == 0 or np.any(sizes < 1) or np.any(masses <= 0):
        raise InputError("stability map: give dimensions of 1 or more and positive weights")
    if not 0 < reach < np.sqrt(sizes.min()):
        raise InputError(f"reach is {reach!r}: the start overlap reach/sqrt(dim) must lie between 0 and 1")
    constants = plateau(activation)
    critical = np.array(
        [[constants.critical_step(w, reach / np.sqrt(n), total, int(n), batch) for w in masses] for n in sizes]
    )
    return StabilityMap(sizes, masses, critical, reach)
