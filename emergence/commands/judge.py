"""``emergence judge``: claims of one's own, from files, by the road of the catalogue."""

import argparse
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import config, models, output, table
from emergence.arguments import PRESETS
from emergence.commands.setup import affordable
from emergence.commands.validate import where
from emergence.interruption import Kept
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result
from emergence.store.engine import usable_cores
from emergence.values import Whole, shown
from emergence.verdicts import HEADERS, entry, row, summary
from emergence.version import version

if TYPE_CHECKING:
    from emergence.conjecture.conjecture import Conjecture
    from emergence.model import Model, Simulation
    from validation.judge.claim import Claim, Verdict
    from validation.judge.context import TheoryUnderTest
    from validation.judge.run import Run

#: The folder of runs inside --out: they are kept, so that nothing finished is computed twice.
RUNS = "runs"
#: Grid points whose symbols are shown.
_SHOWN = 6


@dataclass(frozen=True)
class Asked:
    """A claim of a file. `conjecture`: None where a function measures by itself. `content`: what a lock holds."""

    file: str
    claim: "Claim"
    conjecture: "Conjecture | None"
    content: Mapping[str, Any]


def run(arguments: argparse.Namespace) -> Result:
    """Judge the claims of files. Status 1 if any verdict is not the expected one.

    Refuses files without claims, and whatever in them is not understood: one line names file, key, value and remedy.
    """
    asked_for = [f"--{name}" for name in ("quantities", "symbols", "plan", "lock") if getattr(arguments, name)]
    if len(asked_for) > 1:
        refuse(f"{asked_for[1]} is given beside {asked_for[0]}: give one of them, then the other")
    for path in arguments.files:  # before the imports, which take seconds
        _check_there(path)
    if arguments.quantities:
        return _quantities(arguments)
    from emergence.conjecture.judging import check_preset

    if not arguments.files:
        refuse("no file is given: give a claim file such as conjecture.toml or conjecture.py, or --quantities")
    seeds = _seeds(arguments)
    if arguments.symbols:
        return _symbols([_conjecture(path, seeds, arguments.seed) for path in arguments.files])
    asked = [one for path in arguments.files for one in _asked(path, seeds, arguments.seed)]
    theories = [(path, found) for path in arguments.files if (found := _theory(path)) is not None]
    if not asked and not theories:
        refuse(f"{arguments.files[0]!r} has neither a claim nor a theory: see `emergence new claim NAME`")
    _distinct(asked)
    check_preset((one.claim for one in asked), arguments.preset)
    if arguments.lock:
        return _lock(arguments, asked)
    if arguments.plan:
        return _plan(arguments, asked)
    return _judge(arguments, asked, theories, seeds)


# ------------------------------------------------------------------------------ reading files


def _seeds(arguments: argparse.Namespace) -> tuple[int, ...] | None:
    from emergence.conjecture.conjecture import seeds_of

    return None if arguments.seeds is None else seeds_of(arguments.seeds, "--seeds")


def _conjecture(path: str, seeds: tuple[int, ...] | None, seed: int = 0) -> "Conjecture":
    """The conjecture of a file that has exactly one. Raises `InputError`."""
    found = [one.conjecture for one in _asked(path, seeds, seed) if one.conjecture is not None]
    if len(found) != 1:
        refuse(f"{path!r} has {len(found)} claims about a problem: give a file with one")
    return found[0]


def _check_there(path: str) -> None:
    """Raises `InputError` for a file that cannot be read, or is of no kind that has claims."""
    if path.endswith(".toml"):
        config.claim_tables(path)
    elif path.endswith(".py"):
        models.path_of(path)
    else:
        refuse(f"file {path!r} is neither TOML nor Python: give one that ends in .toml or .py")


def _asked(path: str, seeds: tuple[int, ...] | None, seed: int = 0) -> list[Asked]:
    """The claims of a TOML file (one; nothing in it is executed) or of a Python file, with the runs of --seed.

    They are what a lock holds, so that nobody judges a locked claim under one seed after another. Raises `InputError`.
    """
    from emergence.conjecture import conjecture, lock
    from emergence.conjecture.judging import Judging, claim_of
    from emergence.conjecture.runs import Runs

    if path.endswith(".toml"):
        read = conjecture.of_file(path, seeds).under(seed)
        return [Asked(path, claim_of(read, Runs()), read, lock.canonical(read))]
    found = []
    for claim in _claims(path):
        runner = claim.runner
        own = runner.conjecture if isinstance(runner, Judging) else None
        if own is not None and seeds is not None:
            own = conjecture.of_table(own.table, own.where, function=own.function, code=own.code, seeds=seeds)
        own = None if own is None else own.under(seed)
        content = lock.of_claim(claim, models.code_of(path)) if own is None else lock.canonical(own)
        found.append(Asked(path, claim, own, content))
    return found


