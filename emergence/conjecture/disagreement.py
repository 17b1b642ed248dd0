"""What a disagreement looks like: a factor, an exponent or a trend; what is known to do that; the smallest problem with it."""

import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from emergence.conjecture.conjecture import Conjecture, pairs
from emergence.conjecture.symbols import LETTERS
from emergence.conjecture.table import Row
from emergence.options import kind, options, written
from emergence.refusal import is_refusal
from theory import InputError
from validation.statistics.regression import regress
from validation.statistics.standard_errors import mean_and_error

#: Factors that a convention makes, and which.
CONVENTIONS = {
    2.0: "twice: the loss without the ½ does that",
    0.5: "half: the loss with its ½ twice, or the slope of (f*−f)² for that of ½(f*−f)², does that",
    4.0: "four times: the loss without the ½, and a rate without its 2, do that",
    0.25: "a quarter: two factors ½ do that",
    math.sqrt(2): "√2: z²−1 in place of h2, or a norm in place of its square, does that",
    math.log(10): "ln 10: log10 in place of ln does that (log is the natural one)",
    1 / math.log(10): "1/ln 10: ln in place of log10 does that",
    1 / math.sqrt(2): "1/√2: h2 in place of z²−1, or a squared norm in place of its root, does that",
}
#: A power is told from a factor if it is so many standard errors from 0, and leaves at most this share of the scatter (two of
#: them a quarter of it: they fit more of what is none).
_CLEAR, _LEFT = 4.0, 0.5
#: A power below this beside a factor is what finite size leaves of the right one; the factor is what is wrong.
_SLIGHT = 0.1
#: Least likeness to a statement of the catalogue. Words that say nothing of a subject (half: that of half_time, mostly).
_LIKE = 0.2
_COMMON = frozenset({"the", "are", "and", "not", "for", "with", "has", "its", "than", "half"})
#: Options that do not make a problem smaller.
_KEPT = ("seed", "steps", "batch", "replicas")
#: Tries of the search for a small problem, and its seconds.
_TRIES, _SECONDS = 24, 60.0


@dataclass(frozen=True)
class Shape:
    """How measured/predicted behaves over all runs.

    Attributes:
        words: in a sentence. factor: at the middle. symbol, power: measured/predicted grows as a power of it; nothing and 0
            for a constant factor or a trend.
    """

    words: str
    factor: float
    symbol: str = ""
    power: float = 0.0


def shape(conjecture: Conjecture, rows: Sequence[Row]) -> Shape | None:
    """The shape of a disagreement; None where there are no ratios (signs differ, or values are 0).

    What is wrong with a slope is an exponent, whatever the ratio of the two.
    """
    if all(row.quantity.kind == "slope" for row in rows):
        return _exponent(rows)
    ratios = np.concatenate([row.measured / np.where(row.predicted == 0, np.nan, row.predicted) for row in rows])
    if not np.all(np.isfinite(ratios) & (ratios > 0)):
        return None
    logs = np.log(ratios)
    clusters = _clusters(rows)
    factor, scatter = float(np.exp(np.mean(logs))), float(np.std(logs))
    varying = list(_varying(conjecture, rows))
    left, best = _powers(varying, logs, clusters, 1)
    if left > _SLIGHT:
        least, two = _powers(varying, logs, clusters, 2)
        best = two if least <= _LEFT / 2 * left else best
    constant = scatter <= max(0.1, abs(math.log(factor)) / 4) and len(best) < 2
    grows = " ".join(f"{name}^{power:.3g} (±{error:.1g})" for name, power, error in best)
    if best and (not constant or abs(best[0][1]) >= _SLIGHT):
        words = f"an exponent: measured/predicted grows as {grows}"
        return Shape(words.replace("an exponent", "exponents") if len(best) > 1 else words, factor, *best[0][:2])
    ends = f"{ratios.min():.3g} to {ratios.max():.3g}"
    if constant:
        error = factor * _error_of_mean(logs, clusters)
        words = f"a constant factor: measured/predicted = {factor:.4g} (±{error:.1g})"
        words = words if scatter <= 0.1 else f"{words.replace('a constant', 'a')}, of runs from {ends}"
        return Shape(f"{words}, and grows as {grows}" if grows else words, factor)
    return Shape(f"a trend, or scatter, that no powers of two symbols explain: measured/predicted from {ends}", factor)


