"""Laws of declared models: the design covers all pairs, the two-sample test sees what differs, a few problems agree."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from emergence.models import module_of
from theory import InputError
from theory.declared.inputs import Inputs
from theory.declared.rule import RULES, Gradient, Here, Moved, Rule
from theory.declared.text import parse_rule
from validation.experiments import declared_law
from validation.experiments.declared_law import (
    INPUTS,
    MISTAKES,
    REJECTED,
    SAMPLES,
    STUDENTS,
    TARGETS,
    Judged,
    Problem,
    check_law,
    covering,
    design,
    judge,
    refusal,
)
from validation.statistics.two_samples import compare_samples

# ------------------------------------------------------------------------- the design


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_design_covers_all_pairs_in_few_problems(seed: int) -> None:
    rules = [name for name in RULES if name != "adam"]
    problems = design(rules, list(INPUTS), 2, seed)
    rows = [(x.rule, x.student, x.inputs, x.samples, x.target) for x in problems]
    factors = (rules, list(STUDENTS), list(INPUTS), list(SAMPLES), list(TARGETS))
    for i, j in combinations(range(5), 2):
        assert {(row[i], row[j]) for row in rows} == set(product(factors[i], factors[j]))
    assert len(rules) * len(STUDENTS) <= len(rows) <= 1.2 * len(rules) * len(STUDENTS)
    assert design(rules, list(INPUTS), 2, seed) == problems


def test_one_way_design_shows_every_level_once() -> None:
    rows = covering((["a"], ["b", "c", "d"], ["e", "f"]), 1)
    assert len(rows) == 3
    assert {x for row in rows for x in row} == set("abcdef")


# ------------------------------------------------------------------------- the two-sample test


def _draw(seed: int, count: int = 4000) -> np.ndarray:
    """Two observables of covariance ½, and one constant."""
    x = np.random.default_rng(seed).standard_normal((count, 2)) @ np.array([[1.0, 0.5], [0.0, 0.75**0.5]])
    return np.column_stack([x, np.full(count, 3.0)])


def test_p_values_of_equal_laws_are_no_smaller_than_they_should_be() -> None:
    """400 pairs: P(p < α) ≤ α for Bonferroni, and the z of one moment are normal."""
    tests = [compare_samples(_draw(2 * seed), _draw(2 * seed + 1)) for seed in range(400)]
    assert tests[0].count == 2 + 3 + 2 + 1 + 1
    for level in (0.01, 0.05, 0.2):
        share = np.mean([one.p < level for one in tests])
        assert share < level + 4 * np.sqrt(level / 400)
    assert stats.kstest([one.z[0] for one in tests], "norm").pvalue > 1e-4


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x + np.array([0.2, 0, 0]),
        lambda x: x * [1.15, 1, 1],
        lambda x: x * [-1, 1, 1],
        lambda x: x + np.array([0, 0, 1e-6]),
        lambda x: np.where(np.arange(len(x))[:, None] % 40 == 0, np.nan, x),
    ],
    ids=["mean", "variance", "covariance", "constant", "divergence"],
)
def test_another_law_is_rejected(changed) -> None:
    assert compare_samples(changed(_draw(1)), _draw(2)).p < REJECTED
    assert compare_samples(_draw(1), _draw(2)).p > 1e-4


def test_rounding_of_rows_that_have_not_moved_is_no_law() -> None:
    """Half of each sample is one number: as computed in one way, and in another that is up to a few last places beside it."""
    rng = np.random.default_rng(3)
    one, other = (np.where(rng.random((4000, 1)) < 0.5, 0.3, rng.standard_normal((4000, 1))) for _ in range(2))
    beside = other * (1 + 4e-16 * rng.integers(1, 4, other.shape))
    assert compare_samples(one, beside).p == pytest.approx(compare_samples(one, other).p, rel=1e-6)
    assert compare_samples(one, np.where(other == 0.3, 0.3 + 1e-6, other)).p < REJECTED


def test_samples_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(InputError, match="shapes"):
        compare_samples(_draw(1), _draw(2)[:, :2])
    with pytest.raises(InputError, match="100 are needed"):
        compare_samples(_draw(1, 50), _draw(2, 50))


# ------------------------------------------------------------------------- laws

_OWN = module_of(str(Path(__file__).parents[2] / "examples" / "clipped_sgd.py")).RULE
MADE = {
    "muon with memory, all steps of a block": (
        Problem("", "committee, trained b", "spiked", "2 a step, noise, decay", "z1 + z1*z2"),
        partial(parse_rule, "muon(0.5)", step_size=0.15),
        ["freedom"],
    ),
    "a file's rule, one by one": (
        Problem("", "2-homogeneous", "two eigenspaces", "3 a step, one by one", "additive"),
        partial(_OWN, step_size=0.15),
        list(MISTAKES),
    ),
}


@pytest.mark.slow_for("a file's rule, one by one")
@pytest.mark.parametrize("name", MADE)
def test_the_law_is_that_of_explicit_vectors_and_mistakes_are_rejected(name: str) -> None:
    """Smallest p 0.1 or more; mistakes 1e-20 or less."""
    problem, rule, mistakes = MADE[name]
    found = judge(problem, rule, INPUTS[problem.inputs], mistakes=mistakes, replicas=5000)
    assert found.verdict() == "agrees", found.test.p
    assert list(found.mistakes) == mistakes
    assert all(one.p < REJECTED for one in found.mistakes.values())


@dataclass(frozen=True)
class Peeking(Rule):
    """Treats vectors of R^d in another way than spans."""

    def step(self, at: Here) -> Moved:
        gradient = at.gradient(at.rows, at.second)
        return self.along(at, Gradient(gradient.rows * (1.2 if hasattr(at.rows, "array") else 1.0), gradient.second))


@pytest.fixture
def one_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design of one problem."""
    chosen = Problem("own", "committee", "own", "3 a step, one by one", "additive")
    monkeypatch.setattr(declared_law, "design", lambda rules, inputs, *_: [replace(chosen, inputs=inputs[-1])])


