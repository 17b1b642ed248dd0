r"""The course of ‖W‖² under single-sample SAM in the lazy phase, with the error and the second layer that go with it.

Of W that is isotropic but for the direction that the labels hold up, $G=wI+(w_*-w)\hat\theta^*\hat\theta^{*\top}$, the
weights are known but for the error $e=\theta-\theta^*$ and the part $a_\perp$ of a across the span of W's columns,
$\|a\|^2=\theta^\top G^{-1}\theta+|a_\perp|^2$. One whole step of the algorithm, averaged over the sample and a Gaussian e,
changes $\|W\|^2$, $w_*$, the mean square of e across $\theta^*$, its mean and variance along it, and $E|a_\perp|^2$; from the
published start these changes are followed together. `decay_rate` is their limit for a settled error and $\|a\|^2\ll w$: but
$a_\perp$ is gone within about $1/(2\eta\rho^2d)$ steps, and ‖a‖² is then what θ needs (all derived).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.core.quadrature import Rule, chi_squared, gauss_hermite, product_rule
from theory.linear.sam import climbed, inputs_by_error, products, slope_spread

#: Nodes along the error on either side of ℓ' = 0, along the target, and of the squared lengths of the input's rest, and of e.
_NODES, _LENGTHS = (40, 3, 4), 3
#: Relative tolerance of the integration; the nodes are as good.
_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class NormCourse:
    r"""Means at the given steps, shapes (steps,).

    Attributes:
        norm2, second_norm2: ‖W‖²_F and ‖a‖². along: $w_*$, of ‖W‖² what lies along θ*. spread: τ, the root mean square of |e|.
        left_out: $\int\mathrm{tr}\beta\,|d\ln\|W\|^2|$ until then, with the mean square
            $\mathrm{tr}\beta=\tau^2/(w+\|a\|^2)^2$ of the boosts by which e makes G lean: the relative order of what a G
            without a lean leaves out.
    """

    norm2: np.ndarray
    second_norm2: np.ndarray
    along: np.ndarray
    spread: np.ndarray
    left_out: np.ndarray


def norm_course(
    radius: float, step_size: float, width: int, dim: int, target_norm: float, steps: np.ndarray
) -> NormCourse:
    r"""From $w_{ij}\sim N(0,1/d)$, $a_i\sim N(0,1/m)$, at increasing steps from 0 on; while $\|W\|^2>d\|\theta^*\|$.

    Args: ρ, η, m, d, ‖θ*‖; steps, shape (T,). At ‖W‖² = 3 d‖θ*‖ it has ‖a‖² 2 to 4 % too large (d from 6 to 20), on the way
    there up to 6 % too small (d = 20, ρ = .36, η = .00043, m = 273). In 3 and 2
    dimensions, where e is not Gaussian, the fall is .9 and .6 % more than in runs. `left_out` is an order, no bound: at
    m = 2000, d = 50, k(d + 2) = 1.28 the fall was .045 off where it says .028.

    Raises `InputError` for fewer than 2 dimensions, no more neurons than dimensions, numbers that are not positive, where
    `slope_spread` does, and where the error grows as large as the weights that hold it (τ > w).
    """
    check_whole(width=width, dim=dim)
    check_positive(radius=radius, step_size=step_size, target_norm=target_norm)
    if not 2 <= dim < width:
        raise InputError(f"dim is {dim} and width {width}: give 2 dimensions or more, and more neurons than dimensions")
    slope_spread(step_size, width / dim + 1, dim, radius)  # (refuses a step size beyond the limit)
    return _followed(radius, step_size, width, dim, target_norm, tuple(np.asarray(steps).tolist()))


@lru_cache(maxsize=4)
def _followed(
    radius: float, step_size: float, width: int, dim: int, target_norm: float, steps: tuple[float, ...]
) -> NormCourse:
    inputs = inputs_by_error(dim, *_NODES)
    errors = product_rule(gauss_hermite(_LENGTHS), chi_squared(dim - 1, _LENGTHS))

    def rates(_: float, state: np.ndarray) -> np.ndarray:
        """Of ln ‖W‖², e's mean square across the target (ln), its mean and variance (ln) along it, |a⊥|², ln w∗, left out."""
        now = _State.of(state, dim, target_norm)
        changes = np.zeros(6)
        for (along, squared), share in zip(*errors, strict=True):
            error = now.mean + np.sqrt(now.variance) * along, np.sqrt(now.across2 * squared / (dim - 1))
            changes += share * _changes(now.weights, target_norm, error, now.aside2, inputs, radius, step_size)
        norm2, across2, mean, along2, aside2, held = changes
        rate = norm2 / now.norm2
        logs = (
            rate,
            across2 / now.across2,
            mean,
            (along2 - 2 * now.mean * mean) / now.variance,
            aside2,
            held / now.weights[1],
        )
        return np.append(logs, now.boost2 * abs(rate))

    def within(_: float, state: np.ndarray) -> float:
        now = _State.of(state, dim, target_norm)
        return float(2 * np.log(now.norm2 / dim) - np.log(now.error2))

    within.terminal = True  # type: ignore[attr-defined]
    start = np.array(
        [np.log(width), np.log(1 - 1 / dim), -target_norm, -np.log(dim), 1 - dim / width, np.log(width / dim), 0.0]
    )
    run = scipy.integrate.solve_ivp(
        rates, (0, steps[-1]), start, "LSODA", t_eval=steps, events=within, rtol=_TOLERANCE, atol=_TOLERANCE / 10
    )
    if run.status:
        raise InputError(
            f"step_size is {step_size:g}: the error grows as large as the weights, give a smaller step size"
        )
    end = _State.of(run.y, dim, target_norm)
    return NormCourse(end.norm2, end.second_norm2, end.weights[1], np.sqrt(end.error2), run.y[6])


