"""The linear network on the command line, the rules that judge its phases, and its figures."""

import numpy as np
import pytest
import xarray as xr

from dynamics import label_noise_sgd
from emergence.models.linear import MODEL, LinearProblem, resolve
from theory import InputError, draw_linear_start, draw_linear_task
from theory.core.curves import first_crossing
from theory.linear.phases import predict_phases
from validation.claims.linear.label_noise_sgd import boundary
from validation.comparisons.linear import _figures
from validation.figures.linear import alternating, curves, neuron_paths, norm_and_alignment

SMALL = ["--dim", "4", "--student-width", "30", "--step-size", "0.005", "--noise", "2", "--replicas", "2", "--quiet"]


def test_simulate_writes_what_it_says(run):
    code, document, _ = run("simulate", "label-noise", *SMALL, "--steps", "400", "--noise-period", "100")
    assert code == 0
    assert document["problem"]["noise"] == 2.0
    with xr.open_dataset(document["file"]) as data:
        assert document["variables"]["overlap"] == ["replica", "time", "neuron", "direction"]
        assert {name: list(data[name].dims) for name in document["variables"]} == document["variables"]
        assert data.step.values[-1] == 400
        assert np.allclose(data.time, 0.005 * data.step)


@pytest.mark.parametrize("what", ["oscillation", "sam"])
def test_the_other_simulations_run(run, what):
    options = [*SMALL[:6], *SMALL[8:], "--steps", "100"]
    code, document, _ = run("simulate", what, *options, *(["--full-batch", "--linearised"] if what == "sam" else []))
    assert code == 0
    assert document["file"].startswith(f"emergence-out/{what}-")


def test_predict_and_compare_agree_on_the_phases(run):
    code, document, _ = run("predict", "--model", "linear", *SMALL[:8])
    predicted = document["phases"]
    assert code == 0
    assert 0 < predicted["escape_steps"] < predicted["onset_steps"] < predicted["escape_bound"]
    code, document, _ = run("compare", "--model", "linear", *SMALL, "--steps", "2000")
    rows = {row["quantity"]: row for row in document["phases"]}
    assert rows["onset of alignment"]["predicted"] == pytest.approx(predicted["onset_steps"])
    assert set(rows["onset of alignment"]) == {"quantity", "predicted", "sgd_mean", "sgd_stderr", "verdict", "reason"}
    assert code in (0, 1)


def test_a_file_may_name_the_model(run, tmp_path):
    (tmp_path / "p.toml").write_text('model = "linear"\ndim = 4\nstudent-width = 30\nstep_size = 0.005\nnoise = 2\n')
    code, document, _ = run("predict", "--config", "p.toml")
    assert code == 0
    assert document["problem"]["student_width"] == 30
    code, _, err = run("simulate", "gradient-flow", "--config", "p.toml")
    assert code == 2
    assert "model is 'linear', but gradient-flow is of the model additive" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise", "-1"], "--noise is -1: give a finite number, 0 or more"),
        (["--step-size", "0.2"], "beyond the least-squares stability limit"),
        (["--label-flip", "2"], "--label-flip is 2: give a number from 0 to 1"),
        (["--label-flip", "0.1", "--noise", "1"], "give one of them"),
        (["--noise", "0"], "steps has no default here"),
        (["--activation", "h4"], "--activation is given, but simulate label-noise does not use it"),
        (["--target-norm", "0"], "--target-norm is 0: give a finite number, above 0"),
    ],
)
def test_bad_input_is_one_line(refused, arguments, message):
    assert message in refused("simulate", "label-noise", *SMALL[:6], *arguments)


def test_a_radius_that_collapses_the_network_is_refused_or_warned_about(run):
    options = ["--dim", "4", "--student-width", "30", "--step-size", "0.005", "--replicas", "2", "--steps", "50"]
    code, _, err = run("simulate", "sam", *options, "--sam-radius", "9")
    assert code == 2
    assert "SAM collapses the network to zero" in err
    code, _, err = run("simulate", "sam", *options, "--sam-radius", "9", "--allow-unstable", "--quiet")
    assert code in (0, 1)
    assert "SAM collapses the network to zero" in err
    code, _, err = run("simulate", "sam", *options, "--noise", "1")
    assert code == 2
    assert "--noise is given, but simulate sam does not use it (" in err


