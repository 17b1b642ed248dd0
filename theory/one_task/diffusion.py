r"""The one-task diffusion: drift and noise of a light student's overlap under SGD, as one pair of expressions.

In gradient-flow time $t=\eta\cdot$steps the overlap $u=\langle\bar v,e_p\rangle$ of a light student obeys (Itô)
$$du=\{a\varphi'(u)(1-u^2)-\tfrac\eta bK(u)\}\,dt+\sqrt{\tfrac\eta bN(u)}\,dW,$$
with the derived laws K and N of `theory.plateau`, batch size b. It is the diffusion whose first two moments over one step
are those of SGD, to second order in η; it holds while the student is light and a step moves u little ($\eta^2N\ll u^2$).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.one_task.plateau import Plateau, a, d, mass, plateau, u
from theory.one_task.single_task import SingleTask

eta, b = sp.symbols("eta b", positive=True)
#: Arguments of the lowered expressions, in this order.
ARGUMENTS = (u, eta, a, mass, d, b)


@lru_cache(maxsize=64)
def one_task_laws(activation: Activation, constants: Plateau | None = None) -> tuple[sp.Expr, sp.Expr]:
    """Drift and diffusion (variance per unit of gradient-flow time) of u, in the symbols `ARGUMENTS`."""
    laws = constants or plateau(activation)
    drift = SingleTask(activation).rate - eta / b * laws.shrinkage_law
    return drift, eta / b * laws.variance_law


class Diffusion(ABC):
    """What a law of the hitting time is made from: drift and variance of one direction's overlap, step size η."""

    activation: Activation
    weight: float
    step_size: float

    @abstractmethod
    def coefficients(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drift and diffusion (variance), per unit of gradient-flow time, at overlaps of shape (n,)."""

    @property
    @final
    def even(self) -> bool:
        """Whether u and −u are equivalent."""
        return self.activation.parity == "even"


@dataclass(frozen=True)
class OneTaskDiffusion(Diffusion):
    r"""The diffusion with its numbers.

    Attributes:
        weight: a_p. step_size: η. total: Σa². dim: d. batch: samples per step.
        constants: second-order laws K and N; None for the derived ones.
        with_shrinkage, with_noise: False leaves −ηK, or the noise, out (controls).
    """

    activation: Activation
    weight: float
    step_size: float
    total: float
    dim: int
    batch: int = 1
    constants: Plateau | None = None
    with_shrinkage: bool = True
    with_noise: bool = True

    @property
    def laws(self) -> Plateau:
        return self.constants or plateau(self.activation)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Values of `ARGUMENTS` but the first."""
        return self.step_size, self.weight, self.total, float(self.dim), float(self.batch)

    @cached_property
    def expressions(self) -> tuple[sp.Expr, sp.Expr]:
        """Drift and diffusion as expressions in `ARGUMENTS`."""
        drift, diffusion = one_task_laws(self.activation, self.constants)
        if not self.with_shrinkage:
            drift = SingleTask(self.activation).rate
        return drift, diffusion if self.with_noise else sp.Integer(0)

    @cached_property
    def _lowered(self) -> tuple[Callable, Callable]:
        drift, diffusion = (sp.lambdify(ARGUMENTS, x, "numpy") for x in self.expressions)
        return drift, diffusion

    def coefficients(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drift and noise intensity at overlaps of any shape."""
        drift, diffusion = (law(overlap, *self.numbers) for law in self._lowered)
        return drift + 0.0 * overlap, diffusion + 0.0 * overlap

    @property
    def noise_scale(self) -> float:
        r"""The overlap below which noise, not the signal, moves the student.

        The smaller of $(\eta\nu/bJ\hat\sigma_J^2a)^{1/J}$, where signal and noise balance, and $\sqrt{\nu/2\kappa}$, the
        spread that noise and shrinkage alone maintain.
        """
        shrinkage, variance = self.laws.numbers(self.weight, self.total, self.dim, self.batch)
        J = self.activation.information_exponent
        signal = J * float(self.activation.leading) * self.weight
        balance = (self.step_size * variance / signal) ** (1 / J)
        return min(balance, float(np.sqrt(variance / (2 * shrinkage)))) if shrinkage > 0 else balance
