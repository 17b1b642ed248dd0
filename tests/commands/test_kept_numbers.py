"""What command lines answer, number by number, is what it was: the whole road, from the options to the file.

Other tests and the claims say what is right. These say what moves: whoever means it to remakes the file, and reads there what
did (`kept_numbers`). The numbers are the same with jax 0.10 and 0.12, NumPy 2.4 and 2.5, and whatever XLA is asked to fuse.
"""

import hashlib
import json
from math import inf, nan
from pathlib import Path

import pytest
from kept_numbers import KEPT, _sums, answer, moved

NUMBERS = json.loads(KEPT.read_text(encoding="utf-8"))


def _name(line: str) -> str:
    return f"{line.split()[0]}-{hashlib.sha256(line.encode()).hexdigest()[:6]}"


# Two and a half seconds or more of processor time each:
@pytest.mark.slow_for("compare-e3ad6c", "compare-09e97e", "compare-975f7c", "predict-42e3b1", "predict-94e128")
@pytest.mark.slow_for("simulate-48c970", "simulate-4f02e3", "simulate-c94ccb", "simulate-b0fc98", "predict-3573f9")
@pytest.mark.slow_for("simulate-64cd62", "simulate-24abf5", "predict-562835", "predict-311078", "predict-0c9784")
@pytest.mark.slow_for("predict-e5419c", "compare-ba71ce", "predict-6b4446", "simulate-843480", "simulate-225296")
@pytest.mark.slow_for("predict-b7d78a", "predict-8a5982", "predict-b5714c", "simulate-a753b7", "simulate-8cdf4b")
@pytest.mark.slow_for("predict-2a80c3", "simulate-394f86", "predict-b14223", "predict-cf42ef", "predict-b0532b")
@pytest.mark.slow_for("predict-85e5a5", "predict-6b4c6d")
@pytest.mark.parametrize("line", NUMBERS, ids=_name)
def test_no_number_moves_unseen(line: str, tmp_path: Path) -> None:
    found = moved(NUMBERS[line], answer(line, tmp_path))
    assert not found, f"emergence {line}: if this is meant, run python tests/support/kept_numbers.py"


def test_a_number_that_moves_is_named() -> None:
    kept = {"time": 2.0, "low": "inf", "paths": [3, 0, 2.0, 0.1], "x.conditions.0.norms": 1e-12, "valid": True}
    assert moved(kept, kept) == moved(kept, kept | {"time": 2.000001, "x.conditions.0.norms": 3e-12}) == []
    other = {"time": 2.00001, "low": 3.0, "paths": [3, 0, 2.0, 0.2], "x.conditions.0.norms": 1e-3, "valid": False}
    assert [one.partition(":")[0] for one in moved(kept, other)] == list(kept)
    assert [moved({"paths": _sums([1.0, inf, *[2.0] * 9])}, {"paths": _sums(x)}) != [] for x in (
        [1.0, inf, *[2.0] * 9], [inf, 1.0, *[2.0] * 9], [1.0, -nan, *[2.0] * 9], [1.0, inf, *[2.0] * 8, 2.1],
    )] == [False, True, True, True]  # fmt: skip
    assert moved(kept, {}) == [f"{name}: {value} -> nothing" for name, value in kept.items()]
