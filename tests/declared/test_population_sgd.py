r"""The population flow is the limit of SGD for every rule that has one: extrapolated to step size 0, all overlaps at once.

In coordinates of a small space, where large batches cost little and leave little noise.
"""

from dataclasses import replace

import numpy as np
import pytest

from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation, Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum, Rule
from theory.declared.start import draw_start
from theory.declared.student import Student, committee, two_homogeneous, whitened
from theory.declared.target import Additive, Polynomial, Target, symbols

INPUTS = Inputs.blocks((1.5, 4), (0.5, 12))
DIRECTIONS = Directions.random(INPUTS, 2, seed=1)
Z1, Z2 = symbols(2)
ERF, QUADRATIC, RELU = (Activation.parse(text) for text in ("erf", "h1+0.5*h2", "relu"))
END, STEPS, REPLICAS = 0.8, (16, 32, 64), 32
#: Rules, students, targets and losses, each at least once.
CASES: dict[str, tuple[Student, Target, Rule, Loss]] = {
    "decay, trained, own link": (
        committee(ERF, 2, (0.8, -0.5), trained=True),
        Additive(RELU, (1.0, -0.6)),
        Rule(1.0, batch=1024, noise=0.1, decay=0.5),
        Square(),
    ),
    "heavy ball with decay, sphere, staircase": (
        committee(QUADRATIC, 2, (0.8, -0.5), rows="sphere"),
        Polynomial(Z1 + Z1 * Z2 / 2, 2),
        Momentum(1.0, batch=1024, decay=0.5, beta=0.3),
        Square(),
    ),
    "whitened": (whitened(QUADRATIC, 2), Additive(QUADRATIC, (1.0, 0.7)), Rule(1.0, batch=1024), Square()),
    "nesterov, 2-homogeneous, correlation": (
        two_homogeneous(RELU, 2),
        Additive(QUADRATIC, (1.0, 0.7)),
        Momentum(1.0, batch=1024, decay=0.5, beta=0.3, kind="nesterov"),
        Correlation(),
    ),
}


def seen(overlap: np.ndarray, gram: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Different numbers of the state in one row."""
    gram = gram[..., *np.triu_indices(2)]
    return np.concatenate([x.reshape(*second.shape[:-1], -1) for x in (overlap, gram, second)], axis=-1)


#: Run by hand: their terms are those of `test_population` and `test_homogeneous_rows`, too.
SLOW = ("whitened", "nesterov, 2-homogeneous, correlation")


@pytest.mark.slow_for("decay, trained, own link")
@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in CASES])
def test_sgd_tends_to_its_flow(name: str) -> None:
    student, target, rule, loss = CASES[name]
    model = DeclaredModel(DIRECTIONS, target, student, rule, loss)
    start = draw_start(DIRECTIONS, 2, 1.0, seed=4)
    names = ("overlap", "gram", "second")

    def flow(speed: float) -> np.ndarray:
        data = declared_flow(model, start, END * speed, np.array([END * speed])).dataset
        return seen(*(data[x].values[-1] for x in names))

    means, errors = [], []
    for steps in STEPS:
        small = replace(model, rule=replace(rule, step_size=END / steps))
        run = declared_sgd(small, start, steps=steps, replicas=REPLICAS, saves=1, seed=2, method="ambient").dataset
        values = seen(*(run[x].values[:, -1] for x in names))
        means.append(values.mean(axis=0))
        errors.append(values.std(axis=0, ddof=1) / np.sqrt(REPLICAS))
    weights = np.array([1.0, -6.0, 8.0]) / 3  # what is linear and quadratic in the step size cancels
    limit, error = weights @ np.array(means), np.sqrt(weights**2 @ np.array(errors) ** 2) + 1e-6
    assert np.max(np.abs(limit - flow(1.0)) / error) < 4.5
    assert np.max(np.abs(limit - flow(1.15)) / error) > 6
