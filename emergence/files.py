"""The file that a run writes: named by its problem, so that it never takes the place of another problem's."""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import jsonio, output
from emergence.interruption import Kept
from emergence.options import Problem, free, once
from emergence.refusal import is_refusal, refuse
from emergence.store.folder import digest

if TYPE_CHECKING:
    import xarray as xr

#: Hexadecimal digits of the problem's digest in a name: two of a million problems share one with probability 0.002.
DIGITS = 12


def file_name(what: str, problem: Mapping[str, Any], ending: str = "nc") -> str:
    """``WHAT-DIGEST.nc``: equal problems, defaults included, have equal names, others have others."""
    return f"{what}-{digest(jsonio.plain(problem))[:DIGITS]}.{ending}"


@contextmanager
def reporting() -> Iterator[None]:
    """Ctrl-C inside: the report of what was finished has been written; say where. An integrator that gave up is bad input.

    Raises `Kept`, `InputError`.
    """
    from dynamics.core.interrupted import IntegrationError, Interrupted

    try:
        yield
    except IntegrationError as stop:
        refuse(str(stop))
    except Interrupted as stop:
        raise Kept(f"{stop.at}: what was finished is kept in {stop.result.report}") from stop


@dataclass(frozen=True)
class DataFile:
    """Where a simulation's data go.

    Attributes:
        folder: checked, perhaps not made yet. what: the simulation. problem: its problem in full, as it is echoed.
        name: of the file. asked: the problem, from which the rest of it follows.
    """

    folder: Path
    what: str
    problem: Mapping[str, Any]
    name: str
    asked: Problem

    @classmethod
    def of(cls, arguments: argparse.Namespace, problem: Mapping[str, Any], asked: Problem) -> "DataFile":
        """The file of ``simulate WHAT`` of a full problem, nothing made yet; free options have no part in its name.

        Raises `InputError` if it could not be written into the folder.
        """
        decides = {name: value for name, value in problem.items() if name not in free(type(asked))}
        name = file_name(arguments.what, decides)
        return cls(output.asked(arguments.out, name), arguments.what, problem, name, asked)

    def make_folder(self) -> Path:
        """Make the folder. Raises `InputError` if it cannot be written to."""
        return output.make(self.folder)

    def write(self, data: "xr.Dataset") -> Path:
        """Write the data with their provenance; a file of the same problem is replaced.

        Raises `InputError` where the folder takes nothing, saying where else the data are kept.
        """
        return self._write(self.name, data)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Write what a stopped run hands over, beside the file of the whole run and never in its place.

        Raises `Kept` on Ctrl-C, `InputError` where the integrator gave up.
        """
        from dynamics.core.interrupted import IntegrationError, Interrupted, unfinished

        try:
            yield
        except (Interrupted, IntegrationError) as stop:
            if stop.result is None:
                refuse(str(stop))
            path = self._write(unfinished(self.name), stop.dataset.assign_attrs(interrupted=stop.at))
            told = f"{stop.at}: what was finished is kept in {path}"
            if isinstance(stop, Interrupted):
                raise Kept(told) from stop
            refuse(f"{stop}; {told}")

    def document(self, data: "xr.Dataset", path: Path) -> dict[str, object]:
        """The JSON document of every simulation; its `problem` can be given again, what follows from it is `decided`."""
        variables = {str(name): list(variable.dims) for name, variable in data.data_vars.items()}
        problem, decided = once(self.asked, self.problem)
        more = {"decided": decided, "file": str(path), "variables": variables}
        return {"what": self.what, "problem": problem, **more}

    def _write(self, name: str, data: "xr.Dataset") -> Path:
        from dynamics.core.provenance import provenance
        from dynamics.core.storage import write_dataset

        made = data.assign_attrs(
            provenance(problem=json.dumps(jsonio.plain(self.problem)), seed=self.problem.get("seed"))
        )
        try:
            return write_dataset(output.make(self.folder) / name, made)  # perhaps the folder has gone since
        except Exception as problem:
            if not is_refusal(problem):
                raise
            kept = _elsewhere(name, made)
            refuse(f"{problem}{'' if kept is None else f'; what was finished is kept in {kept}'}")


def _elsewhere(name: str, data: "xr.Dataset") -> Path | None:
    """Where the machine has a place for temporary files, a folder of its own; None if that takes none either."""
    from dynamics.core.storage import write_dataset

    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="emergence-"))
        return write_dataset(folder / name, data)
    except Exception as problem:
        if folder is not None:
            folder.rmdir()
        if is_refusal(problem) or isinstance(problem, OSError):
            return None
        raise
