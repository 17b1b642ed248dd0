"""The page on false alarms, from the rows of the claims."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from benchmarks.alarm_rows import Row, earlier
from validation.judge.alarms import GENEROUS, GENEROUS_SEEDS, REJECTED, Share, Tally
from validation.report import alarms

Rows = Mapping[str, Row]
#: Marks what is of an earlier version.
_EARLIER = "†"

_HEAD = """# False alarms

Does the toolkit cry wolf? Claims are run under many seeds, and this page counts the verdicts of the runs made so far. It is
made by

```
emergence calibrate --seeds 20 --store DIR E26 Q8
python -m benchmarks.false_alarms --store DIR --data docs/false_alarms.json --page docs/false_alarms.md
```

of which the first can be killed and run again, and is not edited by hand. The second puts what the store has of the present
code in place of those claims' rows in `false_alarms.json`, and leaves the others as they are. A row stands for the commit that
it names. † marks a row of an earlier version: what the claim promises ([its lock](judging.md#add-a-claim)) has changed since,
so that it says little of the present claim; it counts in no number of the result and in no list. Preset: quick, at its usual
size: no claim is shrunk for this table. Seeds are 0, 1, 2, …; one that is missing is named.

## What is counted

* **false**: for a true claim, the share of seeds for which |estimate − predicted| > allowance + 4·stderr, whatever became of
  its controls; for a statement that is expected to disagree (as printed wrongly), the share of seeds for which it passed. With
  the exact binomial (Clopper–Pearson) interval of 95 %.
* **stated**: how often the rule lets a true claim disagree, if its estimate is normal and any bias within the allowance. The
  standard error is itself estimated, with ν degrees of freedom, so this is P(|t_ν| > 4) of Student's t: 6·10⁻⁵ for a known
  standard error, 4·10⁻⁴ for 32 replicas, 5·10⁻³ for 8, 3 % for 4. ν is measured, from the spread of stderr² over the seeds
  (ν = 2·mean²/variance), not asked of the claim; problems that differ from seed to seed also spread it: ν is then too small,
  and is taken as 3 (four replicas, the fewest of any claim) if it is below.
* **z̄**: mean of z = (estimate − predicted)/stderr with its standard error; 0 if nothing is biased.
* **C**: Σ(estimate − predicted)²/Σstderr² with its standard error; 1 if error bars are right and nothing is biased, above 1
  if they are too small. An asterisk marks quantities with an allowance, where a bias within it is right and z̄ and C show it.
* **weakest control**: of the quantity's controls, the one that was rejected for the fewest seeds, with its interval.

A quantity with no standard error is judged by its allowance alone: a bound, not a share, so any disagreement is a false alarm.
"""


def page(rows: Rows, now: Mapping[str, str]) -> str:
    """The page in Markdown. `now`: id of each claim of the catalogue → digest of what it promises."""
    old = earlier(rows, now)
    present = {name: row for name, row in rows.items() if name not in old}
    random = {name: row for name, row in present.items() if row.random}
    drawn = [tally for row in random.values() for tally in row.tallies]
    lost = {name: row.lost for name, row in rows.items()}
    fixed = [name + _EARLIER * (name in old) for name, row in rows.items() if not row.random]
    parts = [
        _HEAD,
        _summary(present, random, old, [name for name in now if name not in rows]),
        f"## Seeds without a verdict\n\nThe claim raised an error there: {_list(_named(lost))}.\n",
        _section("Cried wolf more often than stated", drawn, lambda row: row.too_many),
        _section(
            f"Controls rejected for fewer than {REJECTED:.0%} of the seeds", drawn, lambda row: bool(row.weak_controls)
        ),
        _section(
            "Open questions (a control that survives is an answer, and counts nowhere above)",
            drawn,
            lambda row: row.expected == "open",
        ),
        _section(
            "Error bars too small (C above 1 by 4 standard errors, no allowance)", drawn, lambda row: row.overdispersed
        ),
        _section("Stated share above 1 % (few replicas)", drawn, lambda row: row.few_replicas),
        _generous([tally for row in present.values() for tally in row.tallies]),
        "## Nothing random\n\nThe same numbers under two seeds, the controls' scores included, so no more were run: "
        f"{_list(fixed)}.\n",
        f"## Not run\n\nNothing is said of them here: {_list([name for name in now if name not in rows])}.\n",
        f"## Of an earlier version\n\nTo be run again: {_list(old)}.\n",
        _commits(rows),
        f"## All quantities\n\n{table([tally for row in rows.values() if row.random for tally in row.tallies], old)}\n",
    ]
    return "\n".join(parts)


def _commits(rows: Rows) -> str:
    """Which code each row is of, and what the older ones do not hold."""
    of: dict[str, list[str]] = {}
    for name, row in rows.items():
        of.setdefault(row.commit, []).append(name)
    lines = [f"* `{commit}`: {', '.join(names)}" for commit, names in of.items()]
    part = [name for name, row in rows.items() if not row.whole]
    if part:
        lines += [
            "",
            "Rows that were made before there was a data file hold of each quantity only the weakest control, the largest "
            f"deviation only where it is far below its allowance, and ν to three digits: {', '.join(part)}.",
        ]
    return "\n".join(["## Of which code\n", *lines, ""])


def _summary(present: Rows, random: Rows, old: Sequence[str], missing: Sequence[str]) -> str:
    rows = [tally for row in random.values() for tally in row.tallies if tally.expected != "open"]
    true = [row for row in rows if row.expected == "agrees"]
    statistical = [row for row in true if row.statistical]
    false = _pooled(statistical)
    bounded = _pooled([row for row in true if not row.statistical])
    stated = sum(row.stated * row.seeds for row in statistical)
    wrong = _pooled([row for row in rows if row.expected == "disagrees"])
    controls = [
        share for row in random.values() if row.whole for tally in _judged(row) for share in tally.controls.values()
    ]
    rejected = Share(sum(share.hits for share in controls), sum(share.total for share in controls))
    weakest = [tally.weakest[1] for tally in rows if tally.weakest is not None]
    weak = sum(share.value < REJECTED for share in weakest)
    exact = [row for row in statistical if not row.allowed and not math.isnan(row.square[0])]
    seeds = [row.seeds for row in random.values()]
    lines = [
        "## Result\n",
        f"Claims that depend on the seed: {len(random)} with {sum(len(row.tallies) for row in random.values())} judged "
        f"quantities; {sum(n >= 100 for n in seeds)} of them were run under 100 seeds or more, "
        f"{sum(20 <= n < 100 for n in seeds)} under 20 to 99, {sum(n < 20 for n in seeds)} under fewer. "
        f"Claims with nothing random in them: {len(present) - len(random)}. Claims whose rows are of an earlier version: "
        f"{len(old)}. Claims not run: {len(missing)}.\n",
        "| | verdicts | share | stated |",
        "|---|--:|--:|--:|",
        f"| false alarms, judged with a standard error | {_count(false)} | {alarms.share(false)} "
        f"| at most {_mean(stated, false)} |",
        f"| false alarms, judged by a bound alone | {_count(bounded)} | {alarms.share(bounded)} | 0 |",
        f"| statements printed wrongly that passed | {_count(wrong)} | {alarms.share(wrong)} | |",
        f"| controls rejected, where all are known | {_count(rejected)} | {alarms.share(rejected)} "
        f"| at least {REJECTED:.0%} |",
        f"| quantities whose weakest control was rejected for fewer than {REJECTED:.0%} of the seeds "
        f"| {weak} of {len(weakest)} | | 0 |",
        "",
        "Quantities of one claim, and claims that share a simulation, are not independent: the intervals of these pooled "
        "shares take them as if they were; those of single quantities below rest on independent seeds.\n",
    ]
    if exact:
        lines.append(_calibration(exact))
    return "\n".join(lines)


def _judged(row: Row) -> Iterable[Tally]:
    return (tally for tally in row.tallies if tally.expected != "open")


def _pooled(rows: Sequence[Tally]) -> Share:
    """False ones among all verdicts that could be."""
    return Share(sum(row.false.hits for row in rows), sum(row.false.total for row in rows))


def _calibration(rows: Sequence[Tally]) -> str:
    """How many of the quantities without allowance have z̄ and C within two standard errors of their nominal values."""
    mean = sum(abs(row.mean[0]) <= 2 * row.mean[1] for row in rows)
    square = sum(abs(row.square[0] - 1) <= 2 * row.square[1] for row in rows)
    pooled = sum(row.square[0] for row in rows) / len(rows)
    return (
        f"Of the {len(rows)} quantities with a standard error and no allowance, {mean} have a mean z within two standard "
        f"errors of 0 and {square} a C within two of 1 (nominally 95 %); their mean C is {pooled:.3f}.\n"
    )


def _generous(rows: Sequence[Tally]) -> str:
    """Allowances that nothing came near."""
    found = [f"| {row.id} | {row.seeds} | {row.taken:.2g} |" for row in rows if row.generous]
    table = "\n".join(["| quantity | seeds | largest deviation / allowance |\n|---|--:|--:|", *found])
    title = (
        f"Allowances more than {GENEROUS:g} times the largest deviation, where nothing is random or of {GENEROUS_SEEDS} "
        "seeds or more"
    )
    return f"## {title}\n\n{table if found else 'None.'}\n"


def _section(title: str, rows: Sequence[Tally], wanted: Callable[[Tally], bool]) -> str:
    chosen = [row for row in rows if wanted(row)]
    return f"## {title}\n\n" + (f"{table(chosen)}\n" if chosen else "None.\n")


def table(tallies: Sequence[Tally], old: Collection[str] = ()) -> str:
    """One line per quantity, in Markdown; those of the `old` claims are marked."""
    lines = ["| " + " | ".join(alarms.HEAD) + " |", "|---|--:|---|--:|--:|--:|--:|--:|---|"]
    for tally in tallies:
        name, *cells = alarms.row(tally)
        mark = _EARLIER * (tally.id.partition(".")[0] in old)
        lines.append("| " + " | ".join([name + mark, *cells]) + " |")
    return "\n".join(lines)


def _mean(total: float, share: Share) -> str:
    return alarms.small(total / share.total) if share.total else ""


def _count(share: Share) -> str:
    return f"{share.hits} of {share.total}"


def _named(lost: Mapping[str, Sequence[int]]) -> list[str]:
    return [f"{name} (seed {', '.join(map(str, seeds))})" for name, seeds in lost.items() if seeds]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