@dataclass(frozen=True, eq=False)
class _State:
    """What is followed, numbers or (T,): ‖W‖², the error's mean square across the target's direction, its mean and variance
    along it, |a⊥|², and w and w∗.
    """

    norm2: Any
    across2: Any
    mean: Any
    variance: Any
    aside2: Any
    weights: tuple[Any, Any]
    dim: int
    goal: float

    @staticmethod
    def of(state: np.ndarray, dim: int, goal: float) -> "_State":
        norm2, across2, variance, along = np.exp(state[[0, 1, 3, 5]])
        weights = (norm2 - along) / (dim - 1), along
        return _State(norm2, across2, state[2], variance, np.maximum(state[4], 0.0), weights, dim, goal)

    @property
    def error2(self) -> Any:
        """E|e|²."""
        return self.across2 + self.variance + self.mean**2

    @property
    def second_norm2(self) -> Any:
        """‖a‖²."""
        return (
            self.across2 / self.weights[0]
            + (self.variance + (self.mean + self.goal) ** 2) / self.weights[1]
            + self.aside2
        )

    @property
    def boost2(self) -> Any:
        """tr β."""
        return self.error2 / (self.norm2 / self.dim + self.second_norm2) ** 2


def _changes(
    weights: tuple[float, float],
    target_norm: float,
    error: tuple[float, float],
    aside2: float,
    inputs: Rule,
    radius: float,
    step_size: float,
) -> np.ndarray:
    """Mean changes of ‖W‖², of e across the target's direction squared, along it, and that squared, of |a⊥|² and of w∗, by a
    step from W of squared column lengths `weights` (across, along) with the `error` (along, across).

    Coordinates along e, across it, and along the rest of x: three neurons hold W along these and θ, a fourth holds a⊥. W
    changes by $-pbx^\top$, with a there for b, and a by $-pf$; so $G=W^\top W$ by $-hx^\top-xh^\top$,
    $h=pW^\top b-\tfrac12p^2|b|^2x$, and $\theta^\top G^{-1}\theta$, the part of $|a|^2$ in the span, by Woodbury's identity.
    """
    x, mass = inputs
    size = float(np.hypot(*error))
    way = np.array([error[0], error[1], 0.0]) / size
    across, along = np.sqrt(weights)
    turn, goal = np.outer(way, way), target_norm * way
    first = np.vstack([across * np.eye(3) + (along - across) * turn, np.zeros(3)])
    root = np.eye(3) / across + (1 / along - 1 / across) * turn
    second = np.append(root @ (goal + np.array([size, 0.0, 0.0])), np.sqrt(aside2))
    b, f, steep = climbed(first, second, goal, x, radius)
    p = step_size * steep
    h = p[:, None] * (b @ first) - (p**2 * products(b, b) / 2)[:, None] * x
    theta = first.T @ second - p[:, None] * (f @ first) - (p * (b @ second) - p**2 * products(b, f))[:, None] * x
    # In coordinates in which G was 1.
    inner, outer, there = h @ root, x @ root, theta @ root
    ht, xt, rest = products(inner, there), products(outer, there), 1 - products(inner, outer)
    hh, xx = products(inner, inner), products(outer, outer)
    spanned = products(there, there) + (xx * ht**2 + 2 * rest * ht * xt + hh * xt**2) / (rest**2 - hh * xx)
    left, last = theta - goal, second - p[:, None] * f
    held = left @ way
    after = np.stack(
        [
            -2 * products(h, x),
            products(left, left) - held**2 - error[1] ** 2,
            held - error[0],
            held**2 - error[0] ** 2,
            products(last, last) - spanned - aside2,
            -2 * (h @ way) * (x @ way),
        ]
    )
    return np.asarray(after @ mass)
