r"""Random streams. Each has a name: a seed and words; a replica's number is folded in; nobody computes with seeds.

``stream(seed, "E14", "gaps")`` is the generator of that name. Words are texts and whole numbers (a dimension, the number of
a start); they are hashed together by SHA-256, so that no two names meet, at the same seed or at any two seeds, and a name
is the same on every platform. (A list of bare integers is no name: NumPy pads it with zeros, [23] is [23, 0].)

The empty name, ``stream(seed)``, is NumPy's ``default_rng(seed)``. It belongs to the start of an additive student,
`theory.draw_initial_state`, and to nothing else. Keys of JAX come from the same names in `dynamics.core.keys`.
"""

import hashlib
import json
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.core.arguments import check_seed, check_whole

Word = str | int


@dataclass(frozen=True)
class Made:
    """A stream that was made.

    Attributes: seed, words, replica: its name. state: what its numbers follow from; two streams are alike if it is the
    same. place: module and function that asked for it. use: ``generator``, ``integer`` or ``key``.
    """

    seed: int
    words: tuple[Word, ...]
    replica: int | None
    state: tuple[int, ...]
    place: str
    use: str


_record: ContextVar[list[Made] | None] = ContextVar("streams", default=None)


@contextmanager
def recorded() -> Iterator[list[Made]]:
    """Every stream that is made inside, in the order of making: with it a test sees whether any two are alike."""
    found: list[Made] = []
    token = _record.set(found)
    try:
        yield found
    finally:
        _record.reset(token)


def sequence(seed: int, *words: Word, replica: int | None = None, use: str = "generator") -> np.random.SeedSequence:
    """What the numbers of a stream follow from. Raises `InputError` unless seed and replica are whole numbers ≥ 0."""
    check_seed(seed)
    if replica is not None:
        check_whole(0, replica=replica)
    words = tuple(word if isinstance(word, str) else operator.index(word) for word in words)
    last = () if replica is None else (int(replica),)
    # NumPy pads the seed to a fixed length in front of a spawn key, and the hash has a fixed length too: nothing slides.
    made = np.random.SeedSequence(int(seed), spawn_key=(*_hashed(words), *last))
    note(int(seed), words, replica, tuple(made.generate_state(4).tolist()), use)
    return made


def stream(seed: int, *words: Word, replica: int | None = None) -> np.random.Generator:
    """The generator of a name."""
    return np.random.default_rng(sequence(seed, *words, replica=replica))


def generator(seed: int | np.random.Generator, *words: Word) -> np.random.Generator:
    """A generator as it is, or the one of the name that an integer and `words` make."""
    return seed if isinstance(seed, np.random.Generator) else stream(seed, *words)


def integer_seed(seed: int, *words: Word, replica: int | None = None) -> int:
    """A seed from 0 to 2³¹ − 1 of a name, for what takes an integer."""
    return int(sequence(seed, *words, replica=replica, use="integer").generate_state(1)[0]) >> 1


def note(seed: int, words: tuple[Word, ...], replica: int | None, state: tuple[int, ...], use: str) -> None:
    """Add a stream to those recorded, if somebody records."""
    found = _record.get()
    if found is not None:
        found.append(Made(seed, words, replica, state, _place(), use))


def _hashed(words: tuple[Word, ...]) -> tuple[int, ...]:
    """SHA-256 of the words as eight numbers of 32 bits; nothing for the empty name."""
    if not words:
        return ()
    return tuple(np.frombuffer(hashlib.sha256(json.dumps(words).encode()).digest(), "<u4").tolist())


#: Modules that hand streams on: the place of a stream is the first one behind them.
_BETWEEN = (__name__, "dynamics.core.keys", "validation.judge.context")


def _place() -> str:
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__") in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
