"""Simulator runs to be timed: compiled ahead, started from one state, checked to have stayed finite."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.timing import once
from dynamics.additive.online_sgd import Chain, Problem, advance_chains, start_chain
from theory import Activation, Student, Teacher, draw_initial_state

#: Far below every stability bound at the sizes timed here: a run that diverges would be timed on infinities.
STEP_SIZE = 1e-6
INIT_SCALE = 0.03


@dataclass(frozen=True)
class Run:
    """A compiled simulator. `advance(blocks)` runs so many blocks of every replica and returns the chain."""

    advance: Callable[[int], Chain]
    steps_per_block: int
    replicas: int
    compile_seconds: float

    def per_step(self, seconds: float, blocks: int) -> float:
        """Microseconds per replica-step of a call that took `seconds`."""
        return 1e6 * seconds / (blocks * self.steps_per_block * self.replicas)


def problem(width: int, dim: int, method: str, block_steps: int = 32, activation: str = "h4") -> Problem:
    """P = m = `width`, equal exponents, one sample per step."""
    weights = Teacher.power_law(width, 1.0, dim).weights
    return Problem(Activation.parse(activation), weights, dim, width, 1, block_steps, method)


def prepare(problem: Problem, replicas: int) -> Run:
    """Compile the simulator's own driver for `problem`."""
    teacher = Teacher.of(problem.weights, problem.dim)
    initial = draw_initial_state(teacher, Student(problem.width, INIT_SCALE), 0)
    chain = start_chain(problem, initial, replicas)
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(0)))(jnp.arange(replicas))
    eta = jnp.asarray(STEP_SIZE, dtype=float)
    compiled: list[Any] = []
    seconds = once(lambda: compiled.append(advance_chains.lower(problem, eta, chain, keys, 0, 1, 0).compile()))

    def advance(blocks: int) -> Chain:
        done: Chain = compiled[0](eta, chain, keys, 0, blocks, 0)
        return done

    _check(advance(1), chain)
    return Run(advance, problem.block_steps, replicas, seconds)


def _check(after: Chain, before: Chain) -> None:
    """A run that stands still or leaves the finite numbers would be timed for nothing."""
    moved = after.on_teachers - before.on_teachers
    if not bool(jnp.all(jnp.isfinite(moved))) or not bool(jnp.any(moved != 0)):
        raise RuntimeError("the benchmark's SGD run did not move, or diverged: its time would mean nothing")
