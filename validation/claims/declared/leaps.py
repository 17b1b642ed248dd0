"""M26-leaps, M26-samples: times of the leaps of a target of several directions, of its flow and of online SGD."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp

from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.core.curves import first_crossing
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Polynomial, symbols
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import bootstrap_error

COST = 20

_Z = symbols(3)


def _h2(x: sp.Symbol) -> sp.Expr:
    return (x**2 - 1) / sp.sqrt(2)


@dataclass(frozen=True)
class _Leap:
    r"""A target, and how the time T grows with d at which a row on the sphere has found all its directions.

    Attributes:
        expression: f*, of `count` directions with `correlation` to each other.
        growth: ``power``: d ln T / d ln d is `predicted`; ``log``: dT / d ln d is.
        end: a time by which it is over, for d. wrong: what wrong theories predict.
    """

    expression: sp.Expr
    count: int
    growth: str
    predicted: float
    end: Callable[[float], float]
    wrong: Mapping[str, float]
    correlation: float = 0.0


#: On the sphere a linear term that is learned pulls others back at its own rate, here 1.
_RATE = float(sp.sqrt(6)) - 1
_LEAPS = {
    "z1+z1z2": _Leap(_Z[0] + _Z[0] * _Z[1], 2, "power", 0.0, lambda d: 1.0, {"degree": np.log(6 / 5) / np.log(10)}),
    "z1+z1z2z3": _Leap(
        _Z[0] + _Z[0] * _Z[1] * _Z[2],
        3,
        "log",
        0.5 / _RATE,
        lambda d: 1.0 + np.log(d) / 2,
        {"lowest degree": 0.0, "no pull": 0.5 / float(sp.sqrt(6))},
    ),
    "z1z2z3": _Leap(_Z[0] * _Z[1] * _Z[2], 3, "power", 0.5, lambda d: 0.6 * np.sqrt(d), {"one leap less": 0.0}),
    "z1z2z3 correlated": _Leap(
        _Z[0] * _Z[1] * _Z[2], 3, "power", 0.0, lambda d: 4.0, {"correlation does not count": 0.5}, 0.5
    ),
    "h2(z1)h2(z2)": _Leap(_h2(_Z[0]) * _h2(_Z[1]), 2, "power", 1.0, lambda d: 0.12 * d, {"factors": 0.0}),
}
#: Dimensions, a factor 10 apart; overlap at which a direction is found.
_DIMENSIONS, _FOUND = (10**4, 10**5, 10**6), 0.3
#: Records of a run, and runs, each within the interval that the one before has found.
_RECORDS, _PASSES = 9, 6


def _model(leap: _Leap, dim: int, step_size: float, batch: int = 1) -> tuple[DeclaredModel, Start]:
    """One row on the sphere, its projection on the directions d^{-1/2} along each axis of their span."""
    target = Polynomial(sp.expand(leap.expression), leap.count)
    degree = sp.Poly(target.expression, *_Z[: leap.count]).total_degree()
    link = Activation.parse("+".join(f"h{j + 1}" for j in range(degree)))  # more would be noise only
    student = committee(link, 1, 1.0, rows="sphere")
    grams = leap.correlation + (1 - leap.correlation) * np.eye(leap.count)
    directions = Directions(Inputs.isotropic(dim), grams[None])
    # Along the symmetric root, so that every overlap is positive.
    values, vectors = np.linalg.eigh(grams)
    root = vectors * np.sqrt(values) @ vectors.T
    on = np.linalg.solve(directions.roots[0], root @ np.full(leap.count, dim**-0.5))
    start = Start((np.append(on, np.sqrt(1 - on @ on))[None],))
    return DeclaredModel(directions, target, student, Rule(step_size, batch), Correlation()), start


def _leap_time(leap: _Leap, dim: int) -> float:
    """When the smallest overlap of a row that begins with overlaps d^{-1/2} reaches `_FOUND`."""
    model, start = _model(leap, dim, 0.1)
    begin, end = 0.0, leap.end(dim)
    for _ in range(_PASSES):
        times = np.linspace(begin, end, _RECORDS)
        flow = declared_flow(model, start, end, times, system=population_flow(model))
        least = flow.dataset.overlap.values[:, 0, 0].min(axis=1)
        after = int(np.argmax(least >= _FOUND))
        begin, end = times[after - 1], times[after]
    return float(np.interp(_FOUND, least[after - 1 : after + 1], times[after - 1 : after + 1]))


def _key(name: str) -> str:
    return name.translate({ord("+"): "_", ord(" "): "_", ord("("): None, ord(")"): None})


@claim(
    id="M26-leaps",
    title="Leaps of a target of several directions",
    statement="A term of degree l in directions not yet found takes flow time 1, ln d and d^{(l-2)/2} for l = 1, 2 and more.",
    latex=r"T\asymp 1,\ \tfrac{\ln d}{2\,\mathrm{rate}},\ d^{(\ell-2)/2}\quad(\ell=1,2,\ge3)",
    source="derived; leaps: arXiv:2302.11055",
    kind="asymptotic",
    regime="one row on the sphere, correlation loss, overlaps d^{-1/2} at the start, d → ∞",
    controls=(
        "degree of the whole monomial counts, the staircase does not",
        "lowest degree of the target (information exponent) for the leap",
        "no pull of a learned linear term",
        "one leap less",
        "factors counted without their degree",
        "correlation does not count",
    ),
)
def run_leaps(context: Context) -> Iterator[Part]:
    """Slopes over the last decade of d of the time at which all directions are found."""
    for name, leap in _LEAPS.items():
        times = np.array([_leap_time(leap, dim) for dim in _DIMENSIONS])
        values = np.log(times) if leap.growth == "power" else times
        before, last = np.diff(values) / np.diff(np.log(_DIMENSIONS))
        what = "d ln T / d ln d" if leap.growth == "power" else "dT / d ln d"
        yield Measurement(
            f"{what}, last decade to d = 10⁶, f* = {name}",
            leap.predicted,
            float(last),
            0.0,
            float(abs(last - before)),
            dict(leap.wrong),
            "change of the slope from the decade before",
            _key(name),
            details={f"T at d = {d:g}": float(T) for d, T in zip(_DIMENSIONS, times, strict=True)},
        )


# ------------------------------------------------------------------------------- samples

#: Of each: the smaller of two step sizes, times d^{max(l/2, 1)}; replicas; and what else could be thought to take as long.
_SAMPLED = {
    "z1+z1z2+z1z2z3": (0.002, 1.0, 128, {"no staircase": "z1z2z3"}),
    "z1z2": (0.004, 1.0, 192, {"one leap more": "z1z2z3", "half of it for each direction": "z1"}),
    "z1z2z3": (0.006, 1.5, 112, {"one leap less": "z1z2"}),  # d² samples: larger steps
}
_TARGETS = {
    **{name: leap for name, leap in _LEAPS.items() if name in _SAMPLED},
    "z1+z1z2+z1z2z3": _Leap(_Z[0] + _Z[0] * _Z[1] + _Z[0] * _Z[1] * _Z[2], 3, "power", 0.0, lambda d: 4.0, {}),
    "z1z2": _Leap(_Z[0] * _Z[1], 2, "log", 0.5, lambda d: 2.0, {}),
    "z1": _Leap(_Z[0], 1, "power", 0.0, lambda d: 2.0, {}),
}
#: Dimension; when a run ends, in flow times; records.
_SMALL, _LATE, _SAVES = 32, 1.4, 300
#: Samples of a step: as many small steps would do the same.
_BATCH = 32


def _passage(leap: _Leap, flow_time: float, step_size: float, replicas: int, seed: int) -> np.ndarray:
    """Sum of the step sizes until the last direction's overlap is `_FOUND`, by replica; inf where that is late.

    By symmetry, or because it is found last, it is the smallest one of the flow; the smallest of a run would be too low, by
    the root of the step size.
    """
    model, start = _model(leap, _SMALL, step_size, _BATCH)
    steps = int(_LATE * flow_time / step_size)
    run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, saves=_SAVES).dataset
    return first_crossing(run.step.values * step_size, run.overlap.values[:, :, 0, 0, -1], _FOUND)


def _median(values: np.ndarray) -> float:
    return float(np.median(values))


@claim(
    id="M26-samples",
    title="Leaps of online SGD",
    statement="Online SGD climbs the staircase at the flow's times: d samples for leap 1, d ln d for 2, d² for 3.",
    latex=r"n\,\gamma=T(d)+O(\gamma d^{\max(\ell/2,1)}),\quad n\asymp d^{(\ell-1)\vee1}",
    source="derived; leaps: arXiv:2302.11055",
    kind="asymptotic",
    regime="one row on the sphere, correlation loss, overlaps d^{-1/2} at the start, steps γ ∝ d^{-max(l/2, 1)} to 0",
    controls=(
        "no staircase: three directions at once",
        "one leap more",
        "one leap less",
        "half of it for each direction",
    ),
)
def run_samples(context: Context) -> Iterator[Part]:
    """Median of the samples, times the step size, extrapolated to step 0 from γ and 2γ, against the flow's time at d = 32."""
    times = {name: _leap_time(leap, _SMALL) for name, leap in _TARGETS.items()}
    for name, (scale, power, replicas, others) in _SAMPLED.items():
        step, found = scale * _BATCH * _SMALL**-power, []
        for factor in (1, 2):
            seed, count = context.seed_for("M26-samples", name, factor), context.pick(replicas, 4 * replicas)
            runs = _passage(_TARGETS[name], times[name], factor * step, count, seed)
            found.append((_median(runs), bootstrap_error(runs, _median, context.rng("M26-samples", name, factor))))
        (fine, e1), (coarse, e2) = found
        wrong: Controls = {text: times[other] for text, other in others.items()}
        yield Measurement(
            f"n·γ until all directions are found, γ → 0, f* = {name}, d = {_SMALL}",
            times[name],
            2 * fine - coarse,
            float(np.hypot(2 * e1, e2)),
            (coarse - fine) ** 2 / times[name],
            wrong,
            "square of the first order in γ",
            _key(name),
            details={"n γ at γ": fine, "n γ at 2γ": coarse, "n/d at γ": fine * _BATCH / (step * _SMALL)},
        )
