"""M17, M18: sharpness-aware steps on one direction: of the population, and of single samples."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from theory import Activation
from theory.core.activation import c, z
from theory.core.lowered import lower_numpy
from theory.declared import population_sam as theory
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import Drift, drift
from theory.declared.rule import SAM, Rule
from theory.declared.student import Student, committee
from validation.experiments.links import three_valued
from validation.experiments.passages import passages
from validation.judge.claim import Control, Measurement, Part, claim
from validation.judge.context import Context

COST = 10

# ------------------------------------------------------------------------ of the population

#: Dimension of the explicit vectors, and the overlap at which the direction is found.
_DIM, _FOUND = 16, 0.5
_RTOL = 1e-10


@lru_cache
def _slope_of(degree: int) -> Callable[[float], float]:
    """φ' of h_J."""
    found: Callable[[float], float] = sp.lambdify(c, Activation.from_degree(degree).dual_derivative())
    return found


def _gradient(degree: int, v: np.ndarray) -> np.ndarray:
    """Of −E f*σ = −φ(⟨θ, v⟩/|v|), θ the first axis."""
    size = np.linalg.norm(v)
    cosine = v[0] / size
    along = -cosine * v / size
    along[0] += 1
    return np.asarray(-_slope_of(degree)(cosine) / size * along)


def _flow(degree: int, radius: float, start: float, end: float, sign: float = 1.0) -> tuple[float, float]:
    """When the direction is found (inf if not by `end`), and the overlap reached."""

    def velocity(time: float, v: np.ndarray) -> np.ndarray:
        first = _gradient(degree, v)
        ahead = _gradient(degree, v + sign * radius * first / np.linalg.norm(first))
        unit = v / np.linalg.norm(v)
        return -(ahead - (ahead @ unit) * unit)

    def found(time: float, v: np.ndarray) -> float:
        return float(v[0] / np.linalg.norm(v) - _FOUND)

    def lost(time: float, v: np.ndarray) -> float:
        return float(v[0] / np.linalg.norm(v) - start / 2)

    found.terminal = lost.terminal = True  # type: ignore[attr-defined]
    begin = np.zeros(_DIM)
    begin[:2] = start, np.sqrt(1 - start**2)
    run = solve_ivp(velocity, (0, end), begin, "DOP853", rtol=_RTOL, atol=1e-12, events=(found, lost))
    time = float(run.t_events[0][0]) if run.t_events[0].size else np.inf
    return time, float(run.y[0, -1] / np.linalg.norm(run.y[:, -1]))


def _ratio(degree: int, share: float, start: float) -> float:
    plain = 1 / (degree * (degree - 2) * start ** (degree - 2))
    end = 3 * plain / (1 - share) ** (degree - 2)
    return _flow(degree, share * start, start, end)[0] / _flow(degree, 0.0, start, end)[0]


@claim(
    id="M17",
    title="Population SAM: a radius below the overlap",
    statement="An ascent of length ρ before each step takes ρ off the overlap: slower by a power, never if ρ exceeds it.",
    latex=r"T(\rho)/T(0)=\big(u_0/(u_0-\rho)\big)^{J-2},\quad T=\infty\ \text{for}\ \rho\ge u_0",
    source="derived; SAM: arXiv:2010.01412",
    kind="asymptotic",
    regime="one row on the sphere, correlation loss, link h_J, u₀ → 0 at fixed ρ/u₀",
    controls=("effect of second order in the radius", "no effect", "SAM helps"),
)
def run_population(context: Context) -> Iterator[Part]:
    """Times of explicit vectors at u₀ = 0.01 and 0.02; what becomes of runs with a radius above u₀."""
    start = 0.01
    for degree, share in ((3, 0.5), (4, 0.25), (4, 0.5), (5, 0.25)):
        near, far = _ratio(degree, share, start), _ratio(degree, share, 2 * start)
        power = degree - 2
        controls = {"effect": 1 + share**2, "no effect": 1.0, "SAM helps": (1 + share) ** -power}
        yield Measurement(
            f"T(ρ)/T(0), h{degree}, ρ = {share:g} u₀, from u₀ = {2 * start:g} and {start:g} to 0",
            theory.slowdown(degree, share),
            2 * near - far,
            0.0,
            abs(near - far),
            controls,
            "change from twice the start",
            f"h{degree}.{share:g}".replace("0.", ""),
        )
    # Odd: u comes up to ρ from below; even: u falls.
    radius, end = 1.5 * start, 30 / start
    _, reached = _flow(3, radius, start, end)
    predicted = theory.held_overlap(3, start, radius, end)
    wrong: dict[str, Control | float] = {"no effect": _FOUND}
    text = f"overlap at time {end:g}, h3, ρ = 1.5 u₀, u₀ = {start:g}"
    yield Measurement(text, predicted, reached, 0.0, radius**2, wrong, "second order in the radius", "h3.above")
    _, reached = _flow(4, radius, start, 1e3 / start**2)
    text = f"overlap where the run ends (half the start, or {_FOUND:g}), h4, ρ = 1.5 u₀"
    yield Measurement(text, start / 2, reached, 0.0, 1e-6, {"no effect": _FOUND}, "integrator's tolerance", "h4.above")


