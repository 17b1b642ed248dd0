"""Exact-in-law SGD against its floor, its own cost at another dimension, and explicit vectors (NumPy and JAX)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import block_floor, numpy_sgd, rates
from benchmarks.row import Row
from benchmarks.sgd_runs import INIT_SCALE, STEP_SIZE, Sizes, prepare
from benchmarks.timing import best_of, cores_used, repetitions
from dynamics.additive.ambient_flow import embed
from theory import Activation, Student, Teacher, draw_initial_state

NAME = "online-sgd"
#: Microseconds per replica-step allowed for the exact simulator, by width m = P.
TARGETS = {8: 1.0, 32: 2.0}
#: Cost at the larger dimension over cost at the smaller one: it should not depend on d.
DIMENSION_TARGET = 1.2


def exact(width: int, dims: tuple[int, int], replicas: int, seconds: float, repeats: int) -> tuple[list[Row], float]:
    """Rows of the exact simulator at m = P = `width`, and its microseconds per replica-step at the first dimension."""
    runs = {dim: prepare(Sizes(width, dim), replicas) for dim in dims}
    blocks = repetitions(runs[dims[0]].advance, seconds)
    times = best_of({dim: partial(run.advance, blocks) for dim, run in runs.items()}, repeats)
    cost = {dim: run.per_step(times[dim], blocks) for dim, run in runs.items()}
    title = f"exact, m=P={width}, {replicas} replicas"
    rows = [Row(NAME, f"{title}, d={dim}", cost[dim], "µs/replica-step", TARGETS.get(width)) for dim in dims]
    rows.append(Row(NAME, f"{title}, d={dims[1]} / d={dims[0]}", cost[dims[1]] / cost[dims[0]], "", DIMENSION_TARGET))
    used = cores_used(partial(runs[dims[0]].advance, blocks))
    rows.append(Row(NAME, f"{title}, cores used", used, "cores"))
    rows.append(Row(NAME, f"{title}, compile", runs[dims[0]].compile_seconds, "s"))
    return rows + _floor_rows(title, width, dims[0], cost[dims[0]]), cost[dims[0]]


def _floor_rows(title: str, width: int, dim: int, cost: float) -> list[Row]:
    shape = Sizes(width, dim)
    work, (random, operations) = block_floor.work(shape), block_floor.seconds_per_step(shape)
    numbers, flops = work.normals + work.chi, work.products + work.other
    return [
        Row(NAME, f"{title}, random numbers", numbers / shape.block_steps, "per step"),
        Row(NAME, f"{title}, operations", flops / shape.block_steps, "flop/step"),
        Row(NAME, f"{title}, floor: random numbers", 1e6 * random, "µs/replica-step"),
        Row(NAME, f"{title}, floor: operations", 1e6 * operations, "µs/replica-step"),
        Row(NAME, f"{title}, cost / floor", cost / (1e6 * (random + operations)), ""),
    ]


def ambient(width: int, dim: int, replicas: int, seconds: float, repeats: int, exact_cost: float) -> list[Row]:
    """Rows of the two simulators with explicit vectors, and how many times the exact one's cost they take."""
    run = prepare(Sizes(width, dim, "ambient"), replicas)
    loop = _numpy_loop(width, dim)
    counts = {"JAX": repetitions(run.advance, seconds), "NumPy": repetitions(loop, seconds)}
    calls: dict[str, Callable[[], Any]] = {
        "JAX": lambda: run.advance(counts["JAX"]),
        "NumPy": lambda: loop(counts["NumPy"]),
    }
    times = best_of(calls, repeats)
    cost = {
        f"ambient JAX, {replicas} replicas": run.per_step(times["JAX"], counts["JAX"]),
        "ambient NumPy": 1e6 * times["NumPy"] / counts["NumPy"],
    }
    return [
        row
        for name, value in cost.items()
        for row in (
            Row(NAME, f"{name}, m=P={width}, d={dim}", value, "µs/replica-step"),
            Row(NAME, f"{name}, m=P={width}, d={dim} / exact", value / exact_cost, ""),
        )
    ]


def _numpy_loop(width: int, dim: int) -> Callable[[int], Any]:
    teacher = Teacher.power_law(width, 1.0, dim)
    vectors = embed(draw_initial_state(teacher, Student(width, INIT_SCALE), 0), dim)
    activation = Activation.parse("h4")
    return lambda steps: numpy_sgd.run(vectors, teacher.a, activation, STEP_SIZE, steps)


def run(
    widths: Sequence[int] = (8, 32),
    dims: tuple[int, int] = (10**3, 10**6),
    ambient_dims: Sequence[int] = (1000, 4000),
    replicas: int = 64,
    ambient_replicas: int = 4,
    seconds: float = 0.3,
    repeats: int = 9,
) -> list[Row]:
    """All rows. Each timed call lasts about `seconds`; the best of `repeats` counts."""
    rows = [
        Row(NAME, "one normal (jax.random, double)", 1e9 * rates.seconds_per_normal(), "ns"),
        Row(NAME, "large matrix product", rates.flops_per_second() / 1e9, "Gflop/s"),
    ]
    for width in widths:
        found, cost = exact(width, dims, replicas, seconds, repeats)
        rows += found
        for dim in ambient_dims:
            rows += ambient(width, dim, ambient_replicas, seconds, repeats, cost)
    return rows
