r"""Students: rows $v_k$ that enter through $\rho_k=\|v_k\|^2$ and $h_k=\langle v_k,x\rangle$, and a second layer $b_k$.

A neuron is $b_kF(\rho_k,h_k)$: $F=\sigma(h)$ for a committee, $F=\rho\,\sigma(h/\sqrt\rho)$ for the 2-homogeneous student.
By the chain rule $\nabla_{v_k}F=2F_\rho v_k+F_hx$. Of a *whitened* student $\rho_k=v_k^\top\Lambda v_k$ is the variance of
$h_k$, so that σ sees fields of unit variance whatever Λ is, and $\Lambda v_k$ stands for $v_k$ in that gradient (derived).
Committees: Saad and Solla 1995; the 2-homogeneous student: arXiv:2504.19983, section 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.core.activation import Activation
from theory.core.arguments import check_one_of, check_whole
from theory.core.errors import InputError
from theory.steps import neuron

#: ``free``: a step as it is. ``sphere``: then scaled to unit length. ``projected``: the gradient's tangent part only, then so.
ROWS = ("free", "sphere", "projected")


@dataclass(frozen=True)
class Student:
    """m rows.

    Attributes:
        activation: σ. width: m. second: $b_k$ at the start, (m,). trained: whether $b$ takes gradient steps too.
        rows: one of `ROWS`. homogeneous: whether F is 2-homogeneous. whitened: whether its norm is that of the field.

    Raises `InputError` for a width that is no whole number from 1, unknown `rows`, weights that are not m finite numbers, a
    2-homogeneous student with a second layer that is trained or not 1, or rows that are not free, or a whitened one that is
    not 2-homogeneous.
    """

    activation: Activation
    width: int
    second: tuple[float, ...]
    trained: bool = False
    rows: str = "free"
    homogeneous: bool = False
    whitened: bool = False

    def __post_init__(self) -> None:
        check_whole(**{"student width": self.width})
        check_one_of(ROWS, rows=self.rows)
        if len(self.second) != self.width or not np.all(np.isfinite(self.second)):
            raise InputError(
                f"second layer has {len(self.second)} weights: give {self.width} finite ones, one for each row"
            )
        if self.homogeneous and (self.trained or self.rows != "free" or any(b != 1 for b in self.second)):
            raise InputError(
                "a 2-homogeneous student has its second layer in the norms of free rows: give weights of 1, or use a "
                "committee for a second layer or for rows on a sphere"
            )
        if self.whitened and not self.homogeneous:
            raise InputError("a committee has no norms in its second layer: whitened is for the 2-homogeneous student")

    @property
    def neuron(self) -> neuron.Neuron:
        """F, 2F_ρ and F_h in ρ, z, σ(z), σ'(z) (z = h for a committee), differentiated symbolically."""
        return neuron.two_homogeneous() if self.homogeneous else neuron.row()

    def tangent(self, gradient: Any, rows: Any) -> Any:
        """The gradient (vectors, as `theory.declared.rule.Vectors`) at `rows`; of projected rows its tangent part alone."""
        if self.rows != "projected":
            return gradient
        return gradient - rows * (gradient.dot(rows) / rows.dot(rows))


def committee(
    activation: Activation, width: int, second: float | Sequence[float] = 1.0, trained: bool = False, rows: str = "free"
) -> Student:
    r"""$f=\sum_kb_k\sigma(\langle v_k,x\rangle)$; `second` is one number for all $b_k$, or m of them."""
    weights = (float(second),) * width if isinstance(second, int | float) else tuple(float(b) for b in second)
    return Student(activation, width, weights, trained, rows)


def two_homogeneous(activation: Activation, width: int) -> Student:
    r"""$f=\sum_k\|v_k\|^2\sigma(\langle\bar v_k,x\rangle)$ (arXiv:2504.19983, section 2)."""
    return Student(activation, width, (1.0,) * width, homogeneous=True)


def whitened(activation: Activation, width: int) -> Student:
    r"""$f=\sum_k\|v_k\|_\Lambda^2\,\sigma(\langle v_k,x\rangle/\|v_k\|_\Lambda)$, $\|v\|_\Lambda^2=v^\top\Lambda v$ (derived).

    For isotropic inputs `two_homogeneous`; with others that one's fields have no unit variance.
    """
    return Student(activation, width, (1.0,) * width, homogeneous=True, whitened=True)
