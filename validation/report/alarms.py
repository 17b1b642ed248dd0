"""What verdicts over many seeds say, in words: the row of a quantity, and the sentence on a claim in its report."""

import math
from collections.abc import Sequence

from validation.judge.alarms import LEAST_SEEDS, Share, Tally

HEAD = ("quantity", "seeds", "verdicts", "false", "stated", "ν", "z̄", "C", "weakest control")


def row(tally: Tally) -> tuple[str, ...]:
    """The entries of a quantity under `HEAD`; an asterisk where a bias is allowed for."""
    verdicts = ", ".join(f"{count} {name}" for name, count in tally.verdicts.most_common())
    return (
        tally.id + ("*" if tally.allowed and tally.statistical else ""),
        str(tally.seeds),
        verdicts,
        "" if tally.expected == "open" else share(tally.false),
        small(tally.stated) if tally.statistical else "bound",
        ("∞" if math.isinf(tally.freedom) else f"{tally.freedom:.3g}") if tally.statistical else "",
        _with_error(*tally.mean),
        _with_error(*tally.square),
        "" if tally.weakest is None else f"{tally.weakest[0].replace('|', '∣')}: {share(tally.weakest[1])}",
    )


def sentence(rows: Sequence[Tally]) -> str:
    """The claim's quantity with most false alarms, and its weakest control; empty where too few seeds have been run."""
    rows = [tally for tally in rows if tally.random]
    if not rows or min(tally.seeds for tally in rows) < LEAST_SEEDS:
        return ""
    seeds = f"{rows[0].seeds} seeds"
    parts = []
    if judged := [tally for tally in rows if tally.expected != "open"]:
        most = max(judged, key=lambda tally: tally.false.value)
        what = "false alarms" if most.expected == "agrees" else "passed by mistake"
        parts.append(f"{what} {share(most.false)}{_of(most, judged)}")
    if controls := [(tally.weakest[1].value, tally) for tally in rows if tally.weakest is not None]:
        weak = min(controls, key=lambda pair: pair[0])[1]
        assert weak.weakest is not None
        name, rejected = weak.weakest
        parts.append(f"weakest control “{name}” rejected {share(rejected)}{_of(weak, rows)}")
    return f"{seeds}: {'; '.join(parts)}. Intervals of 95 %."


def _of(tally: Tally, rows: Sequence[Tally]) -> str:
    return f" ({tally.id}, the worst of {len(rows)} quantities)" if len(rows) > 1 else ""


def share(found: Share) -> str:
    """A share with its interval; empty for a share of nothing."""
    low, high = found.interval
    return f"{percent(found.value)} [{percent(low)}, {percent(high)}]" if found.total else ""


def percent(value: float) -> str:
    """Two digits, but never 100 % for what is less."""
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    if value > 0.9:
        return f"{100 - float(f'{100 * (1 - value):.2g}'):.6g} %"
    return f"{100 * value:.2g} %"


def small(value: float) -> str:
    """A probability."""
    return f"{value:.1e}" if value < 1e-3 else percent(value)


def _with_error(value: float, error: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f} ± {error:.2f}"
