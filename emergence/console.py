"""Writing to the two standard streams. Nothing else in this package prints."""

import contextlib
import os
import sys

from emergence.refusal import refuse

#: Letters of an error, and of a word of one that is longer.
LONGEST, _KEPT = 1000, 60


def secure() -> None:
    """Fill the places of standard streams that are closed: the next file opened would take one, and what libraries print."""
    for place in range(3):
        try:
            os.fstat(place)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest place that is free


def say(text: str) -> None:
    """Print to standard output. A reader that has gone away (``| head``) is no error; a closed one is said.

    Any other failure to write is refused.
    """
    if sys.stdout is None:
        warn("standard output is closed: the result is not shown")
        return
    try:
        print(_encodable(text, sys.stdout), flush=True)
    except BrokenPipeError:
        _discard()
    except OSError as problem:
        _discard()
        refuse(f"standard output cannot be written ({problem.strerror}): make room there, or send it elsewhere")


def _discard() -> None:
    """The interpreter flushes once more at exit: give it somewhere to flush to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """One line ``emergence: warning: …`` on standard error."""
    _tell(f"warning: {text}")


def fail(text: str, label: str = "error") -> None:
    """One line ``emergence: error: …`` on standard error, of a length that can be read: the longest words are cut."""
    words = text.split()
    while sum(map(len, words)) > LONGEST and len(longest := max(words, key=len)) > 2 * _KEPT:
        words[words.index(longest)] = f"{longest[:_KEPT]}…"
    short = " ".join(words)
    _tell(f"{label}: {short if len(short) <= 2 * LONGEST else f'{short[:LONGEST]} … {short[-LONGEST // 2 :]}'}")


def note(text: str) -> None:
    """One line of progress on standard error."""
    _tell(text)


def _tell(text: str) -> None:
    """One line on standard error; nothing if there is none (closed, full, gone), which is no reason to stop."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"emergence: {one_line(text)}", file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """`text` on a single line that standard error can encode."""
    return _encodable(" ".join(text.split()), sys.stderr)


def _encodable(text: str, stream: object) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
