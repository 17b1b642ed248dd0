"""The command line of ``python -m mutants``."""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from emergence import cache
from emergence.store.locks import Locks
from mutants import measuring
from mutants.apart import apart, dies_with_parent, preload
from mutants.asking import Bench, holds
from mutants.choosing import drawn
from mutants.generating import mutants_of
from mutants.mutant import Mutant, overlapping
from mutants.outcome import Outcome, outcome, reasons
from mutants.overlay import overlay
from mutants.project import Project, this_project
from mutants.reach import Reach, Unit
from mutants.results import CLAIMS, TESTS, Answer, Results

ROOT = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Try mutants, and write the page. Status 1 if a worker has not come to its end."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", default=[0], metavar="N", help="of the choice of mutants")
    parser.add_argument("--count", type=_positive, default=300, metavar="N", help="how many of each seed")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="those with this in path or digest")
    parser.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes")
    parser.add_argument("--budget", type=_positive, default=300, metavar="S", help="processor seconds a mutant, twice")
    parser.add_argument("--ask", choices=(TESTS, CLAIMS), help="only these")
    parser.add_argument("--claim-seed", type=int, default=0, metavar="N", help="under which claims are judged")
    parser.add_argument("--store", type=Path, default=ROOT / "emergence-out" / "mutants", metavar="DIR")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="what the store holds in one file, read and written")
    parser.add_argument("--page", type=Path, metavar="FILE", help="written at the end")
    parser.add_argument("--list", action="store_true", help="show the mutants and what is known of them; run nothing")
    asked = parser.parse_args(argv)
    project = this_project(ROOT)
    everywhere = mutants_of(ROOT, project.sources)
    chosen = {seed: list(islice(drawn(everywhere, seed), asked.count)) for seed in asked.seed}
    several = list({one.digest: one for found in chosen.values() for one in found}.values())
    wanted = [one for one in several if not asked.only or any(x in one.path or x == one.digest for x in asked.only)]
    if not wanted:
        parser.error(f"--only is {' '.join(asked.only)}, which none of the {len(several)} mutants has: see --list")
    if asked.kept and asked.kept.is_file():
        unpack(json.loads(asked.kept.read_text(encoding="utf-8")), asked.store)
    failed = 0 if asked.list else _work(project, several, wanted, asked)
    if failed:
        print(f"{failed} of {asked.workers} workers ended early: run the same again", file=sys.stderr)
    found = {seed: outcomes(project, ones, asked.store) for seed, ones in chosen.items()}
    for one in (x for ones in found.values() for x in ones) if asked.list else ():
        print(told(one))
    if asked.kept:
        asked.kept.write_text(written(pack(project, everywhere, asked.store)), encoding="utf-8")
    if asked.page:
        from mutants.page import page

        asked.page.write_text(page(found, asked.count, asked.claim_seed, _commit()), encoding="utf-8")
    return 1 if failed else 0


