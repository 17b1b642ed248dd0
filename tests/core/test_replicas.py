"""The one loop from save to save: what it visits, what it tells, and what is left when it is stopped."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

from dynamics import (
    Interrupted,
    committee_flow,
    committee_sgd,
    finite_step_flow,
    gradient_descent,
    gradient_flow,
    ito_ensemble,
    label_noise_sgd,
    lower,
    online_sgd,
    oscillation,
    retiring_flow,
)
from dynamics.additive.online_sgd import recovery_steps
from dynamics.baselines.layer_wise import layer_wise_sgd
from dynamics.core import replicas
from dynamics.core.interrupted import IntegrationError
from dynamics.core.replicas import Stretch, Told, Track, between, drive, in_blocks, stretches
from dynamics.declared.descent import population_descent
from dynamics.declared.simulate import declared_sgd
from dynamics.one_task.spherical_sgd import spherical_sgd
from dynamics.quadratic.stiefel_sgd import stiefel_sgd
from theory import (
    Activation,
    QuadraticModel,
    Student,
    System,
    Teacher,
    draw_initial_state,
    draw_linear_start,
    draw_linear_task,
    draw_subspace,
)
from theory.core.derivation import Derivation
from theory.core.indexed import B, Sums, Term, i
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive

H3, ERF = Activation.parse("h3"), Activation.parse("erf")
TEACHER = Teacher.of([1.0, 0.5], 12)
START = draw_initial_state(TEACHER, Student(2, 0.5), 0)
Press = Callable[[float, str], None]


def press(fraction: float, text: str) -> None:
    """Ctrl-C, from the middle on."""
    if fraction > 0.5:
        raise KeyboardInterrupt


def counted(told: Told, advance: Callable[[int, Stretch], int]) -> Any:
    """A run whose state is the number of the last step, looked at in tenths of 100."""
    return drive(0, stretches(100, 10), advance, lambda step: (np.asarray(step),), lambda track: track, told)


@pytest.mark.parametrize(("steps", "saves", "length"), [(100, 10, 1), (107, 4, 10), (3, 200, 1), (5, 2, 8)])
def test_stretches_cover_every_step_once(steps: int, saves: int, length: int) -> None:
    parts = list(stretches(steps, saves, length))
    assert parts[0].begin == 0
    assert parts[-1].end == steps
    assert all(one.end == other.begin for one, other in pairwise(parts))
    assert all(part.blocks * part.length == part.end - part.begin for part in parts)
    assert all(one.first + one.blocks == other.first for one, other in pairwise(parts))


def test_a_run_is_looked_at_from_start_to_end_and_says_so() -> None:
    said: list[str] = []
    told = Told("count", 100, lambda share, text: said.append(f"{share:g} {text}"), lambda step: f", now {step}")
    track = counted(told, lambda _, part: int(part.end))
    assert track.at == tuple(range(0, 101, 10))
    assert track.columns(axis=0)[0].tolist() == list(range(0, 101, 10))
    assert [one for one in said if "step 50 " in one] == ["0.5 count: step 50 of 100, now 50"]


def test_a_stretch_is_cut_into_calls_of_about_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 0.03 s a block, on a clock of the test's own, after a first call that is also compiled: 1, 1, 2, 4, …, 32, 32, …"""
    clock, calls = [0.0], []
    monkeypatch.setattr(replicas, "perf_counter", lambda: clock[0])
    said: list[float] = []

    def advance(step: int, part: Stretch) -> int:
        assert part.begin == step
        clock[0] += 0.03 * part.blocks + (0 if calls else 5.0)
        calls.append(part.blocks)
        return int(part.end)

    told = Told("count", 400, lambda share, _: said.append(400 * share))
    track: Track[int] = drive(
        0, stretches(400, 2), advance, lambda step: (np.asarray(step),), lambda track: track, told
    )
    assert track.at == (0, 200, 400)
    assert calls[:7] == [1, 1, 2, 4, 8, 16, 32]
    assert max(calls) == 32
    assert len(calls) < 22
    np.testing.assert_allclose(said, np.cumsum(calls))


def test_a_run_is_over_when_it_is_done() -> None:
    def result(track: Track[float]) -> tuple[float, ...]:
        return track.at

    parts, told = between([0.0, 0.5, 1.5, 2.0]), Told("time", 2.0)
    assert drive(0.0, parts, lambda _, part: part.end, np.asarray, result, told, done=lambda x: x.state > 1) == (
        0,
        0.5,
        1.5,
    )