def test_a_radius_that_collapses_single_samples_is_no_limit_of_batches(run):
    options = ["--dim", "4", "--student-width", "30", "--step-size", "0.005", "--replicas", "2", "--train-size", "0"]
    for radius, batch, code in (("1.2", "1", 2), ("1.2", "8", 0), ("1.4", "8", 2)):
        found, _, err = run("simulate", "sam", *options, "--steps", "50", "--sam-radius", radius, "--batch", batch)
        assert (found, "SAM collapses the network to zero" in err) == (code, code == 2)


def test_the_step_of_a_full_batch_has_a_limit_of_its_own(run):
    """Between that of single samples, .030, and 2/λ(ĤΛ), .098, it runs and its error does not grow; beyond, it is refused."""
    options = ["--dim", "4", "--student-width", "30", "--train-size", "12", "--replicas", "2", "--sam-radius", "0.01"]
    for arguments, code in ((["0.06"], 2), (["0.06", "--full-batch"], 0), (["0.2", "--full-batch"], 2)):
        found, document, err = run("simulate", "sam", *options, "--steps", "200", "--step-size", *arguments)
        assert (found, "beyond the least-squares stability limit" in err) == (code, code == 2)
        if not code:
            with xr.open_dataset(document["file"]) as data:
                assert float(data.train_loss[:, -1].max()) < 0.01 * float(data.train_loss[:, 0].min())


def test_a_full_batch_has_no_size(run):
    found, _, err = run("simulate", "sam", "--train-size", "12", "--full-batch", "--batch", "4")
    assert (found, "batch is 4 and full-batch takes the whole training set" in err) == (2, True)


def test_predict_says_what_each_number_rests_on(run):
    code, document, _ = run("predict", "--model", "linear", *SMALL[:8])
    assert code == 0
    assert set(document["valid"]) == set(document["conditions"]) == set(document["phases"])
    assert document["valid"]["onset_steps"] is document["valid"]["escape_bound"] is True
    code, document, _ = run("predict", "--model", "linear", *SMALL[:8], "--batch", "4")
    assert document["valid"]["escape_bound"] == ["batch: the theorem is for single samples: give batch 1"]
    narrow = ["--dim", "4", "--student-width", "4", "--step-size", "0.005", "--noise", "2"]
    code, document, _ = run("predict", "--model", "linear", *narrow)
    assert code == 0
    assert document["valid"]["escape_steps"][0].startswith("width: d/m is 1,")
    width = document["conditions"]["stability_limit"][0]
    assert (width["name"], width["holds"], width["value"], width["limit"]) == ("width", False, 1.0, 0.2)


def test_compare_gives_no_verdict_on_a_number_outside_its_conditions(run):
    narrow = [
        "--dim",
        "4",
        "--student-width",
        "4",
        "--step-size",
        "0.005",
        "--noise",
        "2",
        "--replicas",
        "2",
        "--quiet",
    ]
    code, document, _ = run("compare", "--model", "linear", *narrow, "--steps", "40000")
    assert code == 0
    rows = {row["quantity"]: row for row in document["phases"]}
    assert rows["onset of alignment"]["verdict"] == "outside"
    assert rows["onset of alignment"]["reason"].startswith("width: d/m is 1,")


def test_an_onset_at_the_start_is_outside_and_no_error(run):
    line = ["--dim", "1", "--student-width", "50", "--train-size", "0", "--step-size", "0.004"]
    code, document, _ = run("compare", "--model", "linear", *line, "--replicas", "2", "--quiet")
    assert code == 0
    row = {row["quantity"]: row for row in document["phases"]}["onset of alignment"]
    assert (row["verdict"], row["predicted"]) == ("outside", 0.0)
    assert row["reason"].startswith("onset: neurons are aligned before any noise")


