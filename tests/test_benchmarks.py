"""The benchmarks measure what they say: right counts, right rivals, and a verdict that can be ``over``."""

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import __main__ as front
from benchmarks import (
    block_floor,
    declared,
    derivation,
    finite_step,
    gradient_flow,
    numpy_sgd,
    online_sgd,
    rates,
    sgd_runs,
    timing,
)
from benchmarks.machine import Machine, this_machine
from benchmarks.row import Row
from dynamics.declared.chain import run_block
from theory import Activation

MACHINE = Machine("a processor", 2, "3.11", "0.1", "2.0", (0.1, 0.1, 0.1))


def values(rows: list[Row]) -> dict[str, float]:
    return {row.quantity: row.value for row in rows}


# ----------------------------------------------------------------- verdicts and output


@pytest.mark.parametrize(
    ("value", "target", "verdict"),
    [(1.0, 1.0, "PASS"), (1.01, 1.0, "over"), (math.nan, 1.0, "over"), (5.0, None, "")],
)
def test_verdict(value: float, target: float | None, verdict: str) -> None:
    assert Row("b", "q", value, "s", target).verdict == verdict


def test_a_miss_is_counted_and_named() -> None:
    shown = front.text(
        MACHINE, [Row("b", "fast", 1.0, "s", 2.0), Row("b", "slow", 3.0, "s", 2.0), Row("b", "x", 9, "")]
    )
    assert "1 of 2 targets met" in shown
    assert "over: b: slow: 3 > 2" in shown
    assert "a processor" in shown


@pytest.mark.parametrize(("load", "warned"), [((0.6, 0.0, 0.0), True), ((0.4, 9.0, 9.0), False), ((), True)])
def test_a_busy_machine_is_said(load: tuple[float, ...], warned: bool) -> None:
    machine = Machine("a processor", 2, "3.11", "0.1", "2.0", load)
    assert ("warning" in machine.text()) is warned


def test_this_machine_is_named() -> None:
    machine = this_machine()
    assert machine.processor
    assert machine.cores >= 1
    assert machine.jax == jax.__version__


def test_main_writes_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(front.BENCHMARKS, "start-up", lambda: [Row("start-up", "quick", 0.25, "s", 0.5)])
    assert front.main(["start-up", "--json", str(tmp_path / "figures.json")]) == 0
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["figures"]
    assert figures == [Row("start-up", "quick", 0.25, "s", 0.5).document()]
    assert figures[0]["verdict"] == "PASS"
    assert "quick" in capsys.readouterr().out


@pytest.mark.parametrize("bad", [["nosuch"], ["start-up", "--json", "/nosuch/folder/file"]])
def test_bad_arguments_are_refused_before_anything_runs(bad: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "BENCHMARKS", {"start-up": lambda: pytest.fail("it ran")})
    with pytest.raises(SystemExit) as stop:
        front.main(bad)
    assert stop.value.code == 2


# -------------------------------------------------------------------------- stop-watches


