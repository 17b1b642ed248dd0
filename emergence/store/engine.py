"""Where cells are computed: worker processes of this machine, or a cluster of `distributed`."""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, Self

from emergence.refusal import refuse

#: One thread per worker: cells are the parallelism, and a sum's order must not depend on the number of workers.
_ONE_THREAD = {"NPROC": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
#: Several workers share one accelerator: none may reserve its memory for itself.
_SHARED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_PATIENCE = 10
#: What keeps lines of a script for the process that was started with it: any of them is taken at its word.
_GUARDS = ('if __name__ == "__main__"', "__name__", "parent_process")

Task = Callable[[Mapping[str, Any]], bytes]


class Engine(Protocol):
    """Runs tasks somewhere else."""

    @property
    def slots(self) -> int:
        """How many tasks are worth submitting at a time."""

    def submit(self, task: Task, configuration: Mapping[str, Any]) -> "Future[bytes]": ...

    def restart(self) -> None:
        """Start afresh after a worker died (`BrokenExecutor`)."""


class Here:
    """This process: one task at a time, each computed as it is handed over. What is compiled serves the next."""

    slots = 1

    def submit(self, task: Task, configuration: Mapping[str, Any]) -> "Future[bytes]":
        """Compute at once; what the task raises is the future's, but for Ctrl-C."""
        future: Future[bytes] = Future()
        try:
            future.set_result(task(configuration))
        except Exception as error:
            future.set_exception(error)
        return future

    def restart(self) -> None:
        """There is nothing to start."""


class Workers:
    """Processes of this machine, one thread each, started when there is work; a context manager.

    They live and die with this process, even if it is killed: each holds one end of a pipe and leaves when the other
    end closes.
    """

    def __init__(self, count: int) -> None:
        self.slots = count
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> Self:
        _check_guarded()
        wanted = _ONE_THREAD | {key: os.environ.get(key, value) for key, value in _SHARED.items()}
        self._before = {key: os.environ.get(key) for key in wanted}
        os.environ |= wanted  # inherited by every process started from here on
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._lifeline.close()  # do not wait for what they are at
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._lifeline.close()
        self._end.close()
        for key, value in self._before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value

    def submit(self, task: Task, configuration: Mapping[str, Any]) -> "Future[bytes]":
        with _interrupts_blocked():  # a worker started here inherits the mask: Ctrl-C is for the parent alone
            return self._pool.submit(task, configuration)

    def restart(self) -> None:
        """Fresh processes in place of those that died; tasks not yet begun are dropped."""
        self._lifeline.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._end.close()
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process that has started JAX can hang
        self._end, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(self.slots, mp_context=context, initializer=_begin, initargs=(self._end,))


def _check_guarded() -> None:
    """Refuses to start processes from a script that would start them again in each.

    A new process runs the script that this one runs (`multiprocessing`, spawn), but for what stands below one of `_GUARDS`.
    A module that is run by its name (``python -m``), a notebook or a prompt is not run again.
    """
    script = sys.modules.get("__main__")
    path = getattr(script, "__file__", None)
    again = getattr(multiprocessing.current_process(), "_inheriting", False)  # it is such a process, at its beginning
    if not again and path is not None and getattr(script, "__spec__", None) is None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            again = not any(word in Path(path).read_text(encoding="utf-8") for word in _GUARDS)
    if again:  # (the name is not yet that of a module in a process at its beginning)
        refuse(f"script {path or sys.argv[0]!r} is run by every worker, too: put the call under `{_GUARDS[0]}:`")


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Hold Ctrl-C back, not lose it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(lifeline: Connection) -> None:
    """In a worker: leave interrupts, and a terminal that closes, to the parent, and leave when it is gone."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_leave_with, args=(lifeline,), daemon=True).start()


def _leave_with(lifeline: Connection) -> None:
    try:
        lifeline.recv()
    finally:
        os._exit(1)


class Cluster:
    """A running `distributed` scheduler; a context manager.

    Results come back to this process, so workers need no common file system, only the same version of this package.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> Self:
        try:
            from distributed import Client
        except ImportError:
            from theory.core.errors import not_installed

            refuse(f"scheduler is {self._address!r}, but {not_installed('distributed')}")
        try:
            self._client = Client(self._address, timeout=_PATIENCE, set_as_default=False)
        except Exception as problem:  # OSError, ValueError, ImportError … by kind of address
            reason = f"{type(problem).__name__}"
            refuse(f"scheduler is {self._address!r}: nothing answers there ({reason}): give tcp://HOST:PORT")
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is said in one line
        self._executor: Executor = self._client.get_executor(pure=False, retries=1)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A scheduler that is gone cannot be told to drop what is in hand, nor that we leave; what went wrong is told already.
        unheard = () if kind is None else (Exception,)
        with contextlib.suppress(*unheard):
            self._executor.shutdown(wait=kind is None)
        with contextlib.suppress(*unheard):
            self._client.close(timeout=_PATIENCE)

    @property
    def slots(self) -> int:
        """Two tasks per thread, so that none waits for its next one. Raises `InputError` if the scheduler does not answer."""
        try:
            return max(1, 2 * sum(self._client.nthreads().values()))
        except Exception:  # OSError, TimeoutError, CommClosedError …
            refuse(
                f"scheduler is {self._address!r}: it stopped answering: start it and run again, finished cells are kept"
            )

    def submit(self, task: Task, configuration: Mapping[str, Any]) -> "Future[bytes]":
        return self._executor.submit(task, configuration)

    def restart(self) -> None:
        """The cluster restarts its workers itself."""


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
