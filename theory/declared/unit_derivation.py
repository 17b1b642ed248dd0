r"""The derivation of `theory.declared.unit_rows`, each equation checked on a step written out in coordinates of $R^3$.

The rows after the step are scaled to unit length and differentiated twice by the step size, coordinate by coordinate; what
comes out is averaged at the points of `theory.declared.step_derivation`, for a batch of two. Nothing of Stein's lemma, of the
closed integrals, or of the split into radial and tangent parts is used in the means.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
import sympy as sp

from theory.core.derivation import Derivation
from theory.declared import step_derivation
from theory.declared.step_derivation import (
    BATCH,
    BLOCK,
    ETA,
    FIRST,
    SECOND,
    Sampled,
    along,
    compared,
    composed,
    inside,
    sampled,
)
from theory.declared.step_moments import EQUATIONS as FREE
from theory.declared.unit_rows import UnitStepMoments, equations


class _Descents:
    """u_k (n, m, 3) at the points, and their parts."""

    def __init__(self, x: Sampled, rows: str) -> None:
        self.x, self.rows = x, x.vectors[FIRST.size :]
        self.full = -(x.slopes * SECOND)[:, :, None] * x.x[:, None, :]
        self.radial = np.einsum("nkc,kc->nk", self.full, self.rows)
        self.tangent = self.full - self.radial[:, :, None] * self.rows
        self.used = self.tangent if rows == "projected" else self.full

    def quadratic(self, form: Callable[..., np.ndarray]) -> np.ndarray:
        """E of a quadratic form of batch means of descents (…, m, 3)."""
        means: np.ndarray = np.asarray(form(np.asarray(self.x.mean(self.used))[None]))
        alone: np.ndarray = np.asarray(self.x.mean(form(self.used)))
        return np.asarray((alone + (BATCH - 1) * means[0]) / BATCH)


@lru_cache(maxsize=4)
def _orders(rows_too: bool) -> tuple[Callable, Callable]:
    """η- and η²-coefficient of ⟨v_k', v⟩^i, or of ⟨v_k', v_l'⟩^i, as functions of the coordinates of rows and moves.

    The coordinates of eigenspace i have weight 1, the others 0.
    """
    step = sp.Symbol("eta")
    row, move, other, push, weight = (sp.symbols(f"{letter}0:3") for letter in "vgwhe")
    after = sp.Matrix(row) + step * sp.Matrix(move)
    after = after / sp.sqrt(after.dot(after))
    behind = sp.Matrix(other)
    if rows_too:
        behind = behind + step * sp.Matrix(push)
        behind = behind / sp.sqrt(behind.dot(behind))
    product = sum(e * x * y for e, x, y in zip(weight, after, behind, strict=True))
    orders = [sp.diff(product, step, n).subs(step, 0) / n for n in (1, 2)]
    compiled = [sp.lambdify([*row, *move, *other, *push, *weight], x, modules="numpy", cse=True) for x in orders]
    return compiled[0], compiled[1]


def _moved(d: _Descents, others: np.ndarray, pushes: bool) -> np.ndarray:
    """Mean of ⟨v_k', v_U⟩^i or ⟨v_k', v_l'⟩^i minus what it was, to order η², (2, m, N or m)."""
    first, second = _orders(pushes)

    def form(order: Callable, i: int, k: int, place: int) -> Callable[[np.ndarray], np.ndarray]:
        def value(moves: np.ndarray) -> np.ndarray:
            push = moves[:, place] if pushes else 0 * moves[:, 0]
            vectors = d.rows[k], moves[:, k], others[place], push, np.where(i == BLOCK, 1.0, 0.0)
            return np.asarray(order(*[x[..., c] for x in vectors for c in range(3)]))

        return value

    found = np.empty((2, len(d.rows), len(others)))
    for i, k, place in np.ndindex(*found.shape):
        linear = d.x.mean(form(first, i, k, place)(d.used))
        found[i, k, place] = ETA * linear + ETA**2 * d.quadratic(form(second, i, k, place))
    return found


_ROADS: dict[str, Callable[[_Descents], np.ndarray]] = {
    "u": lambda d: d.x.mean(along(d.full, d.x.vectors)),
    "S": lambda d: inside(d.x.product(d.full, d.full)),
    "D": lambda d: d.x.product(along(d.full, d.x.vectors), along(d.full, d.x.vectors)),
    "R": lambda d: d.x.product(d.radial, along(d.full, d.x.vectors)),
    "P": lambda d: d.x.product(d.radial, d.radial),
    "s": lambda d: np.einsum("kckc->k", d.x.product(d.tangent, d.tangent)),
    "Delta": lambda d: _moved(d, d.x.vectors, False),
    "Q": lambda d: _moved(d, d.rows, True),
    "Theta": lambda d: ETA**2 * d.x.covariance(along(d.tangent, d.x.vectors), along(d.full, d.x.vectors)),
    "halves": lambda d: ETA**2 * d.x.covariance(along(d.tangent, d.x.vectors), along(d.tangent, d.x.vectors)),
}

#: What both kinds of rows stand on: the first steps of `step_derivation`.
_SHARED = tuple(FREE[name][0] for name in ("G", "Phi", "H"))

_TITLES = {
    "u": "Mean descent along a vector of the frame",
    "S": "Second moments: two descents",
    "D": "Second moments: descents along vectors of the frame",
    "R": "Second moments: radial part, and a descent along a vector",
    "P": "Second moments: two radial parts",
    "s": "Mean square of the tangent part",
    "Delta": "Mean of a step along a vector of the frame (the teacher's among them)",
    "Q": "Mean of a step: rows with rows",
    "Theta": "Covariance of a tangent part and a descent",
    "halves": "Covariance of a step, displacements of first order",
}


def residual_of(name: str, moments: UnitStepMoments) -> Callable[[sp.Basic], sp.Expr]:
    """The check of one of `theory.declared.unit_rows.equations` as it is shown, for these activations."""

    def road() -> tuple[Sampled, np.ndarray]:
        points = sampled(moments.free, unit=True)
        return points, _ROADS[name](_Descents(points, moments.rows))

    return compared(name, moments, road)


def derivation(moments: UnitStepMoments) -> Derivation:
    """The equations of unit rows for these activations, with the integrals that they stand on, each with its check.

    Raises `InputError` for what is no polynomial: the averages of the check are exact for polynomials only.
    """
    for function in (moments.free.activation, *moments.free.links):
        function.require_polynomial("the check of a step of unit rows")
    assumptions = (
        "Gaussian inputs, a batch of fresh samples each step",
        "rows of unit norm, second layer fixed",
        "step size small: terms of third order left out; covariance: first order of the displacements",
    )
    residual, before = partial(residual_of, moments=moments), (step_derivation.derivation(moments.free), _SHARED)
    name = "declared-step-" + moments.rows
    return composed(name, equations(moments.rows), _TITLES, residual, assumptions, before=before)
