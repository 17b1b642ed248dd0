"""Mean loss over noisy steps, where everything is linear but the loss, which is quadratic: known in closed form."""

from typing import Any

import numpy as np
import pytest

from theory import Activation
from validation.experiments import committee_moments
from validation.experiments.committee_moments import CommitteeMoments

ETA, SHAPE = 0.3, (2, 1)
_RNG = np.random.default_rng(5)
MAP, HESSE, ROOT = (_RNG.normal(size=(5, 5)) for _ in range(3))
MAP /= 1.2 * np.abs(np.linalg.eigvals(MAP)).max()
HESSE, NOISE = HESSE + HESSE.T, ROOT @ ROOT.T
SLOPE, REMAINDER, START = (_RNG.normal(size=5) for _ in range(3))


def _loss(y: np.ndarray) -> float:
    return float(SLOPE @ y + y @ HESSE @ y / 2)


def test_vectors_have_their_overlaps() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 5))
    T, Q = rows[:, :2], rows @ rows.T
    vectors = committee_moments._vectors(T, Q)
    np.testing.assert_allclose(vectors @ vectors.T, Q, atol=1e-12)
    np.testing.assert_array_equal(vectors[:, :2], T)


@pytest.mark.parametrize(
    ("marks", "kicks"),
    [
        (np.array([0, 2, 5, 6]), np.array([1.0, 2.5, 2.0, 0.5])),  # half of the steps on either side
        (np.arange(13), np.append(np.ones(12), 0.5) - 0.5 * np.eye(13)[0]),  # more of them than points on the axes
    ],
    ids=["few", "many"],
)
def test_the_mean_loss_of_linear_steps_is_that_of_their_mean_and_covariance(
    monkeypatch: pytest.MonkeyPatch, marks: np.ndarray, kicks: np.ndarray
) -> None:
    where = committee_moments._Coordinates(*SHAPE, "free")

    def moved(_: Any, state: Any, __: Any, count: int, ___: bool) -> Any:
        return where.state(np.linalg.matrix_power(MAP, count) @ np.asarray(where.row(state)))

    def heights(_: Any, stacked: Any, __: Any) -> np.ndarray:
        rows = [where.row({"T": T, "Q": Q}) for T, Q in zip(stacked["T"], stacked["Q"], strict=True)]
        return np.array([_loss(np.asarray(row)) for row in rows])

    for name, fake in {
        "map_steps": moved,
        "losses": heights,
        "remainder_and_noise": lambda *_: (REMAINDER, NOISE),
    }.items():
        monkeypatch.setattr(committee_moments, name, fake)
    moments: Any = CommitteeMoments(Activation.parse("h3"), "free", None, {"eta": ETA}, SHAPE)  # type: ignore[arg-type, dict-item]
    found = moments.mean_loss(where.state(START), marks)
    after = [np.linalg.matrix_power(MAP, int(marks[-1] - mark)) for mark in marks]
    drift = ETA * sum(kick * power @ REMAINDER for kick, power in zip(kicks, after, strict=True))
    spread = ETA**2 * sum(kick * power @ NOISE @ power.T for kick, power in zip(kicks, after, strict=True))
    mean = after[0] @ START + drift
    assert found.value == pytest.approx(_loss(mean) + np.trace(HESSE @ spread) / 2, rel=1e-6)
    # In the strength of both, the spread's part is linear and the drift's has this square.
    assert found.second_order == pytest.approx(drift @ HESSE @ drift / 2, rel=1e-5)