def test_a_sweep_of_predictions_marks_what_is_outside():
    """As `predict` does, each number by itself; where nothing is predicted nothing is valid."""

    def valid(**options):
        data = MODEL.predict.data(resolve(LinearProblem(dim=4, train_size=0, step_size=0.005, **options)))
        return dict(zip(data.valid.quantity.values.tolist(), data.valid.values.tolist(), strict=True))

    assert set(valid(student_width=100, noise=2.0).values()) == {1.0}
    assert set(valid(student_width=4, noise=2.0).values()) == {0.0}
    late = valid(student_width=100, noise=6.0)  # the error takes too long to settle, and SGD's onset is 14 ± 1 % later
    assert [name for name in late if late[name]] == ["stability_limit", "escape_bound"]
    assert set(valid(student_width=100, noise=2.0, linearised=True).values()) == {0.0}


def test_without_noise_nothing_leaves_the_lazy_regime():
    """What is left of labels is nothing, and the error's too; the step's limit is that of any noise."""
    shape = {"dim": 4, "train_size": 0, "step_size": 0.005, "student_width": 100}
    clean, noisy = (resolve(LinearProblem(**shape, noise=x)).phases for x in (0.0, 2.0))
    assert (clean.residual_variance, clean.lms_error, clean.decay_rate) == (0.0, 0.0, 0.0)
    assert (clean.escape_steps, clean.escape_bound, clean.onset_steps) == (np.inf,) * 3
    assert clean.stability_limit == noisy.stability_limit
    data = MODEL.predict.data(resolve(LinearProblem(**shape, noise=0.0)))
    assert data.valid.values.tolist() == [1.0] * data.valid.size


