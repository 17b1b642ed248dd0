"""Simulator runs to be timed: compiled ahead, started from one state, checked to have stayed finite."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.timing import once
from dynamics.additive.online_sgd import Problem
from dynamics.core.keys import replica_keys
from dynamics.core.replicas import Stretch
from dynamics.declared.engine import block_length
from dynamics.declared.step import Run
from theory import Activation, Student, Teacher, draw_initial_state
from theory.declared.rule import Rule

#: Far below every stability bound at the sizes timed here: a run that diverges would be timed on infinities.
STEP_SIZE = 1e-6
INIT_SCALE = 0.03


@dataclass(frozen=True)
class Timed:
    """A compiled simulator. `advance(blocks)` runs so many blocks of every replica and returns them."""

    advance: Callable[[int], Run]
    steps_per_block: int
    replicas: int
    compile_seconds: float

    def per_step(self, seconds: float, blocks: int) -> float:
        """Microseconds per replica-step of a call that took `seconds`."""
        return 1e6 * seconds / (blocks * self.steps_per_block * self.replicas)


@dataclass(frozen=True)
class Sizes:
    """P = m = `width`, equal exponents, one sample per step."""

    width: int
    dim: int
    method: str = "exact"
    block: int | None = None
    activation: str = "h4"

    @property
    def block_steps(self) -> int:
        """Those given, or of the simulator's own choice."""
        return block_length(Rule(STEP_SIZE), self.width, 10**6, self.block)

    def problem(self) -> Problem:
        """Ready to run."""
        teacher = Teacher.power_law(self.width, 1.0, self.dim)
        initial = draw_initial_state(teacher, Student(self.width, INIT_SCALE), 0)
        rule, steps = Rule(STEP_SIZE), self.block_steps
        activation = Activation.parse(self.activation)
        return Problem.of(activation, teacher, initial, rule, steps=steps, method=self.method, block_steps=steps)


def prepare(sizes: Sizes, replicas: int) -> Timed:
    """Compile the simulator's own driver."""
    problem, block = sizes.problem(), sizes.block_steps
    keys = replica_keys(0, replicas, "benchmark")
    start = problem.begin(keys)
    run = problem.engine.advance(keys, problem.watch)

    def advance(blocks: int) -> Run:
        return run(start, Stretch(0, blocks * block, 0, blocks, block))

    seconds = once(lambda: jax.block_until_ready(advance(1)))
    check_moved(problem.engine.look(advance(1).vectors)[0], problem.engine.look(start.vectors)[0])
    return Timed(advance, block, replicas, seconds)


def check_moved(after: jax.Array, before: jax.Array) -> None:
    """A run that stands still or leaves the finite numbers would be timed for nothing."""
    moved = after - before
    if not bool(jnp.all(jnp.isfinite(moved))) or not bool(jnp.any(moved != 0)):
        raise RuntimeError("the benchmark's SGD run did not move, or diverged: its time would mean nothing")
