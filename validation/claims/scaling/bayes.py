"""M27: the Bayes-optimal error of the additive teacher: phases, power law and its constant, one direction by spectrum."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np
import sympy as sp
from scipy.optimize import minimize, root

from theory import Activation
from theory.core.hermite import z
from theory.scaling.bayes import BayesFloor, Channel, constant, exponent, free_entropy, learned, noise, norm2, q, s
from theory.scaling.bayes import alpha as samples
from theory.scaling.bayes import noise as effective
from theory.scaling.ideal_loss import beta
from theory.scaling.scaling_laws import exponent_value
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.controls import TENTH, off_by_a_tenth
from validation.statistics.standard_errors import mean_and_error

COST = 3

#: Directions of the small teacher, and n/d at which its second one is between spinodal and threshold for h4.
_TEACHERS, _RATIO = 5, 12.0
#: Where the climb begins in each overlap; how well its end is known.
_CORNERS, _ROOT = (0.02, 0.95), 1e-10
#: Link and decay of each power law; n/d, two decades apart.
_LAWS = ((2, 0.8), (4, 1.0), (2, 1.5))
_FEW, _SOME, _MANY = 1e5, 1e6, 1e7
#: One direction by the spectrum: weight, signal and dimension.
_WEIGHT, _SIGNAL, _DIM = 0.12, 2.5, 60
_H2 = sp.lambdify(z, Activation.parse("h2").function)


class _Early(Channel):
    """A channel whose direction is found at the spinodal (a mistake)."""

    @cached_property
    def threshold(self) -> tuple[float, float]:
        signal, overlap = self.spinodal
        return float(signal), float(overlap)


class _Level(_Early):
    """q/(1 − q) = sφ(q) in place of sφ'(q)."""

    @cached_property
    def signal(self) -> sp.Expr:
        return self.degree * Channel(self.degree).signal / q


def _highest(floor: BayesFloor, ratio: float) -> float:
    """ε where the whole free entropy is highest: climbed to from every corner, then a root of its gradient."""
    own, left = free_entropy(sp.Integer(1)), floor.channel.left
    shared = free_entropy(effective).subs({q: 0, samples: ratio})
    entropy, kept, rate, change = (sp.lambdify(q, x, "numpy") for x in (own, left, sp.diff(own, q), sp.diff(left, q)))
    of_noise, slope = (sp.lambdify(effective, x, "numpy") for x in (shared, sp.diff(shared, effective)))

    def value(at: np.ndarray) -> float:
        return -float(entropy(at).sum() + of_noise(floor.noise + floor.squares @ kept(at)))

    def gradient(at: np.ndarray) -> np.ndarray:
        return -(rate(at) + slope(floor.noise + floor.squares @ kept(at)) * floor.squares * change(at))

    bounds = [(0.0, 1 - 1e-12)] * floor.squares.size
    starts = product(_CORNERS, repeat=floor.squares.size)
    tops = [minimize(value, start, jac=gradient, bounds=bounds, method="L-BFGS-B") for start in starts]
    best = root(gradient, min(tops, key=lambda top: top.fun).x, tol=1e-13).x
    return float(floor.squares @ kept(best))


def _phases(degree: int) -> Measurement:
    """The fixed point of highest free entropy against the free entropy itself, of all overlaps at once."""
    squares = np.arange(1, _TEACHERS + 1.0) ** -2.0
    floor = BayesFloor(Channel(degree), squares)
    alone = floor.channel.overlap(_RATIO * squares / floor.noise)
    wrong: Controls = {
        "Δ for Δ_e": float(squares @ (1 - alone**degree)),
        "φ for φ'": BayesFloor(_Level(degree), squares).error(_RATIO),
    }
    if degree > 2:
        wrong["found at the spinodal"] = BayesFloor(_Early(degree), squares).error(_RATIO)
    text = f"ε at n/d = {_RATIO:g}, h{degree}, a_p = 1/p, P = {_TEACHERS}, Δ = 1"
    highest, known = _highest(floor, _RATIO), floor.error(_RATIO)
    return Measurement(text, known, highest, 0.0, _ROOT, wrong, "tolerance of the root", f"phases.h{degree}")