# ------------------------------------------------------------------------- of single samples

_LINK = three_valued()
#: ρ√d; dimension of the runs; starts over the barrier; where a run has learned.
_RADIUS, _RUNS, _STARTS, _LEARNED = 0.5, 256, (0.5, 1.6), 0.5
#: Share of the drift at the larger start that shrinkage takes, and runs.
_SHARE, _REPLICAS = 0.2, 16


def _student(activation: str, second: float) -> Student:
    return committee(Activation.parse(activation), 1, second, False, "sphere")


def _drift(student: Student, rule: Rule, dim: int = _RUNS) -> Drift:
    return drift(student, _LINK, Correlation(), rule, dim)


def _bent(function: Callable[[np.ndarray], np.ndarray]) -> float:
    """E |f| He₂."""
    x = np.linspace(-9, 9, 400_001)
    weights = (x**2 - 1) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    return float(weights @ np.abs(function(x)))


def _share_learned(student: Student, rule: Rule, start: float, steps: int, seed: int) -> tuple[float, float]:
    """Of runs, and its standard error after adding one run of either kind."""
    directions = Directions.orthonormal(Inputs.isotropic(_RUNS), 1)
    found = passages(
        DeclaredModel(directions, _LINK, student, rule, Correlation()), start, _LEARNED, steps, _REPLICAS, seed
    )
    share = float(np.isfinite(found).mean())
    smooth = (share * _REPLICAS + 1) / (_REPLICAS + 2)
    return share, float(np.sqrt(smooth * (1 - smooth) / _REPLICAS))


@claim(
    id="M18",
    title="Single-sample SAM is reuse with the wrong sign",
    statement="SAM on one sample puts up a barrier where reuse digs a way, or the reverse: a moment of the slope decides.",
    latex=r"\nu_2=-\rho\sqrt d\,E\,|y|He_2\,E\,|\sigma'|He_2+O(\rho^2d),\quad u_*\approx|\nu_2|/\nu_3",
    source="derived; SAM: arXiv:2010.01412",
    kind="asymptotic",
    regime="one row on the sphere, batch 1, three-valued labels of information exponent 3",
    controls=(
        "SAM helps: the barrier of the opposite sign",
        "SAM of single samples is SAM of the population",
        "SAM repels every student",
    ),
)
def run_single(context: Context) -> Iterator[Part]:
    """Signs of ν₂ for two students by its formula; and runs from both sides of the barrier, d = 256."""
    small, dim = 0.02, 40_000
    for name, second in (("h3", -1.0), ("sin(z/sqrt(2))", 1.0)):
        student = _student(name, second)
        plain = _drift(student, Rule(1.0), dim)
        bend, coarse = (
            float(_drift(student, SAM(1.0, radius=x / dim**0.5), dim).coefficients[1]) / x for x in (small, 2 * small)
        )
        slope = lower_numpy(sp.diff(student.activation.function, z), (z,))
        predicted = -_bent(lambda a: _LINK.value(a[:, None], lower_numpy)) * _bent(slope)
        controls: dict[str, Control | float] = {"SAM helps": -predicted, "SAM of": float(plain.coefficients[1])}
        if predicted > 0:
            controls["SAM repels"] = -predicted
        text = f"ν₂/(ρ√d) at ρ√d = {small:g}, student {name}"
        # (|x| is √d in the mean to a share of 1/4d, its powers alike.)
        allowance, source = abs(coarse - bend) + abs(predicted) / dim, "change when ρ√d is doubled; finite d"
        yield Measurement(text, predicted, bend, 0.0, allowance, controls, source, f"bend-{name[:2]}")
    student, rule = _student("h3", -1.0), SAM(1.0, radius=_RADIUS / _RUNS**0.5)
    found = _drift(student, rule)
    barrier = brentq(lambda u: float(np.polynomial.polynomial.polyval(u, found.coefficients)), 0.05, 0.4)
    above = _STARTS[1] * barrier
    size = 2 * _SHARE * float(found.at(above)) / (above * _RUNS * found.square)
    steps = int(2 * (_LEARNED - above) / (size * float(found.at(above))))
    for place, predicted in zip(_STARTS, (0.0, 1.0), strict=True):
        seed, start = context.seed_for("M18", f"{place:g}"), place * barrier
        share, stderr = _share_learned(student, SAM(size, radius=rule.radius), start, steps, seed)
        if predicted == 0:
            controls = {"SAM helps": 1.0}
            # (The same runs with plain SGD, which population SAM of this radius is.)
            controls["SAM of"] = Control(predicted, *_share_learned(student, Rule(size), start, 2 * steps, seed))
        else:
            controls = {"SAM repels": 0.0}
        text = f"share of runs that reach |u| > {_LEARNED:g} from {place:g} u*, u* = {barrier:.3f}, h3, d = {_RUNS}"
        yield Measurement(text, predicted, share, stderr, 0.0, controls, "", f"from-{place:g}".replace(".", ""))
