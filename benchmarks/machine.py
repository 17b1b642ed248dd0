"""The machine and the versions that a run's figures belong to."""

import os
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

#: Above this one-minute load average something else is running.
QUIET = 0.5


@dataclass(frozen=True)
class Machine:
    """Processor, cores this process may use, versions, and the load average when the run began."""

    processor: str
    cores: int
    python: str
    jax: str
    numpy: str
    load: tuple[float, ...]

    @property
    def warning(self) -> str | None:
        """A sentence if the machine was busy at the start."""
        if not self.load:
            return "the load average is not known here: make sure that nothing else runs"
        if self.load[0] > QUIET:
            return f"load average {self.load[0]:.2f} at the start: other work was running, times are too long"
        return None

    def document(self) -> dict[str, object]:
        """The machine as plain data for JSON."""
        return {**asdict(self), "load": list(self.load), "warning": self.warning}

    def text(self) -> str:
        """The machine in three lines."""
        load = " ".join(f"{value:.2f}" for value in self.load) or "unknown"
        lines = [
            f"machine: {self.processor}, {self.cores} cores",
            f"python {self.python}, jax {self.jax}, numpy {self.numpy}; double precision",
            f"load average at the start: {load}",
        ]
        return "\n".join(lines + ([f"warning: {self.warning}"] if self.warning else []))


def _processor() -> str:
    """The model name from /proc/cpuinfo where there is one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _cores() -> int:
    """Cores this process may run on, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def this_machine() -> Machine:
    """Read it now: the load average is that of the moment of the call."""
    load = tuple(round(value, 2) for value in os.getloadavg()) if hasattr(os, "getloadavg") else ()
    return Machine(_processor(), _cores(), platform.python_version(), metadata.version("jax"), np.__version__, load)
