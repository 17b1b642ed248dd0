r"""The derivation of `theory.declared.homogeneous_rows`, each equation checked on a step written out in coordinates of $R^3$.

Steps are those of the neuron $\rho\,\sigma(\langle v,x\rangle/\sqrt\rho)$ differentiated by the coordinates of v, at the
points of `theory.declared.step_derivation`, for a batch of two. Nothing of Stein's lemma, of closed integrals, or of growth
and descent is used for a step's mean and covariance; the moments that they are made of are averages of what they name.
"""

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import sympy as sp

from theory.core.derivation import Derivation
from theory.core.hermite import z
from theory.declared import step_derivation
from theory.declared.homogeneous_rows import EQUATIONS, HomogeneousStepMoments
from theory.declared.step_derivation import (
    BLOCK,
    DECAY,
    ETA,
    FIRST,
    INPUTS,
    Sampled,
    along,
    compared,
    composed,
    inside,
    rows_mean,
    sampled,
)
from theory.declared.step_moments import EQUATIONS as FREE

REFERENCE = "step of arXiv:2504.19983, section 2.2; blocks, batches, own links and label noise derived"
_METRIC = np.asarray(INPUTS.eigenvalues)[BLOCK]


class _Steps:
    """Two rows of a 2-homogeneous student at the points; frames are directions and unit rows."""

    def __init__(self, moments: HomogeneousStepMoments) -> None:
        self.moments = moments
        free, weight = moments.free, _METRIC if moments.whitened else np.ones(3)
        self.x: Sampled = sampled(free)
        self.rows = self.x.vectors[FIRST.size :]
        self.rho = np.einsum("kc,c->k", self.rows**2, weight)
        self.metric, self.lengths = weight, np.concatenate([np.ones(FIRST.size), np.sqrt(self.rho)])
        self.unit = self.x.vectors / self.lengths[:, None]
        fields = self.x.x @ self.unit[FIRST.size :].T
        self.output, self.slope = free.activation.arrays()(fields), free.activation.arrays(1)(fields)
        links = (*free.links, free.links[0])
        ends = self.x.x @ self.x.vectors[: FIRST.size].T
        target = sum(a * link.arrays()(end) for a, link, end in zip(FIRST, links, ends.T, strict=False))
        noise = self.x.noise * np.where(np.arange(len(self.x.x)) < len(self.x.x) // 2, -1, 1)
        self.delta = (self.output @ self.rho if free.coupled else 0.0) - target + noise

    @cached_property
    def moves(self) -> np.ndarray:
        """Gradient steps of single samples, (n, m, 3): the neuron differentiated by its coordinates."""
        row, point = sp.symbols("v0:3", real=True), sp.symbols("x0:3", real=True)
        rho = sum(float(c) * v**2 for c, v in zip(self.metric, row, strict=True))
        field = sum(v * x for v, x in zip(row, point, strict=True)) / sp.sqrt(rho)
        neuron = rho * self.moments.free.activation.function.subs(z, field)
        compiled = sp.lambdify([*row, *point], [sp.diff(neuron, v) for v in row], modules="numpy", cse=True)
        slopes = [np.stack(compiled(*vector, *self.x.x.T), axis=-1) for vector in self.rows]
        return -ETA * self.delta[:, None, None] * np.stack(slopes, axis=1)

    @cached_property
    def descents(self) -> np.ndarray:
        """u_k, (n, m, 3)."""
        return -(self.delta[:, None] * self.rho * self.slope)[:, :, None] * self.x.x[:, None, :]

    @cached_property
    def grown(self) -> np.ndarray:
        """γ_k, (n, m)."""
        return -self.delta[:, None] * self.rho * self.output

    @cached_property
    def coefficients(self) -> np.ndarray:
        """c_k, (n, m)."""
        return 2 * self.grown - self.radial

    @cached_property
    def radial(self) -> np.ndarray:
        """⟨u_k, v̄_k⟩, (n, m)."""
        return np.einsum("nkc,kc->nk", self.descents, self.unit[FIRST.size :])

    @cached_property
    def displacements(self) -> np.ndarray:
        """Of rows along the frame's vectors as they are, (n, 2, m, N)."""
        return along(self.moves, self.x.vectors)

    @cached_property
    def ahead(self) -> np.ndarray:
        """⟨u_k, v̄_U⟩^i."""
        return along(self.descents, self.unit)


_ROADS: dict[str, Callable[[_Steps], np.ndarray]] = {
    "u": lambda d: d.x.mean(d.ahead),
    "S": lambda d: inside(d.x.product(d.descents, d.descents)),
    "D": lambda d: d.x.product(d.ahead, d.ahead),
    "R": lambda d: d.x.product(d.radial, d.ahead),
    "P": lambda d: d.x.product(d.radial, d.radial),
    "e": lambda d: d.x.mean(d.delta[:, None] * d.output),
    "N": lambda d: np.einsum("n,nk,nl->kl", d.x.weights * d.delta**2, d.output, d.output),
    "c": lambda d: d.x.mean(d.coefficients),
    "g_u": lambda d: d.x.product(d.grown, d.ahead),
    "c_u": lambda d: d.x.product(d.coefficients, d.ahead),
    "c_c": lambda d: d.x.product(d.coefficients, d.coefficients),
    "Delta": lambda d: d.x.mean(d.displacements),
    "T": lambda d: d.x.mean(d.displacements) - ETA * DECAY * d.x.grams[:, FIRST.size :],
    "Q": lambda d: rows_mean(d.x, d.moves),
    "halves": lambda d: d.x.covariance(d.displacements, d.displacements),
}
#: What those are made of that may be 0.
_SIZES: dict[str, Callable[[_Steps], np.ndarray]] = {
    "c": lambda d: d.x.mean(2 * np.abs(d.grown)),
    "c_u": lambda d: d.x.product(2 * np.abs(d.grown), np.abs(d.ahead)),
    "c_c": lambda d: d.x.product(2 * np.abs(d.grown), 2 * np.abs(d.grown)),
}

_TITLES = {
    "u": "Mean descent along a vector of the frame",
    "S": "Second moments: two descents",
    "D": "Second moments: descents along vectors of the frame",
    "R": "Second moments: radial part of a descent, and a descent",
    "P": "Second moments: two radial parts",
    "e": "Residual with a neuron's output",
    "N": "Mean of the squared residual between two outputs",
    "J": "Its gradient between an output and a slope, Stein's lemma once",
    "c": "Mean growth along a row itself",
    "g_u": "Second moments: an output's part of the growth, and a descent",
    "c_u": "Second moments: a growth, and a descent",
    "c_c": "Second moments: two growths",
    "Delta": "Mean displacement along a vector of the frame, weight decay apart",
    "T": "Mean of a step: rows with vectors of the frame, directions among them",
    "Q": "Mean of a step: rows with rows",
    "halves": "Covariance of a step, displacements of first order",
}


def _tilted(d: _Steps) -> np.ndarray:
    """E δ²σ(z_k)σ'(z_l)x, (m, m, 3)."""
    return np.einsum("n,nk,nl,nc->klc", d.x.weights * d.delta**2, d.output, d.slope, d.x.x)


def residual_of(name: str, moments: HomogeneousStepMoments) -> Callable[[sp.Basic], sp.Expr]:
    """The check of one of `theory.declared.homogeneous_rows.EQUATIONS` as it is shown, for these activations."""

    def road() -> tuple[Sampled, np.ndarray]:
        steps = _Steps(moments)
        return steps.x, _tilted(steps) if name == "J" else _ROADS[name](steps)

    def vector(known: np.ndarray) -> np.ndarray:
        """J by the vector that it stands for."""
        return known @ _Steps(moments).unit * _METRIC

    def least() -> float:
        r"""Of a growth $c=2\gamma-\langle u,\bar v\rangle$, which is 0 where the neuron is a square: that of its two parts."""
        return float(np.abs(_SIZES[name](_Steps(moments))).max()) if name in _SIZES else 0.0

    return compared(name, moments, road, np.ones(2), DECAY, vector if name == "J" else None, least)


#: What it stands on: the first steps of `step_derivation`.
_SHARED = tuple(FREE[name][0] for name in ("G", "Phi", "H"))


def derivation(moments: HomogeneousStepMoments) -> Derivation:
    """The equations for these activations, with the integrals that they stand on, each with its check.

    Raises `InputError` for what is no polynomial up to degree 6.
    """
    for function in (moments.free.activation, *moments.free.links):
        function.require_polynomial("a step of a 2-homogeneous student")
    assumptions = (
        "Gaussian inputs, a batch of fresh samples each step",
        "2-homogeneous student: free rows; in the frame of unit rows b are squared norms, g and f lengths",
        "μ is λ, the student being whitened" if moments.whitened else "μ is 1",
        "covariance: first order of the displacements",
    )
    residual, before = partial(residual_of, moments=moments), (step_derivation.derivation(moments.free), _SHARED)
    name = "declared-step-" + ("whitened" if moments.whitened else "homogeneous")
    return composed(name, EQUATIONS, _TITLES, residual, assumptions, REFERENCE, before)