def test_best_of_takes_turns_and_keeps_the_shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    clock = iter([0.0, 5.0, 10.0, 11.0, 20.0, 23.0, 30.0, 39.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    found = timing.best_of({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b", "a", "b"]
    assert found == {"a": 3.0, "b": 1.0}


def test_cores_used_is_processor_time_over_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, busy = iter([0.0, 2.0]), iter([1.0, 4.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(timing.time, "process_time", lambda: next(busy))
    assert timing.cores_used(lambda: ()) == 1.5


def test_repetitions_reach_the_wanted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def call(count: int) -> None:
        now[0] += 0.01 * count

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    assert timing.repetitions(call, 0.3) == 16


# -------------------------------------------------------------------------------- floors


def equations(jaxpr: Any) -> Iterator[Any]:
    """All of a traced function and those it calls, loops by one round of theirs; the inner steps' scan left out."""
    for equation in jaxpr.eqns:
        yield equation
        if equation.primitive.name != "scan":
            for inner in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns")):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


def operations(dot: Any) -> float:
    """Of a matrix product."""
    (contracted, _), _ = dot.params["dimension_numbers"]
    left = dot.invars[0].aval.shape
    return 2 * math.prod(dot.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)


@pytest.mark.parametrize("width", [3, 8])
def test_floor_counts_what_the_block_does(width: int) -> None:
    """Counted independently, as they stand in the traced block: Gaussians, one for each chi variable, and products."""
    problem = sgd_runs.Sizes(width, 100, block=12)
    engine = problem.problem().engine
    traced = jax.make_jaxpr(lambda chain, key: run_block(engine.shape, engine.space, jnp.ones(12), chain, key, 0))(
        engine.start, jax.random.key(0)
    )
    found = {
        name: [x for x in equations(traced.jaxpr) if x.primitive.name == name] for name in ("erf_inv", "dot_general")
    }
    work = block_floor.work(problem)
    assert sum(x.outvars[0].aval.size for x in found["erf_inv"]) == work.normals + work.chi
    assert sum(map(operations, found["dot_general"])) == work.products


def test_floor_is_work_over_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_floor.rates, "seconds_per_normal", lambda: 2.0)
    monkeypatch.setattr(block_floor.rates, "flops_per_second", lambda: 4.0)
    problem = sgd_runs.Sizes(8, 100, block=32)
    work = block_floor.work(problem)
    random, operations = block_floor.seconds_per_step(problem)
    assert random == 2.0 * (work.normals + work.chi) / 32
    assert operations == (work.products + work.other) / 4.0 / 32


# -------------------------------------------------------------------------------- rivals


@pytest.mark.parametrize("text", ["h4", "erf"])
def test_numpy_step_is_gradient_descent(text: str) -> None:
    """Against a central difference of ½(f*−f)²(x) in every coordinate."""
    rng = np.random.default_rng(0)
    vectors, x, a, eta = 0.5 * rng.standard_normal((2, 5)), rng.standard_normal(5), np.array([0.8, 0.6]), 0.1
    activation = Activation.parse(text)
    sigma, slope = (np.vectorize(f) for f in numpy_sgd.activation_pair(activation))

    def loss(v: np.ndarray) -> float:
        norm = np.sqrt(np.sum(v**2, axis=1))
        return float(0.5 * (norm**2 @ sigma(v @ x / norm) - a @ sigma(x[:2])) ** 2)

    gradient = np.zeros_like(vectors)
    for place in np.ndindex(vectors.shape):
        shift = np.zeros_like(vectors)
        shift[place] = 1e-6
        gradient[place] = (loss(vectors + shift) - loss(vectors - shift)) / 2e-6
    moved = numpy_sgd.step(vectors, x, a, eta, sigma, slope)
    assert np.abs(gradient).max() > 1e-2
    np.testing.assert_allclose(moved, vectors - eta * gradient, atol=1e-7)


def test_a_run_that_stands_still_or_diverges_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    for step_size in (1e-300, 1e300):
        monkeypatch.setattr(sgd_runs, "STEP_SIZE", step_size)
        with pytest.raises(RuntimeError, match="did not move, or diverged"):
            sgd_runs.prepare(sgd_runs.Sizes(2, 20, "ambient", block=2), 1)


# --------------------------------------------------------------------------------- smoke


@pytest.mark.slow
def test_online_sgd_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "seconds_per_normal", partial(rates.seconds_per_normal, 2, 16, 10, 1))
    monkeypatch.setattr(rates, "flops_per_second", partial(rates.flops_per_second, 64, 1))
    rows = online_sgd.run((2,), (20, 40), (20,), replicas=2, ambient_replicas=1, seconds=1e-3, repeats=1)
    found = values(rows)
    title = "exact, m=P=2, 2 replicas"
    assert all(row.value > 0 for row in rows)
    assert found[f"{title}, d=40 / d=20"] == pytest.approx(found[f"{title}, d=40"] / found[f"{title}, d=20"])
    floor = found[f"{title}, floor: random numbers"] + found[f"{title}, floor: operations"]
    assert found[f"{title}, cost / floor"] == pytest.approx(found[f"{title}, d=20"] / floor)
    for rival in ("ambient JAX, 1 replicas, m=P=2, d=20", "ambient NumPy, m=P=2, d=20"):
        assert found[f"{rival} / exact"] == pytest.approx(found[rival] / found[f"{title}, d=20"])


@pytest.mark.slow
def test_declared_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "seconds_per_normal", lambda: 1e-8)
    monkeypatch.setattr(rates, "flops_per_second", lambda: 1e10)
    monkeypatch.setattr(declared, "RULES", {"plain": declared.RULES["plain"], "momentum": declared.RULES["momentum"]})
    rows = declared.run((2,), (60, 80), (20,), (1, 2), replicas=2, seconds=1e-3, repeats=1)
    assert all(row.value > 0 for row in rows)
    assert len(values(rows)) == len(rows) == 2 * 4 + 2 * 2 + 2


@pytest.mark.slow
def test_gradient_flow_benchmark_runs() -> None:
    found = values(gradient_flow.run(2, 6, 40, seconds=1e-3, repeats=1, flow_repeats=1))
    assert found["directions predicted but not recovered by then"] == 0
    assert found["right-hand sides"] >= 6 * found["solver steps"]
    bare = found["its three bare matrix products"]
    assert found["time per evaluation / bare products"] == pytest.approx(
        found["time per evaluation, solver included"] / bare
    )


def test_derivation_stages_are_timed() -> None:
    found = derivation.stages("h4")
    assert set(found) == {"derive", "verify", "lower", "compile"}
    assert min(found.values()) > 0


@pytest.mark.slow
def test_finite_step_benchmark_runs() -> None:
    found = values(finite_step.run(3, 40, seconds=1e-3, repeats=1))
    assert found["m=P=3, h3, drift with all O(η²) terms"] > 0
    assert found["m=P=3, h4, operations"] > found["m=P=3, h3, operations"]
