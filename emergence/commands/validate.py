"""``emergence validate``: judge claims, say each verdict as it is reached, write a report."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emergence import models, output, table
from emergence.commands.setup import store_of
from emergence.interruption import Kept
from emergence.kept_claims import DEFAULT_STORE, KeptClaims
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result
from emergence.store import grid
from emergence.store.engine import Workers, usable_cores
from emergence.store.folder import Store
from emergence.values import Whole
from emergence.verdicts import HEADERS, entry, row, summary, word
from emergence.version import version

if TYPE_CHECKING:
    from validation.judge.claim import Claim, Verdict
    from validation.judge.run import Run
    from validation.judge.selection import Wanted

MOST_WORKERS = 4
#: So many files are named to people; the JSON document names all.
_NAMED = 4


def run(arguments: argparse.Namespace) -> Result:
    """Run the claims asked for (all by default). Status 1 if any verdict is not the expected one.

    Refuses ids that are unknown, and files without claims.
    """
    return judge([one for name in arguments.ids for one in wanted(name)], arguments)


def judge(asked: "Sequence[Wanted]", arguments: argparse.Namespace) -> Result:
    """Judge what is asked for, all of the catalogue if nothing is, as the options of ``validate`` say.

    Several seeds are all judged before the first report is written. Raises `InputError`, `Kept` on Ctrl-C.
    """
    folder, store, seeds = output.asked(arguments.out), store_of(arguments, DEFAULT_STORE), _seeds(arguments)
    one_size(asked, arguments.preset)
    claims, some = chosen(asked, arguments)  # refuses unknown ids before a folder is made for them
    if not claims:
        return Result(_document({}, seeds, arguments), "nothing is left to judge of what was asked for")
    count = workers(arguments.workers, len({claim.runner.__module__ for claim in claims}))
    import validation
    from dynamics.core.clock import now

    now()  # refuses a clock that cannot be read
    output.make(folder)
    output.make(store, "store")

    with Progress(arguments.quiet) as progress, _reporting(store), ExitStack() as stack:
        opened = stack.enter_context(Store(store))
        opened.sweep_up()
        kept = KeptClaims(opened, arguments.fresh)
        processes = [stack.enter_context(Workers(1)).submit for _ in range(count)] if count > 1 else []
        stream = _Stream(progress, store)
        runs = {}
        rounds = [(seed, None) for seed in seeds if len(seeds) > 1] + [(seed, folder) for seed in seeds]
        for done, (seed, out) in enumerate(rounds):
            runs[seed] = validation.validate(
                some or None,
                preset=arguments.preset,
                seed=seed,
                out=out,
                progress=progress.part(done, len(rounds)),
                workers=processes,
                kept=kept,
                reached=stream if done < len(seeds) else None,
            )
        stream.close()
    surprises = sum(not verdict.as_expected for found in runs.values() for verdict in found.verdicts)
    return Result(_document(runs, seeds, arguments), _text(runs), 1 if surprises else 0)


def wanted(name: str) -> "list[Wanted]":
    """An id as it is; the claim of a claim file; of a Python file of the user's own its `CLAIMS`. Raises `InputError`."""
    if name.endswith(".toml"):
        from emergence.conjecture import conjecture
        from emergence.conjecture.judging import stored_claim

        return [stored_claim(conjecture.of_file(name))]
    if not name.endswith(".py"):
        return [name]
    from validation.judge.claim import Claim

    claims = getattr(models.module_of(name), "CLAIMS", None)
    if not isinstance(claims, list | tuple) or not claims or not all(isinstance(one, Claim) for one in claims):
        refuse(f"{name!r} has no CLAIMS: give it a list of claims by that name, or ids of the catalogue")
    from validation.judge.catalogue import catalogue

    known = catalogue()
    return [one if one in known else _own(replace(one, origin=str(models.path_of(name)))) for one in claims]


def _own(claim: "Claim") -> "Claim":
    """A user's claim as a store takes it. Raises `InputError`."""
    from emergence.conjecture.judging import Judging, stored_claim

    return stored_claim(claim.runner.conjecture) if isinstance(claim.runner, Judging) else claim


def one_size(asked: "Sequence[Wanted]", preset: str) -> None:
    """Refuses a preset of conjectures; imports nothing where ids alone are asked for."""
    if any(not isinstance(one, str) for one in asked):
        from emergence.conjecture.judging import check_preset

        check_preset(asked, preset)


