"""E14, E19-greedy, E26, E27, E31, E38, S7: greedy selection on random initial overlaps, and what a neuron takes on its own."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
from scipy import optimize

from theory.baselines.winner import covering_probability, weakest_wins, width_exponent
from theory.core.streams import Word
from theory.scaling.competition import Competition
from theory.scaling.extreme_overlaps import GAUSSIAN, OverlapLaw
from theory.scaling.selection import (
    EqualWeights,
    SelectionLaw,
    selection_law,
    success_probability,
    well_separated_success,
)
from theory.scaling.selection_count import none_missed
from theory.scaling.selection_draws import draw_overlaps, selected_gaps, selected_scores
from theory.scaling.selection_gaps import GAPS, GapLaw
from validation.figures.selection import Curve, Points, predicted_and_measured
from validation.judge.claim import Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.exponents import slope_weights
from validation.statistics.readings import carried_slope
from validation.statistics.standard_errors import bootstrap_error, draws_to_see, mean_and_error, share_error

COST = 14

_PAPER = "arXiv:2504.19983"
#: Dependence of overlaps within a row is of relative order P/d: out of sight here.
_DIM, _EXPONENT = 10**6, 4
#: Entries of score matrices held at once.
_ENTRIES = 2_000_000


def _law_dim(directions: int) -> float:
    """Relative size of the dependence between the overlaps of one neuron, which theory leaves out."""
    return directions / _DIM


def _score_blocks(context: Context, name: tuple[Word, ...], competition: Competition, draws: int):  # type: ignore[no-untyped-def]
    """Score matrices a g^n (g in units of d^(−1/2)) of independent students, in blocks of draws."""
    rng = context.rng(*name)
    width, count = competition.width, len(competition.weights)
    block = max(1, _ENTRIES // (width * count))
    for start in range(0, draws, block):
        overlaps = draw_overlaps(width, count, _DIM, min(block, draws - start), rng)
        yield competition.a * np.abs(np.sqrt(_DIM) * overlaps) ** competition.power


def _selected(context: Context, name: tuple[Word, ...], competition: Competition, draws: int) -> np.ndarray:
    """(draws, P) selected scores, 0 where a direction is never selected."""
    return np.concatenate([selected_scores(block) for block in _score_blocks(context, name, competition, draws)])


_GAP_WIDTHS, _GAP_DIRECTIONS = (24, 96, 384), (8, 16, 32, 64)
_FIXED_WIDTH, _FIXED_DIRECTIONS = 96, 16
#: Exponents (in m, in P) of the gaps that a union bound over all pairs guarantees.
_UNION = {"row": (-1.0, -2.0), "column": (-2.0, -1.0), "threshold": (-2.0, -2.0)}


@claim(
    id="E14",
    title="Typical gaps",
    statement="The gaps of Lemma 3.1 shrink polynomially in P and at most logarithmically in m, far slower than its "
    "union bound.",
    latex=r"\delta_r\sim m/P_*^2,\quad\delta_c\sim P/P_*^2,\quad\delta_t\sim1/P_*",
    source=f"{_PAPER}, Lemma 3.1; typical sizes derived",
    kind="asymptotic",
    regime="equal weights, P_* = P/2, m ≥ P; compared with the finite-size law",
    controls=("union bound over all pairs", "exponent larger by 15 % (full: 10 %)", "shrinking as 1/m"),
)
def run_gaps(context: Context) -> Iterator[Part]:
    """Medians of the three gaps over widths at fixed P, and over P at fixed width; equal weights, P_* = P/2."""
    cells = sorted({(m, _FIXED_DIRECTIONS) for m in _GAP_WIDTHS} | {(_FIXED_WIDTH, p) for p in _GAP_DIRECTIONS})
    laws = {(m, p): GapLaw(EqualWeights(p, m), p // 2, _EXPONENT - 2.0) for m, p in cells}
    drawn = {cell: _drawn_gaps(context, cell, laws[cell].wanted) for cell in cells}
    for gap in GAPS:
        for place, name, swept in (
            (0, "m", [(m, _FIXED_DIRECTIONS) for m in _GAP_WIDTHS]),
            (1, "P", [(_FIXED_WIDTH, p) for p in _GAP_DIRECTIONS]),
        ):
            yield _gap_slope(context, gap, place, name, swept, laws, drawn)
    yield from _gap_figures(laws, drawn)


def _drawn_gaps(context: Context, cell: tuple[int, int], wanted: int) -> dict[str, np.ndarray]:
    m, p = cell
    competition = Competition.of(np.ones(p), m, _EXPONENT)
    # Larger matrices are dearer and their slopes lean on them: draws ∝ 1/√size is close to the best split. Slopes in m are
    # the flatter ones, so that their ends have most of the draws.
    share = 5 if p == _FIXED_DIRECTIONS and m != _FIXED_WIDTH else 1
    draws = int(share * context.pick(480_000, 600_000) / np.sqrt(m * p))
    blocks = [
        selected_gaps(block, wanted) for block in _score_blocks(context, ("E14", "scores", m, p), competition, draws)
    ]
    return {gap: np.concatenate([block[gap] for block in blocks]) for gap in GAPS}


def _gap_slope(
    context: Context,
    gap: str,
    place: int,
    name: str,
    swept: list[tuple[int, int]],
    laws: dict[tuple[int, int], GapLaw],
    drawn: dict[tuple[int, int], dict[str, np.ndarray]],
) -> Measurement:
    """The least-squares slope of ln median against ln m or ln P, with the finite-size prediction of the same slope."""
    lever = slope_weights([cell[place] for cell in swept])
    medians = np.array([laws[cell].median(gap) for cell in swept])
    linear = np.array([laws[cell].median(gap, exact=False) for cell in swept])
    estimate = float(lever @ np.log([np.median(drawn[cell][gap]) for cell in swept]))
    rng = context.rng("E14", "resampling", name, gap)
    spread = [bootstrap_error(drawn[cell][gap], lambda v: float(np.log(np.median(v))), rng, 200) for cell in swept]
    predicted = float(lever @ np.log(medians))
    off = context.pick(15, 10) / 100
    controls = {"union bound over all pairs": _UNION[gap][place]}
    if abs(predicted) > 0.5:  # ten per cent of an exponent that is nearly zero says nothing
        controls["exponent larger by 15 % (full: 10 %)"] = (1 + off) * predicted
        if abs(predicted - _UNION[gap][place]) < off:
            del controls["union bound over all pairs"]  # there the union bound happens to have the right exponent
    else:
        controls["shrinking as 1/m"] = -1.0
    stderr = float(np.sqrt(np.sum((lever * np.array(spread)) ** 2)))
    # (A gap of a share more rivals is by that share smaller.)
    allowed = float(np.abs(lever) @ [_law_dim(cell[1]) for cell in swept])
    text = f"slope of ln median {gap} gap in ln {name}"
    source = computed_by(_law_dim, "P/d at each size")
    details = {
        "union bound": _UNION[gap][place],
        "medians": [float(np.median(drawn[cell][gap])) for cell in swept],
        "predicted medians": medians.tolist(),
        "slope linear in the levels": float(lever @ np.log(linear)),
    }
    return Measurement(text, predicted, estimate, stderr, allowed, controls, source, f"{gap}.{name}", details)


def _gap_figures(
    laws: dict[tuple[int, int], GapLaw], drawn: dict[tuple[int, int], dict[str, np.ndarray]]
) -> list[tuple[str, object]]:
    figures: list[tuple[str, object]] = []
    for place, name, held in ((0, "student width m", "P = 16"), (1, "teacher width P", "m = 96")):
        fixed = (_FIXED_DIRECTIONS, _FIXED_WIDTH)[place]
        cells = [cell for cell in sorted(laws) if cell[1 - place] == fixed]
        x = [cell[place] for cell in cells]
        curves = {gap: (x, [laws[cell].median(gap) for cell in cells]) for gap in GAPS}
        points = {}
        for gap in GAPS:
            medians = np.array([np.median(drawn[cell][gap]) for cell in cells])
            # Nearly exponential gaps: the median of n has relative error 1/(ln 2 √n).
            points[gap] = (x, medians, medians / np.log(2) / np.sqrt([drawn[cell][gap].size for cell in cells]))
        caption = f"Medians of the gaps of Lemma 3.1 at {held}, equal weights, P* = P/2; dashed, derived."
        figures.append((caption, predicted_and_measured(curves, points, name, "median gap", log="xy")))
    return figures


_LINEAR = "logarithms linear in the levels"
_TAIL_WIDTH, _TAIL_DIRECTIONS, _TAILS = 24, 8, (0.01, 0.03, 0.1)


@claim(
    id="E31",
    title="Small gaps are rare in proportion",
    statement="A gap of Lemma 3.1 falls below Δ with a probability linear in Δ, far below the union bound.",
    latex=r"P(\delta<\Delta)=1-E\prod_{p\le P_*}\Big(\frac{F(s_p/(1+\Delta))}{F(s_p)}\Big)^{n_p}\propto\Delta",
    source=f"{_PAPER}, Lemma 3.1 (probability 1 − δ); law derived",
    kind="asymptotic",
    regime="equal weights, P_* = P/2, m ≥ P; compared with the finite-size law",
    controls=(
        "union bound over all pairs",
        "selection forgotten: its pairs as independent",
        "∝ √Δ",
        "∝ Δ²",
        _LINEAR,
    ),
)
def run_small_gaps(context: Context) -> Iterator[Part]:
    """Share of draws with a gap below Δ, for each of the three, and its exponent in Δ."""
    m, count = _TAIL_WIDTH, _TAIL_DIRECTIONS
    wanted, power, draws = count // 2, _EXPONENT - 2, context.pick(400_000, 800_000)
    law, competition = GapLaw(EqualWeights(count, m), wanted, power), Competition.of(np.ones(count), m, _EXPONENT)
    blocks = [selected_gaps(x, wanted) for x in _score_blocks(context, ("E31", "scores"), competition, draws)]
    rank, pair = np.arange(1, wanted + 1), _TAILS[1] / (np.pi * power)
    # Ordered pairs that the union bound takes, and that the selected pairs have as rivals.
    pairs = {
        "row": (m * count * (count - 1), int(np.sum(count - rank))),
        "column": (count * m * (m - 1), int(np.sum(m - rank))),
        "threshold": ((m * count) ** 2, (m - wanted) * (count - wanted)),
    }
    for gap in GAPS:
        below = np.concatenate([block[gap] for block in blocks])[:, None] < np.array(_TAILS)
        shares = below.mean(axis=0)
        chance, linear = (-np.expm1(np.array([law.log_survival(gap, x, y) for x in _TAILS])) for y in (True, False))
        text = f"share of draws with a {gap} gap below {_TAILS[1]:g}, m = {m}, P = {count}"
        source = computed_by(_law_dim, "P/d")
        controls = {
            "union bound": min(1.0, float(pairs[gap][0] * pair)),
            "selection forgotten": float(-np.expm1(-pairs[gap][1] * pair)),
            _LINEAR: float(linear[1]),
        }
        at, stderr = (float(chance[1]), float(shares[1])), share_error(float(shares[1]), draws)
        yield Measurement(text, *at, stderr, _law_dim(count) * at[0], controls, source, gap)
        lever = slope_weights(_TAILS)
        relative = np.cov(below.T) / draws / np.outer(shares, shares)  # the same draws give all three shares
        text = f"exponent of that share in Δ = {', '.join(f'{x:g}' for x in _TAILS)}, {gap} gap"
        slopes = float(lever @ np.log(chance)), float(lever @ np.log(shares))
        error, slack = float(np.sqrt(lever @ relative @ lever)), float(np.abs(lever).sum()) * _law_dim(count)
        yield Measurement(text, *slopes, error, slack, {"∝ √Δ": 0.5, "∝ Δ²": 2.0}, source, f"{gap}.exponent")


_REACH = 1.0  # in units of d^(−1/2): the lemma's bound on a selected overlap


@claim(
    id="E26",
    title="Width that suffices",
    statement="All P teachers are selected with overlaps above 1/√d once m − P exceeds a constant, so P log P is ample.",
    latex=r"\Pr=1-\sum_j(-1)^{j-1}\binom Pj\frac{M+2j}{M+j}\frac{(M+P)!(M+j)!}{M!(M+P+j)!}F(1)^{j(M+j)},\ M=m-P",
    source=f"{_PAPER}, Lemma 3.1 and Theorem 2.1 (m of order P log P); law derived",
    kind="exact",
    regime="exact for equal weights and for weights far apart; Poisson count of failures for others",
    controls=(
        "no deflation: each neuron takes its own favourite",
        "each teacher takes its best neuron, shared or not",
        "independent of the weights",
    ),
)
def run_success(context: Context) -> Iterator[Part]:
    """Share of draws in which all P teachers are selected with squared overlap 1/d or more."""
    points = []
    for directions, spare in ((32, 3), (32, 8), (64, 8)):
        exact = EqualWeights(directions, directions + spare).success(_REACH)
        points.append(
            (directions, spare, _success(context, np.ones(directions), spare, exact, 0.0, f"P{directions}.M{spare}"))
        )
    yield from (measured for _, _, measured in points)
    weights = np.arange(1, 33.0) ** -2.0
    law = selection_law(Competition.of(weights, 40, _EXPONENT))
    predicted = success_probability(law, _REACH)
    equal = {"independent of the weights": EqualWeights(32, 40).success(_REACH)}
    uneven = _success(context, weights, 8, predicted, np.log(predicted) ** 2 / 2, "uneven", equal)
    yield uneven
    count, spare = 16, 2
    apart = _APART ** np.arange(count)
    predicted = well_separated_success(count, count + spare, _REACH)
    # A smaller weight comes first only where an overlap with a larger one is smaller still: the chance of one such pair.
    unlikely = count * (count + spare) * _APART ** (1 / (_EXPONENT - 2.0)) * float(GAUSSIAN.from_tail(1e-9))
    equal = {"independent of the weights": EqualWeights(count, count + spare).success(_REACH)}
    yield _success(context, apart, spare, predicted, unlikely, "apart", equal, finer=6)
    enough = int(np.ceil(16 * np.log(16)))
    weights = np.arange(1, 17.0) ** -1.0
    law = selection_law(Competition.of(weights, enough, _EXPONENT))
    yield _success(context, weights, enough - 16, success_probability(law, _REACH), 0.0, "PlogP")
    yield _success_figure(points, uneven)


#: Ratio of neighbouring weights that counts as far apart.
_APART = 1e-15


def _success(
    context: Context,
    weights: np.ndarray,
    spare: int,
    predicted: float,
    allowance: float,
    key: str,
    more: Mapping[str, float] | None = None,
    *,
    finer: int = 1,
) -> Measurement:
    """`more`: controls of this case alone. `finer`: times as many draws as such a case has."""
    count, width = weights.size, weights.size + spare
    competition = Competition.of(weights, width, _EXPONENT)
    # What depends on the weights needs finer eyes.
    draws = max(
        finer * context.pick(5000 if more else 800, 15_000), draws_to_see(predicted, 0.03 if context.full else 0.045)
    )
    scores = _selected(context, ("E26", "scores", key), competition, draws)
    share = float(np.mean(np.all(scores >= competition.a * _REACH**competition.power, axis=1)))
    alone = float((-np.expm1(width * competition.law.log_cdf(_REACH))) ** count)
    controls = {
        "no deflation: each neuron takes its own favourite": float(covering_probability(competition)[-1]),
        **({"each teacher takes its best neuron, shared or not": alone} if predicted < 0.99 else {}),
        **(more or {}),
    }
    decay = "equal weights" if weights[-1] == 1 else f"a_max/a_min = {weights[0] / weights[-1]:.4g}"
    allowed = allowance + _law_dim(count)
    text = f"share of draws with every teacher selected above 1/√d, P = {count}, m = {width}, {decay}"
    source = computed_by(_law_dim, "second Bonferroni term where failures are counted as Poisson; P/d")
    details = {"spare neurons": spare, "P ln P": count * float(np.log(count))}
    return Measurement(text, predicted, share, share_error(share, draws), allowed, controls, source, key, details)


def _success_figure(points: list[tuple[int, int, Measurement]], power_law: Measurement) -> tuple[str, object]:
    spare = np.arange(0, 25)
    curves: dict[str, Curve] = {}
    measured: dict[str, Points] = {}
    for directions in (32, 64):
        name = f"P = {directions}, equal weights"
        curves[name] = (spare, [EqualWeights(directions, directions + int(x)).success(_REACH) for x in spare])
        mine = [(x, found) for p, x, found in points if p == directions]
        measured[name] = ([x for x, _ in mine], [f.estimate for _, f in mine], [f.stderr for _, f in mine])
    measured["P = 32, weights 1/p²"] = (np.array([8]), np.array([power_law.estimate]), np.array([power_law.stderr]))
    rivals = {
        "weights far apart (limit)": (spare, [well_separated_success(32, 32 + int(x), _REACH) for x in spare]),
        "no deflation, P = 32": (
            spare,
            [covering_probability(Competition.of(np.ones(32), 32 + int(x), _EXPONENT))[-1] for x in spare],
        ),
    }
    caption = (
        "Probability that all teachers are selected with squared overlap 1/d or more: a few spare neurons suffice, "
        "whatever P; without deflation about P ln P neurons are needed even for equal weights."
    )
    return caption, predicted_and_measured(curves, measured, "spare neurons m − P", "probability", rivals=rivals)


_TEACHERS = 64
_DECAYS = (0.8, 1.2)
_WIDTHS = (8, 16, 32)


@lru_cache(maxsize=16)
def _narrow(context: Context, width: int, decay: float, finer: int = 1) -> tuple[SelectionLaw, np.ndarray]:
    """A student too narrow for its 64 teachers: the law, and (draws, P) selected scores, `finer` times as many as usual."""
    competition = Competition.of(np.arange(1, _TEACHERS + 1.0) ** -decay, width, _EXPONENT)
    draws = finer * context.pick(16_000, 32_000)
    name: tuple[Word, ...] = ("E19-E27", "scores", width, f"{decay:g}")
    name += (finer,) if finer > 1 else ()  # no draws of two cases are alike
    return selection_law(competition), _selected(context, name, competition, draws)


_SECOND = computed_by(SelectionLaw.residual, "square of the law's correction of first order in 1/m")
#: What the law is without it.
_FLUID = "fluid limit without its correction"


_CLOSED = computed_by(
    none_missed, "squares of the first correction of each chance, and of what the closure adds to pairs' covariances"
)


def _beyond(law: SelectionLaw, every: np.ndarray) -> float:
    """What the mean of the first missed index may be wrong by: of each chance that it is beyond q, whose sum it is.

    By the square of what the correction of the single chances does to it, and of what the closure does beyond pairs.
    """
    count = law.competition.width
    kept, fluid = (np.log1p(-law.free(0.0, corrected=x))[:count] for x in (True, False))
    pairs = np.triu(law.covariance[:count, :count] * np.exp(-kept - kept[:, None]), 1).sum(axis=0)
    chance = every[1 : count + 1]
    single, closed = np.cumsum(kept - fluid), np.log(np.where(chance > 0, chance, 1.0)) - np.cumsum(kept + pairs)
    return float(chance @ (single**2 + closed**2))


def _left(corrected: float, fluid: float) -> float:
    """What a law may be wrong by: where its correction is a share c of it, the next is of the order of c²."""
    return abs(corrected) * float(np.log(corrected / fluid)) ** 2


@claim(
    id="E27",
    title="Which teachers a narrow student learns",
    statement="With m < P neurons the teachers up to a constant times m are learned; the first missed one is about m/2.",
    latex=r"\Pr(p\text{ selected})=1-\phi_p(0^+)",
    source=f"{_PAPER}, Appendix E; law derived",
    kind="asymptotic",
    regime="power-law weights; fluid limit with its first correction",
    controls=(
        "the m largest teachers are learned",
        "no deflation: each neuron takes its own favourite",
        "the same for p ≤ m/2",
        _FLUID,
    ),
)
def run_selected(context: Context) -> Iterator[Part]:
    """Which teachers a narrow student learns: first missed index, and whether the first quarter of m are all learned."""
    curves, points = {}, {}
    width = 16
    for decay in _DECAYS:
        law, scores = _narrow(context, width, decay, 3)  # its correction is 1 % of a share
        missed = np.hstack([scores == 0, np.ones((len(scores), 1), dtype=bool)])
        estimate, stderr = mean_and_error(missed.argmax(axis=1) + 1)
        alone = covering_probability(law.competition)
        quarter = width // 4
        share = float(np.mean(~missed[:, :quarter].any(axis=1)))
        every, independent = law.all_selected(), law.all_selected(correlated=False)
        favourite = "no deflation: each neuron takes its own favourite"
        first, others = law.first_missed(), law.first_missed(correlated=False)
        text, details = (
            f"first missed index, m = {width}, P = {_TEACHERS}, β = {decay}",
            {"first missed index / m": estimate / width},
        )
        controls = {"the m largest teachers are learned": width + 1.0, favourite: float(alone.sum())}
        allowed = _beyond(law, every) + _law_dim(_TEACHERS) * width
        details["without the correction"] = others
        yield Measurement(text, first, estimate, stderr, allowed, controls, _CLOSED, f"first.beta{decay}", details)
        text = f"share of draws that learn all teachers p ≤ m/4, m = {width}, β = {decay}"
        predicted, fluid = float(every[quarter]), float(independent[quarter])
        controls = {
            "the same for p ≤ m/2": float(every[2 * quarter]),
            favourite: float(alone[quarter]),
            _FLUID: fluid,
        }
        stderr, allowed = share_error(share, len(scores)), _left(predicted, fluid) + _law_dim(_TEACHERS)
        yield Measurement(text, predicted, share, stderr, allowed, controls, _SECOND, f"quarter.beta{decay}")
        name = f"β = {decay}"
        index = np.arange(1, _TEACHERS + 1)
        learned = 1 - missed[:, :-1].mean(axis=0)
        curves[name] = (index, 1 - law.missed)
        points[name] = (index, learned, np.sqrt(learned * (1 - learned) / len(scores)))
    ideal = {"the m largest": ([1, width, width, _TEACHERS], [1.0, 1.0, 0.0, 0.0])}
    caption = f"Probability that a student of width {width} learns teacher p; dashed, fluid limit and first correction."
    figure = predicted_and_measured(curves, points, "teacher p", "probability of being learned", rivals=ideal)
    yield caption, figure


@claim(
    id="E19-greedy",
    title="Width floor with greedy selection",
    statement="A narrow student leaves a constant times the ideal tail beyond m, because it misses some of the first "
    "m teachers.",
    latex=r"E\,\mathcal L_{id}=\tfrac12\varphi(1)\sum_pa_p^2\phi_p(s),\qquad\dot\phi_p=r\,\phi_p\,\frac{d\ln F_p}{d\ln s}",
    source=f"{_PAPER}, Proposition 2.2 and Appendix E; constant derived",
    kind="asymptotic",
    regime="m < P, power-law weights; fluid limit with its first correction",
    controls=(
        "the m largest teachers are learned",
        "any m teachers are learned",
        "ideal tail on the same widths",
        "slope 10 % larger",
        "every teacher has all neurons to itself",
        "typical overlap for every teacher",
        _FLUID,
    ),
)
def run_floor(context: Context) -> Iterator[Part]:
    """The loss that a narrow student leaves, over the ideal tail beyond m; its slope in m; the loss half-way."""
    curves, points, ideals = {}, {}, {}
    for decay in _DECAYS:
        square = np.arange(1, _TEACHERS + 1.0) ** (-2 * decay)
        tails = np.array([np.sum(square[m:]) for m in _WIDTHS])
        cases = [_narrow(context, m, decay) for m in _WIDTHS]
        floors = [mean_and_error((scores == 0) @ square) for _, scores in cases]
        predicted = np.array([law.residual(square) for law, _ in cases])
        fluid = np.array([law.residual(square, corrected=False) for law, _ in cases])
        yield _prefactor(decay, square, predicted[1] / tails[1], fluid[1] / tails[1], floors[1], tails[1])
        yield _floor_slope(decay, predicted, fluid, floors, tails)
        yield _half_way(decay, square, *cases[1])
        name = f"β = {decay}"
        curves[name] = (_WIDTHS, predicted / square.sum())
        points[name] = (
            _WIDTHS,
            [mean / square.sum() for mean, _ in floors],
            [error / square.sum() for _, error in floors],
        )
        ideals[f"ideal tail, β = {decay}"] = (_WIDTHS, tails / square.sum())
    caption = f"Loss left by a student of width m < P = {_TEACHERS}, over the initial loss, with greedy selection."
    figure = predicted_and_measured(
        curves, points, "student width m", "loss left / initial loss", rivals=ideals, log="xy"
    )
    yield caption, figure


def _prefactor(
    decay: float, square: np.ndarray, predicted: float, fluid: float, floor: tuple[float, float], tail: float
) -> Measurement:
    m = _WIDTHS[1]
    text = f"loss left over the ideal tail, m = {m}, P = {_TEACHERS}, β = {decay}"
    controls = {
        "the m largest teachers are learned": 1.0,
        "any m teachers are learned": float((1 - m / _TEACHERS) * square.sum() / tail),
        _FLUID: fluid,
    }
    mean, error, allowed = floor[0] / tail, floor[1] / tail, _left(predicted, fluid)
    return Measurement(text, predicted, mean, error, allowed, controls, _SECOND, f"prefactor.beta{decay}")


def _floor_slope(
    decay: float, predicted: np.ndarray, fluid: np.ndarray, floors: list[tuple[float, float]], tails: np.ndarray
) -> Measurement:
    mean, error = np.array(floors).T
    estimate, stderr, allowed = carried_slope(_WIDTHS, mean, error / mean, np.log(predicted / fluid) ** 2)
    slope, plain, ideal = (carried_slope(_WIDTHS, values)[0] for values in (predicted, fluid, tails))
    text = f"slope of ln(loss left) in ln m, m = 8 … 32, P = {_TEACHERS}, β = {decay}"
    controls = {"ideal tail on the same widths": ideal, "slope 10 % larger": 1.1 * slope, _FLUID: plain}
    details = {"asymptotic 1 − 2β": round(1 - 2 * decay, 6)}
    return Measurement(text, slope, estimate, stderr, allowed, controls, _SECOND, f"slope.beta{decay}", details)


def _half_way(decay: float, square: np.ndarray, law: SelectionLaw, scores: np.ndarray) -> Measurement:
    """Ideal loss when the scores above the one of rank m/2 are met: the law of T_p ∝ 1/score, summed over p."""
    problem = law.competition
    score = law.score_of_rank(problem.width / 2)
    estimate, stderr = mean_and_error((scores <= score) @ square / square.sum())
    typical = float(problem.law.from_tail(1 / problem.width))
    predicted = law.residual(square, score) / square.sum()
    free_for_all = np.exp(problem.width * problem.log_cdf(score))
    fluid = law.residual(square, score, corrected=False) / square.sum()
    text = f"loss over initial loss at the time when m/2 teachers are learned, m = {problem.width}, β = {decay}"
    controls = {
        "every teacher has all neurons to itself": float(free_for_all @ square / square.sum()),
        "typical overlap for every teacher": float(square @ (problem.threshold(score) > typical) / square.sum()),
        _FLUID: fluid,
    }
    allowed = _left(predicted, fluid)
    return Measurement(text, predicted, estimate, stderr, allowed, controls, _SECOND, key=f"half.beta{decay}")


@claim(
    id="E38",
    title="Width and time at once",
    statement="Where the floor in width equals what time has left, the loss lies between the larger of both and their sum.",
    latex=r"L(m,t)\asymp m^{1-2\beta}\vee\big(\eta t\,d^{1-J/2}\big)^{(1-2\beta)/\beta}",
    source=f"{_PAPER}, Proposition 2.2(b); value derived",
    kind="asymptotic",
    regime="m < P, power-law weights; fluid limit with its first correction",
    controls=("the larger of the two taken as exact", "their sum taken as exact", _FLUID),
)
def run_corner(context: Context) -> Iterator[Part]:
    """Loss over the width's floor at the time when directions with all neurons to themselves would leave that floor."""
    for decay in _DECAYS:
        square = np.arange(1, _TEACHERS + 1.0) ** (-2 * decay)
        for width in _WIDTHS:
            law, scores = _narrow(context, width, decay)
            floor, problem = law.residual(square), law.competition

            def alone(
                log_score: float, problem: Competition = problem, width: int = width, square: np.ndarray = square
            ) -> float:
                return float(np.exp(width * problem.log_cdf(np.exp(log_score))) @ square)

            log_score = optimize.brentq(lambda x, floor=floor: alone(x) - floor, -20.0, 20.0)
            score = float(np.exp(log_score))
            mean, error = mean_and_error((scores <= score) @ square / floor)
            predicted = law.residual(square, score) / floor
            fluid = law.residual(square, score, corrected=False) / floor
            text = (
                f"loss over the width's floor where time would leave as much, m = {width}, P = {_TEACHERS}, β = {decay}"
            )
            controls = {"the larger": 1.0, "their sum": 2.0}
            if width == _WIDTHS[0]:  # (of wider students the correction is no more than some errors)
                controls[_FLUID] = fluid
            allowed = _left(predicted, fluid)
            yield Measurement(text, predicted, mean, error, allowed, controls, _SECOND, f"m{width}.beta{decay}")


