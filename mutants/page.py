"""The page on mutants, from what was found so far."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from mutants.outcome import BOTH, CLAIM, CLAIM_OPEN, NEITHER, OPEN, SAME, TEST, TEST_OPEN, Outcome
from validation.judge.alarms import Share

_COLUMNS = (BOTH, TEST, CLAIM, NEITHER, TEST_OPEN, CLAIM_OPEN, OPEN, SAME)
GOALS = {"tests": 0.97, "claims": 0.60}
_LONGEST = 160

_HEAD = """# Mutants

Formulas are broken one at a time, in a copy of the tree, and tests and claims are asked who notices. The page is made by

```
make mutants ARGS='--seed {seeds} --count {count}'
```

which can be killed and run again, and is not edited by hand. Code: `{commit}`. Claims: preset `quick`, seed {claim_seed}.

A mutant is one change of one expression of `theory`, `dynamics`, or of the judge and its statistics (`validation/judge`,
`statistics`, `experiments`, `comparisons`; texts, pictures, files and input checks apart):

* **factor**: a constant × 1.05. **exponent**: ± 1, or a square root left out. **sign**: + for −, − for +.
* **summand**: one left out. **border**: < for ≤, > for ≥, or the other way round.
* **swap**: neighbouring indices, or neighbouring arguments of one type; a transpose left out.
* **count**: a whole number in a sum, degrees of freedom among them, ± 1. **error bar**: a standard error or an allowance × 2
  or × ½.

Mutants that change no number that matters are *equivalent*: each was looked at by a person, and is in
`mutants/equivalent.toml` with the reason.

Of each statement at most one is drawn, at random; the order is the seed's. All that are drawn are in the copy, each behind a
switch that notes when it is asked, so that one run of a file of tests, or of a claim, with none of them on tells which ones it
comes by. Asked are those that come by, the cheapest first, until one notices: a test fails, a verdict is not the expected one,
or the process stops with an error or takes 30 s and three times its processor time. A test that fails and a process that stops
count only if they do so again alone, and do not without the mutant. First the tests that come by, then the rest of their
files, which may use what those have compiled.

`mutants.json` keeps the answers, and who comes by. That somebody noticed counts as long as the mutated statement is the same,
and so is the test that noticed, with all that its file has beside other tests, or the claim's file; what else has changed is
not looked at. That nobody did counts as long as the mutated file and the files of all that came by are the same, and nobody
new comes by. The others are asked again.

