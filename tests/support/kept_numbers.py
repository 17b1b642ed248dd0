"""Numbers that command lines have given, kept to see which ones a change moves.

`kept_numbers.json` holds for each command line what it answered: all numbers of a prediction, each variable of a file.
``python tests/support/kept_numbers.py`` works them out anew, says what has moved and keeps that. Lines to be added are its
arguments, each in quotes; a line that is taken out of the file is forgotten.
"""

import contextlib
import io
import json
import math
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

KEPT = Path(__file__).with_name("kept_numbers.json")
#: Significant digits that are kept; from which part of itself on a number has moved; what is as good as nought in a condition,
#: where errors of rounding are values.
DIGITS, MOVED, NOTHING = 9, 1e-6, 1e-9
#: Names of what the noise of steps along a flow is in, whose slopes are integrated to 1e-3: without AVX-512 numbers of 12
#: lines differ by up to 5e-4.
NOISY, MOVED_NOISY = ("emergence of SGD", "emergence in steps", ".sgd_"), 1e-3
#: Longer lists are kept as how many of their entries are finite and two sums of these.
LONG = 8
#: What is asked for, not answered, or said in words.
_LEFT_OUT = frozenset(
    ("problem", "variables", "what", "source", "unit", "limit", "reason", "method", "report", "holds")
)
#: Of an entry in a list, what says which one it is.
_SAID = ("quantity", "direction", "name")

Plain = dict[str, Any]


def answer(line: str, folder: Path) -> Plain:
    """Numbers and short words by name of what a command line answers; its files are written into `folder`."""
    from emergence.cli import main

    words, printed, said = shlex.split(line), io.StringIO(), io.StringIO()
    files = [] if words[0] == "predict" else ["--out", str(folder)]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        status = main([*words, *files, "--json", "--quiet"])
    if status not in (0, 1):
        raise ValueError(f"{line}: status {status}, {said.getvalue().strip()}")
    document = json.loads(printed.getvalue())
    file = document.pop("file", None)
    if file is not None:
        with xr.open_dataset(file) as found:
            document["file"] = {str(name): found[name].values.tolist() for name in found.variables}
    return dict(_flat("", document))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in (*_LEFT_OUT, *_SAID) and inner is not None:
                yield from _flat(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and value and _numbers(value) and (len(value) > LONG or isinstance(value[0], list)):
        yield name, _sums(value)
    elif isinstance(value, list):
        for label, inner in zip(_labels(value), value, strict=True):
            yield from _flat(f"{name}.{label}", inner)
    else:
        yield name, _kept(value)


def _labels(entries: list[Any]) -> Iterator[str]:
    """Entries that say what they are keep their names when others come or go."""
    seen: Counter[str] = Counter()
    for place, entry in enumerate(entries):
        said = [str(entry[x]) for x in _SAID if entry.get(x) is not None] if isinstance(entry, dict) else []
        label = " ".join(said) or str(place)
        seen[label] += 1
        yield label if seen[label] == 1 else f"{label} ({seen[label]})"


def _numbers(value: Any) -> bool:
    return all(map(_numbers, value)) if isinstance(value, list) else isinstance(value, int | float | None)


def _sums(values: list[Any]) -> list[float]:
    """How many entries are finite and how many no number, the sum of squares of the finite ones, and their sum with weights
    in which any two places differ.
    """
    array = np.asarray(values, float).ravel()
    sound = np.isfinite(array)
    finite, weights = array[sound], np.cos(np.sqrt(np.arange(array.size)))[sound]
    return [finite.size, int(np.isnan(array).sum()), _kept(float(finite @ finite)), _kept(float(weights @ finite))]


def _kept(value: Any) -> Any:
    if isinstance(value, str):  # a sentence: its subject, as numbers in it are elsewhere
        return value.partition(":")[0]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def moved(kept: Plain, now: Plain) -> list[str]:
    """For each name whose value is not what it was: the name, what it was, what it is."""
    both = ((name, kept.get(name, "nothing"), now.get(name, "nothing")) for name in {**kept, **now})
    return [f"{name}: {was} -> {found}" for name, was, found in both if not _same(was, found, name)]


def _same(was: Any, now: Any, name: str) -> bool:
    if isinstance(was, list) and isinstance(now, list):
        (number, *_, squares, weighted), (*_, other_squares, other_weighted) = was, now
        size = math.sqrt(number * squares)  # no sum of that many terms with these squares is larger
        alike = was[:2] == now[:2] and _same(squares, other_squares, name)
        return alike and abs(weighted - other_weighted) <= MOVED * size
    if any(isinstance(x, str | bool | list) for x in (was, now)):
        return bool(was == now)
    share = MOVED_NOISY if any(noisy in name for noisy in NOISY) else MOVED
    return math.isclose(was, now, rel_tol=share, abs_tol=NOTHING if ".conditions." in name else 0.0)


def main(lines: Sequence[str]) -> None:
    """Work out all lines that are kept, and these; say what has moved, and keep it."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        for line in dict.fromkeys([*kept, *lines]):
            begun = time.process_time()
            now = answer(line, Path(folder))
            changed = moved(kept[line], now) if line in kept else [f"new: {len(now)} values"]
            print(f"{time.process_time() - begun:6.2f} s  {line}", *changed, sep="\n    ", flush=True)
            if changed:
                old = kept.get(line, {})  # (what has not moved stays as it is)
                kept[line] = {
                    name: old[name] if name in old and _same(old[name], x, name) else x for name, x in now.items()
                }
    text = ",\n".join(f"{json.dumps(line)}:\n {json.dumps(found)}" for line, found in kept.items())
    KEPT.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["EMERGENCE_CACHE"] = "off"  # predictions are worked out
    main(sys.argv[1:])
