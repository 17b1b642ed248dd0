"""Declared models: rules beside plain SGD and their floors, eigenvalues, dimensions, and each rule as a NumPy loop in R^d."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks import block_floor
from benchmarks.numpy_rows import loop
from benchmarks.row import Row
from benchmarks.sgd_runs import INIT_SCALE, check_moved
from benchmarks.timing import best_of, once, repetitions
from dynamics.core.keys import replica_keys
from dynamics.core.replicas import Stretch
from dynamics.declared.engine import block_length, engine_of
from theory import Activation, Teacher
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import SAM, Clipped, Momentum, Muon, Reuse, Rule
from theory.declared.start import draw_start
from theory.declared.student import two_homogeneous
from theory.declared.target import Additive

NAME = "declared-sgd"
#: Stable for every rule at d = 10⁶, momentum and reuse included.
STEP_SIZE = 1e-10
#: Cost over plain SGD's that a rule may have; cost at the larger dimension over that at the smaller one; and cost at L
#: eigenvalues over one, divided by the growth of their work.
TARGETS = {"momentum": 2.0}
DIMENSION_TARGET, EIGENVALUE_TARGET = 1.2, 1.3
RULES: dict[str, Rule] = {
    "plain": Rule(STEP_SIZE),
    "batch 4": Rule(STEP_SIZE, batch=4),
    "momentum": Momentum(STEP_SIZE),
    "clipped": Clipped(STEP_SIZE),
    "reuse": Reuse(STEP_SIZE),
    # (Small beside the rows: h4 of a row that is mostly one sample is astronomically large.)
    "SAM": SAM(STEP_SIZE, radius=1e-4),
    "Muon": Muon(STEP_SIZE),
    "Muon, average": Muon(STEP_SIZE, beta=0.5),
}


@dataclass(frozen=True)
class Sizes:
    """P = m = `width`, h4, weights ∝ 1/p; `eigenvalues` equal shares of `dim`, from 2 down to 1."""

    rule: Rule
    width: int
    dim: int
    eigenvalues: int = 1

    @property
    def model(self) -> DeclaredModel:
        values = np.linspace(2.0, 1.0, self.eigenvalues) if self.eigenvalues > 1 else [1.0]
        inputs = Inputs.blocks(*((float(value), self.dim // self.eigenvalues) for value in values))
        activation = Activation.parse("h4")
        target = Additive(activation, Teacher.power_law(self.width, 1.0, self.dim).weights)
        return DeclaredModel(
            Directions.orthonormal(inputs, self.width), target, two_homogeneous(activation, self.width), self.rule
        )

    @property
    def work(self) -> block_floor.Work:
        """Of a block, at least."""
        kinds = 1 + len(self.rule.buffers)
        return block_floor.declared_work(
            self.width, self.width, kinds, self.rule.batch, block_length(self.rule, self.width, 10**6), self.eigenvalues
        )


class Prepared:
    """A compiled run: `self(blocks)` runs so many blocks of all replicas."""

    def __init__(self, sizes: Sizes, replicas: int) -> None:
        model = sizes.model
        self.block, self.replicas = block_length(sizes.rule, sizes.width, 10**6), replicas
        start = draw_start(model.directions, sizes.width, INIT_SCALE)
        engine = engine_of(model, start, "exact", self.block)
        keys = replica_keys(0, replicas, "benchmark")
        self._run, self._advance = engine.begin(keys), engine.advance(keys)
        before, after = (engine.look(run.vectors)[0] for run in (self._run, self(1)))
        check_moved(after, before)

    def __call__(self, blocks: int) -> Any:
        return self._advance(self._run, Stretch(0, blocks * self.block, 0, blocks, self.block))

    def per_step(self, seconds: float, blocks: int) -> float:
        """Microseconds per replica-step."""
        return 1e6 * seconds / (blocks * self.block * self.replicas)


def costs(cases: dict[str, Sizes], replicas: int, seconds: float, repeats: int) -> dict[str, float]:
    """Microseconds per replica-step of each case; they take turns."""
    ready = {name: Prepared(sizes, replicas) for name, sizes in cases.items()}
    blocks = {name: repetitions(run, seconds) for name, run in ready.items()}
    times = best_of({name: partial(run, blocks[name]) for name, run in ready.items()}, repeats)
    return {name: run.per_step(times[name], blocks[name]) for name, run in ready.items()}


def rules(width: int, dims: tuple[int, int], replicas: int, seconds: float, repeats: int) -> list[Row]:
    """Each rule: its cost, over plain SGD's, over its floor, and at the larger dimension over the smaller."""
    near = costs({name: Sizes(rule, width, dims[0]) for name, rule in RULES.items()}, replicas, seconds, repeats)
    rows = []
    for name, rule in RULES.items():
        title = f"{name}, m=P={width}"
        rows.append(Row(NAME, f"{title}, d={dims[0]}", near[name], "µs/replica-step"))
        rows.append(Row(NAME, f"{title} / plain", near[name] / near["plain"], "", TARGETS.get(name)))
        floor = 1e6 * sum(block_floor.seconds(Sizes(rule, width, dims[0]).work)) / block_length(rule, width, 10**6)
        rows.append(Row(NAME, f"{title}, cost / floor", near[name] / floor, ""))
        pair = costs({str(dim): Sizes(rule, width, dim) for dim in dims}, replicas, seconds, repeats)
        ratio = pair[str(dims[1])] / pair[str(dims[0])]
        rows.append(Row(NAME, f"{title}, d={dims[1]} / d={dims[0]}", ratio, "", DIMENSION_TARGET))
    return rows