def _decades(degree: int, decay: float) -> Iterator[Measurement]:
    """Slope of ε in n, and its constant, over the last decade; how far they are from their limits, by the ones before."""
    floor = BayesFloor.power_law(degree, decay)
    ratios = np.array([_FEW, _SOME, _MANY])
    errors = np.array([floor.error(ratio) for ratio in ratios])
    before, last = np.diff(np.log(errors)) / np.log(_SOME / _FEW)
    limit = float(exponent().subs(beta, decay))
    wrong: Controls = {**off_by_a_tenth(limit), "SGD at a fixed step": exponent_value("time", decay)}
    text, key = f"h{degree}, a_p ∝ p^-{decay:g}, Δ = 1", f"h{degree}.beta{decay:g}"
    change = abs(float(last - before))
    yield Measurement(
        f"d ln ε / d ln n at n/d = {_MANY:.0e}, {text}",
        limit,
        float(last),
        0.0,
        change,
        wrong,
        "change from the decade before",
        f"slope.{key}",
    )
    known = {s: floor.channel.found_from, noise: floor.noise, norm2: 1 / float(floor.squares[0]), beta: decay}
    scale = ratios / (floor.noise * sp.lambdify(samples, learned().subs(known), "numpy")(ratios))
    first, _, end = errors * scale
    wrong = {"found directions are known": floor.channel.found_from / (2 * decay - 1)}
    if degree > 2:
        wrong["found at the spinodal"] = replace(floor, channel=_Early(degree)).error(_MANY) * scale[-1]
    yield Measurement(
        f"εα/(Δk) at n/d = {_MANY:.0e}, {text}",
        constant(floor.channel, decay),
        float(end),
        0.0,
        abs(float(end - first)),
        wrong,
        "change over two decades",
        f"constant.{key}",
    )


def _top(matrix: np.ndarray) -> float:
    """Square of the first coordinate of the eigenvector of the largest eigenvalue."""
    return float(np.linalg.eigh(matrix)[1][0, -1] ** 2)


def _estimate(size: int, rng: np.random.Generator) -> float:
    """From labels: Σ y(xxᵀ − I) of one teacher along the first axis."""
    x = rng.standard_normal((size, _DIM))
    label = _WEIGHT * _H2(x[:, 0]) + rng.standard_normal(size)
    return _top(x.T @ (label[:, None] * x) - label.sum() * np.eye(_DIM))


def _channel(size: int, rng: np.random.Generator) -> float:
    """The same of a Gaussian matrix of its mean and variances: those of the teacher's row are E y² + 4a²."""
    power = 1 + _WEIGHT**2
    matrix = np.sqrt(power / (2 * size)) * rng.standard_normal((_DIM, _DIM))
    matrix += matrix.T
    matrix[0] *= np.sqrt(1 + 4 * _WEIGHT**2 / power)
    matrix[:, 0] = matrix[0]
    matrix[0, 0] += np.sqrt(2) * _WEIGHT
    return _top(matrix)


def _spectral(context: Context) -> Measurement:
    """A weak direction by the spectrum of Σ y(xxᵀ − I), which is optimal for one direction of link h2."""
    size = round(_SIGNAL * (1 + _WEIGHT**2) / _WEIGHT**2 * _DIM)
    floor = BayesFloor(Channel(2), np.array([_WEIGHT**2]))
    predicted = float(floor.overlaps(size / _DIM)[0])
    rng, replicas = context.rng("M27", "spectrum"), context.pick(100, 400)
    estimate, stderr = mean_and_error(np.array([_estimate(size, rng) for _ in range(replicas)]))
    finite, error = mean_and_error(np.array([_channel(size, rng) for _ in range(context.pick(200, 2000))]))
    wrong: Controls = {
        "overlap for its square": predicted**0.5,
        "φ for φ'": float(_Level(2).overlap(np.array(_SIGNAL))),
        "no threshold": _SIGNAL / (1 + _SIGNAL),
    }
    allowance = abs(finite - predicted) + error
    text = f"squared overlap of the spectral estimate, h2, a = {_WEIGHT:g}, d = {_DIM}, n = {size}"
    reason = computed_by(_channel, "the same in the Gaussian channel of this d")
    return Measurement(text, predicted, estimate, stderr, allowance, wrong, reason, "spectrum")


@claim(
    id="M27",
    title="Bayes-optimal floor of the additive teacher",
    statement="From n samples the best estimator knows the directions above one signal; the error is a power law in n/d.",
    latex=r"\frac{q_p}{1-q_p}=\frac{\alpha a_p^2}{\Delta_e}\varphi'(q_p),\quad"
    r"\Delta_e=\Delta+\sum_pa_p^2(\varphi(1)-\varphi(q_p)),\quad\varepsilon\propto\alpha^{1/(2\beta)-1}",
    source="arXiv:2605.10395; constants derived",
    kind="asymptotic",
    regime="n and d to infinity at n/d = α, links h_J, each direction weak where it is found",
    controls=(
        "Δ for Δ_e",
        "φ for φ' in the fixed point",
        "found at the spinodal, where it is only metastable",
        *TENTH,
        "SGD at a fixed step: (1 − 2β)/β",
        "found directions are known exactly",
        "overlap for its square",
        "no threshold: q = s/(1 + s)",
    ),
)
def run_floor(context: Context) -> Iterator[Part]:
    """Phases of a small teacher, power laws of infinite ones, and one direction from real samples."""
    yield from (_phases(degree) for degree in (2, 4))
    for degree, decay in _LAWS:
        yield from _decades(degree, decay)
    yield _spectral(context)
