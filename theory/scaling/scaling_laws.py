r"""``derive loss-sum``: the laws of the idealised loss sum, each checked against exact finite sums, each with its kind.

Kinds: *exact*; *asymptotic*, with what it neglects; *heuristic*, a picture whose error is not derived.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
import scipy
import sympy as sp

from theory.core import power_sums
from theory.core.activation import Activation
from theory.core.curves import log_slope
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.streams import stream
from theory.scaling import frontiers, ideal_loss
from theory.scaling.ideal_loss import beta, kappa
from theory.scaling.largest_overlap import FixedOverlap, LargestOverlap
from theory.scaling.loss_sums import LossSum, step_residual
from theory.scaling.power_law_loss import PowerLawLoss

s, P, g, x, cost, count, b, q = sp.symbols("s P g x C n b q", positive=True)
J = sp.Symbol("J", positive=True)
z = sp.Symbol("z", real=True)
#: Named quantities: E[g^q], directions learned, the minimum over widths; the law of overlaps; the staircase.
_MOMENT, _LEARNED = sp.Symbol("E[g^{q}]"), sp.Symbol("p(s)", positive=True)
_KEPT = sp.Symbol(r"\min_{w}w^{\kappa e}E[\max(1,(w/g^{J-2})^{(2\beta-1)/\beta})]")
_F, _STAIRS = sp.Function("F"), sp.Function("ell")
REFERENCE = (
    "arXiv:2504.19983, Theorem 2.1(d), Proposition 2.2, Corollary 2.3, section 2.4; constants, finite-size terms, random "
    "overlaps, heavy tail and re-tuned frontier derived"
)
EXACT, ASYMPTOTIC, HEURISTIC = "exact", "asymptotic", "heuristic"
#: Symbol of each exponent.
_SYMBOLS = {
    "time": r"\gamma_{t}",
    "width": r"\gamma_{m}",
    "samples_unstable": r"\gamma_{n}",
    "compute": r"\gamma_{C}",
    "compute_unstable": r"\gamma_{C,n}",
}
#: The window of `window_exponents`: first direction, last as a share of all, points.
_FIRST, _SHARE, _POINTS = 4, 8, 24
#: Overlaps at which numerical checks are made: the largest of so many.
_COUNT = 10**4
#: So many that the expansion in 1/b² shows each of its terms.
_MANY = 10**40


@cache
def exponents() -> dict[str, sp.Expr]:
    r"""All exponents of the loss for β > ½, from what p directions leave and what they cost.

    ``time`` (and samples at a fixed step), ``width``, ``samples_unstable``, ``compute``, ``compute_unstable``
    (1−2β)/(1+2β).
    """
    return ideal_loss.scaling_exponents() | {"compute_unstable": ideal_loss.compute_exponent(2)}


def exponent_value(name: str, decay: float) -> float:
    """One of `exponents` as a number."""
    return float(exponents()[name].subs(beta, sp.Rational(str(decay))))


def local_exponent(law: PowerLawLoss, times: np.ndarray) -> np.ndarray:
    r"""$\frac{d\ln\ell}{d\ln s}\simeq\frac{(1-2\beta)/\beta}{1-(p(s)/P)^{2\beta-1}}$ (asymptotic); shape of `times`, reduced.

    $p(s)=(s\,\bar g^{J-2})^{1/\beta}$ directions are learned by then: the missing tail beyond P steepens the slope, and
    slowly ceases to as P grows, since the exponent 2β − 1 may be small. At β = ½ it is $-2/\ln(P/p(s))$.
    """
    learned = (np.asarray(times, dtype=float) * law.typical_overlap ** (law.exponent - 2)) ** (1 / law.decay)
    if np.isinf(law.teachers):
        return np.full(learned.shape, (1 - 2 * law.decay) / law.decay)
    length = np.log(learned / (law.teachers + 0.5))
    # (1 − 2β)/(1 − e^{(2β−1)·length}), without its 0/0 at β = ½.
    return 1 / (law.decay * length * scipy.special.exprel((2 * law.decay - 1) * length))


def window_exponents(
    decay: float | None, teachers: int, width: int, activation: Activation
) -> dict[str, float | list[float]] | None:
    r"""Slopes that a finite teacher shows on the window of directions 4 to $\min(P,m)/8$, from exact expected sums.

    Overlaps are the largest of m, independent (neurons that compete learn a per cent or so later there). ``time`` and
    ``samples_unstable`` for this width, ``compute`` over widths up to P/2, least squares on logarithmic axes.

    Returns None where a window has no room (fewer than 64 directions or neurons) or `exponents` do not apply.
    """
    even = activation.parity == "even" and activation.information_exponent >= 4
    if decay is None or not decay > 0.5 or not even or min(teachers, width) < 64:
        return None
    law = PowerLawLoss(decay, teachers, LargestOverlap(width), activation.information_exponent)
    first, last = float(_FIRST), min(teachers, width) / _SHARE
    times = np.geomspace(float(law.time_of(first)), float(law.time_of(last)), _POINTS)
    costs = np.geomspace(float(frontiers.cost_of(law, first)), float(frontiers.cost_of(law, last)), _POINTS)
    widths = np.unique(np.geomspace(_FIRST / 2, teachers / 2, 2 * _POINTS).astype(int))
    time = log_slope(times, law.share(times, width))
    return {
        "directions": [first, last],
        "time": time,
        "samples_unstable": time / 2,  # the staircase at √n, exactly
        "compute": log_slope(costs, frontiers.frontier(law, costs, widths).share),
    }


def derivation(activation: Activation) -> Derivation:
    """Raises `InputError` unless the activation meets Assumption 2.1 (even, information exponent ≥ 4)."""
    activation.require_even("Theorem 2.1 (the loss sum)")
    activation.require_exponent(4, "Theorem 2.1 (the loss sum)")
    degree = activation.information_exponent
    steps = (*_exact_steps(degree), *_power_laws(degree), *_frontier_steps(degree), _shape(activation))
    equations = {_SYMBOLS[name]: value for name, value in exponents().items()}
    assumptions = (
        Assumption("β > ½ for the power laws, β < ½ for the heavy tail; J the information exponent"),
        Assumption(
            "overlaps of the learning neurons independent with one distribution F: many more neurons than directions"
        ),
        Assumption("gaps of Lemma 3.1, d large", None),
        Assumption("even activation, information exponent ≥ 4", True),
    )
    return Derivation("loss-sum", steps, equations, assumptions, REFERENCE)


def _step(
    kind: str, title: str, left: str, right: sp.Expr, residual: Callable[[sp.Expr], object], tolerance: float
) -> Step:
    return Step(f"{title} ({kind})", equation(left, right), lambda shown: sp.sympify(residual(shown)), tolerance)


def _exact_steps(degree: int) -> tuple[Step, ...]:
    p, m = sp.symbols("p m", positive=True)
    expected = sp.Sum(p ** (-2 * beta) * _F((p**beta / s) ** (1 / (J - 2))), (p, 1, P))
    tail = power_sums.expansion(1).subs({power_sums.s: 2 * beta, power_sums.n: m})
    return (
        _step(EXACT, "Expected share left at reduced time s, overlaps of distribution F", r"{Z^2}\ell(s)", expected,
              partial(_average_residual, degree), 1e-9),
        _step(EXACT, "The largest of n Gaussian overlaps", "F(g)", sp.erf(g / sp.sqrt(2)) ** count,
              _largest_residual, 1e-12),
        _step(EXACT, "What p > m leave, up to less than the next term of the expansion", r"\sum_{p>m}p^{-2\beta}\approx",
              tail, lambda shown: power_sums.expansion_excess(shown.subs({beta: power_sums.s / 2, m: power_sums.n}), 1),
              1e-30),
    )  # fmt: skip


def _power_laws(degree: int) -> tuple[Step, ...]:
    law = (_MOMENT * s ** ((1 - 2 * beta) / beta) - (P + sp.Rational(1, 2)) ** (1 - 2 * beta)) / (2 * beta - 1)
    bent = (1 - 2 * beta) / beta / (1 - (_LEARNED / P) ** (2 * beta - 1))
    series = b**q * (
        1 + q * sp.EulerGamma / b**2 + (q * (q - 2) / 2 * (sp.EulerGamma**2 + sp.pi**2 / 6) - q * sp.EulerGamma) / b**4
    )
    return (
        _step(ASYMPTOTIC, "Power law with the missing tail, 1 ≪ p(s) ≪ P, q = (J−2)(1−2β)/β", r"{Z^2}\ell(s)\simeq", law,
              partial(_two_terms_residual, 0.8, degree), 1e-10),
        _step(ASYMPTOTIC, "Its local slope, with p(s) directions learned", r"{d\ln\ell/d\ln s}\simeq", bent,
              partial(_slope_residual, degree), 1e-5),
        _step(ASYMPTOTIC, "Largest of n overlaps, one in n above b, up to O(b^−6) relative", r"E[g^{q}]\simeq", series,
              _moment_residual, 50 / LargestOverlap(_MANY).gumbel().location ** 6),
        _step(ASYMPTOTIC, "Heavy tail β < ½: the same law, P → ∞ at s = (xP)^β, equal overlaps", r"{\ell}\to",
              1 - x ** (1 - 2 * beta), _heavy_residual, 1e-30),
        _step(ASYMPTOTIC, "Heavy tail at finite P", r"{Z^2}\ell(s)\simeq", law,
              partial(_two_terms_residual, 0.4, degree), 1e-10),
        *(
            _step(ASYMPTOTIC, f"Exponent of the loss in {ideal_loss.NAMES[name]}", _SYMBOLS[name], value,
                  partial(_exponent_residual, name), 1e-6)
            for name, value in exponents().items()
        ),
    )  # fmt: skip


def _frontier_steps(degree: int) -> tuple[Step, ...]:
    law = (_KEPT * cost ** ideal_loss.compute_exponent() - (P + sp.Rational(1, 2)) ** (1 - 2 * beta)) / (2 * beta - 1)
    return (
        _step(EXACT, "Step size re-tuned to n samples: the staircase at s = n^½", r"\min_{\eta}\ell(n,\eta)",
              _STAIRS(sp.sqrt(count)), _retuned_residual, 1e-12),
        _step(ASYMPTOTIC, "Least loss at compute C = m s^κ, e the exponent, κ = 1 (fixed step) or 2 (re-tuned)",
              r"{Z^2}\ell_{opt}\simeq", law, partial(_frontier_residual, degree), 2e-3),
    )  # fmt: skip


def _shape(activation: Activation) -> Step:
    return _step(
        HEURISTIC, "Finite steps: an aligned student's logistic growth, z = 4aφ(1)(t − T_p)", "D(z)", (1 + sp.exp(z)) ** -2,
        lambda shown: sp.Abs(step_residual(activation, lambda at: shown.subs(z, at))), max(1e-30, activation.check_tolerance),
    )  # fmt: skip


# ------------------------------------------------------------------ residuals, each on a road of its own


def _average_residual(degree: int, shown: sp.Expr) -> float:
    """The sum over directions against the average, over the law's quantiles, of exact staircases of equal overlaps."""
    law = PowerLawLoss(0.8, 40, LargestOverlap(_COUNT), degree)
    at = float(law.time_of(6))
    # Between the overlaps at which a direction passes s the staircase is constant.
    edges = np.arange(1, 41.0) ** (law.decay / (degree - 2)) / at ** (1 / (degree - 2))
    shares = np.array(
        [float(PowerLawLoss(0.8, 40, FixedOverlap(v), degree).share(at)) for v in (*(edges * 0.999), 1e9)]
    )
    steps = np.diff(law.law.cdf(edges), prepend=0.0, append=1.0)
    placed = shown.subs({beta: sp.Rational(4, 5), P: 40, s: at, J: degree}).doit()
    summed = float(placed.replace(_F, lambda overlap: sp.Float(law.law.cdf(float(overlap))))) / law.norm2
    return max(abs(float(value) / float(steps @ shares) - 1) for value in (summed, law.share(at)))


