r"""The idealised loss of any weights and emergence times: the exact staircase, and the staircase with finite steps.

$\mathcal L_{id}(t)=\tfrac12\varphi(1)\sum_pa_p^2\,1\{t<T_p\}$ (arXiv:2504.19983, Theorem 2.1(d)), for an activation with
a mean more (`LossSum.of`). A student whose neuron is
aligned grows logistically, $r=a/(1+e^{-z})$ with $z=4a\varphi(1)(t-T)$ and T the time of half its target norm, and
leaves $(a-r)^2$ of $a^2$: each step has the shape $D(z)=(1+e^z)^{-2}$.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.one_task.single_task import SingleTask, a, r0, u


@dataclass(frozen=True)
class LossSum:
    r"""The staircase $c\sum_pa_p^2\,1\{t<T_p\}$ as a step function. Making it costs a sort, a call a binary search.

    Attributes:
        jumps: (n,) finite emergence times, increasing.
        left: (n + 1,) the value before the first jump and from each jump on.
    """

    jumps: np.ndarray
    left: np.ndarray

    @classmethod
    def of(
        cls, weights: ArrayLike, emergence: ArrayLike, second_moment: float = 1.0, squared_mean: float = 0.0
    ) -> "LossSum":
        r"""From weights (P,) and emergence times (P,), inf where never learned.

        The directions of a set S that are left make $\tfrac12[(\varphi(1)-\varphi(0))\sum_Sa^2+\varphi(0)(\sum_Sa)^2]$
        beside light students; `second_moment` is φ(1), `squared_mean` φ(0) = (Eσ)².

        Raises: `InputError` if the shapes differ or a time is not a number.
        """
        a, times = np.asarray(weights, dtype=float), np.asarray(emergence, dtype=float)
        if a.ndim != 1 or a.shape != times.shape:
            raise InputError(f"emergence has shape {times.shape}, weights {a.shape}: give one time for each weight")
        if np.any(np.isnan(times)):
            raise InputError("emergence holds values that are not numbers: give inf for a direction never learned")
        order = np.argsort(times)
        # Summed from the end, where the loss is small, so that what is left late keeps its relative precision.
        squares, sums = (np.append(np.cumsum(x[order][::-1])[::-1], 0.0) for x in (a**2, a))
        left = 0.5 * ((second_moment - squared_mean) * squares + squared_mean * sums**2)
        finite = int(np.searchsorted(times[order], np.inf))
        return cls(times[order][:finite], left[: finite + 1])

    def __call__(self, times: ArrayLike) -> np.ndarray:
        """The loss at `times` (any shape); at a jump the value after it."""
        return self.left[np.searchsorted(self.jumps, np.asarray(times, dtype=float), side="right")]


def step_shape(z: ArrayLike) -> np.ndarray:
    r"""$D(z)=(1+e^z)^{-2}$: what a direction leaves, $z=4a\varphi(1)(t-T)$. Elementwise."""
    return scipy.special.expit(-np.asarray(z, dtype=float)) ** 2


def smooth_loss(weights: ArrayLike, emergence: ArrayLike, times: ArrayLike, second_moment: float = 1.0) -> np.ndarray:
    r"""$\tfrac12\varphi(1)\sum_pa_p^2D(4a_p\varphi(1)(t-T_p))$, shape of `times`; T_p is the time of half the target norm.

    Holds for an activation without mean, while directions align long before their norm has grown, $\sigma_0^2\ll a_p$
    (see `derive norm`). Cost P × times.
    """
    weight, hit, time = (np.asarray(x, dtype=float) for x in (weights, emergence, times))
    with np.errstate(invalid="ignore"):
        z = 4 * second_moment * weight * (time[..., None] - hit)
    steps = np.where(np.isinf(hit), 1.0, step_shape(z))  # one that is never learned stays, also at infinite times
    return 0.5 * second_moment * np.sum(weight**2 * steps, axis=-1)


def step_residual(activation: Activation, shape: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """Does r with (a − r)² = a²·shape(z) solve the derived norm equation of an aligned student? Zero if so, at one point."""
    task = SingleTask(activation)
    time = sp.Symbol("t", real=True)
    grown = a * (1 - sp.sqrt(shape(4 * a * activation.second_moment * time)))
    residual = sp.diff(grown, time) - task.norm_rate.subs(u, 1).subs(r0, grown)
    half = sp.Abs(shape(sp.Integer(0)) - sp.Rational(1, 4))  # z = 0 is the time of half the target norm
    return sp.N(sp.Abs(residual.subs({a: sp.Rational(4, 5), time: sp.Rational(2, 7)})) + half, 50)
