"""The command line of ``python -m mutants``."""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from emergence import cache
from emergence.store.locks import Locks
from mutants import measuring
from mutants.apart import apart, dies_with_parent, preload
from mutants.asking import Bench
from mutants.choosing import drawn
from mutants.generating import mutants_of
from mutants.mutant import Mutant
from mutants.outcome import END, SPENT, Outcome, outcome, reasons
from mutants.overlay import Overlay
from mutants.project import Project, this_project
from mutants.reach import Reach, Unit
from mutants.results import CLAIMS, TESTS, Answer, Results

ROOT = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Try mutants, and write the page. Status 1 if a worker has not come to its end."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the choice of mutants")
    parser.add_argument("--count", type=_positive, default=300, metavar="N", help="how many of that seed")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="those with this in path or digest")
    parser.add_argument(
        "--workers", type=_positive, default=1, metavar="N", help="processes, each with a copy of the tree"
    )
    parser.add_argument("--budget", type=_positive, default=300, metavar="S", help="processor seconds a mutant, twice")
    parser.add_argument("--ask", choices=(TESTS, CLAIMS), help="only these")
    parser.add_argument("--claim-seed", type=int, default=0, metavar="N", help="under which claims are judged")
    parser.add_argument("--store", type=Path, default=ROOT / "emergence-out" / "mutants", metavar="DIR")
    parser.add_argument("--page", type=Path, metavar="FILE", help="written at the end")
    parser.add_argument("--list", action="store_true", help="show the mutants and what is known of them; run nothing")
    asked = parser.parse_args(argv)
    project = this_project(ROOT)
    chosen = list(islice(drawn(mutants_of(ROOT, project.sources), asked.seed), asked.count))
    wanted = [one for one in chosen if not asked.only or any(x in one.path or x == one.digest for x in asked.only)]
    if not wanted:
        parser.error(f"--only is {' '.join(asked.only)}, which none of the {len(chosen)} mutants has: see --list")
    failed = 0 if asked.list else _work(project, wanted, asked)
    if failed:
        print(f"{failed} of {asked.workers} workers ended early: run the same again", file=sys.stderr)
    found = outcomes(project, chosen, asked.store)
    for one in found if asked.list else ():
        print(told(one))
    if asked.page:
        from mutants.page import page

        text = page(found, asked.seed, asked.count, asked.claim_seed, _commit())
        asked.page.write_text(text, encoding="utf-8")
    return 1 if failed else 0


def _positive(text: str) -> int:
    """Raises `ValueError`, which argparse words."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _work(project: Project, wanted: Sequence[Mutant], asked: argparse.Namespace) -> int:
    """All workers; each takes the next mutant that nobody has. Returns how many did not come to their end."""
    cache.keep_compiled()  # JAX is told before it is imported; a program that differs is compiled anew
    left = [one for one in wanted if one.digest not in reasons()]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(project, left, asked)) for _ in range(asked.workers)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.terminate()
    return sum(worker.exitcode != 0 for worker in workers)


def work(project: Project, wanted: Sequence[Mutant], asked: argparse.Namespace) -> None:
    """One worker: its mutants one after the other, tests before claims."""
    dies_with_parent()
    preload(project.libraries, project.packages)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        scratch = Path(folder).resolve()  # as the paths of lines are told
        overlay = Overlay(project.root, scratch / "tree")
        reach, results = Reach(project.root, asked.store / "reach"), Results(asked.store / "answers.jsonl")
        units = units_of(project, overlay, scratch)
        paths = {(unit.asked, unit.name): unit.path for unit in units}
        bench = Bench(project, overlay, reach, results, units, asked.claim_seed, asked.budget, scratch)
        locks = Locks(asked.store / ".locks")
        for mutant in wanted:
            if not locks.take(mutant.digest):
                continue
            results.refresh()
            for whom in (asked.ask,) if asked.ask else (TESTS, CLAIMS):
                try_one(bench, mutant, whom)
            print(told(outcome(mutant, holding(reach, mutant, results, paths), {})), flush=True)
            locks.release(mutant.digest)


def try_one(bench: Bench, mutant: Mutant, whom: str) -> None:
    """Ask, and note when everybody was asked, or the budget did not last so long."""
    notices = [answer.notice for answer in bench.ask(mutant, whom)]
    if not any(notices):
        version, part = bench.reach.version(mutant.path), SPENT if bench.spent else END
        bench.results.add(Answer(mutant.digest, version, whom, "", part, "", bench.used))


def units_of(project: Project, overlay: Overlay, scratch: Path) -> list[Unit]:
    """Everybody who can be asked. The catalogue is read in a process of its own: nothing of the project stays here."""
    out = scratch / "claims"
    ended = apart(
        lambda: measuring.wrote(out, **project.claims()), overlay.root, project.packages, 300.0, scratch / "log"
    )
    if ended.stopped or not out.is_file():
        raise RuntimeError(f"the catalogue of claims cannot be read: {ended.stopped or ended.said}")
    claims = measuring.read(out)[0]
    tests = [Unit(TESTS, path, path) for path in project.tests]
    return [*tests, *(Unit(CLAIMS, name, str(path)) for name, path in claims.items())]


def holding(reach: Reach, mutant: Mutant, results: Results, paths: Mapping[tuple[str, str], str]) -> list[Answer]:
    """Answers that were given on the mutated file as it is, by tests and claims as they are; `paths`: where each lies."""
    own = reach.version(mutant.path)
    return [
        one
        for one in results.of(mutant.digest)
        if one.version == (f"{own} {reach.version(paths.get((one.asked, one.name), ''))}" if one.name else own)
    ]


def outcomes(project: Project, chosen: Sequence[Mutant], store: Path) -> list[Outcome]:
    """Of all mutants that were chosen."""
    results, known, reach = Results(store / "answers.jsonl"), reasons(), Reach(project.root, store / "reach")
    paths = {(TESTS, path): path for path in project.tests} | {(CLAIMS, x): y for x, y in project.claims().items()}
    return [outcome(one, holding(reach, one, results, paths), known) for one in chosen]


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
