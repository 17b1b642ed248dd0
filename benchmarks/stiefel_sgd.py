"""Stiefel SGD exact in law: time per replica-step, at two dimensions, against a NumPy loop in R^d."""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.row import Row
from benchmarks.timing import best_of, repetitions
from dynamics.quadratic.stiefel_sgd import stiefel_sgd
from theory import QuadraticModel, Subspace, Teacher, draw_subspace

NAME = "stiefel-sgd"
#: Cost at the larger dimension over cost at the smaller one: it should not depend on d.
DIMENSION_TARGET = 1.2
STEP_LOAD = 0.02


def _model(width: int, dim: int) -> QuadraticModel:
    return QuadraticModel(Teacher.power_law(width, 1.0, dim), width, width**-0.5)


def exact(width: int, dim: int, replicas: int) -> tuple[Callable[[int], Any], float]:
    """A run of so many blocks of steps, and the seconds that compiling took."""
    model = _model(width, dim)
    start = draw_subspace(width, width, dim, 0)
    block = max(32, width)

    def run(blocks: int) -> Any:
        step_size = STEP_LOAD / dim
        return stiefel_sgd(model, start, step_size=step_size, steps=block * blocks, replicas=replicas, saves=1)

    before = perf_counter()
    run(1)
    return run, perf_counter() - before


def numpy_loop(start: Subspace, model: QuadraticModel, steps: int) -> np.ndarray:
    """One replica, one sample a step, explicit vectors, the polar factor as a rank-one correction: a fair rival."""
    rng, dim, width = np.random.default_rng(0), model.teacher.dim, model.width
    w = np.zeros((width, dim))
    rows = start.rows.T
    w[:, : rows.shape[1]] = rows
    a, gamma, step = model.teacher.a, model.speed_factor, STEP_LOAD / dim
    for _ in range(steps):
        x = rng.standard_normal(dim)
        h = w @ x
        norm2 = h @ h
        out2 = x @ x - norm2
        push = 2 * step * gamma * ((x[: a.size] ** 2 - 1) @ a - gamma * (norm2 - width))
        cosine = 1 / np.sqrt(1 + push**2 * norm2 * out2)
        row = (cosine - 1 - cosine * push * norm2) / norm2 * (h @ w) + cosine * push * x
        w += h[:, None] * row
    return w


def run(
    widths: tuple[int, ...] = (6, 32),
    dims: tuple[int, int] = (10**3, 10**6),
    rival_dims: tuple[int, ...] = (1000, 10_000),
    replicas: int = 64,
    seconds: float = 0.3,
    repeats: int = 7,
) -> list[Row]:
    """All rows. Each timed call lasts about `seconds`; the best of `repeats` counts."""
    rows = []
    for width in widths:
        block = max(32, width)
        runs = {dim: exact(width, dim, replicas) for dim in dims}
        blocks = repetitions(runs[dims[0]][0], seconds)
        times = best_of({dim: partial(call, blocks) for dim, (call, _) in runs.items()}, repeats)
        cost = {dim: 1e6 * times[dim] / (blocks * block * replicas) for dim in dims}
        title = f"exact, M*=N={width}, {replicas} replicas"
        rows += [Row(NAME, f"{title}, d={dim}", cost[dim], "µs/replica-step") for dim in dims]
        rows.append(
            Row(NAME, f"{title}, d={dims[1]} / d={dims[0]}", cost[dims[1]] / cost[dims[0]], "", DIMENSION_TARGET)
        )
        rows.append(Row(NAME, f"{title}, compile", runs[dims[0]][1], "s"))
        for dim in rival_dims:
            loop = partial(numpy_loop, draw_subspace(width, width, dim, 0), _model(width, dim))
            steps = repetitions(loop, seconds)
            took = 1e6 * best_of({dim: partial(loop, steps)}, repeats)[dim] / steps
            rows.append(Row(NAME, f"NumPy in R^d, M*=N={width}, d={dim}", took, "µs/replica-step"))
            rows.append(Row(NAME, f"NumPy in R^d, M*=N={width}, d={dim} / exact", took / cost[dims[0]], ""))
    return rows
