"""``emergence check-law``: is a rule, or are inputs, of the user's own simulated exactly in law?"""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from emergence import table
from emergence.models import module_of
from emergence.models.declared_problem import from_file, inputs_of, rule_of, stepping
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result
from emergence.values import Whole

if TYPE_CHECKING:
    from validation.experiments.declared_law import Judged

HEADERS = ("student", "inputs", "samples", "target", "d", "tests", "max |z|", "p", "p of the mistake", "verdict")
_SAID = {
    "agrees": "the exact simulator has the law of explicit vectors, as far as these tests see",
    "differs": "the exact simulator has another law: the rule does not treat its vectors by inner products alone",
    "blind": "a mistake built into the simulator on purpose was not rejected: raise --replicas",
}


def run(arguments: argparse.Namespace) -> Result:
    """Simulate every student, inputs, batch and target at least once in both ways, and compare the laws.

    Status 1 if one differs. Refuses a rule that does not turn with the axes, and a file with neither RULE nor INPUTS.
    """
    replicas = Whole(100).check("--replicas", arguments.replicas)
    text = arguments.what
    rule, inputs = _declared(text)
    from validation.experiments.declared_law import check_law

    with Progress(arguments.quiet) as progress, stepping(text):
        judged = check_law(rule, inputs, replicas=replicas, seed=arguments.seed, progress=progress)
    verdicts = [one.verdict(len(judged)) for one in judged]
    found = next((one for one in ("differs", "blind") if one in verdicts), "agrees")
    entries = [_entry(one, verdict) for one, verdict in zip(judged, verdicts, strict=True)]
    document = {"rule": text, "replicas": replicas, "seed": arguments.seed, "law": found, "problems": entries}
    lines = [table.render(HEADERS, [list(entry.values()) for entry in entries]), "", f"{text}: {found}: {_SAID[found]}"]
    return Result(document, "\n".join(lines), 0 if found == "agrees" else 1)


def _declared(text: str) -> tuple[Any, Any]:
    """A rule, or what makes it, and inputs; None for what a file does not have. Raises `InputError`."""
    from theory.declared.text import parse_rule

    if not text.endswith(".py"):
        parse_rule(text, step_size=1.0)
        return partial(parse_rule, text), None
    has = [name for name in ("RULE", "INPUTS") if hasattr(module_of(text), name)]
    if not has:
        refuse(f"file {text!r} has neither RULE nor INPUTS: give it one of them, of theory.declared")
    if "RULE" in has:
        rule_of(text, {}, 1.0)  # refuses what is none
    return (from_file(text, "RULE") if "RULE" in has else None), (inputs_of(text) if "INPUTS" in has else None)


def _entry(judged: "Judged", verdict: str) -> dict[str, Any]:
    problem, test = judged.problem, judged.test
    return {
        "student": problem.student,
        "inputs": problem.inputs,
        "samples": problem.samples,
        "target": problem.target,
        "dim": judged.dim,
        "tests": test.count,
        "largest_z": test.largest_z,
        "p": test.p,
        "mistake_p": max((one.p for one in judged.mistakes.values()), default=None),
        "verdict": verdict,
    }
