"""The page on false alarms, from the tallies."""

import math
from collections.abc import Callable, Mapping, Sequence

from dynamics.core.provenance import commit
from validation.judge.alarms import GENEROUS, GENEROUS_SEEDS, REJECTED, Share, Tally
from validation.judge.claim import Claim
from validation.report import alarms

Found = Mapping[str, Sequence[Tally]]

_HEAD = """# False alarms

Does the toolkit cry wolf? Claims are run under many seeds, and this page counts the verdicts of the runs made so far. It is
made by

```
emergence calibrate --seeds 100 --store DIR
python -m benchmarks.false_alarms --store DIR --page docs/false_alarms.md
```

of which the first can be killed and run again, and is not edited by hand. A cell of the store is one claim under one seed;
it counts as long as no code that the claim can reach has changed (theory, simulators, the rule of judgement) and the
libraries are the same. Preset: `{preset}`, at its usual size: no claim is shrunk for this table. Seeds are 0, 1, 2, …; one
that is missing is named. Code: commit `{commit}`.

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


def page(claims: Sequence[Claim], found: Found, preset: str, lost: Mapping[str, Sequence[int]]) -> str:
    """The page in Markdown. `found`: claim id → tallies; claims that are missing there were not run.

    `lost`: claim id → seeds before its last one that have no verdict.
    """
    random = {name: rows for name, rows in found.items() if any(row.random for row in rows)}
    fixed = [name for name in found if name not in random]
    missing = [claim.id for claim in claims if claim.id not in found]
    rows = [row for group in random.values() for row in group]
    parts = [
        _HEAD.format(preset=preset, commit=commit() or "unknown"),
        _summary(random, fixed, missing),
        f"## Seeds without a verdict\n\nThe claim raised an error there: {_list(_named(lost))}.\n",
        _section("Cried wolf more often than stated", rows, lambda row: row.too_many),
        _section(
            f"Controls rejected for fewer than {REJECTED:.0%} of the seeds", rows, lambda row: bool(row.weak_controls)
        ),
        _section(
            "Open questions (a control that survives is an answer, and counts nowhere above)",
            rows,
            lambda row: row.expected == "open",
        ),
        _section(
            "Error bars too small (C above 1 by 4 standard errors, no allowance)", rows, lambda row: row.overdispersed
        ),
        _section("Stated share above 1 % (few replicas)", rows, lambda row: row.few_replicas),
        _generous([row for group in found.values() for row in group]),
        "## Nothing random\n\nThe same numbers under two seeds, the controls' scores included, so no more were run: "
        f"{_list(fixed)}.\n",
        f"## Not run\n\nFewer than two seeds, so nothing is said of them here: {_list(missing)}.\n",
        f"## All quantities\n\n{table(rows)}\n",
    ]
    return "\n".join(parts)


def _summary(random: Found, fixed: Sequence[str], missing: Sequence[str]) -> str:
    rows = [row for group in random.values() for row in group if row.expected != "open"]
    true = [row for row in rows if row.expected == "agrees"]
    statistical = [row for row in true if row.statistical]
    false = _pooled(statistical)
    bounded = _pooled([row for row in true if not row.statistical])
    stated = sum(row.stated * row.seeds for row in statistical)
    wrong = _pooled([row for row in rows if row.expected == "disagrees"])
    controls = [share for row in rows for share in row.controls.values()]
    rejected = Share(sum(share.hits for share in controls), sum(share.total for share in controls))
    weakest = sum(share.value < REJECTED for share in controls)
    exact = [row for row in statistical if not row.allowed and not math.isnan(row.square[0])]
    seeds = [group[0].seeds for group in random.values()]
    lines = [
        "## Result\n",
        f"Claims that depend on the seed: {len(random)} with {len(rows)} judged quantities; "
        f"{sum(n >= 100 for n in seeds)} of them were run under 100 seeds or more, "
        f"{sum(20 <= n < 100 for n in seeds)} under 20 to 99, {sum(n < 20 for n in seeds)} under fewer. "
        f"Claims with nothing random in them: {len(fixed)}. Claims not run: {len(missing)}.\n",
        "| | verdicts | share | stated |",
        "|---|--:|--:|--:|",
        f"| false alarms, judged with a standard error | {_count(false)} | {alarms.share(false)} "
        f"| at most {_mean(stated, false)} |",
        f"| false alarms, judged by a bound alone | {_count(bounded)} | {alarms.share(bounded)} | 0 |",
        f"| statements printed wrongly that passed | {_count(wrong)} | {alarms.share(wrong)} | |",
        f"| controls rejected | {_count(rejected)} | {alarms.share(rejected)} | at least {REJECTED:.0%} |",
        f"| controls that were rejected for fewer than {REJECTED:.0%} of the seeds | {weakest} of {len(controls)} | | 0 |",
        "",
        "Quantities of one claim, and claims that share a simulation, are not independent: the intervals of these pooled "
        "shares take them as if they were; those of single quantities below rest on independent seeds.\n",
    ]
    if exact:
        lines.append(_calibration(exact))
    return "\n".join(lines)


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


def table(rows: Sequence[Tally]) -> str:
    """One line per quantity, in Markdown."""
    lines = ["| " + " | ".join(alarms.HEAD) + " |", "|---|--:|---|--:|--:|--:|--:|--:|---|"]
    return "\n".join(lines + ["| " + " | ".join(alarms.row(one)) + " |" for one in rows])


def _mean(total: float, share: Share) -> str:
    return alarms.small(total / share.total) if share.total else ""


def _count(share: Share) -> str:
    return f"{share.hits} of {share.total}"


def _named(lost: Mapping[str, Sequence[int]]) -> list[str]:
    return [f"{name} (seed {', '.join(map(str, seeds))})" for name, seeds in lost.items() if seeds]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
