r"""Mean and covariance of a committee's second layer in one SGD step, beside those of its rows.

With the residual $\delta$ of a sample, $\Delta b_k=-\eta\,\delta\sigma(g_k)$, averaged over a batch; rows step as if b were
fixed, for both are differentiated at the same point. So b's mean is exact, and its covariances need what the norms of a
2-homogeneous student need, $E\,\delta\sigma(g_k)$, $N_{kl}=E\,\delta^2\sigma(g_k)\sigma(g_l)$ and, by Stein's lemma once,
$E\,\delta^2\sigma(g_k)\sigma'(g_l)x=\Lambda\sum_AJ_{klA}v_A$ (`theory.declared.homogeneous_rows`). Weight decay is of rows
alone. The outputs' integrals are closed for polynomials up to degree 6. Step of Saad and Solla 1995, Phys. Rev. E 52, 4225;
blocks, batches, label noise and b's covariances derived.
"""

from dataclasses import dataclass

import numpy as np
import sympy as sp

from theory.core.arguments import check_one_of
from theory.core.frame import A, eta
from theory.core.indexed import Index, Sums, collect, k, l
from theory.declared.homogeneous_rows import EQUATIONS as OUTPUTS
from theory.declared.homogeneous_rows import error, growth, tilt
from theory.declared.inputs import Inputs
from theory.declared.step_moments import Equations, G, L, MoreMoments, SecondLayer, U, V, Y, b, batch, i, lam, place
from theory.declared.unit_rows import ROWS as UNIT_ROWS

ROWS = ("free", *UNIT_ROWS)

#: Covariance of $\Delta b_k$ and $\langle\Delta v_l,v_U\rangle^i$, (m, L, m, N), of free rows.
beside = sp.IndexedBase("C")


def covariance() -> Sums:
    r"""Of $\Delta b_k$ and $\Delta b_l$."""
    return collect(Sums.of(eta**2 * growth[k, l] / batch, -(eta**2) * error[k] * error[l] / batch))


def covariance_with_rows() -> Sums:
    r"""Of $\Delta b_k$ and the displacement $-\eta b_l\delta\sigma'(g_l)g^i_U$."""
    outside = eta**2 * b[l] * lam[i] / batch
    return collect(Sums.of((outside * tilt[k, l, A] * V[i, A, U], A), (-outside * error[k] * G[l, A] * V[i, A, U], A)))


def covariance_with_unit_rows() -> Sums:
    r"""The same of rows of unit length: of the tangent part."""
    g = Index("g", L)
    return Sums.of(beside[k, i, l, U], (-Y[i, U, l] * place[l, A] * beside[k, g, l, A], g, A))


#: As of `step_moments`, in the order in which they are solved.
EQUATIONS: Equations = {
    **{name: OUTPUTS[name] for name in ("e", "N", "J")},
    "beta": (r"E\,\Delta b_{k}", Sums.of(-eta * error[k]), (k,)),
    "bb": (r"\mathrm{Cov}(\Delta b_{k},\Delta b_{l})", covariance(), (k, l)),
    "C": (r"\mathrm{Cov}(\Delta b_{k},\langle\Delta v_{l},v_{U}\rangle^{i})", covariance_with_rows(), (k, i, l, U)),
    "unit": (
        r"\mathrm{Cov}(\Delta b_{k},\langle\mathbf a_{l},v_{U}\rangle^{i})",
        covariance_with_unit_rows(),
        (k, i, l, U),
    ),
}


@dataclass(frozen=True)
class TrainedLayer(MoreMoments):
    """Moments of a step of b.

    Attributes:
        rows: one of `ROWS`. free, replaced: as `MoreMoments`.
    """

    rows: str = "free"

    @property
    def equations(self) -> Equations:
        """`EQUATIONS`."""
        return EQUATIONS

    def arrays(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        r"""What the equations are about, by name. `grams`: $V^i$ (L, N, N), teachers first; a (P,); b (m,)."""
        return self.with_outputs(self.free.arrays(grams, inputs, a, second))

    def at(
        self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray, /, **numbers: float
    ) -> SecondLayer:
        r"""Mean, covariance and covariance with the rows, from $V^i$ = `grams` (L, N, N), a (P,), b (m,).

        Args:
            numbers: those of `StepMoments.at`.

        Raises `InputError` as that, for other rows than `ROWS`, and for what is no polynomial up to degree 6.
        """
        check_one_of(ROWS, rows=self.rows)
        found = self.solved(self.arrays(grams, inputs, a, second), **numbers)
        if self.rows == "free":
            return SecondLayer(found["beta"], found["bb"], found["C"])
        # (Of rows that are scaled to length 1, weight decay leaves the step η/(1 − ηκ); b has none.)
        left = 1 - numbers["step_size"] * numbers.get("decay", 0.0)
        return SecondLayer(found["beta"], found["bb"], found["unit"] / left)
