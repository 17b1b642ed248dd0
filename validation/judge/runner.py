"""Running claims: in order, each judged, its dataset written as soon as it is there, the report at the end."""

import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from _emergence import __version__
from dynamics.core.clock import stopwatch
from dynamics.core.interrupted import Interrupted, Progress
from dynamics.core.precision import double_precision
from dynamics.core.provenance import machine, provenance
from dynamics.core.storage import write_dataset
from theory import InputError
from theory.core.errors import not_installed
from validation.judge import file_names
from validation.judge.apart import Submit, in_order, measured_apart, portable
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim, Outcome, Verdict, unjudged
from validation.judge.context import Context, TheoryUnderTest
from validation.judge.kept import Kept, Measured, drawn
from validation.judge.lock import LOCKED, of_catalogue, state
from validation.judge.run import Run
from validation.judge.selection import Selection, Wanted, select

#: Called with the verdicts on a claim as soon as it is judged, and whether its outcome was found, not measured now.
Reached = Callable[[Sequence[Verdict], bool], None]


def select_claims(ids: Sequence[Wanted] | Wanted | None) -> list[Claim]:
    """The claims asked for, in catalogue order; see `validation.judge.selection.select`. Raises `InputError`."""
    return selected(ids).claims


def selected(ids: Sequence[Wanted] | Wanted | None) -> Selection:
    """What is asked for of the catalogue, and of claims of one's own. Raises `InputError`."""
    return select(ids, catalogue())


@double_precision
def validate(
    ids: Sequence[Wanted] | Wanted | None = None,
    *,
    preset: str = "quick",
    seed: int = 0,
    out: Path | None = None,
    theory: TheoryUnderTest | None = None,
    progress: Progress | None = None,
    workers: Sequence[Submit] = (),
    kept: Kept | None = None,
    reached: Reached | None = None,
) -> Run:
    """Run claims and judge them.

    Args:
        ids: what to judge, all of the catalogue if empty: ids (``E7``) in any case, quantities of a claim (``E7.h3``),
            patterns (``E1*``), and claims of your own, also mixed.
        preset: ``quick`` or ``full`` (larger sizes, more samples). seed: of all randomness.
        out: folder for one netCDF file per claim and a report (``report.html`` for the whole catalogue; names of other runs
            say how they differ, see `validation.judge.file_names`); nothing is written without it.
        theory: what stands for entry points of `theory` (a conjecture, or a formula broken on purpose).
        progress: called with (fraction of claims done, text).
        workers: one function per process that shares the work, see `validation.judge.apart`; this process does it all if
            empty, and always the claims that no other process could import.
        kept: where outcomes are kept, as soon as they are there, and found by later runs.
        reached: called with the verdicts on each claim, in the order in which they are reached.

    Warns of a claim that declares a control and judges nothing by it, and of one that was edited after it was locked.

    Raises: `InputError` for an unknown id, quantity or preset, two claims of one id, a control that its claim does not
    declare, `theory` together with `workers` or `kept`, a process that died; `Interrupted` on Ctrl-C, with the run of the
    claims that were finished, and its report.
    """
    _check(preset, theory, workers, kept)
    known = {claim.id: claim for claim in catalogue()}
    selection = select(ids, list(known.values()))
    chosen = runnable(selection.claims, named=bool(ids))
    context = Context(preset, seed, theory or TheoryUnderTest())
    seconds = stopwatch()
    shadowing = any(known.get(claim.id, claim) != claim for claim in chosen)
    mark = file_names.mark(preset, seed, own_theory=theory is not None, own_claims=shadowing)
    where = f"{machine()}, Python {platform.python_version()}"
    run = Run([], {}, preset, seed, __version__, 0.0, where, mark)
    verdicts: dict[str, list[Verdict]] = {}
    tell = _Teller(progress, len(chosen))
    try:
        for claim, outcome, spent, found in _measured(chosen, context, workers, tell, kept):
            verdicts[claim.id] = _judge(run, claim, outcome, spent)
            if out is not None:
                path = out / file_names.dataset_name(claim.id, run.mark)
                made = provenance(seed=seed, preset=preset, theory=None if theory is None else theory.text)
                _store(path, claim, outcome, verdicts[claim.id], made)
                run.files[claim.id] = path
            tell.done += 1
            if reached is not None:
                reached([verdict for verdict in verdicts[claim.id] if selection.keeps(verdict)], found)
        selection.check([verdict for found in verdicts.values() for verdict in found])
        tell("done")
    except KeyboardInterrupt as stop:
        raise Interrupted(run, f"after {tell.done} of {len(chosen)} claims") from stop
    finally:  # an interrupted run reports the claims that were finished
        run.verdicts = [one for claim in chosen for one in verdicts.get(claim.id, ()) if selection.keeps(one)]
        run.seconds = seconds()
        judged = [claim for claim in chosen if claim.id in verdicts]
        _describe(run, judged, [claim for claim in judged if known.get(claim.id) == claim], kept)
        if out is not None and run.verdicts:
            asked = [] if selection.names == list(known) else selection.names
            _report(run, out, asked, finished=tell.done == len(chosen))
    return run