def _powers(
    varying: Sequence[tuple[str, np.ndarray]], logs: np.ndarray, clusters: np.ndarray, count: int
) -> tuple[float, list[tuple[str, float, float]]]:
    """What is left of the scatter by powers of `count` symbols that leave least: symbol, power and its error of each.

    All of it, and none, where not all are clear, or too much is left.
    """
    least, found = float(np.std(logs)), list[tuple[str, float, float]]()
    most = _LEFT / count**2 * least
    for chosen in itertools.combinations(varying, count):
        x = np.stack([column for _, column in chosen], axis=1)
        try:
            line = regress(x, logs, clusters)
        except InputError:  # too few runs tell a power
            continue
        left = float(np.std(logs - x @ line.slopes))
        if left <= most and left < least and np.all(np.abs(line.slopes) > _CLEAR * line.stderr):
            names = [name for name, _ in chosen]
            least, found = left, list(zip(names, line.slopes.tolist(), line.stderr.tolist(), strict=True))
    return least, found


def _exponent(rows: Sequence[Row]) -> Shape | None:
    """The shape of wrong slopes, all in one symbol."""
    gaps = np.concatenate([row.measured - row.predicted for row in rows])
    if not np.all(np.isfinite(gaps)):
        return None
    one, power = rows[0].quantity, float(np.mean(gaps))
    symbol = LETTERS.get(one.axis, written(one.axis))
    theory = float(np.mean(np.concatenate([row.predicted for row in rows])))
    error = _error_of_mean(gaps, _clusters(rows))
    about = f" (±{error:.1g})" if error else ""
    words = f"an exponent: measured {symbol}^{theory + power:.3g}{about}, predicted {symbol}^{theory:.3g}"
    return Shape(words, math.nan, symbol, power)


def _varying(conjecture: Conjecture, rows: Sequence[Row]) -> Iterator[tuple[str, np.ndarray]]:
    """Logarithms (n,) of the symbols that differ between runs: of formulas, and of the grid."""
    names = dict.fromkeys(LETTERS.get(name, name) for name in conjecture.axes)
    for one in (conjecture.predict, *conjecture.rivals.values()):
        names |= dict.fromkeys(one.names)
    for name in names:
        try:
            values = np.concatenate([_of_runs(conjecture, row, name) for row in rows])
        except Exception as error:
            if is_refusal(error):
                continue
            raise
        if np.all(values != 0) and np.ptp(np.log(np.abs(values))) > 1e-9:
            yield name, np.log(np.abs(values))


def _of_runs(conjecture: Conjecture, row: Row, name: str) -> np.ndarray:
    """(n,) of the row's independent runs; of the first grid point for a slope over the grid."""
    found = {point.seed: conjecture.symbols(point, row.quantity).value(name) for point in reversed(row.points)}
    values = np.array([found[seed] for seed in dict.fromkeys(point.seed for point in row.points)])
    return values if values.size == row.measured.size else np.full(row.measured.size, values[0])


def _clusters(rows: Sequence[Row]) -> np.ndarray:
    """(n,) of which cluster each run of all rows is: those of one seed share their start at all grid points.

    Without chance each is one by itself.
    """
    if not any(row.random for row in rows):
        return np.arange(sum(row.measured.size for row in rows))
    return np.concatenate([np.arange(row.measured.size) for row in rows])


def _error_of_mean(values: np.ndarray, clusters: np.ndarray) -> float:
    """From the scatter of the clusters' own means; 0 of a single one."""
    means = np.array([values[clusters == one].mean() for one in np.unique(clusters)])
    return mean_and_error(means)[1] if means.size > 1 else 0.0


def known(conjecture: Conjecture, found: Shape, rows: Sequence[Row]) -> str:
    """What is known to make such a factor: a convention, or a symbol that has this value everywhere. Nothing if neither.

    Of curves of single runs it may be the law of their mean that is held against them.
    """
    single = any(row.of_single_runs and not row.quantity.across for row in rows)
    of_mean = (
        ['a law of the mean, where single runs are measured: mean = "replicas" is of their mean'] if single else []
    )
    if found.symbol:
        return "; ".join(of_mean)
    near = of_mean + [words for value, words in CONVENTIONS.items() if abs(found.factor / value - 1) < 0.03]
    letters = {name for one in (conjecture.predict, *conjecture.rivals.values()) for name in one.names}
    for name in sorted(letters | set(conjecture.model.symbols)):
        try:
            values = np.concatenate([_of_runs(conjecture, row, name) for row in rows])
        except InputError:
            continue
        for text, value in ((name, values), (f"1/{name}", 1 / values)):
            if np.ptp(values) == 0 and abs(found.factor / float(value[0]) - 1) < 0.03 and value[0] != 1:
                near.append(f"it is {text} = {float(value[0]):.4g}")
    return "; ".join(near)


