"""Label-noise SGD against a plain loop over all neurons, and Itô ensembles against Diffrax's Brownian tree."""

from collections.abc import Callable
from functools import partial

import diffrax as dfx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from benchmarks import numpy_linear
from benchmarks.row import Row
from benchmarks.timing import best_of, once, repetitions
from dynamics import ito_ensemble
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import Arrays, State
from dynamics.linear.network import moments_of, reduce
from dynamics.linear.run import BLOCK, group_size
from dynamics.linear.training import advance_networks, data_of, method_of
from theory import draw_linear_start, draw_linear_task
from theory.declared.rule import Rule

NAME = "label-noise"
#: The published synthetic experiment (arXiv:2603.10397, section 4.5).
WIDTH, DIM, POINTS, STEP_SIZE, NOISE = 1000, 20, 200, 1e-3, 4.0
#: Microseconds per step of all replicas together: 20 000 steps per second for each of them.
STEP_TARGET = 50.0
#: Share of Diffrax's time allowed for the ensemble: at least 50 times faster.
ENSEMBLE_TARGET = 1 / 50


def training(replicas: int, seconds: float, repeats: int) -> list[Row]:
    """Label-noise SGD at the published size: time per step of all replicas, and against the plain loop."""
    task = draw_linear_task(DIM, 1.0, POINTS, 0)
    start = draw_linear_start(WIDTH, DIM, 1, replicas)
    _, networks = reduce(start, replicas)
    method = method_of(task, networks.second.shape[1], Rule(1.0, noise=NOISE, noise_law="signs"))
    data, keys = data_of(task, moments_of(task), STEP_SIZE), replica_keys(0, replicas, "benchmark")
    ours = partial(advance_networks, method, BLOCK, group_size(replicas), data, networks, networks, keys, 0)
    assert task.inputs is not None
    plain = partial(numpy_linear.run, start.first[0], start.second[0], task.inputs, task.target, NOISE, STEP_SIZE)
    calls: dict[str, Callable[[int], object]] = {"blocks": lambda count: ours(count, 0, BLOCK), "plain": plain}
    counts = {name: repetitions(call, seconds) for name, call in calls.items()}
    times = best_of({name: partial(call, counts[name]) for name, call in calls.items()}, repeats)
    step = 1e6 * times["blocks"] / counts["blocks"] / BLOCK
    loop = 1e6 * times["plain"] / counts["plain"]
    title = f"SGD, m={WIDTH}, d={DIM}, {replicas} replicas"
    return [
        Row(NAME, f"{title}: one step of all", step, "µs", STEP_TARGET),
        Row(NAME, f"{title}: one step of one", step / replicas, "µs"),
        Row(NAME, f"NumPy, m={WIDTH}, d={DIM}, one step", loop, "µs"),
        Row(NAME, f"{title}: time / NumPy", step / replicas / loop, ""),
    ]


class Relaxation:
    """dy = −y dt + ½ dB in every coordinate: the same law for both integrators."""

    def drift(self, state: Arrays, parameters: Arrays) -> State:
        return {"y": -state["y"]}

    def noise(self, state: Arrays, increments: jax.Array, parameters: Arrays) -> State:
        return {"y": 0.5 * increments}


def _tree(paths: int, dim: int, step: float, steps: int) -> Callable[[], jax.Array]:
    """Euler's method of Diffrax on a `VirtualBrownianTree`, all paths at once, compiled: a call returns y at the end."""
    end = step * steps
    diffusion = lx.DiagonalLinearOperator(jnp.full(dim, 0.5))

    def one(key: jax.Array) -> jax.Array:
        brownian = dfx.VirtualBrownianTree(0.0, end, step / 2, (dim,), key)
        noise = dfx.ControlTerm(lambda t, y, args: diffusion, brownian)
        terms: dfx.AbstractTerm = dfx.MultiTerm(dfx.ODETerm(lambda t, y, args: -y), noise)
        found = dfx.diffeqsolve(terms, dfx.Euler(), 0.0, end, step, jnp.ones(dim), max_steps=steps + 1)
        assert found.ys is not None
        return jnp.asarray(found.ys[0])

    keys = jax.random.split(jax.random.key(0), paths)
    compiled = jax.jit(jax.vmap(one)).lower(keys).compile()
    return lambda: compiled(keys)


def ensembles(paths: int, dim: int, steps: int, repeats: int) -> list[Row]:
    """Both integrators at equal step and equal law; their variances show that the law is equal."""
    step, law = 5.0 / steps, Relaxation()  # one law: an equal but new one would be compiled again

    def ours() -> np.ndarray:
        run = ito_ensemble(
            law, {"y": np.ones(dim)}, {}, step=step, steps=steps, brownian=(dim,), paths=paths, seed=0, saves=1
        )
        return run.state["y"][:, -1]

    once(ours)
    scan = best_of({"scan": ours}, repeats)["scan"]
    rival = _tree(paths, dim, step, steps)
    tree = once(rival)
    title = f"Itô ensemble, {paths} paths × {steps} steps × {dim} coordinates"
    per = 1e9 / (paths * steps * dim)
    return [
        Row(NAME, f"{title}: scan", per * scan, "ns/step and coordinate"),
        Row(NAME, f"{title}: VirtualBrownianTree", per * tree, "ns/step and coordinate"),
        Row(NAME, f"{title}: scan / tree", scan / tree, "", ENSEMBLE_TARGET),
        Row(NAME, f"{title}: variance, scan / tree", float(ours().var() / np.asarray(rival()).var()), ""),
    ]


def run(
    replicas: tuple[int, ...] = (16, 32),
    seconds: float = 0.5,
    repeats: int = 5,
    paths: int = 64,
    dim: int = 20,
    steps: int = 20_000,
) -> list[Row]:
    """All rows."""
    rows = [row for count in replicas for row in training(count, seconds, repeats)]
    return rows + ensembles(paths, dim, steps, max(1, repeats // 2))
