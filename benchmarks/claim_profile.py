"""``python -m benchmarks.claim_profile [ID …]``: where the time of the claims goes: compiling, simulating, theory.

Claims are run one after the other in this process; a thread looks, some hundred times a second, at what the claim is doing.
Claims of one module share simulations: the first that is run pays for all. Compare sums, and use one preset and one seed.
"""

import argparse
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from emergence import cache, table

ROOT = Path(__file__).resolve().parents[1]
_INTERVAL = 0.005
#: By the innermost file on the stack that tells: parts of paths, and the name of what is done there.
_KINDS = {
    "jax/_src/compiler.py": "compile",
    "jax/_src/interpreters/": "trace",
    "jax/_src/pjit.py": "trace",  # unless a compiled program runs below it: see `_kind`
    f"{ROOT}/theory/": "theory",
    f"{ROOT}/dynamics/": "simulate",
    f"{ROOT}/validation/": "judge",
}
KINDS = ("compile", "trace", "simulate", "theory", "judge")
#: Where JAX hands a compiled program over, whoever asked for it.
_RUNS = ("jax/_src/interpreters/pxla.py", "__call__")


@dataclass(frozen=True)
class Profile:
    """Of one claim: seconds of wall time by `KINDS`, and of processor time."""

    claim: str
    seconds: dict[str, float]
    processor: float

    @property
    def wall(self) -> float:
        return sum(self.seconds.values())


@contextmanager
def sampled() -> Iterator[Counter[str]]:
    """Counts, while open, of what this thread is found doing."""
    counts: Counter[str] = Counter()
    done, thread = threading.Event(), threading.get_ident()

    def look() -> None:
        while not done.wait(_INTERVAL):
            counts[_kind(sys._current_frames().get(thread))] += 1

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield counts
    finally:
        done.set()
        watcher.join()


def _kind(frame: FrameType | None) -> str:
    """What a stack is at, by its innermost frame that tells."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_RUNS[0]) and code.co_name == _RUNS[1]:
            return "simulate"
        for part, kind in _KINDS.items():
            if part in code.co_filename:
                # A compiled program runs inside its caller's C code: no frame of JAX's lies below the wrapper's.
                return "simulate" if part.endswith("pjit.py") and code.co_name == "cache_miss" else kind
        frame = frame.f_back
    return "judge"


def profile(ids: Sequence[str], preset: str, seed: int) -> Iterator[Profile]:
    """Claim by claim, in the order of their modules."""
    from validation.judge.catalogue import modules
    from validation.judge.context import Context
    from validation.judge.runner import select_claims

    chosen = {claim.id for claim in select_claims(ids)}
    for claim in (claim for claims in modules().values() for claim in claims if claim.id in chosen):
        before, busy = time.perf_counter(), time.process_time()
        with sampled() as counts:
            claim.run(Context(preset, seed))
        wall, count = time.perf_counter() - before, max(sum(counts.values()), 1)
        shares = {kind: wall * counts[kind] / count for kind in KINDS}
        yield Profile(claim.id, shares, time.process_time() - busy)


def text(found: Sequence[Profile]) -> str:
    """The dearest first, and the sum."""
    whole = Profile(
        "all", {kind: sum(x.seconds[kind] for x in found) for kind in KINDS}, sum(x.processor for x in found)
    )
    rows = [
        (x.claim, *(round(y, 2) for y in (x.wall, x.processor, *(x.seconds[kind] for kind in KINDS))))
        for x in (*sorted(found, key=lambda x: -x.wall), whole)
    ]
    return table.render(("claim", "wall s", "processor s", *KINDS), rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claims asked for (all by default) and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claim_profile", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="claims or patterns (all)")
    parser.add_argument("--preset", choices=("quick", "full"), default="quick")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--cache", action="store_true", help="with what earlier runs have compiled")
    asked = parser.parse_args(argv)
    if not asked.cache:
        os.environ[cache.VARIABLE] = cache.OFF
    cache.keep_compiled()  # programs are compiled as those of the command line
    found = []
    for one in profile(asked.ids, asked.preset, asked.seed):
        shares = ", ".join(f"{kind} {one.seconds[kind]:.1f}" for kind in KINDS)
        print(f"{one.claim}: {one.wall:.1f} s, processor {one.processor:.1f} s: {shares}", file=sys.stderr, flush=True)
        found.append(one)
    print(text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
