"""E42: a second layer of its own, trained at the rows' rate, makes the search longer by a power of d."""

from collections.abc import Iterator

import numpy as np

from dynamics.declared.flow import declared_flow
from theory import Activation, SingleTask
from theory.core.curves import first_crossing
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.second_layer import passage_time
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.under_test import once

COST = 4

#: Two directions, each with a row of its own: overlap √(start/d), and a share of it with the other direction.
_WEIGHTS, _START, _OTHER, _SECOND = (0.8, 0.5), 4.0, 0.2, 0.1
_DIMENSIONS = {"h3": (128, 512), "h4": (48, 96)}
_LEVEL, _RECORDS = 0.5, 600


def _start(dim: int) -> Start:
    """Rows orthogonal beside the directions."""
    own = np.sqrt(_START / dim)
    on = own * np.array([[1.0, _OTHER], [_OTHER, 1.0]])
    rest = np.sqrt(1 - np.sum(on**2, axis=1))
    return Start((np.concatenate([on, np.diag(rest)], axis=1),))


def _times(activation: Activation, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Of both directions: flow time to squared overlap ½ in the flow of all, and by a row and a direction alone."""
    alone = np.array([passage_time(activation, a, float(np.sqrt(_START / dim)), _SECOND, _LEVEL) for a in _WEIGHTS])
    directions = Directions.orthonormal(Inputs.isotropic(dim), 2)
    student = committee(activation, 2, _SECOND, trained=True, rows="sphere")
    model = DeclaredModel(directions, Additive(activation, _WEIGHTS), student, Rule(1.0))
    around = np.linspace(0.9, 1.1, _RECORDS)
    times = np.unique(np.concatenate([[0.0], *(around * one for one in alone)]))
    flow = declared_flow(model, _start(dim), times[-1], times, rtol=1e-7)
    squares = np.max(flow.dataset.overlap.values[:, 0] ** 2, axis=1)
    return first_crossing(times, squares.T, _LEVEL), alone


def _pull(activation: Activation) -> float:
    """What the other direction adds to b and to the overlap's rate, over the first's share, at the start at most."""
    J = activation.information_exponent
    return max(_WEIGHTS) / min(_WEIGHTS) * _OTHER**J * (1 + J * _START / min(_DIMENSIONS[activation.name]))


@claim(
    id="E42",
    title="A second layer of its own",
    statement="Trained at the rows' rate, a decoupled second layer makes the search last d^{J−1}/a², not d^{J/2−1}/a.",
    latex=r"T\simeq\frac{\varphi(1)}{2J(J-1)a^2\hat\sigma_J^4t_0^{2J-2}}",
    source="arXiv:2504.19983, remark on equation (2): believed to go alike; derived",
    kind="asymptotic",
    regime="flow, rows on the sphere, both layers at one rate; against one row and one direction, exactly",
    controls=("as the 2-homogeneous student", "a second layer that keeps its start", "b ∝ t, not t^J"),
)
def run_second_layer(context: Context) -> Iterator[Part]:
    """Exponents in d and in a of the half times of two directions, and one of these times."""
    for text, dims in _DIMENSIONS.items():
        activation, J = Activation.parse(text), Activation.parse(text).information_exponent
        found = [_times(activation, d) for d in dims]
        measured, alone = (np.log(np.array([x[place] for x in found])) for place in (0, 1))
        task, allowed = once(SingleTask, activation), _pull(activation)
        single = np.log([[task.half_time(a, float(np.sqrt(_START / d)), _LEVEL) for a in _WEIGHTS] for d in dims])
        octaves, ratio = np.log(dims[1] / dims[0]), np.log(_WEIGHTS[0] / _WEIGHTS[1])
        source = computed_by(_pull, "what the other direction adds, at both ends")
        slopes = [float(np.mean(x[1] - x[0])) / octaves for x in (measured, alone, single)]
        controls: Controls = {"as the 2-homogeneous": slopes[2], "b ∝ t": (J - 1) / 2}  # ṫ ∝ t·t^(J−1)
        yield Measurement(
            f"exponent in d of the time to squared overlap ½, both layers trained, {text}, d = {dims[0]} and {dims[1]}",
            slopes[1], slopes[0], 0.0, 2 * allowed / octaves, controls, source, f"{text}.d", {"limit": J - 1},
        )  # fmt: skip
        powers = [float(np.mean(x[:, 0] - x[:, 1])) / ratio for x in (measured, alone, single)]
        controls = {"as the 2-homogeneous": powers[2], "a second layer": powers[2]}
        yield Measurement(
            f"exponent in a of that time, a = {_WEIGHTS[0]:g} and {_WEIGHTS[1]:g}",
            powers[1], powers[0], 0.0, 2 * allowed / ratio, controls, source, f"{text}.a", {"limit": -2.0},
        )  # fmt: skip
        levels = [float(x[-1, 0]) for x in (measured, alone, single)]
        yield Measurement(
            f"ln of that time, {text}, d = {dims[-1]}, a = {_WEIGHTS[0]:g}",
            levels[1], levels[0], 0.0, allowed, {"as the 2-homogeneous": levels[2]}, source, f"{text}.time",
        )  # fmt: skip
