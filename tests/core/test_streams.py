"""Random streams: names do not meet, replicas do not depend on one another's number, claims share nothing by accident."""

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pytest

import theory
from dynamics import committee_sgd, ito_ensemble, label_noise_sgd, oscillation
from dynamics.baselines.kernel_ridge import kernel_ridge
from dynamics.baselines.layer_wise import layer_wise_sgd
from dynamics.core.keys import replica_keys, stream_key
from dynamics.networks import Comparison, LazyRich, Training, digits, lazy_rich
from dynamics.quadratic.riccati_data import riccati_dataset
from emergence.models import linear
from theory import Activation, InitialState, InputError, QuadraticModel, Student, Teacher
from theory.baselines.kernel_ridge import Kernel, KernelRidge
from theory.core import streams
from theory.core.streams import Made, Word, integer_seed, recorded, sequence, stream
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim
from validation.judge.context import Context

ROOT = Path(__file__).resolve().parents[2]
H3 = Activation.parse("h3")

# -------------------------------------------------------------------------------- names


def test_the_empty_name_is_numpys_own_and_belongs_to_the_start() -> None:
    assert stream(7).random() == np.random.default_rng(7).random()
    with recorded() as found:
        theory.draw_initial_state(Teacher.of([1.0], 8), Student(2), 7)
        theory.draw_subspace(1, 1, 8, 7)
        theory.draw_linear_task(3, 1.0, 4, 7)
        theory.draw_linear_start(2, 3, 7)
    assert [bool(one.words) for one in found] == [False, True, True, True]


def test_names_do_not_meet() -> None:
    """Neither by padding with zeros, nor by joining words, nor by taking a number for its text, at any pair of seeds."""
    names: list[tuple[Word, ...]] = [
        (), ("a",), ("a", 0), ("a", 0, 0), ("a", "0"), ("a0",), ("a", "b"), ("ab",), ("a b",), (0,), (0, 0), (23,), (23, 0),
    ]  # fmt: skip
    with recorded() as found:
        for seed, name, replica in product((0, 1, 2, 23, 2**32, 2**32 + 1, 2**64), names, (None, 0, 1)):
            sequence(seed, *name, replica=replica)
    assert len({one.state for one in found}) == len(found)
    assert np.random.default_rng([0, 23]).random() == np.random.default_rng([0, 23, 0]).random()  # what is avoided


def test_a_name_is_the_same_everywhere() -> None:
    """Numbers that must not change from version to version; whole numbers of NumPy are the same words."""
    assert integer_seed(0, "E14", "gaps", 3) == integer_seed(0, "E14", "gaps", int(np.int64(3))) == 1543710589
    assert 0 <= min(integer_seed(k, "x") for k in range(50)) <= max(integer_seed(k, "x") for k in range(50)) < 2**31


@pytest.mark.parametrize("seed", [-1, 0.5, True, None, "3"])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    for make in (stream, stream_key):
        with pytest.raises(InputError, match=r"^seed is .*: give a whole number, 0 or more$"):
            make(seed, "x")  # type: ignore[arg-type]


def test_keys_follow_from_names_and_replicas() -> None:
    keys = np.asarray(jax.random.key_data(replica_keys(3, 50, "x")))
    assert np.array_equal(keys[:2], jax.random.key_data(replica_keys(3, 2, "x")))
    others = [np.asarray(jax.random.key_data(replica_keys(seed, 50, *name))) for seed, name in ((4, "x"), (3, "y"))]
    assert len({tuple(key) for key in np.concatenate([keys, *others]).tolist()}) == 150


#: Where streams may be made from numbers.
_MAKERS = {"theory/core/streams.py", "dynamics/core/keys.py"}
_RAW = {"default_rng", "RandomState", "SeedSequence", "PRNGKey", "wrap_key_data"}


def raw_streams(source: str) -> list[str]:
    """Names in a module that make a stream without a name."""
    used = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    return [node.attr for node in used if node.attr in _RAW or ast.unparse(node) == "jax.random.key"]


def test_streams_are_made_in_one_place() -> None:
    packages = ("theory", "dynamics", "validation", "emergence")
    modules = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in modules if raw_streams(path.read_text(encoding="utf-8"))}
    assert found == _MAKERS
    assert raw_streams("x = np.random.default_rng(3); y = jax.random.key(0)") == ["default_rng", "key"]


# ----------------------------------------------------------------------------- replicas


class Decay:
    """dy = −y dt + dB, for one path."""

    def drift(self, state, parameters):  # type: ignore[no-untyped-def]
        return {"y": -state["y"]}

    def noise(self, state, increments, parameters):  # type: ignore[no-untyped-def]
        return {"y": increments}


def _aligned(overlap: float = 0.3) -> InitialState:
    return InitialState(np.array([[overlap]]), np.array([[np.sqrt(1 - overlap**2)]]))


def _linear(replicas: int) -> dict:
    return {"task": theory.draw_linear_task(3, 0.5, 20, 0), "start": theory.draw_linear_start(4, 3, 0), "replicas": replicas,
            "steps": 20, "saves": 2, "step_size": 0.05, "seed": 5}  # fmt: skip


def _values(data, name: str) -> np.ndarray:  # type: ignore[no-untyped-def]
    return np.asarray(data[name].values)