@pytest.mark.slow
@pytest.mark.usefixtures("one_problem")
def test_a_rule_that_looks_behind_its_vectors_has_another_law() -> None:
    told: list[float] = []
    (found,) = check_law(
        Peeking(0.15), Inputs.spiked(10_000, 3.0), replicas=5000, progress=lambda share, _: told.append(share)
    )
    assert found.dim == 1 + 2 + 2 + 3 + 6
    assert (found.verdict(), told) == ("differs", [1.0])


def test_a_rule_of_coordinates_is_refused_before_anything_runs() -> None:
    assert "method = ambient" in refusal(partial(RULES["adam"], 0.1))
    assert refusal(partial(Rule, 0.1)) == ""
    with pytest.raises(InputError, match="does not turn with the axes"):
        check_law(RULES["adam"](0.1))


@pytest.mark.parametrize(
    ("p", "mistaken", "tests", "verdict"),
    [
        (0.5, 1e-9, 1, "agrees"),
        (0.5, 1e-3, 1, "blind"),
        (2e-4, 1e-9, 1, "agrees"),
        (0.5e-4, 1e-9, 1, "differs"),
        (0.5e-4, 1e-9, 3, "agrees"),
        (0.5e-4, 1e-3, 3, "blind"),
        (0.5e-4, 1e-3, 1, "differs"),
    ],
)
def test_a_law_differs_by_its_p_value_over_all_problems(p: float, mistaken: float, tests: int, verdict: str) -> None:
    """Below 1e-4 for all of them; a mistake that is not rejected at 1e-6 leaves it blind."""
    own, seen, other = (SimpleNamespace(p=x) for x in (p, 1e-9, mistaken))
    problem: Any = None
    found = Judged(problem, 3, own, {"seen": seen, "other": other})  # type: ignore[arg-type, dict-item]
    assert found.verdict(tests) == verdict
