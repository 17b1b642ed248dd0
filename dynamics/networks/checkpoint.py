"""Checkpoints: arrays and a description in one file, complete or absent."""

import json
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.storage import write_atomically
from theory import InputError

_ABOUT = "about"
_REMEDY = "remove it to start afresh"


def save(path: Path, tree: Any, about: dict[str, Any]) -> Path:
    """Write the arrays of a tree, with `about` (plain numbers, texts, lists) beside them, atomically."""
    leaves = {f"leaf{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(tree))}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.array(json.dumps(about))

    def write(temporary: str) -> None:
        with open(temporary, "wb") as file:
            np.savez(file, **leaves, **{_ABOUT: text})  # type: ignore[arg-type]

    return write_atomically(path, write)


def load(path: Path, like: Any) -> tuple[Any, dict[str, Any]]:
    """The tree (shaped as `like`, a template) and what was written beside it.

    Raises: `InputError` for a file that is damaged or holds another tree.
    """
    leaves, structure = jax.tree.flatten(like)
    try:
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored[_ABOUT]))
            found = [stored[f"leaf{k}"] for k in range(len(stored.files) - 1)]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise InputError(f"checkpoint {str(path)!r} is damaged ({type(problem).__name__}): {_REMEDY}") from None
    if [(x.shape, x.dtype) for x in found] != [(x.shape, x.dtype) for x in leaves]:
        raise InputError(f"checkpoint {str(path)!r} belongs to another network: {_REMEDY}")
    return jax.tree.unflatten(structure, [jnp.asarray(x) for x in found]), about


def check_same(path: Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise `InputError` naming the first setting in which a checkpoint differs from what is asked for."""
    for name, value in wanted.items():
        if stored.get(name) != value:
            raise InputError(
                f"checkpoint {str(path)!r} was written with {name} {stored.get(name)!r}, not {value!r}: {_REMEDY}"
            )
