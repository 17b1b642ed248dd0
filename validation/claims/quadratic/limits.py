"""Q22: the power laws of quadratic networks as limits of the self-consistent law, which Q6–Q10 compare with runs."""

from collections.abc import Iterator, Sequence

import numpy as np

from theory.core.curves import crossing_time, log_slope
from theory.quadratic import scaling
from theory.quadratic.model import decoupled_risk, emergence_times
from theory.quadratic.occupation import Occupation
from validation.claims.quadratic.exact import PAPER
from validation.experiments.quadratic_runs import between, power_law
from validation.judge.claim import Controls, Measurement, claim
from validation.judge.context import Context
from validation.statistics.exponents import continued

COST = 4

_CHANGES = "changes of the law's slope: other directions, and the square root of d"
_GROWTH = "what continuing the change from one size to the next adds"
#: d of a limit, and its square root.
_DIM, _NEARER = 10**30, 10**15
#: Directions between which the slope in time is read, and later ones.
_EARLY, _LATE = (10, 100), (30, 300)
#: Directions learned at the two costs of a slope in compute, and at lower costs.
_MANY, _FEW = (80, 320), (20, 80)


def _tail(decay: float, teachers: int) -> float:
    """Risk of the directions beyond M*, in the units of the first M*."""
    return 2 * scaling.tail_beyond(decay, teachers) / scaling.partial_norm2(decay, teachers)


def _in_time(decay: float, dim: int, ranks: tuple[int, int]) -> float:
    """Slope of the law's risk, M* = 3000, N = 1000."""
    a, width = power_law(3000, decay), 1000
    times = between(a, width, dim, *ranks, 12)
    return log_slope(times, Occupation(a, dim, width).risk(times) + _tail(decay, a.size))


def _least(dim: int, learned: int, nu: float) -> tuple[float, float]:
    """Compute N·t at which `learned` directions emerge at their own width, and the law's least risk there, β = 1, γ = N^−ν.

    Widths are tried from an eighth of `learned` to eight times as many, then between the neighbours of the best.
    """
    a = power_law(16 * learned + 1000, 1.0)
    cost = learned ** (1 + nu) * float(emergence_times(a, dim, learned)[learned - 1])
    low, high = learned / 8, 8.0 * learned
    for _ in range(2):
        widths = [int(x) for x in np.unique(np.geomspace(max(low, 1.0), high, 40).round())]
        risks = [float(Occupation(a, dim, n).risk(np.array([cost / n ** (1 + nu)]))[0]) for n in widths]
        place = int(np.argmin(risks))
        low, high = widths[place - 1], widths[place + 1]
    return cost, risks[place] + _tail(1.0, a.size)


def _in_compute(nu: float, dim: int, learned: tuple[int, int]) -> float:
    """Slope of the law's least risk at compute N·t between two costs."""
    (first, more), (last, less) = (_least(dim, p, nu) for p in learned)
    return float(np.log(less / more) / np.log(last / first))


def _grown(reading: Sequence[float]) -> tuple[float, float]:
    """Limit and what continuing adds."""
    limit, added = map(float, continued(reading))
    return limit, added


def _heavy(x: float, time: float) -> Iterator[Measurement]:
    """β = ¼, φ = ½: M* fourfold and d squared from size to size, so that both corrections halve."""
    decay, ratio, risks, halves = 0.25, 0.5, [], []
    for k in range(4):
        teachers, dim = 100 * 4**k, 10 ** (10 * 2**k)
        a, width = power_law(teachers, decay), int(ratio * teachers)
        law, unit = Occupation(a, dim, width), scaling.heavy_unit(teachers, dim, width)
        risks.append(float(law.risk(time * unit)[0]) / 2)
        grid = np.geomspace(0.5, 2.0, 200) * emergence_times(a, dim, width)[int(x * teachers) - 1]
        halves.append(
            crossing_time(grid, law.diagonal(grid)[:, int(x * teachers) - 1], level=0.5, log_time=True) / unit
        )
    learned = 1 - float(scaling.heavy_risk(decay, time, ratio))
    limit, added = _grown(risks)
    controls: Controls = {
        "plateau: all within one unit": 1 - ratio ** (1 - 2 * decay),
        "equal weights": 1 - learned ** (1 / (1 - 2 * decay)),
    }
    text = f"share of the risk left after {time:g} units, β = ¼, N = M*/2, M* and d to infinity"
    yield Measurement(text, 1 - learned, limit, 0.0, added, controls, _GROWTH, "heavy.risk", {"values": risks})
    limit, added = _grown(halves)
    controls = {"weights without their norm": x**decay / 2}
    text = f"when direction {x:g} M* emerges, in that unit, M* and d to infinity"
    predicted = float(scaling.heavy_time(decay, x))
    yield Measurement(text, predicted, limit, 0.0, added, controls, _GROWTH, "heavy.time", {"values": halves})


