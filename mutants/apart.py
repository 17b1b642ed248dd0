"""A function in a process of its own, in the overlay, within limits of time and memory.

The process is forked from one that has imported the libraries and, from the overlay, the project, which takes longer than most
tests. Nothing there has computed anything. Limits are of processor time, so that a busy machine kills nothing.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import pkgutil
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


def preload(libraries: Sequence[str], packages: Sequence[str], root: Path) -> None:
    """Import libraries, those that are there, and what is at `root` of the packages. For one thread: none survives a fork."""
    os.environ |= dict.fromkeys(_THREADS, "1")
    for name in libraries:
        _imported(name)
    warnings.filterwarnings("ignore", message=".*fork.*", category=RuntimeWarning)
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    forget(packages)
    from_root(root)
    for package in packages:
        _imported(package)
        for found in pkgutil.walk_packages(getattr(sys.modules.get(package), "__path__", ()), f"{package}."):
            if not found.name.endswith("__main__"):
                _imported(found.name)
    gc.collect()
    gc.freeze()  # what is shared with the children is not touched by their collectors


def _imported(name: str) -> None:
    with contextlib.suppress(Exception):  # what needs more than is installed
        importlib.import_module(name)


def from_root(root: Path) -> None:
    """Import from there, and nothing from where this was started."""
    here = os.getcwd()
    sys.path[:] = [str(root), *(x for x in sys.path if x not in ("", here, str(root), os.environ.get("PYTHONPATH")))]
    os.environ["PYTHONPATH"] = str(root)
    importlib.invalidate_caches()


def forget(packages: Iterable[str]) -> None:
    """Drop imported packages, with all below them."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def apart(job: Callable[[], None], root: Path, anew: Sequence[str], limit: float, log: Path) -> Ended:
    """Run `job` in a child at `root`; `anew`: packages that it imports again; `limit`: seconds of processor time; `log`: what
    it prints.
    """
    began = _children()
    child = os.fork()
    if not child:
        status = 1
        try:
            _enter(root, anew, limit, log)
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


def _enter(root: Path, anew: Sequence[str], limit: float, log: Path) -> None:
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
    from_root(root)
    os.chdir(root)
    forget(anew)


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
