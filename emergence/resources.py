"""The machine's memory and speed: what is free, what a run takes at least, and what a user can do. Imports nothing heavy."""

import contextlib
import errno
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from emergence.refusal import refuse

try:
    import resource
except ImportError:  # Windows, which ends no process for want of memory
    resource = None  # type: ignore[assignment]

#: Bytes of a number.
NUMBER = 8
#: Additions and multiplications of one core in a second, in small arrays, and the seconds from which on a run is called long.
SPEED, LONG = 1e9, 600.0
#: Sizes that a message names, the first ones first, where the run has them.
SIZES = (
    "student_width",
    "teacher_width",
    "widths",
    "replicas",
    "batch",
    "samples",
    "hidden",
    "images",
    "train_size",
    "dim",
)
#: What a message of the array library contains when an array is too large to be made.
_TOO_LARGE = (
    "RESOURCE_EXHAUSTED",
    "Out of memory",
    "Unable to allocate",
    "array is too big",
    "Maximum allowed dimension",
    "maximum supported dimension",
)
_GROUPS = "/sys/fs/cgroup"
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True)
class Cost:
    """What a run takes at the very least: `numbers` held at once, and additions and multiplications (`operations`)."""

    numbers: float
    operations: float = 0.0

    def check(self, what: str, uses: Iterable[str]) -> None:
        """Raises `InputError` for a run that can never fit into the memory that there is; `uses`: its options."""
        room, least = memory(), NUMBER * self.numbers
        if room is not None and least > room:
            refuse(f"{what} holds at least {_bytes(least)} at once, and there are {_bytes(room)} here: {_lower(uses)}")

    def warnings(self, what: str, uses: Iterable[str]) -> tuple[str, ...]:
        """A line for a run that cannot end soon, on the cores of this machine."""
        seconds = self.operations / (SPEED * (os.cpu_count() or 1))
        return () if seconds <= LONG else (f"{what} takes about {_duration(seconds)} or more here: {_lower(uses)}",)


def memory() -> float | None:
    """Bytes that a process can have, by the machine, its control group and its own limits; None if none says."""
    found = (_machine(), _group(), _limit())
    return min((x for x in found if x is not None), default=None)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Take no more memory than there is: what does not fit then ends in one line, not with the process killed.

    The limit is on data, not on addresses, which libraries reserve without using them.
    """
    room = memory()
    if resource is None or room is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(room), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def remedy(error: Exception) -> str | None:
    """One line for an error that lies in memory, in a file's name or in the devices asked for; None for any other."""
    text = str(error)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{str(error.filename)[:60]}… is too long for the name of a file: give a shorter one"
    if isinstance(error, MemoryError) or any(sign in text for sign in _TOO_LARGE):
        return f"the problem does not fit into memory: {_lower(SIZES)}"
    if isinstance(error, RuntimeError) and "nable to initialize backend" in text:
        asked = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX_PLATFORMS is {asked!r}, and no such device is here: unset it, or name one that is (cpu)"
    return None


def _lower(uses: Iterable[str]) -> str:
    """The remedy, by the sizes among the options that a run uses."""
    found = [name.replace("_", "-") for name in SIZES if name in frozenset(uses)]
    return (
        f"lower {', '.join(found[:-1])} or {found[-1]}" if len(found) > 1 else f"lower {''.join(found) or 'its sizes'}"
    )


def _bytes(count: float) -> str:
    power = min(int(math.log(max(count, 1.0), 1000)), len(_UNITS) - 1)
    return f"{count / 1000**power:.3g} {_UNITS[power]}"


def _duration(seconds: float) -> str:
    days = seconds / 86_400
    if days > 2:
        return f"{days:.2g} days"
    return f"{seconds / 3600:.2g} hours" if seconds > 7200 else f"{seconds / 60:.2g} minutes"


def _read(path: str, line: str = "") -> float | None:
    """The first number of a file of the kernel's, or of the line that begins so; None if there is none."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
        return float(next(x for x in lines if x.startswith(line)).removeprefix(line).split()[0])
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _machine() -> float | None:
    kilobytes = _read("/proc/meminfo", "MemTotal:")
    return None if kilobytes is None else 1024 * kilobytes


def _group() -> float | None:
    """What the control group of a container or a batch job allows, or one that it lies in."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    own = next((Path(line.removeprefix("0::/")) for line in lines if line.startswith("0::/")), Path())
    found = [_read(f"{_GROUPS}/{path}/memory.max") for path in (own, *own.parents)]
    found.append(_read(f"{_GROUPS}/memory/memory.limit_in_bytes"))
    return min((x for x in found if x is not None), default=None)


def _limit() -> float | None:
    """What the limits of this process allow (``ulimit -d``)."""
    if resource is None:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if most == resource.RLIM_INFINITY else float(most)