Tests have a budget of processor time for each mutant, and so have claims; where one was spent before all were asked, that side
is *not finished*, and has not noticed. *Alone* means that the other side was asked to the end, and *neither* that both were.
The intervals are exact binomial ones of 95 %.
"""


def page(found: Mapping[int, Sequence[Outcome]], count: int, claim_seed: int, commit: str) -> str:
    """Of the mutants of each seed that were tried."""
    several = list({one.mutant.digest: one for outcomes in found.values() for one in outcomes}.values())
    same = [one for one in several if one.name == SAME]
    counted = [one for one in several if one.name != SAME and one.tried]
    neither = [one for one in counted if not one.tests.notice and not one.claims.notice]
    seeds = " ".join(str(seed) for seed in found)
    parts = [
        _HEAD.format(seeds=seeds, count=count, commit=commit, claim_seed=claim_seed),
        *(_result(outcomes, seed) for seed, outcomes in found.items()),
        f"## By package\n\n{_table([*counted, *same], lambda one: one.package)}\n",
        f"## By kind\n\n{_table([*counted, *same], lambda one: one.mutant.kind)}\n",
        f"## Noticed by nothing\n\n{_list(one for one in neither if one.name == NEITHER)}\n",
        f"## Not finished, and not noticed so far\n\n{_list(one for one in neither if one.name == OPEN)}\n",
        "## Noticed by tests, and so far by no claim that comes by\n\n"
        f"{_list(one for one in counted if one.in_claims and one.tests.notice and not one.claims.notice)}\n",
        f"## Equivalent\n\n{_list(same, reasons=True)}\n",
    ]
    return "\n".join(parts)


def _result(outcomes: Sequence[Outcome], seed: int) -> str:
    """Of one seed, in all and by package, whose mutants are a sample each."""
    others = [one for one in outcomes if one.name != SAME]
    counted = [one for one in others if one.tried]
    used = [one for one in counted if one.in_claims]
    heard = [one for one in used if one.claims.notice]
    unknown = [one for one in counted if one.in_theory and not one.in_claims and not one.claims.finished]
    stops = sum(one.claims.notice.startswith("stops") for one in heard)
    left = sum(not one.tests.finished for one in counted)
    rows = [
        f"| by tests, in {name} | {_by_tests([one for one in counted if one.package == name])} | |"
        for name in sorted({one.package for one in counted})
    ]
    parts = [
        f"## Result, seed {seed}\n\nTried: {len(counted)} of {len(others)} mutants of seed {seed} (equivalent, and left out: "
        f"{len(outcomes) - len(others)}).{_sample(others)}\n",
        "| | noticed | share | goal |\n|---|--:|--:|--:|",
        f"| by tests, of all that are not equivalent | {_by_tests(counted)} | ≥ {GOALS['tests']:.0%} |",
        *(rows if len(rows) > 1 else ()),
        f"| by claims, of those in `theory` that a claim comes by | {_told(Share(len(heard), len(used)))} | "
        f"≥ {GOALS['claims']:.0%} |",
        f"\nOf those that tests did not notice, {left} are not asked to the end. Of the {len(heard)} that claims noticed, "
        f"{stops} stopped one with an error; the others changed a verdict. Of {len(unknown)} more in `theory` it is not known "
        "yet whether a claim comes by.\n",
    ]
    return "\n".join(parts)


def _sample(others: Sequence[Outcome]) -> str:
    """Whether those that were tried are the first ones, and so a sample: of all, of each package, or of nothing."""
    if _first(others):
        return ""
    if all(_first([one for one in others if one.package == name]) for name in {one.package for one in others}):
        return " Of each package they are the first ones: the shares by package are estimates, that of all is none."
    return " They were picked from these, not the first of them: the shares are theirs, and no estimate of the others'."


def _first(others: Sequence[Outcome]) -> bool:
    tried = [one.tried for one in others]
    return tried == sorted(tried, reverse=True)


def _by_tests(outcomes: Sequence[Outcome]) -> str:
    return _told(Share(sum(bool(one.tests.notice) for one in outcomes), len(outcomes)))


def _told(share: Share) -> str:
    low, high = share.interval
    digits = 0 if share.hits in (0, share.total) else 1  # 248 of 249 are not 100%
    value = f"{share.value:.{digits}%} ({low:.{digits}%} – {high:.{digits}%})" if share.total else "–"
    return f"{share.hits} of {share.total} | {value}"


def _table(tried: Sequence[Outcome], group: Callable[[Outcome], str]) -> str:
    head = f"| | {' | '.join(_COLUMNS)} | all |\n|---|{'--:|' * (len(_COLUMNS) + 1)}"
    rows = []
    for name in [*sorted({group(one) for one in tried}), "all"]:
        found = [one for one in tried if name in ("all", group(one))]
        counts = Counter(one.name for one in found)
        rows.append(f"| {name} | {' | '.join(str(counts[key]) for key in _COLUMNS)} | {len(found)} |")
    return "\n".join([head, *rows])


def _list(outcomes: Iterable[Outcome], reasons: bool = False) -> str:
    rows = [_row(one, reasons) for one in outcomes]
    last = "why" if reasons else "came by, said nothing"
    return "\n".join([f"| mutant | where | change | {last} |\n|---|---|---|---|", *rows]) if rows else "None."


def _row(one: Outcome, reasons: bool) -> str:
    mutant = one.mutant
    change = f"{mutant.kind}: `{_short(mutant.change)}`"
    last = one.reason if reasons else f"{one.tests.silent} files, {one.claims.silent} claims"
    where = f"{mutant.path}:{mutant.line}"
    return f"| {mutant.digest} | `{where}` {mutant.function} | {change} | {last} |".replace("\n", " ")


def _short(text: str) -> str:
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    return short.replace("`", "'").replace("|", "\\|")
