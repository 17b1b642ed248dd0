"""Quadratic claims: right formulas pass, formulas broken on purpose are named, figures draw; and the command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from theory import InputError
from theory.quadratic.model import decoupled_overlaps, decoupled_risk
from theory.quadratic.occupation import Occupation
from theory.quadratic.riccati import overlap_system
from validation import TheoryUnderTest, validate
from validation.claims.quadratic.exact import with_wrong_damping
from validation.figures import quadratic as quadratic_figures


@dataclass(frozen=True)
class Decoupled(Occupation):
    """Directions that do not know of each other."""

    def diagonal(self, times: ArrayLike) -> np.ndarray:
        return decoupled_overlaps(self.spectrum, self.dim, int(self.width), times)

    def risk(self, times: ArrayLike) -> np.ndarray:
        return decoupled_risk(self.spectrum, self.dim, int(self.width), times)


@dataclass(frozen=True)
class Slower(Occupation):
    """Every speed wrong by five per cent."""

    def diagonal(self, times: ArrayLike) -> np.ndarray:
        return super().diagonal(0.95 * np.asarray(times))

    def risk(self, times: ArrayLike) -> np.ndarray:
        return super().risk(0.95 * np.asarray(times))


UNDAMPED = TheoryUnderTest({overlap_system: lambda: with_wrong_damping(overlap_system())})
BROKEN = {
    "2 dropped from 2GAG, in the rate": ("Q2", UNDAMPED, {"Q2.N2", "Q2.N6"}),
    "2 dropped from 2GAG, in the solution": ("Q3", UNDAMPED, {"Q3.N2", "Q3.N4"}),
    "decoupled directions": ("Q9", TheoryUnderTest({Occupation: Decoupled}), {"Q9.middle", "Q9.plateau"}),
    "speed wrong by 5 %": ("Q6", TheoryUnderTest({Occupation: Slower}), {"Q6.j1", "Q6.j4"}),
}


@pytest.mark.slow_for("decoupled directions", "2 dropped from 2GAG, in the solution")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_formula_is_named(name: str) -> None:
    claim, broken, caught = BROKEN[name]
    failed = {x.id for x in validate([claim], theory=broken).verdicts if x.verdict != "agrees"}
    assert caught <= failed


@pytest.mark.parametrize("claim", ["Q2", "Q5", "Q8", "Q11", "Q19"])
def test_the_right_formula_is_not(claim: str) -> None:
    assert validate([claim]).as_expected


# ----------------------------------------------------------------------------- figures


def test_figures_draw_and_check_shapes() -> None:
    times = np.geomspace(1, 10, 5)
    maps = quadratic_figures.overlap_maps(np.random.default_rng(0).uniform(-1, 1, (3, 4, 4)), ["a", "b", "c"])
    assert len(maps.axes) == 4
    drawn: Sequence[Figure] = [
        quadratic_figures.emergence(times, np.ones((5, 9)), np.zeros((5, 9))),
        quadratic_figures.risk_curves([("N = 2", times, 1 / times, 1 / times, 0.1)], (times, 1 / times, "slope −1")),
        quadratic_figures.slopes_over_dim([(1.0, [10, 100], [-0.9, -1.0], -1.0)]),
        quadratic_figures.collapse([(100, times, 1 / times)], (times, 1 / times)),
        quadratic_figures.frontier(("unit", [times], [1 / times], times, 1 / times), [4]),
    ]
    assert all(figure.axes[0].get_xlabel() for figure in drawn)
    with pytest.raises(InputError, match="titles"):
        quadratic_figures.overlap_maps(np.zeros((3, 4, 4)), ["a"])
    with pytest.raises(InputError, match="law"):
        quadratic_figures.emergence(times, np.ones((5, 9)), np.zeros((5, 8)))


# ------------------------------------------------------------------------- command line


def test_derive_riccati(run: Callable) -> None:
    code, document, _ = run("derive", "riccati")
    assert code == 0
    assert document["name"] == "riccati"
    assert document["activation"] == "quadratic"
    assert r"\dot G" in document["equations"]


def test_predict_quadratic(run: Callable) -> None:
    code, document, _ = run(
        "predict", "--activation", "quadratic", "--dim", "100000", "--teacher-width", "6", "--student-width", "4",
        "--step-size", "1e-6",
    )  # fmt: skip
    assert code == 0
    rows = document["directions"]
    assert [row["direction"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for name in ("time_half", "time_emergence"):  # of four columns
        assert [row[name] is None for row in rows] == [False] * 4 + [True] * 2
    assert rows[0]["time_leading"] is None
    weight = rows[0]["weight"]
    assert rows[0]["time_emergence"] == pytest.approx(np.log(100000 / 4) / (2 * 4 * weight))
    assert rows[0]["steps_half"] == pytest.approx(rows[0]["time_half"] / 1e-6)
    assert document["exponents"] == {"time": -1.0, "width": -1.0, "samples_unstable": None, "compute": -0.5}
    assert document["loss"]["value"][0] == pytest.approx(1.0, rel=1e-3)
    assert document["riccati_rate"] == pytest.approx(4)


def test_speed_factor_divides_times(run: Callable) -> None:
    times = []
    for factor in ("1", "0.5"):
        _, document, _ = run("predict", "--activation", "h2", "--teacher-width", "3", "--speed-factor", factor)
        times.append(document["directions"][0]["time_half"])
    assert times[1] == pytest.approx(2 * times[0])


def test_simulate_riccati(run: Callable) -> None:
    argv = ["simulate", "riccati", "--dim", "1000000000", "--teacher-width", "5", "--student-width", "3"]
    code, document, _ = run(*argv, "--replicas", "3", "--quiet")
    assert code == 0
    assert document["variables"]["diagonal"] == ["replica", "time", "direction"]
    with xr.open_dataset(document["file"], engine="h5netcdf") as data:
        assert data["overlap"].dims == ("replica", "time", "neuron", "direction")
        assert data["loss"].dims == ("replica", "time")
        assert float(data["diagonal"].isel(time=-1, direction=0).min()) > 0.99
        assert data["direction"].values.tolist() == [1, 2, 3, 4, 5]
        first = data["diagonal"].values.copy()
    again = run(*argv, "--replicas", "3", "--out", "again", "--quiet")[1]["file"]
    assert Path(again).name == Path(document["file"]).name
    with xr.open_dataset(again, engine="h5netcdf") as data:
        assert np.array_equal(data["diagonal"].values, first)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["simulate", "riccati", "--student-width", "20", "--dim", "10", "--teacher-width", "4"],
            "student-width is 20",
        ),
        (["simulate", "riccati", "--teacher-weights", "1", "0"], "--teacher-weights"),
        (["simulate", "riccati", "--teacher-weights", "1", "-1"], "--teacher-weights"),
        (["simulate", "riccati", "--time", "-1"], "--time is -1"),
        (["simulate", "riccati", "--speed-factor", "0"], "--speed-factor is 0"),
        (["predict", "--activation", "quadratic", "--speed-factor", "-2"], "--speed-factor is -2"),
        (["predict", "--speed-factor", "2"], "--speed-factor is given, but predict does not use it"),
        (["simulate", "riccati", "--activation", "h4"], "activation is 'h4'"),
        (["derive", "riccati", "--activation", "erf"], "activation is 'erf'"),
        (["simulate", "riccati", "--steps", "10"], "without step-size"),
    ],
)
def test_bad_input_is_one_line(argv: list[str], message: str, refused: Callable) -> None:
    assert message in refused(*argv)
