"""What a command hands back to the command line."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """The JSON document of a command, the same for people as text, and the exit status."""

    document: Mapping[str, object]
    text: str
    code: int = 0