def _largest_residual(shown: sp.Expr) -> float:
    """Inclusion and exclusion for n = 3: P(all below) = 1 − 3u + 3u² − u³ with u = P(|N| > g) from the Gaussian tail."""
    at = 1.3
    above = 2 * scipy.special.ndtr(-at)
    known = 1 - 3 * above + 3 * above**2 - above**3
    return max(abs(float(value) - known) for value in (shown.subs({g: at, count: 3}), LargestOverlap(3).cdf(at)))


def _real(value: sp.Expr) -> float:
    """A number; what is imaginary in a wrong formula is left out."""
    return float(sp.re(sp.N(value)))


def _missing_gap(shown: sp.Expr, values: Mapping[sp.Symbol, object], decay: float) -> float:
    """What P directions more explain, P = 1000, against the sum over them: relative, up to (2β)(2β+1)/24P²."""
    fewer, more = (_real(shown.subs({**values, P: count})) for count in (1000, 2000))
    return (more - fewer) / float(power_sums.power_sum(2 * decay, 1000, 2000)) - 1


def _two_terms_residual(decay: float, degree: int, shown: sp.Expr) -> float:
    """Against the exact sum far inside; what the last directions leave may differ by 1e-6, which counts as 1e-10."""
    law = PowerLawLoss(decay, 10**11, LargestOverlap(10**9), degree)
    at = law.time_of(1e5)
    values = {_MOMENT: law.law.moment(law.power), s: at, beta: sp.Rational(str(decay))}
    found = _real(shown.subs({**values, P: 10**11})) / law.norm2
    gaps = [float(value / law.share(at)) - 1 for value in (found, law.corrected(at))]
    return max(abs(gap) for gap in (*gaps, 1e-4 * _missing_gap(shown, values, decay)))


