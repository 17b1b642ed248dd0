"""Rows that noise has stray to other directions: how far, how late they are, and who does not come, beside SGD."""

from dataclasses import replace

import numpy as np
import pytest

import theory.declared.passage_law as module
from dynamics.declared.simulate import declared_sgd
from tests.declared.test_passage_law import moved, on_a_sphere, path_of
from tests.declared.test_whole_flow import Problem, correlated, problem
from theory import Activation, Student, Teacher, draw_initial_state
from theory.declared.additive import additive_model, start_of
from theory.declared.directions import Directions
from theory.declared.emergence import MEAN_STEPS, SPREAD_STEPS
from theory.declared.inputs import Inputs
from theory.declared.known import Known
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.predict import predict
from theory.declared.rule import Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive
from theory.declared.whole_flow import whole_flow
from validation.comparisons.declared import emergence_times

H2 = Activation.parse("h2")


def across(batch: int) -> Problem:
    """Three rows of h2; the one that finds the second direction begins with hardly any overlap with the first, which grows."""
    teacher = Teacher.power_law(3, 1.0, 37)
    start = start_of(draw_initial_state(teacher, Student(3, 0.1), 12))
    return additive_model(H2, teacher, two_homogeneous(H2, 3), Rule(0.006, batch)), start


def entry(given: Problem, quantity: str, place: int) -> Known:
    (found,) = [x for x in predict(*given).of_quantity(quantity) if x.place == place]
    return found


def steps_of_sgd(given: Problem, p: int, last: float, replicas: int, seed: int) -> np.ndarray:
    """To direction p, inf of runs that are not there at last."""
    model, start = given
    run = declared_sgd(model, start, steps=int(last), replicas=replicas, seed=seed, saves=int(last / 2))
    return np.asarray(emergence_times(model, run.dataset)[:, p] / model.rule.step_size)


@pytest.mark.parametrize(
    "given",
    [problem("relu(z)"), on_a_sphere(problem("erf(z)", "committee")), correlated()],
    ids=["homogeneous", "sphere", "correlated"],
)
def test_slopes_of_what_strays_are_those_of_the_flow(given: Problem) -> None:
    """Of the correlation with what the other direction has across, at the time, in central differences of the start."""
    (model, start), rng, step = given, np.random.default_rng(0), 1e-4
    path = path_of((replace(model, rule=replace(model.rule, step_size=1.0)), start))
    row, p, time = path.crossings[min(path.crossings)][0]
    found = module._Costate.astray(path, row, p, time, module._Allowed(10**6))
    G, M, _ = module._opened(path.flow.shape, found.value(0.0))
    fields, unit = model.directions.covariance, model.student.rows != "free"
    share = fields[p, 1 - p] / fields[p, p]
    size = fields[1 - p, 1 - p] - share * fields[p, 1 - p]

    def leans(begun: Start) -> float:
        other = path_of((replace(model, rule=replace(model.rule, step_size=1.0)), begun))
        X, C = other.flow.rates.fields(*other.flow.parts(other.state(time))[:2])
        return float((X[row, 1 - p] - share * X[row, p]) / np.sqrt(C[row, row] * size))

    for _ in range(2):
        by, slope = [rng.standard_normal(x.shape) for x in start.coordinates], 0.0
        for i, (x, y, root) in enumerate(zip(start.coordinates, by, model.directions.roots, strict=True)):
            directions = np.zeros((len(root), x.shape[1]))
            directions[:, : min(root.shape[1], x.shape[1])] = root[:, : x.shape[1]]
            slope += float(np.sum((G[i] @ x + M[i] @ directions) * y))
        more, less = (leans(moved(start, by, way * step, unit)) for way in (1, -1))
        assert abs(slope) == pytest.approx(abs(more - less) / (2 * step), rel=0.05)


@pytest.mark.slow_for("2")
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_that_stray_are_later(seed: int) -> None:
    """By .1 of 2.1 here, and scatter more; 2.10 ± .02 was said, of which these runs are six standard errors off."""
    given = across(80)
    mean, spread = (entry(given, quantity, 2) for quantity in (MEAN_STEPS, SPREAD_STEPS))
    assert not mean.reasons
    steps = steps_of_sgd(given, 1, 2.5 * mean.value, 96, seed)
    assert np.isfinite(steps).mean() > 0.95
    steps = steps[np.isfinite(steps)]
    error = steps.std() / np.sqrt(len(steps))
    assert mean.low - 3 * error < steps.mean() < mean.high + 3 * error
    assert spread.low < steps.std() < spread.high


def test_where_many_stray_so_far_that_they_are_lost_it_is_said() -> None:
    assert [text.split(":")[0] for text in entry(across(40), MEAN_STEPS, 2).reasons] == ["lost"]


@pytest.mark.slow_for("2")
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_stray_as_far_as_those_of_sgd(seed: int) -> None:
    """One that begins at right angles to a stronger direction, at the first one's time; but for what scales it back."""
    directions, rule = Directions.orthonormal(Inputs.isotropic(30), 2), Rule(0.02, 128)
    model = DeclaredModel(directions, Additive(H2, (0.6, 1.0)), committee(H2, 1, rows="sphere"), rule, Correlation())
    begun = draw_start(directions, 1, 1.0, 0).coordinates[0]
    begun[0, :2] = 0.35, 0.0
    start = Start((begun / np.linalg.norm(begun),))
    law, replicas = whole_flow(model, start).law(), 512
    assert law is not None
    said = np.sqrt(2 * law.strayed(0, 0.02 / 128) * law.rates[0])
    steps = round(law.times[0] / 0.02)
    last = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, saves=1).dataset.isel(time=-1)
    found = last.overlap.sum("eigenspace").to_numpy()[:, 0, 1]
    assert np.sqrt(np.mean(found**2)) == pytest.approx(said, rel=4 / np.sqrt(2 * replicas) + 1.5 * said**2)


@pytest.mark.slow_for("2")
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_that_come_to_rest_near_a_half_are_outside(seed: int) -> None:
    """One of h2 that leans to four directions goes on to .59 of the second by 1.3 of its time: one run in twenty takes more
    than twice that. At a quarter of the noise hardly any does, and it is valid.
    """
    directions, weights = Directions.orthonormal(Inputs.isotropic(12), 4), (0.967, 0.941, 0.855, 0.672)
    model = DeclaredModel(directions, Additive(H2, weights), two_homogeneous(H2, 1), Rule(0.02875, 64))
    given, quiet = (replace(model, rule=Rule(0.02875, batch)) for batch in (64, 256))
    start = draw_start(directions, 1, 0.5, 412)
    assert [text.split(":")[0] for text in entry((given, start), MEAN_STEPS, 2).reasons] == ["level"]
    kept = entry((quiet, start), MEAN_STEPS, 2)
    assert not kept.reasons
    twice = 2 * whole_flow(model, start).found[1] / 0.02875
    late = [np.mean(steps_of_sgd((one, start), 1, twice + 1, 256, seed) > twice) for one in (given, quiet)]
    assert 0.03 < late[0] < 0.15
    assert late[1] < 0.02
