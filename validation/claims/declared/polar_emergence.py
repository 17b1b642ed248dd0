"""M20: under a polar (Muon) step with the population's gradient all directions emerge at once."""

from collections.abc import Iterator

import numpy as np

from dynamics.declared.descent import population_descent
from theory import Activation
from theory.declared import polar_emergence as theory
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Muon
from theory.declared.start import Start, draw_start
from theory.declared.student import two_homogeneous
from theory.declared.target import Additive
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.regression import regress

COST = 6

_H4, _WEIGHTS, _WIDTH, _SCALE = Activation.parse("h4"), tuple(1 / np.arange(1.0, 5.0)), 6, 0.01
_DIMS = (300, 3000, 30_000)
#: Steps over the row's length, and how far a run goes, in lengths.
_STEPS, _LENGTHS = 100, 2


def _times(
    dim: int, weights: tuple[float, ...], start: Start, scale: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Times over `scale` at which some row has squared cosine ½ with a direction (nan: never), and its first |cosine|."""
    directions = Directions.orthonormal(Inputs.isotropic(dim), len(weights))
    model = DeclaredModel(directions, Additive(_H4, weights), two_homogeneous(_H4, start.width), Muon(scale / steps))
    count = _LENGTHS * steps
    data = population_descent(model, start, steps=count, saves=count)
    squared = data.overlap.values[:, 0] ** 2 / np.einsum("tkk->tk", data.gram.values[:, 0])[:, :, None]
    found, first = np.full(len(weights), np.nan), np.full(len(weights), np.nan)
    for p in range(len(weights)):
        best = squared[:, :, p].max(axis=1)
        after = int(np.argmax(best >= 0.5))
        if after:
            before = best[after - 1]
            found[p] = (after - 1 + (0.5 - before) / (best[after] - before)) / steps
            first[p] = np.sqrt(squared[0, int(np.argmax(squared[after, :, p])), p])
    return found, first


def _slope(table: np.ndarray, missed: int, place: int, text: str, key: str, wrong: Controls) -> Measurement:
    """Of ln(T/σ₀) in ln a (0) or ln d (1); predicted by the same regression of lone rows' times.

    Its error is that of measured less predicted: what starts differ by is in both.
    """
    columns, measured, lone = table[:, :2], table[:, 2], table[:, 3]
    fit, gap = (regress(columns, x, table[:, 4]) for x in (measured, measured - lone))
    predicted = float(fit.of(lone)[place])
    # Where one row is alone the scheme's error is of first order in a step over the length.
    allowance = float(np.abs(fit.weights[place]).sum()) / _STEPS
    details = {"directions": len(table), "left out, as no row turns to them": missed, "starts": fit.clusters}
    source = "a step over the row's length"
    slope, stderr = float(fit.slopes[place]), float(gap.stderr[place])
    return Measurement(text, predicted, slope, stderr, allowance, wrong, source, key, details)


@claim(
    id="M20",
    title="Polar steps: all directions at once",
    statement="With the population's gradient Muon finds a direction that a row turns to in the time in which a row moves by "
    "its own length, whatever weight and dimension.",
    latex=r"C_J\sigma_0\le T_p\le\sigma_0\ \text{for a lone row},\ t_0\to0,\quad C_4=0.860",
    source="derived for one row; Jordan et al. 2024 (Muon)",
    kind="asymptotic",
    regime="population gradient, step size ≪ σ₀, overlaps small at the start; directions found within two lengths",
    controls=("T ∝ 1/a", "T ∝ d^{J/2−1}", "T ∝ d^{1/2}", "unit speed of the cosine: T = σ₀/√2"),
)
def run_polar(context: Context) -> Iterator[Part]:
    """A lone row against the derived time; exponents in a and d of four directions and six rows over random starts."""
    for overlap in (1e-3, 0.03):
        start = Start((_SCALE * np.array([[overlap, np.sqrt(1 - overlap**2)]]),))
        steps = 4 * _STEPS
        (found,), _ = _times(30_000, (0.7,), start, _SCALE, steps)
        predicted = theory.half_time(_H4, 0.7, overlap, _SCALE) / _SCALE
        wrong: Controls = {"unit speed": 0.5**0.5, "T ∝ 1/a": predicted / 0.7}
        text = f"time to squared cosine ½ over σ₀ = {_SCALE:g}, one row, h4, a = 0.7, cosine {overlap:g} at the start"
        key = f"lone-{overlap:g}".replace(".", "").replace("-", "")
        yield Measurement(text, predicted, found, 0.0, 2 / steps, wrong, "two steps over the row's length", key)
    rows, missed = [], 0
    for dim in _DIMS:
        directions = Directions.orthonormal(Inputs.isotropic(dim), len(_WEIGHTS))
        for number in range(context.pick(8, 24)):
            start = draw_start(directions, _WIDTH, _SCALE, context.seed_for("M20", dim, number))
            found, first = _times(dim, _WEIGHTS, start, _SCALE, _STEPS)
            missed += int(np.sum(~np.isfinite(found)))
            for weight, time, overlap in zip(_WEIGHTS, found, first, strict=True):
                if np.isfinite(time):
                    lone = theory.half_time(_H4, weight, float(overlap), _SCALE) / _SCALE
                    rows.append([np.log(weight), np.log(dim), np.log(time), np.log(lone), dim + number / 100])
    table = np.array(rows)
    what = f"of the time to squared cosine ½ under Muon, h4, a = 1, ½, ⅓, ¼, m = {_WIDTH}, d = 300 … 30 000"
    yield _slope(table, missed, 0, f"exponent in a {what}", "weight", {"T ∝ 1/a": -1.0})
    yield _slope(table, missed, 1, f"exponent in d {what}", "dim", {"T ∝ d^{J/2−1}": 1.0, "T ∝ d^{1/2}": 0.5})
