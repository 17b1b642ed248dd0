"""Replicas that run until each has ended: side by side in a few lanes, in which the next one takes the place of one that has.

In step with each other all of them would run for as long as the slowest. A replica's numbers, those of
`dynamics.declared.chain`, do not depend on its lane.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.replicas import Stretch, Told, drive, stretches
from dynamics.declared.engine import Exact
from dynamics.declared.step import Run, Watch

#: Looks at which have ended, of a replica that runs to the end.
_LOOKS = 256
#: Replicas for a lane, and the fewest lanes: what a step costs beside arithmetic is shared by them.
_SHARE, _LEAST = 4, 16


class _Lanes(NamedTuple):
    """What goes on, and what is known of the replicas that have ended.

    Attributes:
        run: of the lanes. replica: in each, (lane,); the number of all replicas where none is left. blocks: that it has behind
            it, (lane,). begun: replicas so far. found: what was seen of each at its end, arrays (replica, …).
    """

    run: Run
    replica: np.ndarray
    blocks: np.ndarray
    begun: int
    found: Any


@jax.jit
def _renewed(over: jax.Array, fresh: Run, run: Run) -> Run:
    """The lanes that are over (lane,) begin anew."""
    chosen: Run = jax.vmap(lambda over, new, old: jax.tree.map(lambda x, y: jnp.where(over, x, y), new, old))(
        over, fresh, run
    )
    return chosen


@jax.jit
def _chosen(keys: jax.Array, places: np.ndarray) -> jax.Array:
    return keys[places]


def until_ended(
    engine: Exact,
    keys: jax.Array,
    watch: Watch,
    seen: Any,
    ended: Callable[[Any], np.ndarray],
    *,
    steps: int,
    what: str,
    lanes: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """What `watch` has seen of each replica when it ends, or `steps` steps (whole blocks) after its start: (replica, …).

    Args:
        keys: (replica,). seen: of a replica at its start, arrays. ended: of what is seen of many, (lane,) bool; looked at now
            and then only, so that what was seen may be of some steps more than `steps`.
        what, progress: as of `Told`, which tells of a lane's steps. lanes: replicas side by side, by default a quarter of all.

    The rule has no fixed data set. Raises `Interrupted` on Ctrl-C, with what was seen of those that had ended.
    """
    count, block = keys.size, engine.shape.block
    most = -(-steps // block)
    width = min(count, lanes or max(_LEAST, -(-count // _SHARE)))
    stride = -(-most // _LOOKS)

    def begin(replica: np.ndarray) -> Run:
        return engine.begin(_chosen(keys, np.minimum(replica, count - 1)), seen)

    def advance(now: _Lanes, part: Stretch) -> _Lanes:
        last = now.blocks + part.blocks
        run = engine.onward(now.run, _chosen(keys, np.minimum(now.replica, count - 1)), watch, now.blocks, part.blocks)
        if (part.first + part.blocks) % stride:
            return now._replace(run=run, blocks=last)
        over = np.asarray(ended(run.seen)) | (last >= most)
        known = over & (now.replica < count)
        for into, own in zip(jax.tree.leaves(now.found), jax.tree.leaves(jax.device_get(run.seen)), strict=True):
            into[now.replica[known]] = own[known]
        replica = now.replica.copy()
        replica[over] = np.minimum(now.begun + np.arange(over.sum()), count)
        begun = min(now.begun + int(over.sum()), count)
        return _Lanes(_renewed(over, begin(replica), run), replica, np.where(over, 0, last), begun, now.found)

    found = jax.tree.map(lambda x: np.broadcast_to(x, (count, *np.shape(x))).copy(), seen)
    first = np.arange(width)
    start = _Lanes(begin(first), first, np.zeros(width, dtype=int), width, found)
    looks = -(-most // stride) * -(-count // width)
    end = looks * stride * block
    return drive(
        start,
        stretches(end, looks, block),
        advance,
        lambda now: now.replica,
        lambda track: track.state.found,
        Told(what, end, progress, f", {count} replicas"),
        done=lambda track: bool(np.all(track.seen[-1] == count)),
    )
