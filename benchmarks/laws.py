"""``python -m benchmarks.laws --table docs/laws.md``: is the simulator of declared models exact in law for every rule?

Two-sample tests against explicit vectors for problems that cover all pairs of rule, student, inputs, samples of a step and
target, each also with a mistake built into the simulator. Status 1 if a law differs, or the mistake is not rejected.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from theory.declared.rule import RULES
from theory.declared.text import parse_rule
from validation.experiments.declared_law import (
    INPUTS,
    REJECTED,
    REPLICAS,
    STEP_SIZE,
    STEPS,
    Judged,
    design,
    judge_all,
    refusal,
)

_HEAD = """# Laws of the exact simulator

SGD of a declared model is simulated in inner products, at a cost free of the dimension, and exactly in law. Here the law is
tested for every rule: {replicas} replicas of {steps} steps against as many of SGD with explicit vectors of R^d, from one
start, in few dimensions, where a wrong number of degrees of freedom shows. Compared are all first and second moments of
overlaps and Gram matrices by eigenspace and of the second layer (Welch's z), and every distribution function
(Kolmogorov–Smirnov). The page is made by

```
python -m benchmarks.laws --table docs/laws.md
```

and is not edited by hand. The problems, {count} of them, cover all pairs of levels of rule, student, inputs, samples of a step
and target. `p` is the smallest p-value times the number of tests of the problem (1 where that exceeds 1). The last column is
the same for a mistake that is built into the simulator on purpose and must be rejected at p < {rejected:g}: what is outside
the known vectors drawn with d_i degrees of freedom in place of d_i less their number. The same for a rule or inputs of one's
own: `emergence check-law FILE.py`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Test, and print or write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.laws", description=__doc__)
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the page there, not on standard output")
    parser.add_argument("--rules", nargs="+", metavar="RULE", default=list(RULES), help="rules (all)")
    parser.add_argument("--replicas", type=int, default=REPLICAS, metavar="N", help=f"of each sample ({REPLICAS})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (0)")
    found = parser.parse_args(argv)
    rules = {name: partial(parse_rule, name, step_size=STEP_SIZE) for name in found.rules}
    refused = {name: why for name, make in rules.items() if (why := refusal(make))}
    exact = {name: make for name, make in rules.items() if name not in refused}
    problems = design(list(exact), list(INPUTS), 2, found.seed)
    judged = judge_all(problems, exact, INPUTS, replicas=found.replicas, seed=found.seed, progress=_say)
    text = page(judged, refused, found.replicas)
    if found.table is None:
        print(text)
    else:
        found.table.write_text(text, encoding="utf-8")
    return int(any(one.verdict(len(judged)) != "agrees" for one in judged))


def page(judged: Sequence[Judged], refused: dict[str, str], replicas: int) -> str:
    """The page in Markdown."""
    counts = [one.verdict(len(judged)) for one in judged]
    tests, least = sum(one.test.count for one in judged), min(judged, key=lambda one: one.test.p)
    weakest = max((one.p for x in judged for one in x.mistakes.values()), default=0.0)
    lines = [
        _HEAD.format(replicas=replicas, steps=STEPS, count=len(judged), rejected=REJECTED),
        "## Result\n",
        f"{counts.count('agrees')} of {len(judged)} problems agree, {counts.count('differs')} differ, "
        f"{counts.count('blind')} did not reject a mistake; {tests} tests. Smallest p of a problem: {least.test.p:.2g} "
        f"({least.problem.rule}, {least.problem.student}), of {len(judged)}. Largest p of a mistake: {weakest:.0e}.\n",
        *(f"Not among them, since they are refused: `{name}` ({why}).\n" for name, why in refused.items()),
        "| rule | student | inputs | samples | target | d | tests | max ∣z∣ | p | mistake |",
        "|---|---|---|---|---|--:|--:|--:|--:|--:|",
        *("| " + " | ".join(_cells(one)) + " |" for one in judged),
    ]
    return "\n".join(lines) + "\n"


def _cells(one: Judged) -> list[str]:
    problem = one.problem
    return [
        *(problem.rule, problem.student, problem.inputs, problem.samples, problem.target),
        *(str(one.dim), str(one.test.count), f"{one.test.largest_z:.2f}", f"{one.test.p:.2g}"),
        " ".join("< 1e-300" if x.p == 0 else f"{x.p:.0e}" for x in one.mistakes.values()),
    ]


def _say(fraction: float, text: str) -> None:
    print(f"{fraction:.0%} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
