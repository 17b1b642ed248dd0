"""The Riccati flow: closed form against integrators, and its time and memory for a large teacher."""

import tracemalloc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate

from benchmarks.row import Row
from benchmarks.timing import best_of, once
from dynamics import riccati_flow
from dynamics.core.lowering import lower
from dynamics.quadratic.riccati import RiccatiFlow
from dynamics.quadratic.riccati_integration import integrate_overlap
from theory import draw_subspace
from theory.quadratic.model import half_times
from theory.quadratic.riccati import overlap_system
from validation.experiments.quadratic_runs import power_law

NAME = "riccati"
#: Integrator's time over that of the closed form, and seconds for the large run.
AGAINST_TSIT5, AGAINST_DOP853, LARGE_SECONDS = 20.0, 40.0, 60.0
#: Memory while running, in multiples of M*·N double-precision numbers.
MEMORY = 25.0
RTOL, ATOL = 1e-8, 1e-11


def _dop853(a: np.ndarray, start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """SciPy's DOP853 on the same derived right-hand side, compiled."""
    lowered, rates = lower(overlap_system()), {"a": jnp.asarray(a)}
    drift = jax.jit(lambda g: lowered.drift({"G": g}, rates)["G"])
    size = a.size
    solved = integrate.solve_ivp(
        lambda t, y: np.asarray(drift(y.reshape(size, size))).ravel(),
        (0.0, float(times[-1])),
        start.ravel(),
        method="DOP853",
        t_eval=times,
        rtol=RTOL,
        atol=ATOL,
    )
    return solved.y.T.reshape(times.size, size, size)


def peak_memory(flow: RiccatiFlow, times: np.ndarray) -> float:
    """Bytes allocated at the peak while the diagonal and the risk are computed (NumPy reports its arrays)."""
    tracemalloc.start()
    flow.curves(times)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def run(
    teachers: int = 128,
    width: int = 32,
    dim: int = 10**5,
    count: int = 51,
    large: tuple[int, int, int, int] = (2000, 200, 10**6, 200),
    repeats: int = 3,
) -> list[Row]:
    """`teachers` directions at `count` times, until N of them are learned, against two integrators; then `large`.

    `large` = (M*, N, d, times).
    """
    a = power_law(teachers, 1.0)
    start = draw_subspace(teachers, width, dim, 0)
    times = np.linspace(0.0, 1.3 * float(half_times(a, dim, width)[width - 1]), count)
    initial = start.on_teachers @ start.on_teachers.T
    found: dict[str, np.ndarray] = {}

    def keep(name: str, value: np.ndarray) -> tuple[()]:
        found[name] = value
        return ()

    calls = {
        "closed": lambda: keep("closed", riccati_flow(a, start).factor(times)),
        "tsit5": lambda: keep("tsit5", integrate_overlap(a, start, times, rtol=RTOL, atol=ATOL)),
        "dop853": lambda: keep("dop853", _dop853(a, initial, times)),
    }
    for call in calls.values():
        call()  # compiles
    seconds = best_of(calls, repeats)
    exact = riccati_flow(a, start).matrix(times)
    apart = {x: float(np.abs(found[x] - exact).max()) for x in ("tsit5", "dop853")}
    title = f"M*={teachers}, N={width}, d={dim}, {count} times"
    rows = [
        Row(NAME, f"{title}: closed form, start to Z (G = ZZᵀ)", 1e3 * seconds["closed"], "ms"),
        Row(NAME, "closed form / Diffrax Tsit5", seconds["closed"] / seconds["tsit5"], "", 1 / AGAINST_TSIT5),
        Row(NAME, "closed form / SciPy DOP853", seconds["closed"] / seconds["dop853"], "", 1 / AGAINST_DOP853),
        Row(NAME, "speed-up over Tsit5", seconds["tsit5"] / seconds["closed"], "×"),
        Row(NAME, "speed-up over DOP853", seconds["dop853"] / seconds["closed"], "×"),
        Row(NAME, "largest distance, Tsit5", apart["tsit5"], ""),
        Row(NAME, "largest distance, DOP853", apart["dop853"], ""),
    ]
    return rows + _large(*large)


def _large(teachers: int, width: int, dim: int, count: int) -> list[Row]:
    a = power_law(teachers, 1.0)
    start = draw_subspace(teachers, width, dim, 0)
    flow = riccati_flow(a, start)
    times = np.geomspace(0.1, 2.0, count) * float(half_times(a, dim, width)[width - 1])
    wall = once(partial(lambda x: flow.curves(x) and (), times))
    numbers = peak_memory(flow, times[:4]) / (8 * teachers * width)
    title = f"M*={teachers}, N={width}, d={dim}, {count} times"
    return [
        Row(NAME, f"{title}: diagonal and risk", wall, "s", LARGE_SECONDS),
        Row(NAME, f"{title}: peak memory / (8 M* N bytes)", numbers, "", MEMORY),
    ]
