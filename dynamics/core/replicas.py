"""The one loop from save to save: look, progress, and what is kept when it is stopped."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import IntegrationError, Interrupted, Progress, on_request

S = TypeVar("S")
R = TypeVar("R")
#: Step number (whole), or time.
Clock = int | float
#: Seconds that one call of compiled code takes, about: while it goes on, Ctrl-C waits.
_CALL = 1.0


@dataclass(frozen=True)
class Stretch:
    """From one save to the next: `begin` to `end`, in `blocks` blocks of `length` steps, the first of number `first`."""

    begin: Clock
    end: Clock
    first: int = 0
    blocks: int = 1
    length: int = 1

    def blocks_from(self, behind: int, blocks: int) -> "Stretch":
        """Those `blocks` of its blocks that come after the first `behind`."""
        if blocks == self.blocks:
            return self  # (whose ends may be times)
        begin = self.begin + behind * self.length
        return Stretch(begin, begin + blocks * self.length, self.first + behind, blocks, self.length)


@dataclass(frozen=True)
class Track(Generic[S]):
    """What a run has so far: its state at the last save, and what was seen of it at each, `at` these steps or times."""

    state: S
    seen: tuple[Any, ...] = ()
    at: tuple[Clock, ...] = ()

    def columns(self, axis: int = 1) -> tuple[np.ndarray, ...]:
        """Each thing that was seen, over all saves: shape (R, saves, …), or (saves, …) with axis 0, without replicas."""
        return tuple(np.stack(column, axis=axis) for column in zip(*self.seen, strict=True))


def marks(steps: int, saves: int) -> list[int]:
    """`saves` steps at equal distances and the start, or every step."""
    return np.unique(np.linspace(0, steps, min(saves, steps) + 1).round().astype(np.int64)).tolist()


def for_good(lost: Any) -> Any:
    """Replicas that are lost at a save (R, saves), and at all later ones, even if their numbers come back."""
    return np.logical_or.accumulate(lost, axis=1)


def stretches(steps: int, saves: int, length: int = 1) -> Iterator[Stretch]:
    """Between saves, at equal distances but for whole blocks of `length` steps; a shorter last block if they do not divide."""
    total, rest = divmod(steps, length)
    for first, last in pairwise(marks(total, saves)):
        yield Stretch(first * length, last * length, first, last - first, length)
    if rest:
        yield Stretch(total * length, steps, total, 1, rest)


def steps_between(numbers: Iterable[int]) -> Iterator[Stretch]:
    """From each step number to the next, in blocks of one step."""
    return (Stretch(begin, end, begin, end - begin) for begin, end in pairwise(numbers))


def between(moments: Iterable[Clock]) -> Iterator[Stretch]:
    """From each moment to the next, in one block: for what is not the same if it stops on the way."""
    return (Stretch(begin, end) for begin, end in pairwise(moments))


def in_blocks(
    block: Callable[[S, Any, jax.Array], S], states: S, each: Any, first: int, blocks: int, group: int = 0
) -> S:
    """All replicas by `blocks` blocks from block number `first`; ``block(state, each, number)`` is one of one replica.

    `states`, `each` (its key, say): arrays with the replicas in front. All go side by side; with `group` so many at a time,
    from the first block to the last, so that their arrays stay in the processor's cache.
    """
    if not group:
        together = jax.vmap(block, in_axes=(0, 0, None))
        return jax.lax.fori_loop(first, first + blocks, lambda number, now: together(now, each, number), states)

    def one(job: tuple[S, Any]) -> S:
        state, own = job
        return jax.lax.fori_loop(first, first + blocks, lambda number, now: block(now, own, number), state)

    return _in_groups(jax.vmap(one), (states, each), min(group, jax.tree.leaves(each)[0].shape[0]))


def _in_groups(together: Callable[[Any], S], jobs: Any, group: int) -> S:
    """`lax.map` with a batch size, which cannot put arrays together that have an axis of length 0."""
    replicas = jax.tree.leaves(jobs)[0].shape[0]
    whole = replicas - replicas % group
    groups = jax.tree.map(lambda x: x[:whole].reshape(whole // group, group, *x.shape[1:]), jobs)
    found: S = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), jax.lax.map(together, groups))
    if whole == replicas:
        return found
    rest = together(jax.tree.map(lambda x: x[whole:], jobs))
    joined: S = jax.tree.map(lambda *parts: jnp.concatenate(parts), found, rest)
    return joined


@dataclass(frozen=True)
class Told:
    """How a run is told of: what it is, its end (a step if whole, else a time), who is told of its progress, and what more."""

    what: str
    end: Clock
    progress: Progress | None = None
    note: Callable[[Any], str] | str = ""

    def at(self, now: Clock) -> str:
        """How far the run is, in words."""
        if isinstance(self.end, int | np.integer):
            return f"step {now} of {self.end}"
        return f"time {now:.4g} of {self.end:.4g}"

    def tell(self, now: Clock, state: Any) -> None:
        """Report progress."""
        if self.progress is not None:
            note = self.note if isinstance(self.note, str) else self.note(state)
            self.progress(now / self.end, f"{self.what}: {self.at(now)}{note}")


class _Calls:
    """Cuts stretches between blocks into calls of about `_CALL` seconds; the first is of one block."""

    def __init__(self) -> None:
        self._blocks = 1

    def over(self, part: Stretch, state: S, advance: Callable[[S, Stretch], S], told: Told) -> S:
        """The state at the end of the part; what is told on the way there is told."""
        behind = 0
        while (count := self._blocks) < part.blocks - behind:
            piece, begun = part.blocks_from(behind, count), perf_counter()
            state = jax.block_until_ready(advance(state, piece))
            self._learn(perf_counter() - begun)
            told.tell(piece.end, state)
            behind += count
        # (Nobody waits for the last one here: the look at it is prepared meanwhile.)
        return advance(state, part.blocks_from(behind, part.blocks - behind))

    def _learn(self, seconds: float) -> None:
        if seconds < _CALL / 2:
            self._blocks *= 2
        elif seconds > 2 * _CALL:
            self._blocks = max(1, self._blocks // 2)


def drive(
    state: S,
    parts: Iterable[Stretch],
    advance: Callable[[S, Stretch], S],
    look: Callable[[S], Any],
    result: Callable[[Track[S]], R],
    told: Told,
    *,
    done: Callable[[Track[S]], bool] = lambda track: False,
    from_start: bool = True,
) -> R:
    """Alternate ``advance(state, stretch)`` and ``look(state)`` (arrays) until the parts are over or the run is `done`.

    A part of many blocks is given to `advance` in several, block after block; how many at once is a matter of speed, so that
    it must be none for the result. `result` makes what is returned of all that was seen, of the start too if `from_start`.
    Raises `Interrupted` on Ctrl-C (whatever a library made of it: `on_request`), and passes an `IntegrationError` on; both
    have the result up to the last look.
    """
    track: Track[S] = Track(state)
    calls = _Calls()
    try:
        if from_start:
            track = Track(state, (jax.device_get(look(state)),), (0,))
        for part in parts:
            state = calls.over(part, state, advance, told)
            # (Whole or not at all, wherever Ctrl-C comes.)
            track = Track(state, (*track.seen, jax.device_get(look(state))), (*track.at, part.end))
            told.tell(part.end, state)
            if done(track):
                break
    except (KeyboardInterrupt, Exception) as stop:
        if not track.seen:
            raise
        at = f"at {told.at(track.at[-1])}"
        if on_request(stop):
            raise Interrupted(result(track), at) from stop
        if isinstance(stop, IntegrationError):
            stop.result, stop.at = result(track), at
        raise
    return result(track)
