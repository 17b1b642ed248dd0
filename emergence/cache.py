"""The user's cache folder, and in it the programs that JAX has compiled: another run need not compile them again.

What lies there may be lost at any time and is then made anew. ``EMERGENCE_CACHE`` names another folder, or says ``off``; where
JAX's own ``JAX_COMPILATION_CACHE_DIR`` is set, that is used. JAX names an entry by the program, its options and versions, so
that nothing is ever out of date, but not by the processor: each kind has a folder of its own. Whoever can write there can run
code, so a folder that is not the user's alone is left alone.
"""

import hashlib
import os
import platform
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "EMERGENCE_CACHE"
OFF = "off"
_JAX, _LEAST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
#: XLA's options for compiling in less time, and the last release of jaxlib that is known to take each: one that it does not
#: know ends the process. With XLA's own choices, the highest level and the emitters, it takes up to twice as long for the
#: loops of the simulators, which run no faster.
_FLAGS = "XLA_FLAGS"
_QUICK = (("--xla_backend_optimization_level=2", (0, 12)), ("--xla_cpu_use_fusion_emitters=false", (0, 10)))
#: What Equinox, under Diffrax, does with an error in a compiled program.
_ERRORS = "EQX_ON_ERROR"
#: Seconds of compilation from which on a program is kept: all, since small ones are many and are read in a millisecond.
_WORTH = "0"
#: Bytes of compiled programs beyond which the oldest go, down to half of it.
_MOST = 2_000_000_000
#: Everything older was found whole. Entries of zlib begin with this.
_CHECKED, _ZLIB = ".checked", b"\x78"


def folder() -> Path | None:
    """The user's cache folder of this project, not made; None if it is switched off."""
    asked = os.environ.get(VARIABLE)
    if asked is not None:
        return None if asked.strip().lower() in ("", OFF) else Path(asked).expanduser()
    try:
        home = Path.home()
    except RuntimeError:  # nobody's
        return None
    places = {"darwin": home / "Library" / "Caches", "win32": Path(os.environ.get("LOCALAPPDATA") or home)}
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    usual = Path(xdg) if os.path.isabs(xdg) else places.get(sys.platform, home / ".cache")
    return usual / "emergence-sgd"


@contextmanager
def kept_compiled() -> Iterator[None]:
    """`keep_compiled`, and afterwards the folder is left in order."""
    keep_compiled()
    try:
        yield
    finally:
        tidy()


def keep_compiled() -> None:
    """Let JAX, in this process if it is not imported yet and in those started from here, keep what it compiles.

    It compiles in less time, too, by options of XLA; what ``XLA_FLAGS`` says of one of them stays.
    """
    flags, release = os.environ.get(_FLAGS, ""), _release()
    own = [option for option, last in _QUICK if option.split("=")[0] not in flags and release <= last]
    if own:
        os.environ[_FLAGS] = " ".join([flags, *own]).strip()
    root = folder()
    if root is None:
        return
    # JAX keeps no program that calls back to raise an error. As NaN the same error is refused where a solver's result is read.
    os.environ.setdefault(_ERRORS, "nan")
    if _JAX in os.environ:
        return
    place = root / f"compiled-{_processor()}"
    with suppress(OSError):  # no place to write: everything works without
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_own(place):
            os.environ[_JAX] = str(place)
            os.environ.setdefault(_LEAST, _WORTH)


def _release() -> tuple[int, ...]:
    """Major and minor number of jaxlib, which is not imported; of none, and of one without numbers, beyond all."""
    from importlib import metadata

    try:
        found = re.match(r"(\d+)\.(\d+)", metadata.version("jaxlib"))
    except metadata.PackageNotFoundError:
        found = None
    return (sys.maxsize,) if found is None else (int(found[1]), int(found[2]))


def tidy() -> None:
    """Remove entries that a killed process has left incomplete, and the oldest where there is too much."""
    root, place = folder(), Path(os.environ.get(_JAX, ""))
    if root is None or place.parent != root or "jax" not in sys.modules:
        return
    with suppress(OSError):
        entries = sorted(_entries(place))
        stamp = place / _CHECKED
        checked = stamp.stat().st_mtime if stamp.exists() else 0.0
        for written, _, path in entries:
            if written >= checked and not _is_whole(path):
                path.unlink(missing_ok=True)
        stamp.touch()
        size = sum(bytes_ for _, bytes_, _ in entries)
        for _, bytes_, path in entries if size > _MOST else ():
            path.unlink(missing_ok=True)
            size -= bytes_
            if size <= _MOST / 2:
                break


def _entries(place: Path) -> Iterator[tuple[float, int, Path]]:
    """When each was written, its size, its path."""
    for entry in os.scandir(place):
        with suppress(FileNotFoundError):  # another process may tidy too
            if entry.name != _CHECKED and entry.is_file():
                yield entry.stat().st_mtime, entry.stat().st_size, Path(entry.path)


def _is_whole(path: Path) -> bool:
    """Whether a compressed entry ends where it should (JAX reports one that does not in every run, and never mends it)."""
    content = path.read_bytes()
    if content[:1] != _ZLIB:
        return bool(content)
    try:
        stream = zlib.decompressobj()
        stream.decompress(content)
    except zlib.error:
        return False
    return stream.eof


def _is_own(place: Path) -> bool:
    """Whether this user can write there, and nobody else (where the system tells)."""
    if not os.access(place, os.W_OK):  # JAX would warn of every program
        return False
    if not hasattr(os, "getuid"):
        return True
    found = place.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _processor() -> str:
    """Of what this processor can do, where the system says it; else of the machine's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        able = next(line for line in lines if line.lower().startswith(("flags", "features")))
    except (OSError, StopIteration):
        able = f"{platform.processor()} {platform.node()}"
    return hashlib.sha256(f"{platform.machine()} {able}".encode()).hexdigest()[:12]