def eigenvalues(width: int, dim: int, counts: Sequence[int], replicas: int, seconds: float, repeats: int) -> list[Row]:
    """Plain SGD with L eigenvalues: growth of its cost over the growth of its work."""
    sizes = {str(count): Sizes(RULES["plain"], width, dim, count) for count in counts}
    found = costs(sizes, replicas, seconds, repeats)
    base, rows = str(counts[0]), []
    for name, one in sizes.items():
        grown = sum(block_floor.seconds(one.work)) / sum(block_floor.seconds(sizes[base].work))
        title = f"plain, m=P={width}, {name} eigenvalues"
        rows.append(Row(NAME, title, found[name], "µs/replica-step"))
        ratio = found[name] / found[base] / grown
        rows.append(Row(NAME, f"{title}, growth of cost / growth of work", ratio, "", EIGENVALUE_TARGET))
    return rows


def plain_loops(width: int, dims: Sequence[int], seconds: float, repeats: int) -> list[Row]:
    """Each rule as a NumPy loop in R^d, one replica."""
    rows = []
    for dim in dims:
        for name, rule in RULES.items():
            call: Callable[[int], Any] = loop(Sizes(rule, width, dim).model, INIT_SCALE)
            count = repetitions(call, seconds)
            best = min(once(partial(call, count)) for _ in range(repeats))
            rows.append(Row(NAME, f"NumPy loop, {name}, m=P={width}, d={dim}", 1e6 * best / count, "µs/step"))
    return rows


def run(
    widths: Sequence[int] = (8, 32),
    dims: tuple[int, int] = (10**3, 10**6),
    ambient_dims: Sequence[int] = (1000, 4000),
    counts: Sequence[int] = (1, 4, 16),
    replicas: int = 64,
    seconds: float = 0.2,
    repeats: int = 7,
) -> list[Row]:
    """All rows. Each timed call lasts about `seconds`; the best of `repeats` counts."""
    rows = []
    for width in widths:
        rows += rules(width, dims, replicas, seconds, repeats)
        rows += eigenvalues(width, 10**4, counts, replicas, seconds, repeats)
        rows += plain_loops(width, ambient_dims, seconds, 2)
        jax.clear_caches()
    return rows
