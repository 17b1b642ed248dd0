"""Stochastic Muon between one sample and the population: where the runs start, what is read off them, and their steps."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from theory.declared.model import DeclaredModel
from theory.declared.rule import Muon, Rule
from theory.declared.start import Start
from validation.experiments import polar_batches
from validation.experiments.polar_batches import WEIGHTS, noisy_step, passages


def test_the_populations_polar_steps_are_those_by_hand() -> None:
    """The gradient of −Σa t³, its polar factor by a singular value decomposition, and rows put back to length 1."""
    dim, size, steps = 16, 0.02, 60
    rows = np.zeros((3, dim))
    rows[:, :3], rows[:, 3:6] = 0.5 * np.eye(3), np.sqrt(0.75) * np.eye(3)
    first = np.full(3, np.inf)
    for step in range(1, steps + 1):
        pull = np.zeros((3, dim))
        pull[:, :3] = 3 * WEIGHTS * rows[:, :3] ** 2
        left, _, right = np.linalg.svd(pull, full_matrices=False)
        rows = rows + size * left @ right
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        first = np.where(np.isinf(first) & (np.diag(rows) >= 0.6), step, first)
    found = passages(dim, 0, size, steps, 1, 0)
    np.testing.assert_array_equal(found.steps, first[None])
    assert found.step_size == size


@pytest.mark.parametrize(("batch", "muon", "method"), [(1, True, "exact"), (8, False, "exact"), (128, True, "ambient")])
def test_a_direction_is_found_when_its_own_row_is(
    batch: int, muon: bool, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first of the records with overlap 0.6 or more, of its own row and replica; never by another row."""
    own = np.array(
        [[[0.5, 0.5, 0.7], [0.6, 0.2, 0.7], [0.3, 0.59, 0.9]], [[0.1, 0.1, 0.1], [0.2, 0.2, 0.2], [0.9, 0.3, 0.6]]]
    )
    overlap = np.full((2, 3, 1, 3, 3), 0.99)
    overlap[:, :, 0, range(3), range(3)] = own
    asked: list[tuple[DeclaredModel, Start, dict[str, Any]]] = []

    def run(model: DeclaredModel, start: Start, **options: Any) -> Any:
        asked.append((model, start, options))
        dims = ("replica", "time", "eigenspace", "neuron", "direction")
        return SimpleNamespace(dataset=xr.Dataset({"overlap": (dims, overlap)}, coords={"step": ("time", [0, 7, 20])}))

    monkeypatch.setattr(polar_batches, "declared_sgd", run)
    found = passages(9, batch, 0.1, 20, 2, 5, muon)
    np.testing.assert_array_equal(found.steps, [[7, np.inf, 0], [20, np.inf, 20]])
    ((model, start, options),) = asked
    assert (type(model.rule), model.rule.batch, model.rule.step_size) == (Muon if muon else Rule, batch, 0.1)
    assert (options["method"], options["steps"], options["replicas"], options["seed"]) == (method, 20, 2, 5)
    (rows,) = start.coordinates
    np.testing.assert_allclose(rows @ rows.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(rows[:, :3], 2 / 3 * np.eye(3))


def test_a_polar_step_in_noise_is_as_long_as_the_step_of_sgd() -> None:
    """Of one sample a polar step has length η, and a row's step of SGD γ|yσ'||x|, in the mean square, far from directions."""
    dim, step = 200, 0.3
    x = np.random.default_rng(0).standard_normal((1_000_000, 4))
    label = ((x[:, :3] ** 3 - 3 * x[:, :3]) / np.sqrt(6)) @ WEIGHTS
    psi2 = (label * (x[:, 3] ** 2 - 1) * np.sqrt(1.5)) ** 2
    error = 4 * psi2.std() / np.sqrt(len(x)) / psi2.mean()
    for batch in (1, 5):
        assert noisy_step(dim, batch, step) ** 2 == pytest.approx(step**2 * dim * psi2.mean() / batch, rel=error)
    assert error < 0.1