def _claims(path: str) -> "list[Claim]":
    """Claims that a Python file defines at its top, and those of its `CLAIMS`."""
    from validation.judge.claim import Claim

    names = vars(models.module_of(path))
    listed = names.get("CLAIMS") or ()
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Claim) for one in listed):
        refuse(f"file {path!r}: CLAIMS is {shown(listed)}: give it a list of claims")
    return list({id(one): one for one in (*names.values(), *listed) if isinstance(one, Claim)}.values())


def _theory(path: str) -> "TheoryUnderTest | None":
    """The theory that a Python file puts under test. Raises `InputError` for one that is none."""
    if not path.endswith(".py"):
        return None
    from validation.judge.under_test import TheoryUnderTest, entry_points, name_of

    found = vars(models.module_of(path)).get("theory")
    if isinstance(found, TheoryUnderTest) or found is None:
        return found
    if not isinstance(found, Mapping):
        return None  # the package, imported
    known = {name_of(entry): entry for entry in entry_points()}
    replaced = {}
    for name, mine in found.items():
        matches = [entry for full, entry in known.items() if full == name or full.endswith(f".{name}")]
        if isinstance(name, str) and len(matches) != 1:
            refuse(
                f"file {path!r}: theory names {shown(name)}, which {len(matches)} entry points are called: give its full name"
            )
        replaced[matches[0] if isinstance(name, str) else name] = mine
    return TheoryUnderTest(replaced)


def _distinct(asked: list[Asked]) -> None:
    names = [one.claim.id for one in asked]
    for one in asked:
        if names.count(one.claim.id) > 1:
            refuse(f"claim id {one.claim.id!r} of {one.file!r} is given twice: give one of them another id")


# ------------------------------------------------------------------------------ judging


def _judge(
    arguments: argparse.Namespace,
    asked: list[Asked],
    theories: "list[tuple[str, TheoryUnderTest]]",
    seeds: tuple[int, ...] | None,
) -> Result:
    from emergence.conjecture import lock
    from emergence.conjecture.judging import claim_of
    from emergence.conjecture.runs import Runs

    folder = output.asked(arguments.out)
    workers = _workers(arguments)
    states = {one.claim.id: lock.status(lock.place(one.file, one.claim.id), one.content) for one in asked}
    against = [(found, _against(arguments.against, found)) for _, found in theories]
    jobs: list[tuple[Any, TheoryUnderTest | None, int]]
    for one in asked:
        _announce(one)
        _check_chance(one)
    output.make(folder)
    with Progress(arguments.quiet) as progress, _going_on(folder / RUNS):
        runs = Runs(folder / RUNS, workers, progress)
        judged = [
            _told(one, arguments, claim_of(one.conjecture, runs, states[one.claim.id], arguments.seed))
            for one in asked
            if one.conjecture is not None
        ]
        plain = [_told(one, arguments, one.claim) for one in asked if one.conjecture is None]
        # Seeds are those of a problem's runs, or of a claim that measures by itself.
        repeated = seeds if seeds and plain else ()
        together = judged if repeated else [*judged, *plain]
        jobs = [(together, None, arguments.seed)] if together else []
        jobs += [(plain, None, seed) for seed in repeated]
        jobs += [(ids, theory, arguments.seed) for theory, ids in against]
        done = [_validate(arguments, *job, progress) for job in jobs]
    verdicts = [verdict for one in done for verdict in one.verdicts]
    document = {
        "version": version(),
        "preset": arguments.preset,
        "seed": arguments.seed,
        "report": None if not done or done[0].report is None else str(done[0].report),
        "reports": [str(one.report) for one in done],
        "files": {name: str(path) for one in done for name, path in one.files.items()},
        "locks": states,
        "claims": [entry(verdict) for verdict in verdicts],
    }
    rows = table.render(HEADERS, [row(verdict) for verdict in verdicts])
    lines = [rows, "", summary(verdicts), *_sentences(verdicts, states), *map(where, done)]
    return Result(document, "\n".join(lines), 0 if all(one.as_expected for one in done) else 1)


