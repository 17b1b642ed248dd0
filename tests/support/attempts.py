"""Command lines run to where a simulation would begin, in forks of one process that has everything imported, and afresh.

A fork takes a hundredth of what a process takes to start, and a thousand inputs share one. What is wrong there only may come
of the company, so a fault counts when a process of its own, which knows of nothing, repeats it.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

#: Processor seconds and bytes that an input may take before it is refused or a simulation begins.
SECONDS, MEMORY = 10.0, 2_000_000_000
#: Seconds after which a process is killed: of its processor's, and of waiting, on a busy machine too.
_KILLED_AFTER, _PATIENCE = 30, 120
STARTED = 99
#: How a refusal for want of memory begins: here memory is short, where a user has more that would be taken.
_FULL = "the problem does not fit into memory"
#: Inputs that one fork tries.
_TOGETHER = 1000
#: What names the parts that files are written by.
_PARTS = ".tmp-*"
_PACKAGES = ("theory", "dynamics", "validation", "emergence")
#: What our modules load when they first use it, which every fork would have to.
_LAZY = (
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "xarray",
)


class StartedError(BaseException):
    """What is not attacked would begin now."""


@dataclass(frozen=True)
class Attempt:
    """What became of an input: `status` (None: killed), both streams, seconds of processor time, bytes at most, and parts
    of files that it left."""

    argv: tuple[str, ...]
    status: int | None
    out: str
    err: str
    seconds: float
    memory: int
    left: tuple[str, ...] = ()
    signal: int = 0

    @property
    def fault(self) -> str:
        """What is wrong with it, empty if nothing."""
        if self.status is None:
            return f"killed by signal {self.signal}"
        if self.status not in (0, 1, 2, STARTED):
            return f"status {self.status}"
        told = self.err.splitlines()
        if any(not line.startswith("emergence: ") for line in told):
            return "other lines than its own on standard error"
        errors = [line for line in told if line.startswith("emergence: error: ")]
        if len(errors) != (self.status == 2) or (self.status == 2 and self.out):
            return "not exactly one line of error"
        if any(len(line) > 2000 for line in errors):
            return "a line that no one can read"
        if _FULL in self.err:
            return f"more than {MEMORY / 1e9:.0f} GB"
        if self.left:
            return f"half-written {', '.join(self.left)}"
        if self.seconds > SECONDS:
            return f"{self.seconds:.0f} s"
        if self.memory > MEMORY:
            return f"{self.memory / 1e9:.1f} GB"
        return self._unread()

    def _unread(self) -> str:
        if "--json" not in self.argv or self.status not in (0, 1) or {"-h", "--help", "--version"} & {*self.argv}:
            return ""
        try:
            json.loads(self.out, parse_constant=_no_constant)
        except ValueError as problem:
            return f"no JSON: {problem}"
        return ""


def _no_constant(name: str) -> float:
    raise ValueError(name)


class Server:
    """Runs inputs under `folder`; `shallow`: no further than to where a problem is read and mathematics would begin."""

    def __init__(self, folder: Path, shallow: bool = False) -> None:
        self.folder, self.shallow = folder, shallow
        os.environ["EMERGENCE_CACHE"] = str(folder / "cache")
        _load()
        gc.freeze()

    def attempts(self, inputs: Iterable[Sequence[str]]) -> Iterator[Attempt]:
        """One after the other, `_TOGETHER` in a fork; in the next one those that it does not come to."""
        waiting = iter(inputs)
        while some := list(islice(waiting, _TOGETHER)):
            while some:
                ended = self._ended(some, partial(self._fork, some))
                yield from ended
                some = some[len(ended) :]

    def afresh(self, argv: Sequence[str]) -> Attempt:
        """In a process that has imported nothing, and finds nothing kept."""
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:

            def begin(here: str) -> int:
                told = json.dumps([[list(argv)], here, self.shallow]).encode()
                environment = {**os.environ, "EMERGENCE_CACHE": cache}
                process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, env=environment)
                assert process.stdin is not None
                process.stdin.write(told)
                process.stdin.close()
                process.returncode = 0  # it is waited for below
                return process.pid

            return self._ended([argv], begin)[0]

    def _fork(self, inputs: Sequence[Sequence[str]], here: str) -> int:
        child = os.fork()
        if child == 0:
            _run(inputs, here, self.shallow)
        return child

    def _ended(self, inputs: Sequence[Sequence[str]], begin: Callable[[str], int]) -> list[Attempt]:
        """Of the first inputs, one at least, what became of them in one process: the last one may be what killed it."""
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            _, status, used = os.wait4(begin(here), 0)
            rows: list[tuple[int | None, float, int, int]] = [
                (*json.loads(line), 0) for line in _text(Path(here, "rows")).splitlines()
            ]
            code = os.waitstatus_to_exitcode(status)
            if code != 0 or not rows:  # (whatever ends the process in silence is a fault of the first)
                number = code if code > 0 else None
                rows.append((number, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, max(0, -code)))
            return [
                Attempt(tuple(argv), ended, *_streams(folder), seconds, memory, _parts(folder), signal)
                for i, (argv, (ended, seconds, memory, signal)) in enumerate(zip(inputs, rows, strict=False))
                for folder in (Path(here, str(i)),)
            ]


def _streams(folder: Path) -> tuple[str, str]:
    return _text(folder / "out"), _text(folder / "err")


def _parts(folder: Path) -> tuple[str, ...]:
    """Parts of files that were left."""
    return tuple(sorted(path.name for path in Path(folder, "work").rglob(_PARTS)))


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _load() -> None:
    """Import what there is, and make what is made of the models' records, once for all forks."""
    from emergence import arguments, choosing, models

    for name in _PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    for name in _LAZY:
        importlib.import_module(name)
    choosing._switches()
    make, known = arguments.parser, {}
    for model in models.built_in().values():
        for named in (False, True):
            known[model.name, named] = make(model, named)

    def kept(model: Any = None, named: bool = False, what: str = "") -> Any:
        model = model or models.default()  # (`what` decides what help shows, not what is understood)
        return make(model, named, what) if model.origin else known[model.name, named]

    arguments.parser = kept


