"""What verdicts over many seeds say, in words: the row of a quantity, and the sentence on a claim in its report."""

import math
from collections.abc import Callable, Mapping, Sequence

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
    parts = []
    if judged := {tally.id: tally.false for tally in rows if tally.expected != "open"}:
        what = "passed by mistake" if rows[0].expected == "disagrees" else "false alarms"
        parts.append(f"{what} {_extreme(judged, max)}")
    if controls := {tally.id: tally.weakest for tally in rows if tally.weakest is not None}:
        name, _ = min(controls.values(), key=lambda weak: weak[1].value)
        rejected = _extreme({quantity: found for quantity, (_, found) in controls.items()}, min)
        parts.append(f"weakest control “{name}” rejected {rejected}")
    return f"{rows[0].seeds} seeds: {'; '.join(parts)}. Intervals of 95 %."


def _extreme(shares: Mapping[str, Share], which: Callable[..., str]) -> str:
    """The largest or smallest of the shares of quantities, and whose it is."""
    quantity = which(shares, key=lambda name: shares[name].value)
    found, same = shares[quantity], len({one.value for one in shares.values()}) == 1
    of = (
        ""
        if len(shares) == 1
        else f" (each of {len(shares)})"
        if same
        else f" ({quantity}, the worst of {len(shares)})"
    )
    return share(found) + of


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
