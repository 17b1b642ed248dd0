r"""The derivation of `theory.declared.trained_layer`, each equation checked at the points of `step_derivation`.

Steps of b and of the rows are written out in coordinates of $R^3$, for a batch of two, rows of length 1. Nothing of Stein's
lemma or of closed integrals is used.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import sympy as sp

from theory.core.derivation import Derivation
from theory.declared import step_derivation
from theory.declared.step_derivation import (
    BLOCK,
    ETA,
    FIRST,
    INPUTS,
    Sampled,
    along,
    compared,
    composed,
    moves_of,
    sampled,
)
from theory.declared.step_moments import EQUATIONS as FREE
from theory.declared.trained_layer import EQUATIONS, TrainedLayer

#: What it stands on: the first step of `step_derivation`.
_SHARED = (FREE["G"][0],)


def _moves(x: Sampled) -> np.ndarray:
    """Of b, by single samples, (n, m)."""
    return -ETA * x.pulls


def _turns(x: Sampled) -> np.ndarray:
    """Of rows of length 1: the derivative of v/|v| along their steps, (n, m, 3)."""
    rows = x.vectors[FIRST.size :]
    slopes = np.eye(3) - np.einsum("kc,ke->kce", rows, rows)
    return np.einsum("kce,nke->nkc", slopes, moves_of(x))


_ROADS: dict[str, Callable[[Sampled], np.ndarray]] = {
    "e": lambda x: x.mean(x.pulls),
    "N": lambda x: x.mean(x.pulls[:, :, None] * x.pulls[:, None, :]),
    "J": lambda x: np.einsum("n,nk,nl,nc->klc", x.weights, x.pulls, x.slopes, x.x, optimize=True),
    "beta": lambda x: x.mean(_moves(x)),
    "bb": lambda x: x.covariance(_moves(x), _moves(x)),
    "C": lambda x: x.covariance(_moves(x), along(moves_of(x), x.vectors)),
    "unit": lambda x: x.covariance(_moves(x), along(_turns(x), x.vectors)),
}

_TITLES = {
    "e": "Residual with a neuron's output",
    "N": "Mean of the squared residual between two outputs",
    "J": "Its gradient between an output and a slope, Stein's lemma once",
    "beta": "Mean of a step of the second layer",
    "bb": "Covariance of a step of the second layer",
    "C": "Covariance of a step of the second layer, and displacements of free rows",
    "unit": "Covariance of a step of the second layer, and displacements of unit rows",
}


def residual_of(name: str, moments: TrainedLayer) -> Callable[[sp.Basic], sp.Expr]:
    """The check of one of `theory.declared.trained_layer.EQUATIONS` as it is shown, for these activations."""

    def road() -> tuple[Sampled, np.ndarray]:
        points = sampled(moments.free, unit=True)
        return points, _ROADS[name](points)

    def vector(known: np.ndarray) -> np.ndarray:
        """J by the vector that it stands for."""
        return known @ sampled(moments.free, unit=True).vectors * np.asarray(INPUTS.eigenvalues)[BLOCK]

    return compared(name, moments, road, put=vector if name == "J" else None)


def derivation(moments: TrainedLayer) -> Derivation:
    """The equations for these activations, with the gradient that they stand on, each with its check.

    Raises `InputError` for what is no polynomial up to degree 6.
    """
    for function in (moments.free.activation, *moments.free.links):
        function.require_polynomial("a step of a trained second layer")
    assumptions = (
        "Gaussian inputs, a batch of fresh samples each step",
        "a committee whose second layer takes gradient steps beside its rows; weight decay of the rows",
        "covariance with rows: first order of their displacements",
    )
    residual, before = partial(residual_of, moments=moments), (step_derivation.derivation(moments.free), _SHARED)
    return composed("declared-step-trained", EQUATIONS, _TITLES, residual, assumptions, before=before)