def statements(text: str, count: int = 2) -> list[str]:
    """The catalogue's statements that are most like a text: the cosine of their words, each by how rare it is.

    Those that share one word only, or little of all, are not like it.
    """
    claims, found = _catalogue()
    rare = Counter(word for words in found for word in words)
    own = _words(text)

    def size(words: frozenset[str]) -> float:
        return sum(math.log(len(found) / max(rare[word], 1)) ** 2 for word in words)

    def alike(words: frozenset[str]) -> float:
        shared = words & own
        return size(shared) / math.sqrt(size(words) * size(own)) if len(shared) > 1 else 0.0

    order = sorted(range(len(found)), key=lambda place: -alike(found[place]))
    return [claims[place] for place in order[:count] if alike(found[place]) > _LIKE]


@cache
def _catalogue() -> tuple[list[str], list[frozenset[str]]]:
    from validation.judge.listing import listed

    claims = listed()
    words = [_words(f"{claim.title} {claim.statement}") for claim in claims]
    return [f"{claim.id} ({claim.title})" for claim in claims], words


def _words(text: str) -> frozenset[str]:
    return frozenset(word.rstrip("s") for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in _COMMON)


def smallest(conjecture: Conjecture, disagrees: Callable[[Conjecture], bool]) -> str:
    """The smallest problem that still disagrees, found by halving sizes, the grid and the runs in turn; in words.

    They say so where the search had no time, or no tries, for a smaller one: which one it ends at depends on the machine then.
    """
    tries, until = 0, time.monotonic() + _SECONDS
    found, again = conjecture, True
    while again:
        again = False
        for smaller in _smaller(found):
            late = time.monotonic() > until
            if late or tries >= _TRIES:
                spent = f"{_SECONDS:g} s" if late else f"{_TRIES} tries"
                return f"{_problem(found)} (search stopped after {spent}: smaller ones were not tried)"
            tries += 1
            if _still(smaller, disagrees):
                found, again = smaller, True
                break
    return _problem(found)


def _still(conjecture: Conjecture, disagrees: Callable[[Conjecture], bool]) -> bool:
    try:
        return disagrees(conjecture)
    except Exception as error:
        if is_refusal(error):  # such a problem cannot be
            return False
        raise


def _smaller(conjecture: Conjecture) -> Iterator[Conjecture]:
    """Half of something: the grid, a size, the runs."""
    for name, values in conjecture.axes.items():
        if len(values) > (2 if any(one.across == name for one in conjecture.quantities) else 1):
            yield replace(conjecture, axes={**conjecture.axes, name: values[: (len(values) + 1) // 2]})
    for name, value in _sizes(conjecture):
        half = kind(conjecture.model.problem, name).halved
        if name in conjecture.axes:
            halves, values = tuple(dict.fromkeys(map(half, conjecture.axes[name]))), conjecture.axes[name]
            if halves != values and len(halves) == len(values):
                yield replace(conjecture, axes={**conjecture.axes, name: halves})
        elif half(value) != value:
            yield replace(conjecture, fixed={**conjecture.fixed, name: half(value)})
    if len(conjecture.seeds) > 2:
        yield replace(conjecture, seeds=conjecture.seeds[: (len(conjecture.seeds) + 1) // 2])
    if conjecture.replicas is not None and conjecture.replicas > 3:
        yield replace(conjecture, replicas=conjecture.replicas // 2)


def _sizes(conjecture: Conjecture) -> Iterator[tuple[str, Any]]:
    """Options that are sizes of the problem, as they are."""
    echo = conjecture.points[0].resolved.echo()
    for name in options(conjecture.model.problem):
        if name in (*_KEPT, *conjecture.tied) or name not in conjecture.simulation.uses:
            continue
        own, value = kind(conjecture.model.problem, name), echo.get(name)
        if own.accepts(value) and own.halved(value) is not None:
            if name == "teacher_width" and "teacher_weights" in conjecture.fixed:
                continue
            yield name, value


def _problem(conjecture: Conjecture) -> str:
    given = {**conjecture.fixed, **{name: list(values) for name, values in conjecture.axes.items()}}
    counts = {"seed": len(conjecture.seeds), "replica": conjecture.replicas}
    more = "; " + ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items() if count is not None)
    sizes = {name: given[name] for name, _ in _sizes(conjecture) if name in given}
    return pairs(sizes or given) + more