def _decoupled() -> Measurement:
    """Few directions do not compete for a large width."""
    a, values = power_law(10, 1.0), []
    for width in (50, 200, 800, 3200):
        dim = 10**9 * width
        at = emergence_times(a, dim, width)[2:3]
        values.append(float(Occupation(a, dim, width).risk(at)[0] / decoupled_risk(a, dim, width, at)[0]))
    limit, added = _grown(values)
    text = "risk of the law over that of decoupled directions, at T_3, M* = 10, N to infinity"
    controls: Controls = {"competition, as at N = 50": values[0]}
    return Measurement(text, 1.0, limit, 0.0, added, controls, _GROWTH, "decoupled", {"values": values})


@claim(
    id="Q22",
    title="Power laws of a quadratic network, as limits",
    statement="As d, N and M* grow the finite-size law becomes the power laws in time and compute, and the heavy tail's law.",
    latex=r"\mathcal L\sim t^{(1-2\beta)/\beta},\quad\min_N\mathcal L\sim C^{(1-2\beta)/(1+\beta+\nu)},\quad"
    r"\tfrac12R=1-\min(x,\varphi)^{1-2\beta}",
    source=f"{PAPER}, time-complexity theorem; constants derived",
    kind="asymptotic",
    regime="d to 1e80: the finite-size law, no runs",
    controls=(
        "decay wrong by a twentieth",
        "loss ∝ learned amplitude, (1 − β)/β",
        "exponent in time",
        "the other parametrisation",
        "plateau: all within one unit",
        "equal weights",
        "weights without their norm",
        "competition, as at N = 50",
    ),
)
def run_limits(context: Context) -> Iterator[Measurement]:
    """Slopes in time and compute, the heavy tail's risk and times, and decoupled directions, where sizes go to infinity."""
    for decay in (0.75, 1.0, 1.5):
        slope, nearer, later = (_in_time(decay, *case) for case in ((_DIM, _EARLY), (_NEARER, _EARLY), (_DIM, _LATE)))
        controls: Controls = {
            "decay wrong by a twentieth": scaling.time_exponent(1.05 * decay),
            "loss ∝ learned amplitude, (1 − β)/β": (1 - decay) / decay,
        }
        text = f"slope of the law's risk in time, β = {decay:g}, M* = 3000, N = 1000, d = 1e30"
        allowed = abs(slope - nearer) + abs(slope - later)
        key = f"time.beta{decay:g}"
        yield Measurement(text, scaling.time_exponent(decay), slope, 0.0, allowed, controls, _CHANGES, key)
    for nu in (0.0, 0.5):
        slope, nearer, fewer = (_in_compute(nu, *case) for case in ((_DIM, _MANY), (_NEARER, _MANY), (_DIM, _FEW)))
        controls = {
            "exponent in time": scaling.time_exponent(1.0),
            "the other parametrisation": scaling.compute_exponent(1.0, 0.5 - nu),
        }
        text = f"slope of the law's frontier in N·t, γ = {'N^(−1/2)' if nu else '1'}, β = 1, d = 1e30"
        allowed = abs(slope - nearer) + abs(slope - fewer)
        key = "compute.normalised" if nu else "compute.unit"
        yield Measurement(text, scaling.compute_exponent(1.0, nu), slope, 0.0, allowed, controls, _CHANGES, key)
    yield from _heavy(0.3, 0.3)
    yield _decoupled()
