r"""Mean and covariance of one SGD step of a 2-homogeneous student by eigenspace of the inputs, exact in the step size.

$f=\sum_k\rho_k\sigma(z_k)$, $z_k=\langle\bar v_k,x\rangle$ with $\bar v_k=v_k/\sqrt{\rho_k}$ and $\rho_k=|v_k|^2$, or
$v_k^\top\Lambda v_k$ of a whitened student. By the chain rule a sample's step is

$$\Delta v_k=\frac{\eta}{\sqrt{\rho_k}}\big(u_k+c_kM\bar v_k\big),\qquad u_k=-\rho_k\delta\sigma'(z_k)x,\qquad
c_k=2\gamma_k-\langle u_k,\bar v_k\rangle,\quad\gamma_k=-\rho_k\delta\sigma(z_k),$$

M = 1, or Λ of a whitened student. So in the frame of directions and $\bar v_k$ the student is a committee with second layer
$\rho_k$, whose descents are $u_k$ (`theory.declared.step_moments`); what is new is the growth $\gamma_k$, whose moments follow
from $E\delta^2\sigma(z_k)\sigma(z_l)$ and, by Stein's lemma,
$E\delta^2\sigma(z_k)\sigma'(z_l)x=\Lambda\sum_AJ_{klA}v_A$. V is a polynomial of degree two in η, so that the mean is exact;
the covariance is that of the displacements of first order. For polynomials. One eigenvalue, orthonormal teachers and the
student's own link: `theory.steps.finite_step` (arXiv:2504.19983, section 2.2; blocks derived).
"""

from dataclasses import dataclass

import numpy as np
import sympy as sp

from theory.core.frame import A, B, eta, noise, w
from theory.core.indexed import Sums, Term, collect, k, l
from theory.declared.flow import kappa
from theory.declared.inputs import Inputs
from theory.declared.step_moments import (
    Equations,
    G,
    Moments,
    MoreMoments,
    U,
    V,
    W,
    Y,
    b,
    batch,
    flat_outputs,
    flat_slope_at,
    h,
    i,
    itself,
    lam,
    output,
    outputs,
    place,
    slope_at,
    spread,
)
from theory.declared.unit_rows import EQUATIONS as UNIT
from theory.declared.unit_rows import mean, radial, square, twice

#: M by eigenspace: 1, or λ. Lengths $\sqrt{\rho_k}$ (m,), and of the frame's vectors in units of those in it (N,).
metric, root, length = sp.IndexedBase("mu"), sp.IndexedBase("g"), sp.IndexedBase("f")
#: $E\delta\sigma(z_k)$, $E\delta^2\sigma\sigma$, J; $E\gamma_k\langle u_l,v_U\rangle^i$, and means and moments of c.
error, growth, tilt = sp.IndexedBase("e"), sp.IndexedBase("N"), sp.IndexedBase("J")
grown, coefficient = sp.IndexedBase("g_u"), sp.IndexedBase("c")
mixed, pair, moved = sp.IndexedBase("c_u"), sp.IndexedBase("c_c"), sp.IndexedBase("Delta")
_VERTICES = (k, l, A, B)


# -------------------------------------------------------------------- what is derived


def product_mean() -> Sums:
    r"""$N_{kl}=E\,(\delta^2+\varsigma^2)\sigma(z_k)\sigma(z_l)$."""
    return Sums.of((w[A] * w[B] * outputs[k, l, A, B], A, B), noise**2 * flat_outputs[k, l])


def tilted() -> Sums:
    r"""$J_{klU}$: $E\,\partial$ of $(\delta^2+\varsigma^2)\sigma(z_k)\sigma'(z_l)$ at each field, put where it stands."""
    terms = []
    for vertex, at in enumerate(_VERTICES):
        stands = place[at, U] if vertex < 2 else itself[at, U]
        terms.append(Term(w[A] * w[B] * slope_at(vertex)[_VERTICES] * stands, (A, B)))
        if vertex < 2:
            terms.append(Term(noise**2 * flat_slope_at(vertex)[k, l] * stands))
    return collect(terms)


def growth_with_descent() -> Sums:
    r"""$E\gamma_k\langle u_l,v_U\rangle^i$ of a batch: a sample's own, and the product of means."""
    outside, sample = b[k] * b[l] * lam[i], 1 / batch
    terms = [
        Term(outside * sample * tilt[k, l, A] * V[i, A, U], (A,)),
        Term(outside * (1 - sample) * error[k] * G[l, A] * V[i, A, U], (A,)),
    ]
    return collect(terms)


def coefficients_mean() -> Sums:
    r"""$Ec_kc_l$."""
    alike = 4 * b[k] * b[l]
    return collect(
        Sums.of(
            alike * growth[k, l] / batch,
            alike * (1 - 1 / batch) * error[k] * error[l],
            (-2 * place[l, A] * grown[k, h, l, A], h, A),
            (-2 * place[k, A] * grown[l, h, k, A], h, A),
            twice[k, l],
        )
    )


