"""Where a result comes from: attributes of every file that a run writes, beside the numbers and never among them.

The same seed gives the same numbers; date, machine and command differ. So no name, checksum or comparison of results may
rest on what stands here, and a store whose cells are compared byte by byte keeps none of it.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from _emergence import DISTRIBUTION, __version__
from dynamics.core.clock import now

#: What a number may depend on beside the code of this project.
LIBRARIES = ("numpy", "scipy", "sympy", "jax", "jaxlib", "diffrax", "equinox", "xarray", "h5netcdf", "matplotlib")

Attribute = str | int | float


def provenance(**settings: Attribute | None) -> dict[str, Attribute]:
    """Attributes that say how a file was made.

    Args:
        settings: what decides the numbers, e.g. ``seed``, ``preset``, ``problem``; None is left out.

    Returns:
        ``emergence_version``, ``commit`` (empty if unknown; ends in ``+changes`` where the checkout was edited),
        ``command``, ``date`` (UTC, ISO 8601), ``machine``, ``python``, ``libraries`` (JSON, name → version), and `settings`.
    """
    return {
        "emergence_version": __version__,
        "commit": commit(),
        "command": command(),
        "date": now().isoformat(timespec="seconds"),
        "machine": machine(),
        "python": platform.python_version(),
        "libraries": json.dumps(libraries()),
        **{name: value for name, value in settings.items() if value is not None},
    }


def command() -> str:
    """The command line of this process, quoted for a shell; the program by its name alone, not by where it lies."""
    program, *arguments = sys.argv or [""]
    name = Path(program).name
    if name == "__main__.py":
        name = f"python -m {Path(program).parent.name}"
    return " ".join([name, *map(shlex.quote, arguments)]).strip()


def machine() -> str:
    """Kind of processor, operating system and number of cores; no name of a host."""
    return f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores"


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """Installed versions of `LIBRARIES`, without those that are not installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of this code: of its checkout, or what pip noted when it installed from one; empty if unknown."""
    folder = Path(__file__).resolve().parent
    # A virtual environment inside another project's checkout: that commit is not ours.
    if _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is not None:
        edited = _git(folder, "status", "--porcelain", "--untracked-files=no")
        return f"{_git(folder, 'rev-parse', 'HEAD') or ''}{'+changes' if edited else ''}"
    try:
        noted = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return ""
    return str(json.loads(noted or "{}").get("vcs_info", {}).get("commit_id", ""))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers; None if it is not there, or refuses."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set inside a hook
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], env=own, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
