"""The grid of a sweep: syntax, refusals, shards."""

import pytest

from emergence.models.additive import AdditiveProblem
from emergence.store import grid
from theory import InputError


def test_values_are_read_by_kind() -> None:
    found = grid.axes(
        AdditiveProblem,
        ["student-width=8,16, 32", "seed=0:6:2,9", "init_scale=1e-2,0.1", "normalise=true,false", "method=ambient"],
        {},
    )
    assert found == {
        "student_width": (8, 16, 32),
        "seed": (0, 2, 4, 9),
        "init_scale": (0.01, 0.1),
        "normalise": (True, False),
        "method": ("ambient",),
    }
    assert list(found) == ["student_width", "seed", "init_scale", "normalise", "method"]


def test_a_comma_within_brackets_belongs_to_the_activation() -> None:
    assert grid.axes(AdditiveProblem, ["activation=h4, Max(z, 0), 0.8*h4+0.6*h6"], {})["activation"] == (
        "h4",
        "Max(z, 0)",
        "0.8*h4+0.6*h6",
    )


def test_flags_win_over_the_file() -> None:
    table = {"student-width": [8, 16], "seed": "0:3"}
    assert grid.axes(AdditiveProblem, ["seed=5"], table, "p.toml") == {"student_width": (8, 16), "seed": (5,)}


@pytest.mark.parametrize(
    ("flags", "table", "named"),
    [
        ([], {}, "--over is not given"),
        (["seed"], {}, "--over is 'seed': write NAME=VALUES"),
        (["sede=1"], {}, "'sede' is no option of a problem"),
        (["teacher-weights=1"], {}, "cannot be swept"),
        (["seed="], {}, "--over seed is ''"),
        (["seed=1,,2"], {}, "--over seed is ''"),
        (["seed=3:3"], {}, "'3:3', an empty range"),
        (["seed=0:5:0"], {}, "an empty range"),
        (["seed=-2:1"], {}, "--over seed is -2"),
        (["dim=64.5"], {}, "--over dim is '64.5'"),
        (["init-scale=0:1"], {}, "--over init-scale is '0:1'"),
        (["normalise=maybe"], {}, "give true or false"),
        (["student-width=8,9,8"], {}, "has 8 twice"),
        (["init-scale=0.1,1e-1"], {}, "has 0.1 twice"),
        (["seed=1", "seed=2"], {}, "'seed' twice"),
        (["seed=0:999999999999"], {}, "more than 1000000 values"),
        (["seed=0:2000", "dim=100:1100"], {}, "2000000 cells: at most 1000000"),
        ([], {"seed": 3}, "config p.toml: sweep.seed is 3: give a list"),
        ([], {"seed": []}, "no value is in it"),
        ([], {"seed": [1, True]}, "sweep.seed is True"),
        ([], {"student-width": [1], "student_width": [2]}, "twice, with - and with _"),
        ([], {"colour": [1]}, "config p.toml: sweep.colour: 'colour' is no option"),
    ],
)
def test_bad_grids_are_refused(flags: list[str], table: dict, named: str) -> None:
    with pytest.raises(InputError) as refusal:
        grid.axes(AdditiveProblem, flags, table, "p.toml")
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_points_cover_the_grid_the_last_option_fastest() -> None:
    points = list(grid.points({"dim": (1, 2), "seed": (0, 1, 2)}))
    assert points[:4] == [{"dim": 1, "seed": 0}, {"dim": 1, "seed": 1}, {"dim": 1, "seed": 2}, {"dim": 2, "seed": 0}]
    assert len(points) == grid.size({"dim": (1, 2), "seed": (0, 1, 2)}) == 6


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_shards_are_disjoint_and_together_everything(count: int) -> None:
    cells = list(range(10))
    shards = [cells[grid.part(f"{i}/{count}")] for i in range(1, count + 1)]
    assert sorted(cell for shard in shards for cell in shard) == cells
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_bad_shards_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--shard is .*: give i/n"):
        grid.part(text)
