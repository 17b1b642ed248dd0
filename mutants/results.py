"""What was found, kept as it is found: one line of JSON each, only ever added to, so that a kill loses at most the last."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

TESTS, CLAIMS = "tests", "claims"


@dataclass(frozen=True)
class Answer:
    """What one file of tests, or one claim, said of one mutant.

    Attributes:
        mutant: its digest. version: of the mutated file and of who was asked, as they were.
        asked: `TESTS` or `CLAIMS`. name: the file, or the claim; "" where all of them are meant.
        part: of a file of tests, "reaching" or "rest", or "whole"; of all, whether they were asked to the end.
        notice: what noticed, and how; "" if nothing did. seconds: of processor time. came: whether the mutant was evaluated.
    """

    mutant: str
    version: str
    asked: str
    name: str
    part: str
    notice: str
    seconds: float
    came: bool = False


class Results:
    """All answers, in memory and in the file."""

    def __init__(self, path: Path) -> None:
        self._path, self.folder = path, path.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        self._known: dict[tuple[str, ...], Answer] = {}
        self._read = 0
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes have added. A last line that a kill has cut short is left out."""
        if not self._path.is_file():
            return
        with open(self._path, "rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        self._known |= {_key(one): one for one in _answers(whole.decode(errors="replace"))}

    def find(self, mutant: str, version: str, asked: str, name: str, part: str) -> Answer | None:
        """The answer of a unit in this version; None if it was not asked."""
        return self._known.get((mutant, version, asked, name, part))

    def of(self, mutant: str) -> list[Answer]:
        """All answers on a mutant, of whatever version."""
        return [one for one in self._known.values() if one.mutant == mutant]

    def add(self, answer: Answer) -> None:
        """Keep an answer that is not there yet; it is on the disk when this returns."""
        if _key(answer) in self._known:
            return
        line = json.dumps(asdict(answer), ensure_ascii=False) + "\n"
        with open(self._path, "ab") as file:  # one write to the end of a file is not torn by another process's
            torn = file.tell() and not _ends_with_line(self._path)
            file.write(("\n" * torn + line).encode())
            file.flush()
            os.fsync(file.fileno())
        self._known[_key(answer)] = answer


def _key(one: Answer) -> tuple[str, ...]:
    return one.mutant, one.version, one.asked, one.name, one.part


def _ends_with_line(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _answers(lines: str) -> Iterator[Answer]:
    for line in lines.splitlines():
        try:
            yield Answer(**json.loads(line))
        except (ValueError, TypeError):
            continue