def _slope_residual(degree: int, shown: sp.Expr) -> float:
    """Central difference of the exact sum against the formula."""
    law = PowerLawLoss(0.8, 10**6, LargestOverlap(_COUNT), degree)
    at = law.time_of(1e3)
    step = 1e-3
    measured = np.log(law.share(at * np.exp(step)) / law.share(at * np.exp(-step))) / (2 * step)
    found = shown.subs({beta: sp.Rational(4, 5), P: 10**6, _LEARNED: 1e3})
    return max(abs(float(measured - value)) for value in (local_exponent(law, at), found))


def _moment_residual(shown: sp.Expr) -> float:
    law = LargestOverlap(_MANY)
    found = shown.subs({b: law.gumbel().location, q: sp.Rational(-3, 2)})
    return max(abs(float(value) / law.moment(-1.5) - 1) for value in (found, law.asymptotic_moment(-1.5)))


def _heavy_residual(shown: sp.Expr) -> sp.Expr:
    """The two-term law over its own normalisation P^(1−2β)/(1−2β), in the limit, by SymPy at β = 1/5."""
    decay = sp.Rational(1, 5)
    power = 1 - 2 * decay
    left = ((P + sp.Rational(1, 2)) ** power - ((x * P) ** decay) ** (power / decay)) / power
    norm = P**power / power
    return sp.simplify(sp.limit(sp.simplify(left / norm), P, sp.oo) - shown.subs(beta, decay))