def along_frame() -> Sums:
    r"""Mean displacement of $v_k$ along a vector of the frame, weight decay apart."""
    outside = eta * length[U] / root[k]
    return Sums.of(outside * mean[i, k, U], outside * metric[i] * coefficient[k] * Y[i, U, k])


def teacher_mean() -> Sums:
    r"""$E\langle\Delta v_k,v_U\rangle^i$, exact; U a direction: $E\,\Delta V^i_{kU}$."""
    return Sums.of(moved[i, k, U], -eta * kappa * length[U] * root[k] * Y[i, U, k])


def row_mean() -> Sums:
    r"""$E\,\Delta V^i_{kl}$, exact: both halves, $E\langle\Delta v_k,\Delta v_l\rangle^i$, and weight decay."""
    left, outside = 1 - eta * kappa, eta**2 / (root[k] * root[l])
    return collect(
        Sums.of(
            (left * place[l, A] * moved[i, k, A], A),
            (left * place[k, A] * moved[i, l, A], A),
            outside * square[i, k, l],
            (outside * metric[i] * place[k, A] * mixed[k, i, l, A], A),
            (outside * metric[i] * place[l, A] * mixed[l, i, k, A], A),
            (outside * metric[i] ** 2 * pair[k, l] * place[l, A] * Y[i, A, k], A),
            ((left**2 - 1) * root[k] * root[l] * place[l, A] * Y[i, A, k], A),
        )
    )


def half_covariance() -> Sums:
    r"""Covariance of $\langle\Delta v_k,v_U\rangle^i$ and the same of l, h, W."""
    outside = length[U] * length[W] / (root[k] * root[l])
    first, second = eta * metric[i] * Y[i, U, k], eta * metric[h] * Y[h, W, l]
    return collect(
        Sums.of(
            outside * spread[i, k, U, h, l, W],
            outside * eta * second * (mixed[l, i, k, U] - coefficient[l] * mean[i, k, U]),
            outside * eta * first * (mixed[k, h, l, W] - coefficient[k] * mean[h, l, W]),
            outside * first * second * (pair[k, l] - coefficient[k] * coefficient[l]),
        )
    )


#: Name → equation's left side, terms, and free letters, in the order in which they are solved.
EQUATIONS: Equations = {
    **{name: UNIT[name] for name in ("u", "S", "D", "R", "P")},
    "e": (r"E\,\delta\sigma(z_{k})", Sums.of((w[A] * output[k, A], A)), (k,)),
    "N": (r"E(\delta^2+\varsigma^2)\sigma(z_{k})\sigma(z_{l})", product_mean(), (k, l)),
    "J": ("J_{klU}", tilted(), (k, l, U)),
    "c": (r"E\,c_{k}", Sums.of(-2 * b[k] * error[k], (-place[k, A] * mean[h, k, A], h, A)), (k,)),
    "g_u": (r"E\gamma_{k}\langle u_{l},v_{U}\rangle^{i}", growth_with_descent(), (k, i, l, U)),
    "c_u": (
        r"E\,c_{k}\langle u_{l},v_{U}\rangle^{i}",
        Sums.of(2 * grown[k, i, l, U], -radial[k, i, l, U]),
        (k, i, l, U),
    ),
    "c_c": (r"E\,c_{k}c_{l}", coefficients_mean(), (k, l)),
    "Delta": (r"\Delta^{i}_{kU}", along_frame(), (i, k, U)),
    "T": (r"E\langle\Delta v_{k},v_{U}\rangle^{i}", teacher_mean(), (i, k, U)),
    "Q": (r"E\,\Delta V^{i}_{kl}", row_mean(), (i, k, l)),
    "halves": (r"\mathrm{Cov}", half_covariance(), (i, k, U, h, l, W)),
}


@dataclass(frozen=True)
class HomogeneousStepMoments(MoreMoments):
    """Moments of a step of 2-homogeneous rows.

    Attributes:
        whitened: whether σ sees fields of unit variance. free, replaced: as `MoreMoments`.
    """

    whitened: bool = False

    @property
    def equations(self) -> Equations:
        """`EQUATIONS`."""
        return EQUATIONS

    def arrays(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        r"""What the equations are about, by name, in the frame of $\bar v_k$. `grams`: $V^i$ (L, N, N); a (P,); b (m,)."""
        P, values = a.size, np.asarray(inputs.eigenvalues)
        rho = np.einsum("i,ikk->k", values if self.whitened else np.ones_like(values), grams[:, P:, P:])
        lengths = np.concatenate([np.ones(P), np.sqrt(rho)])
        scaled = grams / lengths[:, None] / lengths
        found = self.free.arrays(scaled, inputs, a, second * rho)
        found |= {"mu": values if self.whitened else np.ones_like(values), "g": lengths[P:], "f": lengths}
        return self.with_outputs(found)

    def at(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray, /, **numbers: float) -> Moments:
        r"""As `StepMoments.at`, from $V^i$ = `grams` (L, N, N), a (P,), b (m,).

        Raises `InputError` as that, and for what is no polynomial up to degree 6.
        """
        found = self.solved(self.arrays(grams, inputs, a, second), **numbers)
        return Moments(found["T"][:, :, : a.size], found["Q"], found["halves"])
