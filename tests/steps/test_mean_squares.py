"""Mean squares of standard scores: which error of the formula they notice."""

import jax.numpy as jnp
import numpy as np
import pytest

from validation.claims.steps import finite_step as claims
from validation.experiments.one_step import Averager, StepSamples
from validation.judge.claim import agrees


@pytest.mark.parametrize("correlated", [False, True])
def test_an_error_as_large_as_is_said_to_be_seen_is_seen_half_of_the_time(correlated: bool) -> None:
    """Shares of 400 draws that disagree, for formulas that are wrong by 0, ½, 1 and 2 times what is said to be seen."""
    rng, count = np.random.default_rng(0), 60
    truth, stderr = rng.normal(size=count), rng.uniform(0.01, 0.1, size=count)
    mixed = np.eye(count) + (0.2 * rng.normal(size=(count, count)) if correlated else 0.0)
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    shares = np.zeros(4)
    for _ in range(400):
        samples = [StepSamples(truth + stderr * (mixed @ rng.normal(size=count)), stderr, mixed @ mixed.T)]
        seen = claims._judged("", "", samples, [truth], {}).seen
        for place, times in enumerate((0.0, 0.5, 1.0, 2.0)):
            one = claims._judged("", "", samples, [(1 + times * seen) * truth], {})
            shares[place] += not agrees(one.estimate, one.predicted, one.allowance, one.stderr)
    shares /= 400
    assert shares[0] < 0.01
    assert shares[1] < 0.1
    assert shares[2] == pytest.approx(0.5, abs=0.15)
    assert shares[3] > 0.99


def test_averages_errors_and_correlations_of_columns() -> None:
    """Columns far from zero, in two blocks; correlations are those of the first, about its means."""
    rng, mixed = np.random.default_rng(1), np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.3, 0.4, 1.2]])
    blocks = [5.0 + rng.normal(size=(n, 3)) @ mixed.T for n in (700, 500)]
    averager = Averager()
    for block in blocks:
        averager.add(jnp.asarray(block))
    found, whole = averager.result(), np.concatenate(blocks)
    np.testing.assert_allclose(found.mean, whole.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.stderr, whole.std(axis=0) / np.sqrt(1200), rtol=1e-3)
    np.testing.assert_allclose(found.correlation, np.corrcoef(blocks[0].T), atol=1e-4)