def _of_a_library() -> Exception:
    """Ctrl-C as it comes out of a library written in another language."""
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt(), _of_a_library(), IntegrationError()], ids=lambda it: type(it).__name__
)
def test_a_stopped_run_keeps_what_was_looked_at(stop: BaseException) -> None:
    """Whatever stops it inside a stretch: state, looks and steps are of the last look, whole."""

    def advance(step: int, part: Stretch) -> int:
        if part.begin == 70:
            raise stop
        return int(part.end)

    with pytest.raises((Interrupted, IntegrationError)) as stopped:
        counted(Told("count", 100), advance)
    assert isinstance(stopped.value, Interrupted) == (not isinstance(stop, IntegrationError))
    track = stopped.value.result
    assert (track.state, track.at[-1], len(track.seen)) == (70, 70, 8)
    assert stopped.value.at == "at step 70 of 100"


def test_ctrl_c_before_the_first_look_leaves_nothing() -> None:
    def look(_: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        drive(0, [], lambda state, _: state, look, lambda track: track, Told("nothing", 1))
    assert not isinstance(stopped.value, Interrupted)


# --------------------------------------------------------------------------------- every simulator that takes its time


def _noise() -> System:
    y = sp.IndexedBase("y")
    derivation = Derivation("test", (), {}, (), "no source")
    return System(
        "test", H3, {y[i]: Sums([Term(-y[i])])}, {}, (), derivation, "1", "none", noise={y[i]: Sums([Term(B[i])])}
    )


def _ito(**options: Any) -> Any:
    return ito_ensemble(
        lower(_noise()), {"y": jnp.ones(1)}, {}, step=0.1, steps=20, brownian=(1,), paths=2, seed=0, saves=4, **options
    )


SGD = {"step_size": 1e-3, "steps": 20, "saves": 4, "replicas": 2}
#: name → run, and what of its result runs along the saves.
RUNS: dict[str, tuple[Callable[..., Any], Callable[[Any], np.ndarray]]] = {
    "committee SGD": (
        lambda **o: committee_sgd(ERF, TEACHER, [1.0, 0.5], START, **SGD, **o),
        lambda run: np.moveaxis(run.dataset.T.values, 1, 0),
    ),
    "committee map": (
        lambda **o: committee_flow(
            ERF, TEACHER, [1.0, 0.5], START, step_size=1e-3, steps=20, saves=4, method="map", **o
        ),
        lambda run: run.dataset.loss.values,
    ),
    "online SGD": (
        lambda **o: online_sgd(H3, TEACHER, START, **SGD, block_steps=5, **o),
        lambda run: run.dataset.loss.values.T,
    ),
    "Itô": (_ito, lambda run: np.moveaxis(run.state["y"], 1, 0)),
    "gradient descent": (
        lambda **o: gradient_descent(H3, TEACHER, START, step_size=1e-3, steps=20, **o),
        lambda run: run.loss,
    ),
    "gradient flow": (
        lambda **o: gradient_flow(H3, TEACHER, START, t_end=1.0, times=np.linspace(0, 1, 5), **o),
        lambda run: run.dataset.loss.values,
    ),
    "retiring flow": (
        lambda **o: retiring_flow(H3, TEACHER, START, t_end=1.0, times=np.linspace(0.2, 1, 5), **o),
        lambda run: run.loss,
    ),
}


@pytest.mark.slow_for("committee SGD", "committee map", "retiring flow", "online SGD", "gradient flow")
@pytest.mark.parametrize("what", RUNS)
def test_what_an_interrupted_run_keeps_is_the_start_of_the_whole(what: str) -> None:
    run, along = RUNS[what]
    whole = along(run())
    with pytest.raises(Interrupted) as stopped:
        run(progress=press)
    part = along(stopped.value.result)
    assert 2 <= len(part) < len(whole)
    np.testing.assert_array_equal(part, whole[: len(part)])


def test_an_interrupted_search_for_hitting_times_keeps_those_it_has() -> None:
    """Blocks are drawn one after the other, so that the part is a shorter run."""
    options: dict[str, Any] = {"step_size": 1e-4, "replicas": 64, "level": 0.3}
    with pytest.raises(Interrupted) as stopped:
        spherical_sgd(H3, 50, 0.2, steps=20_000, **options, progress=press)
    part = stopped.value.result
    assert 0 < part.steps < 20_000
    np.testing.assert_array_equal(
        part.hitting_steps, spherical_sgd(H3, 50, 0.2, steps=part.steps, **options).hitting_steps
    )


@pytest.mark.parametrize("group", [1, 3, 4, 7, 12])
def test_replicas_in_groups_are_those_side_by_side(group: int) -> None:
    """Of any number, a rest included, and with arrays that hold nothing."""
    states = {"x": jnp.arange(14.0).reshape(7, 2), "none": jnp.zeros((7, 2, 0))}
    each = jnp.arange(7.0)

    def block(state: dict[str, jax.Array], own: jax.Array, number: jax.Array) -> dict[str, jax.Array]:
        return {**state, "x": 2 * state["x"] + own * number}

    together = in_blocks(block, states, each, 3, 4)
    apart = in_blocks(block, states, each, 3, 4, group)
    np.testing.assert_array_equal(apart["x"], together["x"])
    assert apart["none"].shape == (7, 2, 0)


# ------------------------------------------------------------------------------- cut into calls, as the speed may have it


ISOTROPIC = Directions.orthonormal(Inputs.isotropic(6), 2)
MODEL = DeclaredModel(ISOTROPIC, Additive(H3, (1.0, 0.5)), committee(H3, 2), Rule(1e-3, batch=2))
#: Of rows whose lengths matter: these follow step by step.
FITTED = replace(MODEL, student=committee(H3, 2, rows="sphere"), rule=Rule(0.1, samples=16))
ROWS = draw_start(ISOTROPIC, 2, seed=0)
LINEAR = draw_linear_task(4, 0.7, 30, 1)
NEURONS = draw_linear_start(3, 4, 2)
WHITE, FRAME = QuadraticModel(TEACHER, 2), draw_subspace(2, 2, 12, 5)
#: Every simulator in steps that is not above; each stretch has several blocks.
CUT: dict[str, Callable[[], Any]] = {
    **{name: partial(lambda run, along: along(run()), *RUNS[name]) for name in ("committee map", "Itô")},
    "gradient descent": lambda: gradient_descent(
        H3, TEACHER, START, step_size=1e-3, steps=20, saves=np.array([0, 7, 20])
    ).loss,
    "online SGD": lambda: online_sgd(H3, TEACHER, START, **SGD, block_steps=1).dataset.loss,
    "committee SGD": lambda: committee_sgd(
        ERF, TEACHER, [1.0, 0.5], START, step_size=1e-3, steps=320, saves=2, replicas=2
    ).dataset.T,
    "layer-wise SGD": lambda: layer_wise_sgd(H3, TEACHER, START, **SGD, block_steps=1).dataset.loss,
    "recovery steps": lambda: recovery_steps(
        H3, TEACHER, START, step_size=1e-3, steps=4000, replicas=40, directions=(0,), block_steps=2
    ),
    "Stiefel SGD": lambda: stiefel_sgd(WHITE, FRAME, **SGD, block_steps=1).dataset.overlap,
    "Stiefel SGD of mini-batches": lambda: stiefel_sgd(WHITE, FRAME, **SGD, batch=3).dataset.overlap,
    "declared SGD": lambda: declared_sgd(MODEL, ROWS, steps=24, saves=4, replicas=2, block_steps=1).dataset.overlap,
    "vectors": lambda: declared_sgd(MODEL, ROWS, steps=24, saves=4, replicas=2, method="ambient").dataset.overlap,
    "a data set": lambda: declared_sgd(FITTED, ROWS, steps=24, saves=4, replicas=2, block_steps=1).dataset.overlap,
    "population descent": lambda: population_descent(MODEL, ROWS, steps=24, saves=4).overlap,
    "label noise": lambda: label_noise_sgd(LINEAR, NEURONS, step_size=1e-2, steps=800, noise=1.0, saves=2).dataset.theta,
    "oscillation": lambda: oscillation(LINEAR, NEURONS, step_size=1e-2, steps=800, saves=2).dataset.theta,
    "finite step": lambda: finite_step_flow(
        H3, TEACHER, START, step_size=1e-3, steps=20, saves=4, method="map"
    ).dataset.loss,
}  # fmt: skip


@pytest.mark.slow_for(
    "committee SGD",
    "recovery steps",
    "Stiefel SGD of mini-batches",
    "layer-wise SGD",
    "Stiefel SGD",
    "committee map",
    "finite step",
)
@pytest.mark.parametrize("what", CUT)
def test_how_a_run_is_cut_changes_no_bit(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> np.ndarray:
        return np.asarray(CUT[what]())

    whole_parts: list[int] = []

    def whole(_: Any, part: Stretch, state: Any, advance: Callable[..., Any], told: Told) -> Any:
        whole_parts.append(part.blocks)
        return advance(state, part)

    with monkeypatch.context() as uncut:
        uncut.setattr(replicas._Calls, "over", whole)
        expected = run()
    # A call is never quick enough for more than one block.
    monkeypatch.setattr(replicas, "_CALL", 0.0)
    np.testing.assert_array_equal(run(), expected)
    assert max(whole_parts) > 1
