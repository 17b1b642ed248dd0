r"""Mean and covariance of one SGD step of rows of unit length by eigenspace of the inputs, to second order in the step size.

Beside `theory.declared.step_moments` the step is scaled to length 1. With the batch's descent $u_k=-b_k\delta\sigma'(g_k)x$,
its radial part $\rho_k=\langle u_k,v_k\rangle$ and tangent part $\mathbf a_k=u_k-\rho_kv_k$,

$$v_k'=v_k+\eta\mathbf a_k-\eta^2\big(\rho_k\mathbf a_k+\tfrac12|\mathbf a_k|^2v_k\big)+O(\eta^3)$$

on a ``sphere``; of ``projected`` rows, which step along $\mathbf a_k$ alone, without $\rho_k\mathbf a_k$. So all that a step
needs are the second moments of displacements $\langle u_k,v_U\rangle^i$ along the frame and of $\langle u_k,u_l\rangle^i$,
which free rows have, for any eigenvalues, Gram matrix of the teacher, link, batch and label noise. Weight decay is undone by
the scaling but for the step, which is $\eta/(1-\eta\kappa)$ then. Valid for $\sum_iV^i_{kk}=1$ and
$\eta^2E|\mathbf a_k|^2\ll1$. One eigenvalue, orthonormal teachers and the student's own link:
`theory.steps.committee` (blocks derived).
"""

from dataclasses import dataclass

import numpy as np
import sympy as sp

from theory.core.arguments import check_one_of
from theory.core.errors import InputError
from theory.core.frame import A, eta
from theory.core.indexed import Index, Sums, k, l
from theory.declared.inputs import Inputs
from theory.declared.step_moments import (
    Equations,
    G,
    L,
    Moments,
    MoreMoments,
    U,
    V,
    W,
    Y,
    b,
    h,
    i,
    lam,
    place,
    spread,
    square_mean,
)

ROWS = ("sphere", "projected")

#: Mean of $\langle u_k,v_U\rangle^i$; its second moments, also with $\rho_l$, and those of $\rho$.
mean = sp.IndexedBase("u")
second, radial, twice = sp.IndexedBase("D"), sp.IndexedBase("R"), sp.IndexedBase("P")
#: $E\langle u_k,u_l\rangle^i$, $E|\mathbf a_k|^2$, and the mean displacement of $v_k$ along $v_U$.
square, size, moved = sp.IndexedBase("S"), sp.IndexedBase("s"), sp.IndexedBase("Delta")
#: Covariance of $\eta\langle\mathbf a_k,v_U\rangle^i$ and $\eta\langle u_l,v_W\rangle^h$.
one_sided = sp.IndexedBase("Theta")


def half_mean() -> Sums:
    r"""$E\langle\Delta v_k,v_U\rangle^i$, η and η² together, of rows on a sphere."""
    return Sums.of(*_tangent(), *_shrunk(), -(eta**2) * radial[k, i, k, U], eta**2 * twice[k, k] * Y[i, U, k])


def projected_half_mean() -> Sums:
    r"""The same of projected rows."""
    return Sums.of(*_tangent(), *_shrunk())


def _tangent() -> list[sp.Expr | tuple]:
    return [eta * mean[i, k, U], (-eta * place[k, A] * mean[h, k, A] * Y[i, U, k], h, A)]


def _shrunk() -> list[sp.Expr | tuple]:
    return [-(eta**2) * size[k] * Y[i, U, k] / 2]


def row_mean() -> Sums:
    r"""$E\,\Delta V^i_{kl}$: both halves, and $\eta^2E\langle\mathbf a_k,\mathbf a_l\rangle^i$."""
    return Sums.of(
        (place[l, A] * moved[i, k, A], A),
        (place[k, A] * moved[i, l, A], A),
        eta**2 * square[i, k, l],
        (-(eta**2) * place[k, A] * radial[k, i, l, A], A),
        (-(eta**2) * place[l, A] * radial[l, i, k, A], A),
        (eta**2 * twice[k, l] * place[l, A] * Y[i, A, k], A),
    )