@pytest.mark.slow
def test_noise_that_pauses_is_predicted_with_its_pauses(run):
    """Twice as late, but for the pause that has not come yet; and that is what SGD does."""
    wide = ["--dim", "4", "--student-width", "100", "--train-size", "0", "--noise", "3", "--step-size", "0.004"]
    ran = [*wide, "--steps", "12000", "--replicas", "6", "--seed", "1", "--quiet"]
    plain = run("predict", "--model", "linear", *wide)[1]["phases"]
    code, document, _ = run("compare", "--model", "linear", *ran, "--noise-period", "200")
    assert code == 0
    rows = {row["quantity"]: row for row in document["phases"]}
    escape = rows["median escape from the lazy regime"]
    assert escape["predicted"] == pytest.approx(plain["escape_steps"] + 200 * (plain["escape_steps"] // 200))
    for row in (escape, rows["steps to half of ‖W‖²_F"]):
        assert abs(row["sgd_mean"] - row["predicted"]) < 0.1 * row["predicted"] + 3 * row["sgd_stderr"]
        assert row["sgd_mean"] > 1.3 * row["predicted"] / 2 + 3 * row["sgd_stderr"]


def test_clean_labels_are_said_to_be_clean(command):
    ran = command("simulate", "oscillation", "--dim", "4", "--student-width", "6", "--steps", "20", "--quiet")
    assert ", clean labels, step size" in ran.out
    one = ["--dim", "1", "--student-width", "30", "--step-size", "1e-4"]
    assert command("predict", "--model", "linear", *one).code == 0  # one direction is aligned from the start


def test_a_step_at_which_the_oscillation_grows_is_refused(run):
    options = ["--dim", "4", "--student-width", "60", "--train-size", "0", "--step-size", "0.3", "--steps", "200"]
    code, _, err = run("simulate", "oscillation", *options)
    assert code == 2
    assert "step-size is 0.3: from 0." in err
    assert "on oscillation makes the first layer grow without end: lower it or student-width, or give" in err
    code, _, err = run("simulate", "oscillation", *options, "--allow-unstable", "--quiet")
    assert code == 1
    assert "grow without end" in err


def test_flags_of_the_linear_network_are_refused_elsewhere(run):
    code, _, err = run("predict", "--noise", "3")
    assert code == 2
    assert "--noise is given, but predict does not use it (" in err
    assert "(predict --model declared, " in err
    code, _, err = run("simulate", "lazy-rich", "--noise", "3")
    assert code == 2
    assert "--noise is given, but simulate lazy-rich does not use it (" in err


# --------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_boundary_is_where_the_line_breaks(seed):
    steps = np.linspace(0, 100, 101)
    curve = 0.2 + 0.01 * np.maximum(steps - 40, 0) + 0.005 * np.random.default_rng(seed).standard_normal(101)
    assert abs(boundary(steps, curve) - 40) <= 3


def test_figures_are_drawn_and_refuse_shapes_that_do_not_match():
    steps, runs = np.arange(5.0), np.linspace(1, 0.2, 10).reshape(2, 5)
    figure = norm_and_alignment(
        steps, runs, 1 - runs, predicted=(runs[0], runs[1]), marks={"onset": 2.0, "never": np.inf}
    )
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "root mean square norm of first-layer neurons",
        "mean alignment |cos|",
    ]
    assert len(neuron_paths(runs.T, runs.T, steps).axes) == 2
    assert len(alternating(steps, runs[0], runs[1], 2, runs[0]).axes) == 2
    lines = curves(steps, runs, ["one", "theory"], "loss").axes[0].get_lines()
    assert lines[1].get_linestyle() == "--"
    with pytest.raises(InputError, match="alignment: shape"):
        norm_and_alignment(steps, runs, runs[:, :3])


def test_the_figures_of_a_run_are_its_neurons_and_the_predicted_course():
    """Root mean squares over neurons, the mean over replicas; predicted √½ of the start once ‖W‖² is half."""
    task, width = draw_linear_task(4, 1.0, None, 0), 12
    phases = predict_phases(task, width=width, step_size=0.01, noise=2.0)
    half = int(first_crossing(phases.times, phases.frobenius2, width / 2, falling=True))
    start = draw_linear_start(width, 4, np.random.default_rng(0))
    run = label_noise_sgd(
        task, start, step_size=0.01, steps=half, noise=2.0, replicas=2, seed=3, saves=4, tracked=width
    )
    (_, both), (_, paths) = _figures(phases, run, width)
    lines = {line.get_label(): np.asarray(line.get_ydata()) for ax in both.axes for line in ax.get_lines()}
    norm2, cosine = run.values("norm2"), np.abs(run.values("overlap")[..., 0])
    np.testing.assert_allclose(lines["norm"], np.sqrt(norm2.mean(axis=2)).mean(axis=0))
    np.testing.assert_allclose(lines["alignment"], cosine.mean(axis=(0, 2)))
    assert lines["norm, predicted"][-1] == pytest.approx(np.sqrt(0.5), rel=1e-3)
    drawn = np.array([line.get_data() for line in paths.axes[0].get_lines()])[:width]
    np.testing.assert_allclose(drawn, np.stack([cosine[0], np.sqrt(norm2[0])]).transpose(2, 0, 1))


@pytest.mark.parametrize("name", ["label-noise", "oscillation", "alignment", "sam"])
def test_derivations_of_the_linear_network_have_no_other_activation(run, name):
    code, document, _ = run("derive", name)
    assert code == 0
    assert document["activation"] == "h1"
    assert r"\varphi(c)" not in document["equations"]
    code, _, err = run("derive", name, "--activation", "h4")
    assert code == 2
    assert err == "emergence: error: activation is 'h4', but this derivation is of h1: use h1, or leave it out\n"


def test_a_start_has_the_variances_of_the_paper() -> None:
    """1/d and 1/m, and by the square of a scale more."""
    for scale, start in ((1.0, draw_linear_start(40, 6, 3, 500)), (0.5, draw_linear_start(40, 6, 3, 500, 0.5))):
        for layer, width in ((start.first, 6), (start.second, 40)):
            assert np.mean(layer**2) == pytest.approx(scale**2 / width, rel=4 * np.sqrt(2 / layer.size))
