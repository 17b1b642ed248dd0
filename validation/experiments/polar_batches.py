r"""Stochastic Muon at any batch: how the time at which a direction is found depends on its weight.

Open: no theory joins the two ends. With one sample a polar step is a step of normalised SGD (derived: the gradient has rank
one); with the population's gradient all directions emerge at once (`theory.declared.polar_emergence`). In between, noise of
singular values near $\sqrt{dE\psi^2/b}$ outweighs a signal $a_p\varphi'(t)$ up to batches of the order
$dE\psi^2/(a_p\varphi')^2$, and steps are then those of SGD with $\eta\sqrt{b/(dE\psi^2)}$, times as $1/a_p$ (derived to
leading order, not bounded).
"""

from dataclasses import dataclass

import numpy as np

from dynamics.declared.descent import population_descent
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.rule import Muon, Rule
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Additive

WEIGHTS, _FOUND = np.array([1.0, 0.7, 0.5]), 0.6
_H3 = Activation.parse("h3")
#: From this batch on explicit vectors cost less than the samples' Gram matrix.
_LARGE = 128


@dataclass(frozen=True)
class Passages:
    """Steps n at which each direction's own row has overlap 0.6: (replicas, P), inf for those that do not come there.

    step_size: η.
    """

    steps: np.ndarray
    step_size: float


def _model(dim: int, rule: Rule) -> tuple[DeclaredModel, Start]:
    """As many unit rows as directions, each with overlap 2/√d with its own and none with others; correlation loss, h3."""
    P = len(WEIGHTS)
    start = Start((np.hstack([2 / np.sqrt(dim) * np.eye(P), np.sqrt(1 - 4 / dim) * np.eye(P)]),))
    directions = Directions.orthonormal(Inputs.isotropic(dim), P)
    target, student = Additive(_H3, tuple(WEIGHTS.tolist())), committee(_H3, P, rows="sphere")
    return DeclaredModel(directions, target, student, rule, Correlation()), start


def passages(
    dim: int, batch: int, step_size: float, steps: int, replicas: int, seed: int, muon: bool = True
) -> Passages:
    """Muon, or plain SGD; `batch` 0: the population's gradient. Raises `InputError` for numbers out of range."""
    rule = (Muon if muon else Rule)(step_size, batch=max(batch, 1))
    model, start = _model(dim, rule)
    if batch == 0:
        data = population_descent(model, start, steps=steps, saves=min(steps, 400))
        own = np.einsum("tpp->tp", data.overlap.values[:, 0])[None]
    else:
        method = "exact" if batch < _LARGE else "ambient"
        run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, method=method, saves=200)
        data, own = run.dataset, np.einsum("rtpp->rtp", run.dataset.overlap.values[:, :, 0])
    there = own >= _FOUND
    first = np.argmax(there, axis=1)
    return Passages(np.where(there.any(axis=1), data.step.values[first], np.inf), step_size)


def noisy_step(dim: int, batch: int, sgd_step: float) -> float:
    r"""η at which a polar step in noise is as long as an SGD step γ: $\eta=\gamma\sqrt{dE\psi^2/b}$, $\psi=y\sigma'$."""
    return float(sgd_step * np.sqrt(dim * 3 * np.sum(WEIGHTS**2) / batch))
