"""E29, E30: growth in whole steps, and growth with noise in a tube (helper lemmas of arXiv:2504.19983, appendix D)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from theory.one_task.noisy_growth import NoisyGrowth, alpha, end, leaving_probability, start, steps_of_growth
from validation.judge.claim import Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.standard_errors import share_error

_PAPER = "arXiv:2504.19983"


def _recursion(power: int, rate: float, first: float, last: float) -> np.ndarray:
    """Iterates of x + αx^k from `first` until one is at `last` or above."""
    found = [first]
    while found[-1] < last:
        found.append(found[-1] + rate * found[-1] ** power)
    return np.array(found)


@claim(
    id="E29",
    title="Discrete growth lags behind its flow",
    statement="x + αx^k takes (k/2)·ln(X/x₀) steps more than its differential equation, whatever α is.",
    latex=r"n(x_0\to X)=\int_{x_0}^X\frac{dx}{\alpha x^k}+\frac k2\ln\frac X{x_0}+O(\alpha X^{k-1})",
    source=f"{_PAPER}, Lemmas D.23 and D.24; lag derived",
    kind="exact",
    regime="αX^{k−1} ≪ 1",
    controls=(
        "no lag: the bound of Lemma D.23 as an equality",
        "twice the lag",
        "the bound of Lemma D.24 as an equality",
        "bounds exchanged",
    ),
)
def run_growth(context: Context) -> Iterator[Part]:
    """Steps beyond the flow's time, and the share of iterates between the two lemmas' bounds."""
    first, last, rate = 0.2, 1.0, 2e-3
    for power in (2, 3, 5):
        path = _recursion(power, rate, first, last)
        values = {alpha: rate, start: path[0], end: path[-1]}
        flow, lag, after = (float(x.subs(values)) for x in once(steps_of_growth, power))
        most = (1 + rate * path[-1] ** (power - 1)) ** power
        text = f"steps of x + αx^{power} from 0.2 to 1 beyond the flow's time, α = {rate:g}"
        source = computed_by(steps_of_growth, "last order kept, times the slope kαX^{k−1} that separates orders")
        controls = {"no lag": 0.0, "twice the lag": 2 * lag, "the bound of Lemma D.24": flow * (most - 1)}
        details = {"steps": len(path) - 1, "flow's time": flow}
        allowed = power * rate * path[-1] ** (power - 1) * abs(after)
        yield Measurement(text, lag + after, len(path) - 1 - flow, 0.0, allowed, controls, source, f"k{power}", details)
        # (x₀^{1−k} − x^{1−k})/((k − 1)α) is the flow's time to x; the lemmas bound the step t at which x is reached.
        reached = (path[0] ** (1 - power) - path[1:] ** (1 - power)) / ((power - 1) * rate)
        step = np.arange(1, len(path))
        inside = np.mean((step >= reached) & (step <= reached * most))
        exchanged = float(np.mean((step <= reached) & (step >= reached * most)))
        text = f"share of iterates of x + αx^{power} between the bounds of Lemmas D.23 and D.24"
        controls = {"bounds exchanged": exchanged}
        yield Measurement(text, 1.0, float(inside), 0.0, 0.0, controls, "none: an inequality", f"k{power}.between")


def _exits(law: NoisyGrowth, replicas: int, rng: np.random.Generator) -> tuple[float, float]:
    """Share of noisy recursions that leave the tube, whose edges are recursions themselves, and by the lower edge first."""
    at, low, high = np.full(replicas, law.start), law.start * (1 - law.width), law.start * (1 + law.width)
    below, above = np.zeros((2, replicas), dtype=bool)
    for _ in range(law.steps):
        at = at + law.rate * at**law.power + law.noise * rng.standard_normal(replicas)
        low, high = (edge + law.rate * edge**law.power for edge in (low, high))
        below, above = below | ((at < low) & ~above), above | ((at > high) & ~below)
        at = np.where(below | above, (low + high) / 2, at)  # one that has left is counted, and might explode
    return float(np.mean(below | above)), float(np.mean(below))


@claim(
    id="E30",
    title="Noisy growth stays in its tube",
    statement="Growth with noise leaves its tube with the probability of a Brownian motion of the discounted variance.",
    latex=r"P=P\Big(\max_{u\le s}|B_u|>1\Big),\quad s=\frac{\sigma^2x_0^{-1-k}}{\alpha\delta^2(3k-1)}"
    r"\Big(1-\big(\tfrac{x_0}X\big)^{3k-1}\Big)",
    source=f"{_PAPER}, Lemmas D.4, D.6, D.13 and D.18; probability derived",
    kind="asymptotic",
    regime="δ ≪ 1, many small steps; Gaussian noise of constant variance",
    controls=(
        "noise not discounted (Tσ²)",
        "Doob's bound as an equality",
        "the end of the run only",
        "both edges",
        "no overshoot",
    ),
)
def run_tube(context: Context) -> Iterator[Part]:
    """Share of noisy recursions that leave a tube with s = ½, by growth exponent; by either edge, and by the lower one.

    The tube is so narrow that what its width changes is no more than the runs' error.
    """
    for power, last in ((1, 3.0), (3, 3.0), (5, 2.0)):
        law = _half_a_unit(power, last)
        replicas = 200_000 if power == 1 else 80_000  # (its allowance is the least: it tells whether steps overshoot)
        shares = _exits(law, replicas, context.rng("E30", "noise", power))
        for edges, key, estimate in zip((2, 1), ("either edge", "the lower edge"), shares, strict=True):
            predicted, allowed = law.leaves(edges)
            controls = {
                "noise not discounted": leaving_probability(law.doob) * edges / 2,
                "Doob's bound": min(law.doob, 1.0) * edges / 2,
                "the end of the run": edges * float(ndtr(-1 / np.sqrt(law.share))),
            }
            if edges == 1:
                controls["both edges"] = leaving_probability(law.share)
            elif power == 1:
                controls["no overshoot"] = leaving_probability(law.share)
            text = f"share of runs of x + αx^{power} + noise that leave the tube by {key}, δ = {law.width:g}, s = ½"
            source = computed_by(
                NoisyGrowth.leaves, "second order of the overshoot; s at the edges, and by half a kick"
            )
            details = {"Doob's bound": law.doob, "steps": law.steps}
            stderr, name = share_error(estimate, replicas), f"k{power}.edges{edges}"
            yield Measurement(text, predicted, estimate, stderr, allowed, controls, source, name, details)


def _half_a_unit(power: int, last: float) -> NoisyGrowth:
    """From 1 to `last` in about 1000 steps, with the noise at which s = ½."""
    flow = once(steps_of_growth, power)[0]
    rate = float(flow.subs({alpha: 1.0, start: 1.0, end: last})) / 1000
    unit = NoisyGrowth(power, rate, 1.0, last, 1.0, 0.001)
    return replace(unit, noise=float(np.sqrt(0.5 / unit.share)))
