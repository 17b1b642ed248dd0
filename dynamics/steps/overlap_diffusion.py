r"""The diffusion of all overlaps under SGD: drift, covariance and its square root in unconstrained coordinates.

A path is a row $y=(t_{kq},\ c_{kj}\,(k<j),\ \log r_k)$. In gradient-flow time, per step of size η
(`theory.steps.finite_step`),

$$dy=\Big\{F-\tfrac\eta2F'F\Big\}dt+\sqrt{D}\,dW,\qquad
F_{t,c}=\tfrac1\eta E\,\Delta(t,c),\quad F_{\log r_k}=\frac{E\,\Delta r_k}{\eta r_k}-\tfrac12D_{\log r_k\log r_k},$$

with all terms of second order in the mean of a step (exact in d), $F'F$ because a step is a step and not a piece of a
flow, D the covariance of a step over η (of order η/b), and Itô's term in log r. Mean and covariance of one step of SGD
are those of the diffusion over a time η, up to $O(\eta^3)$.

The square root is the symmetric one: unlike eigenvectors or Cholesky factors it is a continuous function of the state even
where the covariance is singular, as it is at every student that lies on a teacher. Rounding makes small negative eigenvalues.
Each entry of the covariance is a sum with $\sum|\text{terms}|\le S=\frac\eta b\,(\sum_A|w_A|)^2\sum|\text{coefficients}|$; an
eigenvalue above $-\text{tolerance}\cdot S$ counts as zero, one below makes the root NaN: the path is given up, and named.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.core.lowering import Arrays, State, lower_kernel
from dynamics.core.symmetric import COSINES
from dynamics.steps.finite_step import lowered_step
from dynamics.steps.step_covariance import displacement_covariance
from theory import System
from theory.core.frame import eta
from theory.core.indexed import t

#: Negative eigenvalues of the covariance are rounding above this share of the sum of its terms' sizes.
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class OverlapDiffusion:
    """The diffusion of m students and P directions of a finite-step system with fluctuations.

    Parameters, wherever they occur: a (P,), d, eta (of the noise and of Itô's term), eta_drift (of the drift: 0 leaves its
    second order out, eta 0 the noise).
    """

    system: System
    students: int
    directions: int

    @property
    def size(self) -> int:
        """Length n of a row."""
        m = self.students
        return m * self.directions + m * (m - 1) // 2 + m

    @cached_property
    def _cuts(self) -> list[int]:
        return [self.students * self.directions, self.size - self.students]

    def row(self, state: Arrays) -> jax.Array:
        """t (m, P), c (m, m), r (m,) as a row (n,)."""
        return jnp.concatenate([state["t"].ravel(), COSINES.above(state["c"]), jnp.log(state["r"])])

    def split(self, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The parts of a row or its like: (m, P), (m(m−1)/2,), (m,)."""
        overlaps, cosines, sizes = jnp.split(y, self._cuts)
        return overlaps.reshape(self.students, self.directions), cosines, sizes

    def state(self, y: jax.Array) -> State:
        """A row as t, c, r."""
        overlaps, cosines, sizes = self.split(y)
        return {"t": overlaps, "c": COSINES.full(cosines), "r": jnp.exp(sizes)}

    def drift(self, y: jax.Array, parameters: Arrays) -> jax.Array:
        """Mean of one step over η without Itô's term, shape (n,)."""
        state = self.state(y)
        rate = lowered_step(self.system).drift(state, {**parameters, "eta": parameters["eta_drift"]})
        return jnp.concatenate([rate["t"].ravel(), COSINES.above(rate["c"]), rate["r"] / state["r"]])

    def covariance(self, y: jax.Array, parameters: Arrays) -> jax.Array:
        """Cov(dy, dy)/dt, shape (n, n)."""
        state = self.state(y)
        found = displacement_covariance(self.system, state, parameters, jnp)
        i, h = np.triu_indices(self.students, 1)
        moved, r = self._cuts[0], state["r"]
        tt = found["tt"].reshape(moved, moved)
        tc = found["tc"][:, :, i, h].reshape(moved, -1)
        tr = (found["tr"] / r).reshape(moved, -1)
        cc = found["cc"][i, h][:, i, h]
        cr = found["cr"][i, h] / r
        whole = jnp.block([[tt, tc, tr], [tc.T, cc, cr], [tr.T, cr.T, found["rr"] / r[:, None] / r]])
        return 0.5 * (whole + whole.T)

    def ito(self, covariance: jax.Array) -> jax.Array:
        """What the noise of log r adds to its drift, shape (n,)."""
        sizes = jnp.arange(self.size) >= self._cuts[1]
        return jnp.where(sizes, -0.5 * jnp.diag(covariance), 0.0)

    @cached_property
    def _coefficients(self) -> float:
        """Σ|coefficients| of the covariance's terms per η, at most (1 for r's own factors)."""
        sizes = []
        for pair, sums in self.system.covariance.items():
            displacements = sum(component.base == t for component in pair)
            total = sum(abs(float(_number(term.body / eta))) for term in sums)
            sizes.append(2.0**displacements * total)  # c moves by two displacements where t moves by one
        return max(sizes)

    def largest_terms(self, y: jax.Array, parameters: Arrays) -> jax.Array:
        """S: a bound of the sum of sizes of the terms of any entry of the covariance."""
        weights = jnp.sum(jnp.abs(parameters["a"])) + jnp.sum(jnp.exp(self.split(y)[2]))
        return parameters["eta"] * weights**2 * self._coefficients

    def root(self, covariance: jax.Array, size: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The symmetric square root (NaN if an eigenvalue is below −`TOLERANCE`·size), and the least eigenvalue."""
        values, axes = jnp.linalg.eigh(covariance)
        sound = values[0] >= -TOLERANCE * size
        scaled = axes * jnp.sqrt(jnp.maximum(values, 0.0))
        return jnp.where(sound, scaled @ axes.T, jnp.nan), values[0]

    def keep(self, y: jax.Array) -> jax.Array:
        r"""The row with directions that exist: rows of t inside the unit ball, and $c-tt^\top$ positive semidefinite.

        A state inside is left as it is; a negative eigenvalue of $c-tt^\top$ is set to zero and its diagonal restored.
        """
        overlaps, cosines, sizes = self.split(y)
        length = jnp.sum(overlaps**2, axis=1, keepdims=True)
        overlaps = jnp.where(length > 1, overlaps / jnp.sqrt(jnp.maximum(length, 1.0)), overlaps)
        if self.students > 1:
            shared = overlaps @ overlaps.T
            rest = jnp.maximum(1.0 - jnp.diag(shared), 0.0)
            residual = COSINES.full(cosines) - shared
            residual = residual - jnp.diag(jnp.diag(residual)) + jnp.diag(rest)
            values, axes = jnp.linalg.eigh(residual)
            repaired = (axes * jnp.maximum(values, 0.0)) @ axes.T
            scale = jnp.sqrt(rest / jnp.maximum(jnp.diag(repaired), 1e-300))
            repaired = shared + repaired * scale[:, None] * scale
            cosines = jnp.where(values[0] < 0, jnp.clip(COSINES.above(repaired), -1.0, 1.0), cosines)
        return jnp.concatenate([overlaps.ravel(), cosines, sizes])

    @cached_property
    def _slope(self) -> Callable[[jax.Array], jax.Array]:
        """φ′ of the activation's dual kernel."""
        return lower_kernel(self.system.activation, 1)

    def relaxation(self, y: jax.Array, parameters: Arrays) -> jax.Array:
        r"""$\max_k\{\sum_qa_q|\varphi'(t_{kq})t_{kq}|+\sum_lr_l|\varphi'(c_{kl})c_{kl}|\}$: 2Ja at a learned pair of $h_J$."""
        state = self.state(y)
        own = jnp.abs(self._slope(state["t"]) * state["t"]) @ parameters["a"]
        return jnp.max(own + jnp.abs(self._slope(state["c"]) * state["c"]) @ state["r"])


def _number(body: sp.Expr) -> sp.Expr:
    """A term with every indexed symbol set to 1."""
    return body.xreplace({x: sp.Integer(1) for x in body.atoms(sp.Indexed)})
