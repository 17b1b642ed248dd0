"""E47: which direction a lone neuron of several Hermite degrees finds."""

from collections.abc import Iterator

import numpy as np

from dynamics.baselines.layer_wise import neuron_ends
from theory import Activation, Teacher
from theory.baselines.correlation import win_probabilities
from theory.scaling.extreme_overlaps import OverlapLaw
from theory.scaling.selection import selection_probability
from theory.scaling.selection_draws import draw_overlaps
from validation.figures.selection import predicted_and_measured
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.standard_errors import share_error

COST = 6

#: Overlaps of order d^(−1/2) climb by the sixth degree in few dimensions, by the fourth in very many.
_TEXT, _WEIGHTS, _DEGREES = "0.1*h4+h6", (1.0, 0.5), {"leading": 4, "highest": 6}


def _likely(dim: int, law: OverlapLaw | None = None) -> float:
    """That one neuron finds the heavier direction; of reaches that are Gaussian, or of this law."""
    laws = () if law is None else (law,)
    return float(selection_probability(Teacher.of(_WEIGHTS, dim), 1, once(Activation.parse, _TEXT), *laws)[0])


@claim(
    id="E47",
    title="Which direction a neuron of several degrees finds",
    statement="A lone neuron finds a direction as often as exact one-task times, of all degrees, put it first.",
    latex=r"\Pr\Big(\frac{a_1}{T(g_1/\sqrt d)}>\frac{a_2}{T(g_2/\sqrt d)}\Big)",
    source="derived",
    kind="asymptotic",
    regime="one neuron, uniform start, P ≪ d; even activation",
    controls=("leading degree alone", "highest degree alone"),
)
def run_degrees(context: Context) -> Iterator[Part]:
    """Share of drawn starts whose flow ends at the heavier of two directions, over dimensions."""
    activation = once(Activation.parse, _TEXT)
    wrong = {f"{name} degree alone": float(win_probabilities(np.array(_WEIGHTS), J)[0]) for name, J in _DEGREES.items()}
    dims, starts = (100, 300, 600, 2000) if context.full else (100, 600), context.pick(80_000, 160_000)
    shares, errors = [], []
    for dim in dims:
        overlap = draw_overlaps(1, len(_WEIGHTS), dim, starts, context.rng("E47", "starts", dim))[:, 0]
        taken = neuron_ends(activation, Teacher.of(_WEIGHTS, dim), overlap)[:, 0] ** 2 > 0.5
        shares.append(float(taken.mean()))
        errors.append(share_error(shares[-1], taken.size))
        predicted = _likely(dim)
        text = (
            f"share of neurons that find the heavier of two directions, weights 1 : {_WEIGHTS[1]:g}, {_TEXT}, d = {dim}"
        )
        allowed = abs(_likely(dim, OverlapLaw(dim)) - predicted)
        reason = "what the law of one reach in R^d makes of it"
        yield Measurement(
            text, predicted, shares[-1], errors[-1], allowed, wrong, reason, f"d{dim}", {"starts": starts}
        )
    along = np.geomspace(dims[0] / 2, dims[-1] * 10, 25)
    curves = {"all degrees": (along, [_likely(int(d)) for d in along])}
    rivals = {name: (along, [value] * along.size) for name, value in wrong.items()}
    caption = f"Which of two directions (1 : {_WEIGHTS[1]:g}) a lone neuron finds, {_TEXT}, over the dimension."
    points = {"all degrees": (dims, shares, errors)}
    axes = "dimension d", "finds the heavier direction"
    yield caption, predicted_and_measured(curves, points, *axes, rivals=rivals, log="x")
