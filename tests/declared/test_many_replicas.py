"""Replicas whose samples would not fit side by side go in groups, and are the same ones; so are those of a run that ends."""

import numpy as np
import pytest

from dynamics.declared import engine
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.rule import Normalised, Rule
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive

H3 = Activation.parse("h3")


def test_a_run_ends_at_the_save_at_which_it_is_told_to() -> None:
    """Random numbers are those of a step: what was seen until then is what the whole run saw."""
    directions = Directions.orthonormal(Inputs.isotropic(40), 1)
    model = DeclaredModel(directions, Additive(H3, (1.0,)), committee(H3, 1, rows="sphere"), Rule(0.01), Correlation())
    start = draw_start(directions, 1, 1.0)
    whole = declared_sgd(model, start, steps=12, replicas=2, seed=3, saves=6).dataset
    level = float(np.linalg.norm(whole.overlap.values[:, 3] - whole.overlap.values[:, 0]))
    moved: list[float] = []

    def far(overlap: np.ndarray, gram: np.ndarray) -> bool:
        np.testing.assert_allclose(gram, 1.0, rtol=1e-12)
        moved.append(float(np.linalg.norm(overlap - whole.overlap.values[:, 0])))
        return len(moved) == 3 and moved[-1] == level

    ended = declared_sgd(model, start, steps=12, replicas=2, seed=3, saves=6, until=far).dataset
    assert ended.equals(whole.isel(time=slice(0, 4)))


@pytest.mark.slow
def test_groups_of_replicas_are_the_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 7 with batches of 2: 2·(1 + 1 + 2 + 2·2) numbers each, three at a time."""
    directions = Directions.orthonormal(Inputs.isotropic(400), 1)
    rule = Normalised(0.1, batch=2)
    model = DeclaredModel(directions, Additive(H3, (1.0,)), committee(H3, 1, rows="sphere"), rule, Correlation())
    start = draw_start(directions, 1, 1.0)

    def run() -> np.ndarray:
        engine.advance_chains.clear_cache()
        return declared_sgd(model, start, steps=5, replicas=7, seed=3, saves=1).dataset.overlap.values

    together = run()
    monkeypatch.setattr(engine, "_AT_ONCE", 3.5 * 8 * 2 * 8)
    found: list[int] = []
    whole = engine.in_blocks

    def noted(*arguments: object) -> object:
        found.append(arguments[-1])  # type: ignore[arg-type]
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "in_blocks", noted)
    np.testing.assert_allclose(run(), together, rtol=1e-12)
    engine.advance_chains.clear_cache()
    assert set(found) == {3}
