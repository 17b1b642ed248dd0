"""A function in a process of its own, in the overlay, within limits of time and memory.

The process is forked from one that has imported the libraries, which takes longer than most tests, and nothing of the
project: that is imported anew, from the overlay. Limits are of processor time, so that a busy machine kills nothing.
"""

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_THREADS = ("NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: So many times its processor time a process may stay: it may wait for others, but not for ever.
_WAITING, _LEAST = 20, 600.0
TIME = "time"
#: Bytes of data that a process may hold.
MEMORY = 8 << 30


@dataclass(frozen=True)
class Ended:
    """How a process ended: seconds of processor time; why it did not end by itself ("" if it did); its last words."""

    seconds: float
    stopped: str
    said: str


def preload(libraries: Sequence[str], packages: Sequence[str]) -> None:
    """Import libraries, those that are there, and forget the project. For one thread: threads do not survive a fork."""
    os.environ |= dict.fromkeys(_THREADS, "1")
    for name in libraries:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    warnings.filterwarnings("ignore", message=".*fork.*", category=RuntimeWarning)
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    forget(packages)


def forget(packages: Iterable[str]) -> None:
    """Drop imported packages, with all below them."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def apart(job: Callable[[], None], root: Path, packages: Sequence[str], limit: float, log: Path) -> Ended:
    """Run `job` in a child whose imports come from `root`; `limit`: seconds of processor time; `log`: all that it prints."""
    began = _children()
    child = os.fork()
    if not child:
        status = 1
        try:
            _enter(root, packages, limit, log)
            job()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            _leave(status)
    stopped = _wait(child, max(_LEAST, _WAITING * limit))
    words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] if log.is_file() else []
    used = _children() - began
    # The system kills at the limit, too; what it kills before wanted memory, or something else of the machine.
    return Ended(used, TIME if stopped == signal.SIGKILL.name and used >= limit else stopped, "".join(words))


def dies_with_parent() -> None:
    """Let the system end this process when its parent ends, however that ends (Linux)."""
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _enter(root: Path, packages: Sequence[str], limit: float, log: Path) -> None:
    os.setsid()
    dies_with_parent()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 10))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(sink, stream)
    here = os.getcwd()
    sys.path[:] = [str(root), *(x for x in sys.path if x not in ("", here, os.environ.get("PYTHONPATH")))]
    os.environ["PYTHONPATH"] = str(root)
    os.chdir(root)
    importlib.invalidate_caches()
    forget(packages)


def _leave(status: int) -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _wait(child: int, patience: float) -> str:
    """Why the child did not end by itself; its whole group is gone when this returns, also on Ctrl-C."""
    end = time.monotonic() + patience
    try:
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                break
            if time.monotonic() > end:
                return TIME
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return TIME if number == signal.SIGXCPU else signal.Signals(number).name
    return ""


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
