r"""The derivation of `theory.declared.step_moments`, each equation checked on a step written out in coordinates of $R^3$.

Inputs have two eigenvalues, one of them twice; two teachers and two rows, noise of two values, a batch of two. Averages are
tensor Gauss–Hermite rules, exact for polynomials; for erf of short vectors they converge geometrically. Nothing of Stein's
lemma or of the closed integrals is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.indexed import Sums, reads
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.inputs import Inputs
from theory.declared.step_moments import EQUATIONS, Equations, MoreMoments, StepMoments
from theory.steps.slope_integrals import as_erf

REFERENCE = "Saad and Solla 1995, Phys. Rev. E 52, 4225 (one eigenvalue); blocks, batches and label noise derived"
#: Largest relative residual: rounding of sums of about a hundred thousand terms, and the rule's error for erf.
TOLERANCE = 1e-10
INPUTS = Inputs((1.7, 0.6), (1, 2))
BLOCK = np.array([0, 1, 1])
_TEACHERS = np.array([[0.5, 0.1, -0.2], [-0.1, 0.4, 0.3]])
_ROWS = np.array([[0.3, 0.4, 0.1], [-0.2, 0.2, 0.5]])
FIRST, SECOND = np.array([0.8, -0.5]), np.array([0.7, -0.4])
ETA, BATCH, NOISE, DECAY = 0.37, 2, 0.3, 0.4
#: Points per coordinate for erf, whose vectors are made as short as it is steep.
_NODES = 36


class Sampled(NamedTuple):
    """Vectors (N, 3), V^i (2, N, N); points x (n, 3) with weights (n,), δσ'(g_k) and δσ(g_k) there (n, m),
    the noise in δ; and its size."""

    vectors: np.ndarray
    grams: np.ndarray
    x: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    pulls: np.ndarray
    noise: float

    def mean(self, values: np.ndarray) -> np.ndarray:
        """E of values (n, …)."""
        return np.tensordot(self.weights, values, axes=1)

    def product(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """E of the outer product of two means over a batch, from one sample's values (n, …)."""
        alone = np.tensordot(self._weighed(one), other, axes=(0, 0))
        return (alone + (BATCH - 1) * np.multiply.outer(self.mean(one), self.mean(other))) / BATCH

    def covariance(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Of two means over a batch."""
        return np.tensordot(self._weighed(one - self.mean(one)), other, axes=(0, 0)) / BATCH

    def _weighed(self, values: np.ndarray) -> np.ndarray:
        return self.weights[(..., *[None] * (values.ndim - 1))] * values


def along(moves: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """By eigenspace, inner products of moves (n, m, 3) with vectors (N, 3): (n, 2, m, N)."""
    return np.stack([moves[..., i == BLOCK] @ vectors[:, i == BLOCK].T for i in range(2)], axis=1)


def inside(products: np.ndarray) -> np.ndarray:
    """By eigenspace, inner products (2, m, m) from those of coordinates (m, 3, m, 3)."""
    return np.stack([np.einsum("kclc->kl", products[:, i == BLOCK][..., i == BLOCK]) for i in range(2)])


@lru_cache(maxsize=8)
def sampled(moments: StepMoments, unit: bool = False) -> Sampled:
    """Two teachers and two rows at the points of a rule; rows of length 1 if `unit`."""
    activation, links = moments.activation, (*moments.links, moments.links[0])[:2]
    forms = [form for x in (activation, *links) if (form := as_erf(x)) is not None]
    steep = max([1.0, *(abs(float(slope)) for _, slope in forms)])
    degrees = 0 if forms else max(x.degree for x in (activation, *links)) + activation.degree
    nodes = _NODES if forms else degrees + 2
    rows = _ROWS / np.linalg.norm(_ROWS, axis=1, keepdims=True) if unit else _ROWS / steep
    vectors = np.concatenate([_TEACHERS / steep, rows])
    grams = np.stack([vectors[:, i == BLOCK] @ vectors[:, i == BLOCK].T for i in range(2)])
    points, weights = product_rule(*[gauss_hermite(nodes)] * 3)
    x = points * np.sqrt(np.asarray(INPUTS.eigenvalues))[BLOCK]
    sigma, slope = activation.arrays(), activation.arrays(1)
    fields = x @ vectors.T
    target = sum(a * link.arrays()(field) for a, link, field in zip(FIRST, links, fields.T, strict=False))
    delta = (sigma(fields[:, 2:]) @ SECOND if moments.coupled else 0.0) - target
    # (In the residual's own size: small labels would be lost in the rounding of its mean.)
    noise = NOISE * float(np.sqrt(weights @ delta**2))
    noisy = np.concatenate([delta - noise, delta + noise])
    slopes, pulls = (noisy[:, None] * np.tile(of(fields[:, 2:]), (2, 1)) for of in (slope, sigma))
    return Sampled(vectors, grams, np.tile(x, (2, 1)), np.tile(weights, 2) / 2, slopes, pulls, noise)


def residual_of(name: str, moments: StepMoments) -> Callable[[sp.Basic], sp.Expr]:
    """The check of one of `theory.declared.step_moments.EQUATIONS` as it is shown, for these activations."""

    def residual(shown: Sums) -> sp.Expr:
        points = sampled(moments)
        gaps = []
        for used in (replace(moments, equations=((name, shown),)), moments):
            arrays = used.arrays(points.grams, INPUTS, FIRST, SECOND)
            known, right = _ROADS[name](points, used.solved(arrays, ETA, BATCH, points.noise, DECAY))
            gaps.append(np.abs(known - right).max() / np.abs(right).max())
        return sp.Float(np.max(gaps))

    return reads(residual)


#: What is derived, and the same by quadrature.
Pair = tuple[np.ndarray, np.ndarray]


def _gradient(x: Sampled, found: dict[str, np.ndarray]) -> Pair:
    metric = np.asarray(INPUTS.eigenvalues)[BLOCK]
    return found["G"] @ x.vectors * metric, x.mean(x.slopes[:, :, None] * x.x[:, None, :])


def _product(x: Sampled, found: dict[str, np.ndarray]) -> Pair:
    return found["Phi"], x.mean(x.slopes[:, :, None] * x.slopes[:, None, :])


def _hessian(x: Sampled, found: dict[str, np.ndarray]) -> Pair:
    metric = np.diag(np.asarray(INPUTS.eigenvalues)[BLOCK])
    curved = np.einsum("klAB,Ac,Bd->klcd", found["H"], x.vectors, x.vectors)
    right = np.einsum("n,nk,nl,nc,nd->klcd", x.weights, x.slopes, x.slopes, x.x, x.x, optimize=True)
    return found["Phi"][:, :, None, None] * metric + metric @ curved @ metric, right


def moves_of(x: Sampled) -> np.ndarray:
    """One sample's steps, (n, m, 3)."""
    return -ETA * (x.slopes * SECOND)[:, :, None] * x.x[:, None, :]


def _teacher_mean(x: Sampled, found: dict[str, np.ndarray]) -> Pair:
    right = x.mean(along(moves_of(x), x.vectors[:2])) - ETA * DECAY * x.grams[:, 2:, :2]
    return found["T"], right


def _row_mean(x: Sampled, found: dict[str, np.ndarray]) -> Pair:
    """On rows that have decayed."""
    return found["Q"], rows_mean(x, moves_of(x))


def rows_mean(x: Sampled, moves: np.ndarray) -> np.ndarray:
    """Both ends of a step of these moves (n, m, 3) on decayed rows, (2, m, m)."""
    left, first, before = 1 - ETA * DECAY, x.mean(along(moves, x.vectors[2:])), x.grams[:, 2:, 2:]
    return (left**2 - 1) * before + left * (first + np.swapaxes(first, 1, 2)) + inside(x.product(moves, moves))


def _covariance(x: Sampled, found: dict[str, np.ndarray]) -> Pair:
    displacements = along(moves_of(x), x.vectors)
    return found["halves"], x.covariance(displacements, displacements)


_ROADS: dict[str, Callable[[Sampled, dict[str, np.ndarray]], Pair]] = {
    "G": _gradient,
    "Phi": _product,
    "H": _hessian,
    "T": _teacher_mean,
    "Q": _row_mean,
    "halves": _covariance,
}


_TITLES = {
    "G": "Gradient of the residual, Stein's lemma once",
    "Phi": "Mean of the squared residual between two slopes",
    "H": "Its Hessian, Stein's lemma twice",
    "T": "Mean of a step: rows with teachers",
    "Q": "Mean of a step: rows with rows",
    "halves": "Covariance of a step, displacements of first order",
}


def composed(
    name: str,
    equations: Equations,
    titles: Mapping[str, str],
    residual: Callable[[str], Callable[[sp.Basic], sp.Expr]],
    assumptions: Sequence[str],
    reference: str = REFERENCE,
    before: tuple[Derivation, Sequence[str]] | None = None,
) -> Derivation:
    """The derivation that shows `equations` by the names of `titles`, each with its check, `residual` of its name.

    Args:
        before: a derivation, and the left sides of its first equations, on which these stand.
    """
    shown = {one: equations[one][1].as_sympy() for one in titles}
    steps = [
        Step(title, equation(equations[one][0], shown[one]), residual(one), TOLERANCE) for one, title in titles.items()
    ]
    named = {equations[one][0]: value for one, value in shown.items()}
    if before is not None:
        whole, shared = before
        steps = [*whole.steps[: len(shared)], *steps]
        named = {**{left: whole.equations[left] for left in shared}, **named}
    return Derivation(name, tuple(steps), named, tuple(map(Assumption, assumptions)), reference)


def compared(
    name: str,
    moments: MoreMoments,
    road: Callable[[], tuple[Sampled, np.ndarray]],
    second: np.ndarray = SECOND,
    decay: float = 0.0,
    put: Callable[[np.ndarray], np.ndarray] | None = None,
    least: Callable[[], float] = lambda: 0.0,
) -> Callable[[sp.Basic], sp.Expr]:
    """The check of one of the equations of `moments` as it is shown: its largest relative difference from a road of its own.

    Args:
        road: makes the points and, there, what the equation says. second, decay: b (m,), and weight decay.
        put: makes of the derived numbers what `road` is about. least: of the size to which the difference is relative: that of
            the terms of which the equation is made, where these may cancel.
    """

    def residual(shown: Sums) -> sp.Expr:
        (points, right), gaps = road(), []
        size = max(float(np.abs(right).max()), least())
        for used in (replace(moments, replaced=((name, shown),)), moments):
            arrays = used.arrays(points.grams, INPUTS, FIRST, second)
            numbers = {"step_size": ETA, "batch_size": BATCH, "noise_size": points.noise, "decay": decay}
            known = used.solved(arrays, **numbers)[name]
            known = known if put is None else put(known)
            gaps.append(np.abs(known - right).max() / size)
        return sp.Float(np.max(gaps))

    return reads(residual)


def derivation(moments: StepMoments) -> Derivation:
    """The equations of a step's moments for these activations, each with its check."""
    assumptions = (
        "Gaussian inputs, a batch of fresh samples each step",
        "free rows, second layer fixed",
        "covariance: first order of the displacements",
    )
    return composed("declared-step", EQUATIONS, _TITLES, partial(residual_of, moments=moments), assumptions)