def workers(asked: int | None, most: int) -> int:
    """Number of processes, at most as many as there is work for. Each compiles for itself and may need some gigabytes, so
    by default no more than four. Raises `InputError`.
    """
    count = min(usable_cores(), MOST_WORKERS) if asked is None else Whole().check("--workers", asked)
    return int(min(count, most))


def _seeds(arguments: argparse.Namespace) -> list[int]:
    """Raises `InputError` for what are no seeds, and where both options are given."""
    if arguments.seeds is None:
        return [arguments.seed]
    if arguments.seed:
        refuse(f"--seed is {arguments.seed}, and --seeds is given: drop one")
    kind = Whole(0)
    return list(dict.fromkeys(kind.check("--seeds", one) for one in grid.listed("--seeds", kind, arguments.seeds)))


def chosen(asked: "Sequence[Wanted]", arguments: argparse.Namespace) -> "tuple[list[Claim], list[Wanted]]":
    """The claims of this run, and what asks for them: nothing for the whole catalogue. Raises `InputError`."""
    from validation.judge.listing import listed
    from validation.judge.selection import select

    select([one for one in asked if isinstance(one, str)], listed())  # refuses before the imports, which take seconds
    from validation.judge.apart import in_order
    from validation.judge.runner import runnable, selected

    selection = selected(asked)
    part = grid.part(arguments.shard)
    if arguments.shard is None and arguments.since is None:
        return selection.claims, list(asked)
    left = runnable(selection.claims, named=bool(asked))
    if arguments.since is not None:
        from emergence.since import changed

        left = changed(left, arguments.since)
    if arguments.shard is not None:  # by modules: their claims share simulations
        left = [claim for group in in_order(left, {})[part] for claim in group]
    return left, selection.wanted(left)


class _Stream:
    """Says each verdict on standard error as soon as it is reached, and how many were there already."""

    def __init__(self, progress: Progress, store: Path) -> None:
        self._progress, self._store, self._found = progress, store, 0

    def __call__(self, verdicts: "Sequence[Verdict]", found: bool) -> None:
        self._found += found
        for verdict in () if found else verdicts:
            self.close()
            used = f"{verdict.used:.3g} of the tolerance"
            self._progress.say(f"{verdict.id} {word(verdict)}, {used}: {verdict.measurement.title}")

    def close(self) -> None:
        """Say what was found, once."""
        if self._found:
            what = "1 claim was" if self._found == 1 else f"{self._found} claims were"
            self._progress.say(f"{what} judged before by the same code: found in {self._store}")
            self._found = 0


@contextmanager
def _reporting(store: Path) -> Iterator[None]:
    """Ctrl-C inside: say which claims were finished, and where they are."""
    from dynamics.core.interrupted import Interrupted

    try:
        yield
    except Interrupted as stop:
        left = where(stop.result).replace(chr(10), ", ")
        raise Kept(f"{stop.at}; {left}; the same command goes on with the others (store: {store})") from stop


def where(outcome: "Run") -> str:
    """The files of a run."""
    if outcome.report is None:
        return "no claim was finished: nothing was written" if not outcome.verdicts else "no report was written"
    files = list(outcome.files.values())
    names = ", ".join(str(path) for path in files[:_NAMED]) + (
        f" … ({len(files)} files)" if len(files) > _NAMED else ""
    )
    return f"report: {outcome.report}\ndata: {names}"


def _document(runs: "dict[int, Run]", seeds: list[int], arguments: argparse.Namespace) -> dict[str, object]:
    """The JSON document of a run; of several seeds, with one run each."""
    about: dict[str, object] = {"version": version(), "preset": arguments.preset}
    found = [
        about
        | {
            "seed": seed,
            "report": None if run.report is None else str(run.report),
            "files": {name: str(path) for name, path in run.files.items()},
            "claims": [entry(verdict) for verdict in run.verdicts],
        }
        for seed, run in runs.items()
    ]
    if len(seeds) > 1:
        return about | {"seeds": seeds, "runs": found}
    return found[0] if found else about | {"seed": seeds[0], "report": None, "files": {}, "claims": []}


def _text(runs: "dict[int, Run]") -> str:
    verdicts = [(seed, verdict) for seed, run in runs.items() for verdict in run.verdicts]
    first = 0 if len(runs) > 1 else 1
    shown = table.render(("seed", *HEADERS)[first:], [(seed, *row(verdict))[first:] for seed, verdict in verdicts])
    return "\n".join([shown, "", summary([verdict for _, verdict in verdicts]), *map(where, runs.values())])
