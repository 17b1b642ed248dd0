r"""The course of ‖W‖² under single-sample SAM in the lazy phase, with the error and the second layer that go with it.

Of isotropic W, $G=wI$, the weights are known but for the error $e=\theta-\theta^*$ and the part $a_\perp$ of a across the
span of W's columns, $\|a\|^2=|\theta|^2/w+|a_\perp|^2$. One whole step of the algorithm, averaged over the sample and a
Gaussian e, changes $\|W\|^2$, $E|e|^2$, $E\langle e,\hat\theta^*\rangle$ and $E|a_\perp|^2$; from the published start these
changes are followed together. `decay_rate` is their limit for a settled error and $\|a\|^2\ll w$: but $a_\perp$ is gone within
about $1/(2\eta\rho^2d)$ steps, and ‖a‖² is then what θ needs (all derived).
"""

from dataclasses import dataclass

import numpy as np
import scipy

from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.core.quadrature import chi_squared
from theory.linear.sam import inputs_by_error, slope_spread, whole_step

#: Nodes along the error on either side of ℓ' = 0, along the target, and of the squared lengths of the input's rest, and of e.
_NODES, _LENGTHS = (40, 3, 4), 3
#: Relative tolerance of the integration; the nodes are as good.
_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class NormCourse:
    r"""Means at the given steps, shapes (steps,).

    Attributes:
        norm2, second_norm2: ‖W‖²_F and ‖a‖². spread: τ, the root mean square of |e|.
        left_out: $\int\mathrm{tr}\beta\,|d\ln\|W\|^2|$ until then, with the mean square
            $\mathrm{tr}\beta=\tau^2/(w+\|a\|^2)^2$ of the boosts by which e makes G lean: the relative order of what an
            isotropic G leaves out.
    """

    norm2: np.ndarray
    second_norm2: np.ndarray
    spread: np.ndarray
    left_out: np.ndarray


def norm_course(
    radius: float, step_size: float, width: int, dim: int, target_norm: float, steps: np.ndarray
) -> NormCourse:
    r"""From $w_{ij}\sim N(0,1/d)$, $a_i\sim N(0,1/m)$, at increasing steps from 0 on; while $\|W\|^2\gg d\|\theta^*\|$.

    Args: ρ, η, m, d, ‖θ*‖; steps, shape (T,). In 3 and 2 dimensions, where e is not Gaussian, the fall is .9 and .6 % more
    than in runs. `left_out` is an order, no bound: at m = 2000, d = 50, k(d + 2) = 1.28 the fall was .045 off where it says
    .028.

    Raises `InputError` for fewer than 2 dimensions, no more neurons than dimensions, numbers that are not positive, where
    `slope_spread` does, and where the error grows as large as the weights that hold it (τ > w).
    """
    check_whole(width=width, dim=dim)
    check_positive(radius=radius, step_size=step_size, target_norm=target_norm)
    if not 2 <= dim < width:
        raise InputError(f"dim is {dim} and width {width}: give 2 dimensions or more, and more neurons than dimensions")
    slope_spread(step_size, width / dim + 1, dim, radius)  # (refuses a step size beyond the limit)
    inputs, lengths = inputs_by_error(dim, *_NODES), chi_squared(dim, _LENGTHS)

    def rates(_: float, state: np.ndarray) -> np.ndarray:
        """Of ln ‖W‖², ln E|e|², the mean error along the target, |a⊥|², and of what is left out."""
        weight, error2 = np.exp(state[0]) / dim, np.exp(state[1])
        goal = target_norm * _direction(state[2] / np.sqrt(error2))
        changes = np.zeros(4)
        for squared, share in zip(*lengths, strict=True):
            error = np.array([np.sqrt(error2 * squared / dim), 0.0, 0.0])
            changes += share * _changes(weight, goal, error, max(state[3], 0.0), inputs, radius, step_size)
        changes[:2] /= [dim * weight, error2]
        second2 = (error2 + 2 * target_norm * state[2] + target_norm**2) / weight + state[3]
        return np.append(changes, error2 / (weight + second2) ** 2 * abs(changes[0]))

    def within(_: float, state: np.ndarray) -> float:
        return float(2 * (state[0] - np.log(dim)) - state[1])

    within.terminal = True  # type: ignore[attr-defined]
    start = [np.log(width), np.log(1 + target_norm**2), -target_norm, 1 - dim / width, 0.0]
    run = scipy.integrate.solve_ivp(
        rates, (0, steps[-1]), start, "LSODA", t_eval=steps, events=within, rtol=_TOLERANCE, atol=_TOLERANCE / 10
    )
    if run.status:
        raise InputError(
            f"step_size is {step_size:g}: the error grows as large as the weights, give a smaller step size"
        )
    norm2, error2 = np.exp(run.y[:2])
    second2 = (error2 + 2 * target_norm * run.y[2] + target_norm**2) * dim / norm2 + run.y[3]
    return NormCourse(norm2, second2, np.sqrt(error2), run.y[4])


def _direction(cosine: float) -> np.ndarray:
    """The target's in the coordinates along e, across it, and along the rest of x."""
    return np.array([cosine, np.sqrt(max(1 - cosine**2, 0.0)), 0.0])


def _changes(
    weight: float,
    goal: np.ndarray,
    error: np.ndarray,
    aside2: float,
    inputs: tuple[np.ndarray, np.ndarray],
    radius: float,
    step_size: float,
) -> np.ndarray:
    """Mean changes of ‖W‖², |e|², of e along the target, and of |a⊥|² by a step from W of squared column length `weight`.

    Three neurons hold W along the three coordinates and θ; a fourth holds a⊥.
    """
    x, mass = inputs
    first = np.vstack([np.sqrt(weight) * np.eye(3), np.zeros(3)])
    second = np.append((goal + error) / np.sqrt(weight), np.sqrt(aside2))
    new, last = whole_step(first, second, goal, x, radius, step_size)
    theta = np.einsum("smi,sm->si", new, last)
    spanned = np.linalg.solve(np.einsum("smi,smj->sij", new, new), theta[:, :, None])[:, :, 0]
    left = theta - goal
    after = np.stack(
        [
            np.sum(new**2, axis=(1, 2)) - 3 * weight,
            np.sum(left**2, axis=1) - error @ error,
            (left - error) @ goal / np.linalg.norm(goal),
            np.sum(last**2, axis=1) - np.sum(theta * spanned, axis=1) - aside2,
        ]
    )
    return np.asarray(after @ mass)