_RIVALS, _NARROW_DIM = 127, 256


@claim(
    id="S7",
    title="Width without deflation",
    statement="Without deflation the weakest teacher needs a width of P to a power that grows with the condition number.",
    latex=r"\Pr=\int f(g)\,F(g\kappa^{-1/(J-2)})^{P-1}dg\sim P^{-\kappa^{2/(J-2)}}",
    source="slides and talk of arXiv:2504.19983 (tensor-power baselines); integral derived",
    kind="exact",
    regime="P − 1 rivals of weight κ times one's own",
    controls=("exponent 10 % larger", "exponent κ^(2/(J−2)), its limit for huge P", "exponent κ"),
)
def run_tensor_power(context: Context) -> Iterator[Part]:
    """Exponent of P in the probability that the weakest teacher wins a neuron on its own."""
    # Given the other coordinates, the last one is a coordinate of a uniform vector of length `left` in what is left of R^d.
    freedom = _NARROW_DIM - _RIVALS
    rest = OverlapLaw(freedom)
    count = _RIVALS + 1
    rivals = {J: _drawn_rivals(context, J, context.pick(50_000, 100_000)) for J in (4, 6)}
    points = {}
    for condition, exponent in ((1.0, 4), (2.0, 4), (3.0, 4), (4.0, 4), (4.0, 6)):
        power = exponent - 2.0
        largest, left = rivals[exponent]
        needed = np.minimum(condition ** (1 / power) * largest / left, 1.0)
        mean, error = mean_and_error(rest.tail(np.sqrt(freedom) * needed))
        predicted = width_exponent(condition, count, power)
        asymptotic = condition ** (2 / power)
        controls = {"exponent 10 % larger": 1.1 * predicted}
        if condition > 1:
            controls["exponent κ^(2/(J−2)), its limit for huge P"] = asymptotic
        if condition not in (1.0, asymptotic):
            controls["exponent κ"] = condition
        text = f"−ln P(weakest wins)/ln P, P = {count}, κ = {condition:g}, J = {exponent}"
        estimate, stderr = float(-np.log(mean) / np.log(count)), float(error / mean / np.log(count))
        source = "quadrature; exact at every d, because ratios of a neuron's overlaps are ratios of Gaussians"
        key = f"J{exponent}.kappa{condition:g}"
        wins = weakest_wins(condition, count, power)
        details = {"probability": wins, "limit of the exponent": asymptotic}
        yield Measurement(text, predicted, estimate, stderr, 1e-9, controls, source, key, details)
        if asymptotic <= 2:  # of a rarer win the draws' weights are too uneven for an error
            text = f"P(weakest wins), P = {count}, κ = {condition:g}, J = {exponent}"
            rivals_of = {"exponent 10 % larger": wins**1.1}
            if condition > 1:
                rivals_of["exponent κ^(2/(J−2)), its limit for huge P"] = count**-asymptotic
            yield Measurement(text, wins, float(mean), float(error), 1e-9 * wins, rivals_of, source, f"{key}.share")
        if exponent == 4:
            points[f"κ = {condition:g}"] = ([count], [estimate], [stderr])
    sizes = np.geomspace(4, 1e12, 40)
    curves = {f"κ = {k}": (sizes, [width_exponent(k, p) for p in sizes]) for k in (1, 2, 3, 4)}
    caption = (
        "Width needed without deflation, as an effective power of P (J = 4); its limit κ is reached logarithmically."
    )
    figure = predicted_and_measured(curves, points, "teacher width P", "effective exponent", log="x")
    yield caption, figure


def _drawn_rivals(context: Context, exponent: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Of one neuron a draw: the largest overlap with its 127 rivals, and the norm of what is outside them."""
    others = np.abs(draw_overlaps(1, _RIVALS, _NARROW_DIM, draws, context.rng("S7", "rivals", exponent))[:, 0, :])
    return others.max(axis=1), np.sqrt(1 - np.sum(others**2, axis=1))
