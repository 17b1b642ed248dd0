r"""Law of the recovery time of one direction under real SGD steps: no expansion in the step size, and no diffusion.

While a student is light its cosine u with a direction is a Markov chain of its own: one step sends it to $u'(u;\xi)$, a
function of u and of a few fresh Gaussians. On a grid, each quadrature node of ξ moves mass from $u_i$ to the three grid points
nearest to $u'$, with the weights of quadratic interpolation, which keep mean and variance. Small kicks then make the usual
difference scheme of the diffusion with the step's own mean and variance; large ones jump. The survival
$S(n)=\sum_j(P^n)_{\cdot j}$ is a power of one matrix, at a cost of order ln n.

The diffusion of `theory.one_task.diffusion` knows a kick's variance alone, to second order. Where a run meets few of the rare
large kicks (`theory.one_task.rare_samples`) this law holds and that one does not.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dynamics.core.precision import double_precision
from dynamics.core.replicas import marks
from dynamics.one_task.one_step_drift import check_quadrature, moves, nodes
from theory import Activation, InputError, Teacher
from theory.core.arguments import check_positive, check_whole

#: Times at which the survival is known.
_TIMES = 400
#: By which a whole number of steps may come out short when times are divided.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class ChainLaw:
    """P(T > t) on a grid of times.

    Attributes: times (K,), gradient-flow time, of whole steps but for the end; survival (K,). step_size: T is a multiple of
    it; 0 for any T.
    """

    times: np.ndarray
    survival: np.ndarray
    step_size: float = 0.0

    def cdf(self, times: np.ndarray) -> np.ndarray:
        """P(T ≤ t), linear between grid times; NaN beyond the last one."""
        return 1 - np.interp(times, self.times, self.survival, right=np.nan)

    def moment(self, power: int) -> float:
        """E min(T, H)^k up to the last grid time H."""
        # Between grid times all steps are as likely: of one step, or of many, that is uniform half a step later.
        edges, mass = self.times + 0.5 * self.step_size, -np.diff(self.survival)
        within = np.mean([edges[:-1] ** j * edges[1:] ** (power - j) for j in range(power + 1)], axis=0)
        return float(mass @ within + self.survival[-1] * self.times[-1] ** power)

    @property
    def mean(self) -> float:
        """E min(T, H)."""
        return self.moment(1)

    @property
    def std(self) -> float:
        """Standard deviation of min(T, H)."""
        return float(np.sqrt(self.moment(2) - self.mean**2))

    def std_error(self, replicas: int) -> float:
        r"""Standard error of the sample standard deviation of min(T, H), $\sqrt{(\mu_4-\sigma^4)/4\sigma^2n}$."""
        first, second, third, fourth = (self.moment(k) for k in (1, 2, 3, 4))
        centred = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4
        return float(np.sqrt((centred - self.std**4) / (4 * self.std**2 * replicas)))


@double_precision
def one_task_chain(
    activation: Activation,
    teacher: Teacher,
    direction: int,
    overlap: float,
    step_size: float,
    *,
    time: float,
    level: float = 0.5,
    cells: int = 300,
    order: int = 96,
) -> ChainLaw:
    """Law of the first time at which u² ≥ `level`, from cosine `overlap`, until `time`; every other overlap is zero.

    Args:
        direction: index from 0. step_size: η, batch 1. cells: of the grid on each side of u = 0. order: nodes per Gaussian.

    Cost: order² · 5 nodes (times order/2 for a second direction) at each grid point, and powers of a matrix of
    2·cells + 1 rows. The grid's error is of second order in the cell where a cell is smaller than the rare
    kicks that matter, and falls more slowly above: compare with half as many cells.
    Mean and spread are those of a number of whole steps, up to a twelfth of a squared step in the variance.

    Raises: `InputError` for more than two teachers, d < P + 2, an overlap that is not below the level, or a number that is not
    positive.
    """
    check_positive(step_size=step_size, time=time)
    check_whole(2, cells=cells, order=order)
    check_quadrature(teacher, overlap)
    if not 0 < level < 1 or overlap**2 >= level:
        raise InputError(f"level is {level!r}: give a squared overlap between overlap² = {overlap**2:.3g} and 1")
    grid = np.linspace(-np.sqrt(level), np.sqrt(level), 2 * cells + 1)
    one = np.eye(grid.size) + step_generator(activation, teacher, direction, step_size, grid, order)
    steps = marks(int(time / step_size * (1 + _ROUNDING)), _TIMES)
    powers = {count: np.linalg.matrix_power(one, count) for count in set(np.diff(steps).tolist())}
    place = (overlap - grid[0]) / (grid[1] - grid[0])
    mass = np.maximum(1 - np.abs(np.arange(grid.size) - place), 0.0)
    survival = [1.0]
    for count in np.diff(steps).tolist():
        mass = mass @ powers[count]
        survival.append(float(mass.sum()))
    times = np.minimum(np.array(steps) * step_size, time)
    return ChainLaw(np.append(times, time), np.array([*survival, survival[-1]]), step_size)


def step_generator(
    activation: Activation, teacher: Teacher, direction: int, step_size: float, grid: np.ndarray, order: int
) -> np.ndarray:
    """P − 1 of one step, shape (n, n) for a grid of n points; what leaves the grid is gone."""
    points, weights = nodes(teacher.dim - teacher.width - 1, teacher.width, order)
    last, found = grid.size - 1, np.zeros((grid.size, grid.size))
    at = jnp.asarray(points)
    for i in range(grid.size):
        moved = step_size * np.asarray(moves(activation, teacher, direction, grid[i], step_size, at))
        place = i + moved / (grid[1] - grid[0])
        inside = (place > 0) & (place < last)
        weight, nearest = weights[inside], np.clip(np.rint(place[inside]), 1, last - 1)
        rest, nearest = place[inside] - nearest, nearest.astype(int)
        for shift, share in ((-1, rest * (rest - 1) / 2), (0, 1 - rest**2), (1, rest * (rest + 1) / 2)):
            found[i] += np.bincount(nearest + shift, weight * share, grid.size)
        found[i, i] -= 1
    return found