def _check(preset: str, theory: TheoryUnderTest | None, workers: Sequence[Submit], kept: Kept | None) -> None:
    """Raise `InputError` for what `validate` cannot be asked for."""
    if preset not in ("quick", "full"):
        raise InputError(f"preset is {preset!r}: use quick or full")
    if theory is not None and (workers or kept is not None):
        other = "workers: other processes know" if workers else "kept: what is kept rests on"
        raise InputError(f"theory is given with {other} the built-in theory only: drop one")


def _judge(run: Run, claim: Claim, outcome: Outcome, spent: float) -> list[Verdict]:
    """The verdicts on an outcome, which the run keeps; warns of controls by which nothing is judged."""
    run.outcomes[claim.id] = outcome
    verdicts = [claim.judge(x, spent) for x in outcome.measurements]
    if idle := unjudged(claim, verdicts, run.preset):
        warnings.warn(f"claim {claim.id} judges nothing by its {', '.join(map(repr, idle))}", stacklevel=4)
    return verdicts


def _report(run: Run, out: Path, asked: Sequence[str], finished: bool) -> None:
    from validation.report.page import write_report

    run.report = write_report(out / file_names.report_name(asked, run.mark, finished=finished), run)


def _describe(run: Run, judged: list[Claim], known: list[Claim], kept: Kept | None) -> None:
    """What was left in the order of the claims, and what else is to be said of each; `known`: those of the catalogue."""
    run.outcomes = {claim.id: run.outcomes[claim.id] for claim in judged}
    run.files = {claim.id: run.files[claim.id] for claim in judged if claim.id in run.files}
    for claim in judged:
        run.facts[claim.id] = {} if kept is None else kept.facts(claim, run.preset)
    for claim in known:
        run.facts[claim.id]["Lock"] = found = state(claim, of_catalogue())
        if found != LOCKED:
            warnings.warn(f"claim {claim.id} is {found}: see validation/judge/lock.py", stacklevel=4)


@dataclass
class _Teller:
    """Progress: the share of claims done, and what is worked on."""

    progress: Progress | None
    total: int
    done: int = 0

    def __call__(self, text: str) -> None:
        if self.progress is not None:
            self.progress(self.done / max(self.total, 1), text)

    def started(self, claim: Claim) -> None:
        self(f"{claim.id} {claim.title}")


def _measured(
    chosen: list[Claim], context: Context, workers: Sequence[Submit], tell: _Teller, kept: Kept | None
) -> Iterator[Measured]:
    """Claims as they finish: those that are kept, then the others, which are kept from then on."""
    if kept is None:
        yield from _anew(in_order(chosen, {}), context, workers, tell)
        return
    rest = []
    for claim in chosen:
        if (left := kept.find(claim, context)) is None:
            rest.append(claim)
        else:
            yield left
    last = {claim.id: found for claim in rest if (found := kept.last(claim, context.preset)) is not None}
    for measured in _anew(in_order(rest, last), context, workers, tell):
        yield kept.keep(measured._replace(outcome=drawn(measured.outcome)), context)


def _anew(groups: list[list[Claim]], context: Context, workers: Sequence[Submit], tell: _Teller) -> Iterator[Measured]:
    """Claims as they finish: in the other processes those that can go there, then the rest in this one."""
    there = [[claim for claim in group if workers and portable(claim)] for group in groups]
    yield from measured_apart([group for group in there if group], context, workers, tell.started)
    sent = {claim.id for group in there for claim in group}
    yield from _in_turn([claim for group in groups for claim in group if claim.id not in sent], context, tell)


def _in_turn(chosen: list[Claim], context: Context, tell: _Teller) -> Iterator[Measured]:
    """Claims one after the other, in this process."""
    for claim in chosen:
        tell.started(claim)
        seconds = stopwatch()
        outcome = claim.run(replace(context, progress=partial(_within, tell, claim)))
        yield Measured(claim, outcome, seconds())


def _within(tell: _Teller, claim: Claim, text: str) -> None:
    """Progress inside a claim, under the claim's id."""
    tell(f"{claim.id}: {text}")


def runnable(chosen: list[Claim], named: bool) -> list[Claim]:
    """Claims whose packages are there. One asked for by name is refused, the others are left out with a warning.

    Raises `InputError`.
    """
    missing = [claim for claim in chosen if claim.requires and not _installed(claim.requires)]
    if not missing:
        return chosen
    ids, packages = ", ".join(claim.id for claim in missing), " ".join(sorted({claim.requires for claim in missing}))
    text = f"{ids}: {not_installed(packages)}"
    if named:
        raise InputError(f"claim {text}")
    warnings.warn(f"left out {text}", stacklevel=4)
    return [claim for claim in chosen if claim not in missing]


def _installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _store(
    path: Path, claim: Claim, outcome: Outcome, verdicts: list[Verdict], made: Mapping[str, str | int | float]
) -> None:
    """One netCDF file per claim, written under a temporary name and renamed."""
    from validation.judge.storage import claim_tree

    path.parent.mkdir(parents=True, exist_ok=True)
    write_dataset(path, claim_tree(claim, outcome, verdicts, made))