def _exponent_residual(name: str, shown: sp.Expr) -> float:
    """Slope of the exact tail between two far numbers of directions, against what these cost."""
    decay = 0.8
    paid = {"time": decay, "width": 1.0, "samples_unstable": 2 * decay, "compute": 1 + decay}
    paid["compute_unstable"] = 1 + 2 * decay
    first, last = power_sums.power_sum(2 * decay, np.array([10**6, 10**7]))
    return float(np.log(last / first) / (paid[name] * np.log(10)) - float(shown.subs(beta, decay)))


def _retuned_residual(shown: sp.Expr) -> float:
    """Brute force over a grid of step sizes that holds the best one, for drawn scores."""
    rng = stream(0, "scaling laws", "residual")
    score, weights, samples = rng.random(30), rng.random(30), 40.0
    grid = np.geomspace(0.1, 10, 401) / np.sqrt(samples)
    best = min(float(frontiers.stepped_loss(score, weights, step, samples)) for step in grid)
    stairs = LossSum.of(weights, 1 / score)
    return best - float(shown.subs(count, samples).replace(_STAIRS, lambda time: sp.Float(stairs(float(time)))))


def _frontier_residual(degree: int, shown: sp.Expr) -> float:
    """Envelope of exact sums over every 50th width around the optimum; terms of order 1/m are left out."""
    law = PowerLawLoss(0.8, 10**6, LargestOverlap(_COUNT), degree)
    budget = frontiers.cost_of(law, 1e3)
    found = frontiers.frontier(law, np.array([budget]), np.arange(600, 1500, 50))
    values = {beta: sp.Rational(4, 5), kappa: 1, _KEPT: frontiers.constant(law), cost: budget}
    derived = _real(shown.subs({**values, P: 10**6})) / law.norm2
    gaps = [float(found.share[0] / value) - 1 for value in (derived, frontiers.corrected_frontier(law, budget))]
    return max(abs(gap) for gap in (*gaps, 1e3 * _missing_gap(shown, values, 0.8)))
