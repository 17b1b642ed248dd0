"""Checkpoints: arrays and a description in one file, complete or absent."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.storage import write_atomically
from theory import InputError

R = TypeVar("R")
_ABOUT = "about"
#: Bytes of the description, at most.
_LONGEST = 10**8
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
        if not path.is_file():
            raise FileNotFoundError
        with zipfile.ZipFile(path) as stored:
            about = json.loads(str(_read(stored, _ABOUT, None)))
            found = [_read(stored, f"leaf{k}", leaf) for k, leaf in enumerate(leaves)]
    except _OtherTreeError:
        raise InputError(f"checkpoint {str(path)!r} belongs to another network: {_REMEDY}") from None
    except MemoryError:
        raise
    except Exception as problem:  # a damaged archive can raise anything
        raise InputError(f"checkpoint {str(path)!r} is damaged ({type(problem).__name__}): {_REMEDY}") from None
    if not isinstance(about, dict) or len(stored.namelist()) != len(leaves) + 1:
        raise InputError(f"checkpoint {str(path)!r} belongs to another network: {_REMEDY}")
    return jax.tree.unflatten(structure, [jnp.asarray(x) for x in found]), about


def records(path: Path, read: Callable[[], R]) -> R:
    """What a run reads of its own from beside the tree. Raises `InputError` where that is not what it wrote."""
    try:
        return read()
    except (LookupError, TypeError, ValueError, AttributeError) as problem:
        raise InputError(f"checkpoint {str(path)!r} is damaged ({type(problem).__name__}): {_REMEDY}") from None


class _OtherTreeError(Exception):
    """An array is not of the template's shape or type."""


def _read(stored: zipfile.ZipFile, name: str, like: Any) -> np.ndarray:
    """An array, once its header says that it is like the template (None: a text of moderate length)."""
    with stored.open(f"{name}.npy") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another version")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    is_text = shape == () and dtype.kind == "U" and dtype.itemsize <= _LONGEST
    if not (is_text if like is None else (shape, dtype) == (like.shape, like.dtype)):
        raise _OtherTreeError
    with stored.open(f"{name}.npy") as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def check_same(path: Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise `InputError` naming the first setting in which a checkpoint differs from what is asked for."""
    for name, value in wanted.items():
        if stored.get(name) != value:
            raise InputError(
                f"checkpoint {str(path)!r} was written with {name} {stored.get(name)!r}, not {value!r}: {_REMEDY}"
            )