def _told(one: Asked, arguments: argparse.Namespace, claim: "Claim") -> "Claim":
    """A claim with what its report says of the command; one of the catalogue stays as it is."""
    from emergence.conjecture.judging import seeds_in_words
    from validation.judge.catalogue import catalogue

    if claim in catalogue():
        return claim
    options = [] if arguments.seeds is None else [f"--seeds={arguments.seeds}"]
    options += [f"--seed={arguments.seed}"] if arguments.seed else []
    options += [f"--preset={arguments.preset}"] if arguments.preset != PRESETS[0] else []
    again = shlex.join(["emergence", "judge", Path(one.file).name, *options])
    return replace(claim, again=again, seeds="" if one.conjecture is None else seeds_in_words(one.conjecture))


@contextmanager
def _going_on(store: Path) -> Iterator[None]:
    """Ctrl-C inside: what was finished is kept, and the same command goes on from there."""
    from dynamics.core.interrupted import Interrupted

    try:
        yield
    except Interrupted as stop:
        told = f"{stop.at}: finished runs are kept in {store}: the same command goes on with the others"
        raise Kept(told) from stop


def _validate(
    arguments: argparse.Namespace, wanted: Any, theory: "TheoryUnderTest | None", seed: int, progress: Progress
) -> "Run":
    import validation

    folder = output.asked(arguments.out)
    return validation.validate(wanted, preset=arguments.preset, seed=seed, out=folder, theory=theory, progress=progress)


def _against(ids: list[str] | None, theory: "TheoryUnderTest") -> list[str]:
    """The claims that a theory is judged by: those asked for, else all whose code reaches what it replaces."""
    from validation.broken import users

    if ids:
        return ids
    reached = users()
    found = {name for entry_point in theory.replaced for name in reached[entry_point]}
    if not found:
        refuse("theory replaces nothing that a claim reaches: name claims by --against")
    return sorted(found)


def _announce(one: Asked) -> None:
    """Resolve every problem and evaluate every formula before anything is made, and pass on what there is to warn of."""
    from emergence.conjecture.table import check

    if one.conjecture is not None:
        check(one.conjecture, one.conjecture.points)
        for point in one.conjecture.points:
            simulation, resolved = one.conjecture.simulation, point.resolved
            long = affordable(simulation.name, simulation, resolved)
            for text in dict.fromkeys((*resolved.warnings, *simulation.warn(resolved), *long)):
                warnings.warn(f"{one.claim.id}: {text}", stacklevel=2)


def _check_chance(one: Asked) -> None:
    """Refuse a claim that no data of its own could judge; a plan needs no seeds, and says how many to give."""
    from emergence.conjecture.table import check_chance

    if one.conjecture is not None:
        check_chance(one.conjecture, one.conjecture.points)


#: Details that are said in words, those of a whole claim once.
_WHY = ("not measured", "told apart", "underpowered")
_SHAPE = (
    *("signs", "it looks like", "known to do that", "smallest problem that still disagrees"),
    "nearest statements of the catalogue",
)


def _sentences(verdicts: "list[Verdict]", states: Mapping[str, str]) -> list[str]:
    """Verdicts in words, with what they leave open, and what a disagreement looks like."""
    lines: list[str] = []
    for verdict in verdicts:
        details = verdict.measurement.details
        seen = details.get("smallest error seen")
        why = next((f", {details[key]}" for key in _WHY if key in details), "")
        why = why or (f" (an error of {seen} would have been seen)" if seen else "")
        state = states.get(verdict.claim.id)
        lines.append(f"{verdict.id}: {verdict.verdict}{why}{f'; {state}' if state else ''}")
        lines += [f"  {key}: {details[key]}" for key in _SHAPE if key in details]
    return list(dict.fromkeys(lines))


def _plan(arguments: argparse.Namespace, asked: list[Asked]) -> Result:
    """How many runs each claim needs; nothing is kept of the pilot."""
    from emergence.conjecture.plan import plan, words
    from emergence.conjecture.runs import Runs
    from validation.report.numerals import duration

    workers = _workers(arguments)
    entries, lines = [], []
    for one in asked:
        if one.conjecture is None:
            refuse(
                f"claim {one.claim.id} of {one.file!r} measures by itself: only a claim with a problem can be planned"
            )
        _announce(one)
        with Progress(arguments.quiet) as progress:
            found = plan(one.conjecture, Runs(progress=progress))
        seconds = found.seconds(workers)
        entries.append({"claim": one.claim.id, **asdict(found), "runs": found.runs, "seconds": seconds})
        lines += [f"{one.claim.id}: {words(row, found.unit)}" for row in found.rows]
        took = f"the pilot of {found.pilot} {found.unit} took {duration(found.spent)} and is thrown away"
        cost = "" if seconds is None else f"; {found.runs} {found.unit} would take about {duration(seconds)} here"
        lines.append(f"{one.claim.id}: {took}{cost}")
    return Result({"plans": entries}, "\n".join(lines))