MODEL = QuadraticModel(Teacher.of([1.0, 0.5], 32), 2)
SGD: dict = {"step_size": 1e-3, "steps": 40, "saves": 1, "seed": 5}

#: Those whose own tests do not have it already, beside their laws.
SIMULATORS: dict[str, Callable[[int], np.ndarray]] = {
    "layer-wise SGD": lambda n: _values(
        layer_wise_sgd(H3, Teacher.of([1.0], 32), _aligned(), replicas=n, samples=30, **SGD).dataset, "fitted_loss"
    ),
    "Riccati flows": lambda n: _values(riccati_dataset(MODEL, np.array([1.0]), replicas=n, seed=5), "risk"),
    "oscillation": lambda n: oscillation(**_linear(n)).values("theta"),
    "linear starts": lambda n: theory.draw_linear_start(4, 3, 5, n).first,
    "committee SGD": lambda n: _values(
        committee_sgd(H3, Teacher.of([1.0], 8, normalise=False), [1.0], _aligned(), replicas=n, **SGD).dataset, "loss"
    ),
    "Ito ensemble": lambda n: ito_ensemble(
        Decay(), {"y": np.ones(2)}, {}, step=0.1, steps=20, brownian=(2,), paths=n, seed=5, saves=2
    ).state["y"],
    "kernel ridge": lambda n: kernel_ridge(
        KernelRidge(H3, Teacher.of([1.0], 8), Kernel.parse("exp")), [20], replicas=n, seed=5
    ).risk,
    "lazy to rich": lambda n: _values(
        lazy_rich(digits(), LazyRich(images=8, hidden=4, step_size=1e-3, steps=5, saves=1, replicas=n, seed=5)).dataset,
        "loss_train",
    ),
    "networks": lambda n: np.array([Comparison(Training(seed=5), replicas=n).seed_of(i) for i in range(n)]),
}  # fmt: skip


@pytest.mark.slow_for("layer-wise SGD", "committee SGD", "lazy to rich")
@pytest.mark.parametrize("name", SIMULATORS)
def test_a_replica_does_not_depend_on_how_many_run(name: str) -> None:
    few, more = (SIMULATORS[name](count) for count in (2, 5))
    assert len(few), len(more) == (2, 5)
    np.testing.assert_allclose(more[:2], few, rtol=1e-9)
    assert not np.allclose(more[0], more[1], rtol=1e-9)


def test_start_training_set_and_noise_share_no_stream_at_any_two_seeds() -> None:
    with recorded() as found:
        for seed in range(4):
            resolved = linear.resolve(
                linear.LinearProblem(dim=3, student_width=4, train_size=20, seed=seed, steps=20, replicas=1)
            )
            label_noise_sgd(resolved.task, resolved.start, step_size=0.01, steps=20, seed=seed)
            theory.draw_initial_state(Teacher.of([1.0], 32), Student(2), seed)
            theory.draw_subspace(2, 2, 32, seed)
    assert len(found) == 4 * 5
    assert alike(found) == []


# ------------------------------------------------------------------------------- claims


def alike(found: Sequence[Made]) -> list[tuple[Made, Made]]:
    """Pairs of streams with the same numbers, of claims and their simulators.

    A simulator that is given one seed twice is meant to repeat its noise: that is no pair if both were made at one place.
    """
    first: dict[tuple[int, ...], Made] = {}
    pairs = []
    for one in found:
        other = first.setdefault(one.state, one)
        if other is not one and (one.words[:1] == ("claims",) or (one.words, one.place) != (other.words, other.place)):
            pairs.append((other, one))
    return pairs


def unnamed(found: Sequence[Made], seed: int) -> Iterator[Made]:
    """Streams whose seed is neither the run's nor one that a claim has made for the purpose; a formula's own check is."""
    issued = {one.state[0] >> 1 for one in found if one.use == "integer"} | {seed}
    return (one for one in found if one.seed not in issued and "residual" not in one.words)


def streams_of(chosen: Sequence[Claim], seed: int) -> list[Made]:
    with recorded() as found:
        for claim in chosen:
            claim.run(Context("quick", seed))
    return found


#: Claims that take about a second, of many modules, some of which share simulations.
CHEAP = ("E4", "E13", "L1", "L2", "L2-printed", "L15", "L18", "L19", "L20", "L21", "Q1", "Q5", "S7", "S10")


@pytest.mark.slow
@pytest.mark.parametrize("which", [CHEAP, ()], ids=["cheap", "all"])
def test_no_two_streams_of_the_claims_are_alike(which: tuple[str, ...]) -> None:
    seed = 411  # no other test's, so that nothing comes out of a cache
    found = streams_of([claim for claim in catalogue() if not which or claim.id in which], seed)
    assert len(found) > len(which)
    assert alike(found) == []
    assert list(unnamed(found, seed)) == []


def test_what_is_alike_is_found() -> None:
    context = Context(seed=3)
    with recorded() as found:
        context.rng("E1", 23)
        context.seed_for("E1", 24)
        context.rng("E2", 23)
        stream(context.seed_for("E3"), "SGD")
        stream(5, "SGD")
    assert alike(found) == []
    assert [one.seed for one in unnamed(found, 3)] == [5]
    with recorded() as again:
        context.rng("E2", 23)
    assert len(alike([*found, *again])) == 1
    assert streams._record.get() is None