def one_sided_covariance() -> Sums:
    r"""Covariance of $\langle\mathbf a_k,v_U\rangle^i$ and $\langle u_l,v_W\rangle^h$, times η²."""
    g = Index("g", L)
    off = -Y[i, U, k] * place[k, A] * spread[g, k, A, h, l, W]
    return Sums.of(spread[i, k, U, h, l, W], (off, g, A))


def half_covariance() -> Sums:
    r"""Covariance of $\eta\langle\mathbf a_k,v_U\rangle^i$ and the same of l, h, W."""
    g = Index("g", L)
    off = -Y[h, W, l] * place[l, A] * one_sided[i, k, U, g, l, A]
    return Sums.of(one_sided[i, k, U, h, l, W], (off, g, A))


#: Name → equation's left side, terms, and free letters, in the order in which they are solved.
EQUATIONS: Equations = {
    "u": (r"E\langle u_{k},v_{U}\rangle^{i}", Sums.of((-b[k] * lam[i] * G[k, A] * V[i, A, U], A)), (i, k, U)),
    "S": (r"E\langle u_{k},u_{l}\rangle^{i}", square_mean(), (i, k, l)),
    "D": (
        r"E\langle u_{k},v_{U}\rangle^{i}\langle u_{l},v_{W}\rangle^{h}",
        Sums.of(spread[i, k, U, h, l, W] / eta**2, mean[i, k, U] * mean[h, l, W]),
        (i, k, U, h, l, W),
    ),
    "R": (
        r"E\rho_{k}\langle u_{l},v_{U}\rangle^{i}",
        Sums.of((place[k, A] * second[h, k, A, i, l, U], h, A)),
        (k, i, l, U),
    ),
    "P": (r"E\rho_{k}\rho_{l}", Sums.of((place[l, A] * radial[k, h, l, A], h, A)), (k, l)),
    "s": (r"E|\mathbf a_{k}|^2", Sums.of((square[i, k, k], i), -twice[k, k]), (k,)),
    "Delta": (r"E\langle\Delta v_{k},v_{U}\rangle^{i}", half_mean(), (i, k, U)),
    "Q": (r"E\,\Delta V^{i}_{kl}", row_mean(), (i, k, l)),
    "Theta": (r"\Theta", one_sided_covariance(), (i, k, U, h, l, W)),
    "halves": (r"\mathrm{Cov}", half_covariance(), (i, k, U, h, l, W)),
}


def equations(rows: str = "sphere") -> Equations:
    """`EQUATIONS` for one of `ROWS`. Raises `InputError` for others."""
    check_one_of(ROWS, rows=rows)
    left, _, free = EQUATIONS["Delta"]
    return EQUATIONS if rows == "sphere" else EQUATIONS | {"Delta": (left, projected_half_mean(), free)}


@dataclass(frozen=True)
class UnitStepMoments(MoreMoments):
    """Moments of a step of unit rows.

    Attributes:
        rows: one of `ROWS`. free, replaced: as `MoreMoments`.
    """

    rows: str = "sphere"

    @property
    def equations(self) -> Equations:
        """Those of these rows."""
        return equations(self.rows)

    def at(
        self,
        grams: np.ndarray,
        inputs: Inputs,
        a: np.ndarray,
        second: np.ndarray,
        /,
        step_size: float,
        decay: float = 0.0,
        **numbers: float,
    ) -> Moments:
        r"""As `StepMoments.at`, from $V^i$ = `grams` (L, N, N), a (P,), b (m,): mean to second order, leading covariance.

        Raises `InputError` as that, for rows that are not of unit length, and for weight decay that leaves nothing of a row.
        """
        length = np.einsum("iAA->A", grams)[a.size :]
        if not np.allclose(length, 1.0, rtol=1e-9):
            raise InputError(f"squared norms of the rows are {length}: rows on a sphere begin with 1")
        if not step_size * decay < 1:
            raise InputError(
                f"decay is {decay:g}, step size {step_size:g}: nothing is left of a row; lower one of them"
            )
        size = step_size / (1 - step_size * decay)
        found = self.solved(self.arrays(grams, inputs, a, second), step_size=size, **numbers)
        return Moments(found["Delta"][:, :, : a.size], found["Q"], found["halves"])