def _workers(arguments: argparse.Namespace) -> int:
    return usable_cores() if arguments.workers is None else Whole().check("--workers", arguments.workers)


def _lock(arguments: argparse.Namespace, asked: list[Asked]) -> Result:
    """Lock all claims, or none: each can be run, and no other version of it is locked.

    A claim that was judged before into the folder of ``--out``, whatever it said then, is locked after data; no other is
    looked into.
    """
    from emergence.conjecture import lock

    folder = output.asked(arguments.out)
    found = {}
    lines = []
    for one in asked:
        _announce(one)
        _check_chance(one)
        lock.check(lock.place(one.file, one.claim.id), one.content)
    for one in asked:
        path, name = lock.place(one.file, one.claim.id), one.claim.id
        data = folder / f"{name}.nc"
        made = lock.write(path, one.content, data.exists())
        found[name] = {"file": str(path), "sha256": made["sha256"], "after_data": bool(made.get("after_data"))}
        late = f" (after data: {data})" if found[name]["after_data"] else ""
        lines.append(f"{name}: locked{late}, {made['sha256']} in {Path(one.file).parent / path.name}")
    return Result({"locks": found}, "\n".join(lines))


# ------------------------------------------------------------------------------ lists


def _quantities(arguments: argparse.Namespace) -> Result:
    """Measures with unit and estimator, and the variables of every simulation, or of those of the files."""
    from emergence.conjecture.quantity import ALIASES, MEASURES

    chosen = [_simulation(path) for path in arguments.files]
    listed = chosen or [(model, one) for model in models.built_in().values() for one in model.cells]
    rows = [(name, one.text, one.unit, one.error, ", ".join(one.keys)) for name, one in MEASURES.items()]
    rows += [
        (name, f"{kind} of {' or '.join(dict.fromkeys(of))}", MEASURES[kind].unit, MEASURES[kind].error, "")
        for name, (kind, of) in ALIASES.items()
        if name not in MEASURES
    ]
    variables = [(model.name, one.name, ", ".join(one.variables)) for model, one in listed]
    document = {
        "measures": [dict(zip(("measure", "what", "unit", "error", "keys"), row, strict=True)) for row in rows],
        "variables": [{"model": m, "simulation": s, "variables": v.split(", ")} for m, s, v in variables],
    }
    text = [
        table.render(("measure", "what it is of a run", "unit", "estimator", "keys"), rows),
        "",
        "A variable without a time is a measure by its own name. `of` is a variable, or a formula in several.",
        "",
        table.render(("model", "from", "variables"), variables),
    ]
    return Result(document, "\n".join(text))


def _simulation(path: str) -> "tuple[Model, Simulation]":
    """Of the file's claim; a TOML file may be unfinished: who looks for a quantity has none to write yet."""
    from emergence.conjecture.conjecture import simulation_of_file

    if path.endswith(".toml"):
        return simulation_of_file(path)
    one = _conjecture(path, None)
    return one.model, one.simulation


def _symbols(conjectures: "list[Conjecture]") -> Result:
    """Every symbol that formulas about these problems may use, with its value at the first grid points."""
    from emergence.conjecture.symbols import offered
    from emergence.refusal import is_refusal

    entries, text = [], []
    for one in conjectures:
        points = one.points[:_SHOWN]
        heads = [
            f"seed {point.seed}"
            if not point.values
            else f"{', '.join(map(shown, point.values.values()))}; seed {point.seed}"
            for point in points
        ]
        rows = []
        more = dict.fromkeys(one.quantities[0].symbols, "of the quantity")
        for name, what in {**offered(one.model), **more}.items():
            values: list[float | None] = []
            for point in points:
                try:
                    values.append(one.symbols(point, one.quantities[0]).value(name))
                except Exception as error:
                    if not is_refusal(error):
                        raise
                    values.append(None)
            rows.append((name, what, *values))
            entries.append({"claim": one.id, "symbol": name, "what": what, "values": values})
        text += [
            f"{one.id}: {one.simulation.name} of the model {one.model.name}",
            "",
            table.render(("symbol", "what", *heads), rows),
            "",
        ]
    return Result({"symbols": entries}, "\n".join(text).rstrip())
