"""Command lines run to where a simulation would begin, in forks of one process that has everything imported, and afresh.

A fork takes a hundredth of what a process takes to start, and ends as one; what is wrong in a fork only says something of
forks, so a fault counts when a process of its own, which knows of nothing, repeats it.
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
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

#: Processor seconds and bytes that an input may take before it is refused or a simulation begins.
SECONDS, MEMORY = 10.0, 2_000_000_000
#: Seconds after which a process is killed: of its processor's, and of waiting, on a busy machine too.
_KILLED_AFTER, _PATIENCE = 30, 120
STARTED = 99
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

    def attempt(self, argv: Sequence[str]) -> Attempt:
        """In a fork."""

        def begin(here: str) -> int:
            child = os.fork()
            if child == 0:
                _run(argv, here, self.shallow)
            return child

        return self._attempt(argv, begin)

    def afresh(self, argv: Sequence[str]) -> Attempt:
        """In a process that has imported nothing, and finds nothing kept."""
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:

            def begin(here: str) -> int:
                told = json.dumps([list(argv), here, self.shallow]).encode()
                environment = {**os.environ, "EMERGENCE_CACHE": cache}
                process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, env=environment)
                assert process.stdin is not None
                process.stdin.write(told)
                process.stdin.close()
                process.returncode = 0  # it is waited for below
                return process.pid

            return self._attempt(argv, begin)

    def _attempt(self, argv: Sequence[str], begin: Callable[[str], int]) -> Attempt:
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            _, status, used = os.wait4(begin(here), 0)
            code = os.waitstatus_to_exitcode(status)
            texts = [_text(Path(here, name)) for name in ("out", "err")]
            left = tuple(sorted(path.name for path in Path(here, "work").rglob(_PARTS)))
        seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        return Attempt(tuple(argv), code if code >= 0 else None, *texts, seconds, memory, left, max(0, -code))


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

    def kept(model: Any = None, named: bool = False) -> Any:
        model = model or models.default()
        return make(model, named) if model.origin else known[model.name, named]

    arguments.parser = kept


def _run(argv: Sequence[str], here: str, shallow: bool) -> NoReturn:
    """In the child: nothing of the parent's is left, and it never returns."""
    status = 3
    try:
        for name, stream in (("out", 1), ("err", 2)):
            os.dup2(os.open(Path(here, name), os.O_WRONLY | os.O_CREAT, 0o600), stream)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        work = Path(here, "work")
        work.mkdir()
        os.chdir(work)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (_KILLED_AFTER, _KILLED_AFTER))
        signal.alarm(_PATIENCE)
        _stop(shallow)
        from emergence.cli import main

        status = main(list(argv))
    except StartedError:
        status = STARTED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


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