def _run(inputs: Sequence[Sequence[str]], here: str, shallow: bool) -> NoReturn:
    """In the child: nothing of the parent's is left, and it never returns.

    An input that takes too much is the last one: what comes after would seem to.
    """
    status = 3
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _stop(shallow)
        rows = os.open(Path(here, "rows"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for place, argv in enumerate(inputs):
            before, _ = _used()
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _KILLED_AFTER, resource.RLIM_INFINITY))
            signal.alarm(_PATIENCE)
            ended = _one(argv, Path(here, str(place)))
            after, memory = _used()
            seconds = after - before
            os.write(rows, f"{json.dumps([ended, seconds, memory])}\n".encode())
            if seconds > SECONDS or memory > MEMORY or _FULL in _text(Path(here, str(place), "err")):
                break
        status = 0
    finally:
        os._exit(status)


def _used() -> tuple[float, int]:
    """Seconds of processor time and the largest memory in bytes, of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(x.ru_utime + x.ru_stime for x in both), 1024 * max(x.ru_maxrss for x in both)


def _one(argv: Sequence[str], here: Path) -> int:
    """The exit status of one input, with files for its streams and a folder of its own to work in."""
    Path(here, "work").mkdir(parents=True)
    for name, stream in (("out", 1), ("err", 2)):
        file = os.open(here / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, stream)
        os.close(file)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    os.chdir(here / "work")
    from emergence.cli import main

    status = 3
    try:
        status = main(list(argv))
    except StartedError:
        status = STARTED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
    return status


def _stop(shallow: bool) -> None:
    """Where simulations begin, and, if `shallow`, where a problem is made and where an activation is read."""
    from emergence.progress import Progress

    def start(*_: Any, **__: Any) -> NoReturn:
        raise StartedError

    Progress.__enter__ = start  # type: ignore[method-assign]
    if not shallow:
        return
    from emergence import config
    from theory.core import activation

    build, parse = config.build, activation.parse_expression

    def made(*given: Any) -> NoReturn:
        build(*given)
        raise StartedError

    def read(text: str) -> NoReturn:
        parse(text)
        raise StartedError

    config.build, activation.parse_expression = made, read


if __name__ == "__main__":
    _run(*json.loads(sys.stdin.buffer.read()))