def _positive(text: str) -> int:
    """Raises `ValueError`, which argparse words."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _work(project: Project, several: Sequence[Mutant], wanted: Sequence[Mutant], asked: argparse.Namespace) -> int:
    """All workers; each takes the next mutant that nobody has. Returns how many did not come to their end."""
    cache.keep_compiled()  # JAX is told before it is imported; a program that differs is compiled anew
    left = [one for one in wanted if one.digest not in reasons()]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(project, several, left, asked)) for _ in range(asked.workers)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.terminate()
    return sum(worker.exitcode != 0 for worker in workers)


def work(project: Project, several: Sequence[Mutant], wanted: Sequence[Mutant], asked: argparse.Namespace) -> None:
    """One worker, whose overlay has `several` mutants: those that are wanted one after the other, tests before claims."""
    dies_with_parent()
    aside = {one.digest for one in overlapping(several)}
    there = [one for one in several if one.digest not in aside]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        scratch = Path(folder).resolve()
        tree = scratch / "tree"
        overlay(project.root, tree, there)
        preload(project.libraries, project.packages, tree)
        reach = Reach(project.root, asked.store / "reach", there, tree)
        results = Results(asked.store / "answers.jsonl")
        reach.at_import = at_import(there)
        units = units_of(project, tree, scratch)
        bench = Bench(project, tree, reach, results, units, asked.claim_seed, asked.budget, scratch)
        locks = Locks(asked.store / ".locks")
        for mutant in wanted:
            if mutant.digest in aside:
                print(f"{mutant.digest} overlaps with one that was drawn before it: ask for its seed alone", flush=True)
                continue
            if not locks.take(mutant.digest):
                continue
            results.refresh()
            answers = [bench.ask(mutant, whom) for whom in ((asked.ask,) if asked.ask else (TESTS, CLAIMS))]
            print(f"{told(outcome(mutant, answers, {}))} ({bench.used:.0f} s)", flush=True)
            locks.release(mutant.digest)


def at_import(mutants: Sequence[Mutant]) -> frozenset[str]:
    """Which were come by while the project was imported."""
    from importlib import import_module

    from mutants.switch import NAME

    seen = import_module(NAME).seen() if any(mutants) else ()
    return frozenset(seen)


def units_of(project: Project, root: Path, scratch: Path) -> list[Unit]:
    """Everybody who can be asked. The catalogue is read in a process of its own, which leaves nothing here."""
    out = scratch / "claims"
    ended = apart(lambda: measuring.wrote(out, **project.claims()), root, (), 300.0, scratch / "log")
    if ended.stopped or not out.is_file():
        raise RuntimeError(f"the catalogue of claims cannot be read: {ended.stopped or ended.said}")
    claims = measuring.read(out)[0]
    tests = [Unit(TESTS, path, path) for path in project.tests]
    return [*tests, *(Unit(CLAIMS, name, str(path)) for name, path in claims.items())]


def outcomes(project: Project, chosen: Sequence[Mutant], store: Path) -> list[Outcome]:
    """Of all mutants that were chosen, from the answers that hold."""
    results, known, reach = Results(store / "answers.jsonl"), reasons(), Reach(project.root, store / "reach")
    paths = paths_of(project)
    found = {one: [x for side in (TESTS, CLAIMS) if (x := results.find(one.digest, side))] for one in chosen}
    return [outcome(one, [x for x in said if holds(reach, one, x, paths)], known) for one, said in found.items()]


def paths_of(project: Project) -> dict[tuple[str, str], str]:
    """Where each test and claim lies."""
    return {(TESTS, path): path for path in project.tests} | {(CLAIMS, x): y for x, y in project.claims().items()}


def pack(project: Project, everywhere: Sequence[Mutant], store: Path) -> dict[str, Any]:
    """What the store holds of the tree as it is: answers, and who comes by."""
    results, reach, paths = Results(store / "answers.jsonl"), Reach(project.root, store / "reach"), paths_of(project)
    mutants = {one.digest: one for one in everywhere}
    there = [(mutants[one.mutant], one) for one in results.all() if one.mutant in mutants]
    return {"answers": [asdict(one) for mutant, one in there if holds(reach, mutant, one, paths)], **reach.pack()}


def unpack(packed: dict[str, Any], store: Path) -> None:
    """Take over what is not known here."""
    Results(store / "answers.jsonl").take_over(Answer(**one) for one in packed["answers"])
    Reach(ROOT, store / "reach").unpack(packed)


def written(packed: dict[str, Any]) -> str:
    """As JSON, with a line for each answer, each set of mutants and each unit."""
    parts = [f'"answers": [\n{_lines(map(_json, packed["answers"]))}\n]']
    for part in ("drawn", "units"):
        lines = _lines(f"{_json(name)}: {_json(one)}" for name, one in packed[part].items())
        parts.append(f'"{part}": {{\n{lines}\n}}')
    return f"{{\n{_lines(parts)}\n}}\n"


def _lines(parts: Iterable[str]) -> str:
    return ",\n".join(parts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def told(one: Outcome) -> str:
    """A mutant, and what became of it, in one line."""
    by = "; ".join(x.notice for x in (one.tests, one.claims) if x.notice)
    mutant = one.mutant
    name = one.name if one.tried or one.reason else "not asked"
    return f"{mutant.digest} {mutant.path}:{mutant.line} {mutant.kind}: {mutant.change[:120]}: {name} {by}"


def _commit() -> str:
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
