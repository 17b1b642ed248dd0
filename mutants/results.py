"""What was found, kept as it is found: one line of JSON each, only ever added to, so that a kill loses at most the last."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

TESTS, CLAIMS = "tests", "claims"


@dataclass(frozen=True)
class Answer:
    """What the tests, or the claims, said of one mutant.

    Attributes:
        mutant: its digest. asked: `TESTS` or `CLAIMS`.
        notice: what noticed, and how; "" if nothing did. by: the file of tests, or the claim, that did.
        version: of who noticed; of the mutated file if nothing did.
        silent: file or claim that came by and said nothing → its version, and how much of it was asked.
        finished: whether one noticed, or everybody was asked. budget: processor seconds that were allowed.
        seconds: that were used.
    """

    mutant: str
    asked: str
    notice: str
    by: str
    version: str
    silent: dict[str, str] = field(default_factory=dict)
    finished: bool = True
    budget: float = 0.0
    seconds: float = 0.0


class Results:
    """The last answer on each mutant, in memory and in the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._known: dict[tuple[str, str], Answer] = {}
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
        self._known |= {(one.mutant, one.asked): one for one in _answers(whole.decode(errors="replace"))}

    def find(self, mutant: str, asked: str) -> Answer | None:
        """The last answer, of whatever version."""
        return self._known.get((mutant, asked))

    def add(self, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns."""
        line = json.dumps(asdict(answer), ensure_ascii=False) + "\n"
        with open(self._path, "ab") as file:  # one write to the end of a file is not torn by another process's
            torn = file.tell() and not _ends_with_line(self._path)
            file.write(("\n" * torn + line).encode())
            file.flush()
            os.fsync(file.fileno())
        self._known[answer.mutant, answer.asked] = answer

    def take_over(self, answers: Iterable[Answer]) -> None:
        """Those that were kept elsewhere, on mutants that nobody was asked about here."""
        for one in answers:
            if (one.mutant, one.asked) not in self._known:
                self.add(one)

    def all(self) -> list[Answer]:
        """The last ones, in the order of the mutants."""
        return [self._known[key] for key in sorted(self._known)]


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
