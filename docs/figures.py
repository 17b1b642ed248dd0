"""Makes the figures of the README and of the pages with the toolkit itself: ``make figures`` writes ``docs/img/*.png``.

Names as arguments: these alone, ``python docs/figures.py floor``.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from runpy import run_path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dynamics import FlowResult, gradient_flow
from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation, Prediction, Student, Teacher, draw_initial_state, predict
from theory.core.power_sums import power_sum
from theory.core.streams import stream
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.least_squares import fitted
from theory.declared.linear_model import linear_model
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.random_features import RandomFeatures, phase_exponents
from theory.declared.rule import Rule
from theory.declared.schedule import Power
from theory.declared.start import Start, draw_start
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive, Polynomial
from theory.scaling.bayes import BayesFloor, Channel
from theory.scaling.frontiers import exponent
from theory.scaling.frontiers import frontier as law_frontier
from theory.scaling.power_law_loss import PowerLawLoss
from validation.experiments import polar_batches
from validation.figures.common import overlap_curves
from validation.figures.plot import INK, Plot, colours

IMAGES = Path(__file__).resolve().parent / "img"
DIM, WIDTH, STUDENTS, SEED = 10_000, 8, 32, 0


def run() -> tuple[Prediction, FlowResult]:
    """h4, weights p⁻¹, d = 10⁴: prediction and coupled gradient flow from one random start."""
    activation, teacher = Activation.parse("h4"), Teacher.power_law(WIDTH, 1.0, DIM)
    initial = draw_initial_state(teacher, Student(STUDENTS, 0.03), SEED)
    prediction = predict(activation, teacher, initial)
    end = 1.15 * prediction.last_time
    times = np.geomspace(0.5 * float(prediction.time_half.min()), end, 500)
    return prediction, gradient_flow(activation, teacher, initial, t_end=end, times=times)


def overlaps(prediction: Prediction, flow: FlowResult) -> Figure:
    """Overlap curves, predicted times dashed, in the order of learning."""
    order = prediction.selection.directions
    squares = flow.dataset.overlap.values[:, prediction.neuron[order], order] ** 2
    labels = [f"direction {p + 1}" for p in order]
    time = flow.dataset.time.values
    return overlap_curves(time, squares, prediction.time_half[order], labels, flow.half_time[order], log_time=True)


def loss(prediction: Prediction, flow: FlowResult) -> Figure:
    """Loss beside the idealised staircase."""
    time, value = flow.dataset.time.values, flow.dataset.loss.values
    jumps = np.concatenate([time[:1], np.sort(prediction.time_loss), time[-1:]])
    plot = Plot("gradient-flow time", "population loss", "x")
    plot.curve(time, value, "gradient flow", colours(1)[0])
    plot.theory(jumps, prediction.loss(jumps), "idealised, times predicted", drawstyle="steps-post")
    return plot.done()


#: SGD against the floor: link and weights of the teacher, noise Δ, students, dimensions, n/d, replicas.
LINK, WEIGHTS, NOISE, NEURONS = "h3", np.arange(1, 9.0) ** -1, 1.0, 16
DIMS, RATIO, REPLICAS = (32, 64, 128), 4000, 8
#: Steps are c/√(d(4d + n)) after n samples: the best c for each n is taken.
SCALES = (0.1, 0.2)


def sgd_error(dim: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples (n,), and twice the loss of each replica (replicas, n), of online SGD with step sizes ∝ 1/√n."""
    link, late = Activation.parse(LINK), 4 * dim
    directions = Directions.orthonormal(Inputs.isotropic(dim), len(WEIGHTS))
    rule = Rule(Power(scale / np.sqrt(dim * late), 0.5, late), noise=np.sqrt(NOISE))
    target = Additive(link, tuple(WEIGHTS / np.linalg.norm(WEIGHTS)))
    model = DeclaredModel(directions, target, two_homogeneous(link, NEURONS), rule)
    start = draw_start(directions, NEURONS, 0.3, SEED)
    run = declared_sgd(model, start, steps=RATIO * dim, replicas=REPLICAS, seed=SEED, saves=400, loss=True)
    assert not run.diverged.any()
    return run.dataset.step.values, 2 * run.dataset.loss.values


def floor() -> Figure:
    """SGD of the additive model, several d, beside the Bayes-optimal error of the same teacher, over n/d."""
    plot = Plot("samples n / d", "mean squared error", "xy")
    for dim, colour in zip(DIMS, colours(len(DIMS)), strict=True):
        runs = [sgd_error(dim, scale) for scale in SCALES]
        samples, means = runs[0][0], [errors.mean(axis=0) for _, errors in runs]
        best = np.argmin(means, axis=0)
        errors = np.stack([values for _, values in runs])[best, :, np.arange(samples.size)].T
        late = samples > dim
        plot.runs(samples[late] / dim, errors[:, late], f"SGD, d = {dim}", colour)
    squares = WEIGHTS**2 / np.sum(WEIGHTS**2)
    known = BayesFloor(Channel.of(Activation.parse(LINK)), squares, NOISE)
    ratios = np.geomspace(1, RATIO, 600)
    plot.theory(ratios, [known.error(ratio) for ratio in ratios], "best possible, d → ∞", INK)
    return plot.done()


#: Emergence beside kernel-like scaling: decay of the target's weights, of the features; J = 4 in DIRECTIONS dimensions.
DECAY, FEATURES, DIRECTIONS = 1.35, 0.75, 256


def scaling() -> Figure:
    """Share of the loss left at compute = parameters × samples: additive h4 teacher, step size re-tuned, and random features.

    Both targets have the tail k^(−2·DECAY). Learning p directions takes n = T²/c, c = 2/(J(J − 2)d), T = s · unit.
    """
    plot = Plot("compute: parameters × samples", "share of the loss left", "xy")
    law, compute = PowerLawLoss(DECAY, DIRECTIONS, exponent=4), np.geomspace(1e3, 3e15, 400)
    # Reduced cost m s² in parameters × samples: d for each row, T²/c samples.
    unit = 4 * DIRECTIONS**2 * law.unit(DIRECTIONS) ** 2
    additive, linear = colours(2)
    for m in (1, 4, 16, 64, DIRECTIONS):
        plot.curve(compute, law.share(np.sqrt(compute / unit / m), m), f"_{m} students", additive, lw=0.9, alpha=0.45)
    best = law_frontier(law, compute / unit, np.unique(np.geomspace(1, DIRECTIONS, 60).round()), "unstable")
    shown = best.share < 0.99
    steep = exponent(DECAY, "unstable")
    plot.curve(compute[shown], best.share[shown], f"additive teacher: directions emerge, slope → {steep:.2f}", additive)
    risks, widths = [], np.unique(np.geomspace(4, 1e7, 24).round()).astype(int)
    for width in widths:
        features = RandomFeatures(FEATURES, DECAY - FEATURES, int(width))
        samples = np.maximum(compute / width, 1)
        risk = features.equivalent().risk(0.5 / features.trace, samples) / power_sum(2 * DECAY, 0)
        risks.append(np.where(compute >= width, risk, np.inf))
        if width in widths[::4]:
            seen = compute > 3 * width
            plot.curve(compute[seen], risk[seen], f"_{width} features", linear, lw=0.9, alpha=0.45)
    slope = phase_exponents(FEATURES, DECAY - FEATURES)[0]
    name = f"random features: kernel-like, slope → {slope:.2f}"
    plot.curve(compute, np.min(risks, axis=0), name, linear)
    plot.ax.set_ylim(1e-8, 1.5)
    return plot.done()


#: The committee of arXiv:2410.09005, Figure 1: two rows, β = 1, σ_J = 0.01, N = 1024, L distinct eigenvalues.
EIGENVALUES, COMMITTEE_DIM = (1, 2, 4, 8, 16, 32), 1024


def committee_inputs(count: int) -> Inputs:
    """λ_l ∝ l⁻² with equal multiplicities and trace d."""
    values = np.arange(1, count + 1.0) ** -2
    values *= count / values.sum()
    return Inputs.blocks(*((float(x), COMMITTEE_DIM // count) for x in values))


def structured() -> Figure:
    """The plateau of an erf committee shortens and its end slows down as the spectrum is divided."""
    plot, erf = Plot("flow time", "loss", "xy"), Activation.parse("erf(z/sqrt(2))")
    times = np.geomspace(1, 1000, 160)
    for count, colour in zip(EIGENVALUES, colours(len(EIGENVALUES)), strict=True):
        directions = Directions.random(committee_inputs(count), 2, seed=SEED)
        model = DeclaredModel(directions, Additive(erf, (1.0, 1.0)), committee(erf, 2), Rule(1.0))
        flow = declared_flow(model, draw_start(directions, 2, 0.01, SEED), times[-1], times, rtol=1e-6)
        plot.curve(times, flow.dataset.loss.values, f"L = {count}", colour)
    plot.ax.set_ylim(1e-6, 0.2)
    return plot.done()


def decay_momentum_muon() -> Figure:
    """Times of three directions over that of the heaviest: SGD, stochastic Muon by batch, the population's Muon."""
    weights = polar_batches.WEIGHTS
    plot = Plot("weight a", "median time to overlap 0.6, over that of a = 1", "xy")
    for (batch, muon, step), colour in zip(MUON_RUNS, colours(len(MUON_RUNS)), strict=True):
        size = polar_batches.noisy_step(32, batch, step) if muon and batch else step
        found = polar_batches.passages(32, batch, size, 400 if batch == 0 else 3000, 96, SEED, muon).steps
        middle = np.median(found, axis=0)
        spread = np.std([np.median(found[rows], axis=0) for rows in _resampled(len(found))], axis=0)
        name = f"Muon, batch {batch or '∞'}" if muon else f"SGD, batch {batch}"
        plot.points(weights, middle / middle[0], name, colour, spread / middle[0])
    plot.theory(weights, 1 / weights, "1/a")
    plot.limit(weights, weights**0, "all at once")
    return plot.done()


#: Batch (0: the population), Muon or SGD, and the SGD step that noise makes of a polar one (of the population's: its own).
MUON_RUNS = ((8, False, 1.2 * 32**-1.5), (8, True, 1.2 * 32**-1.5), (64, True, 1.2 * 32**-1.5), (0, True, 0.005))


def _resampled(count: int) -> np.ndarray:
    """Rows of 200 bootstrap samples, (200, count)."""
    return stream(SEED, "figures", "bootstrap").integers(count, size=(200, count))


#: Many passes: dimension, n/d, noise; of a row z, and of four rows erf that learn one: steps, step size, replicas.
FIXED_DIM, FIXED_RATIOS, FIXED_NOISE = 12, (0.5, 1, 2, 4, 8, 16), 0.5
PASSES = {"z": (2000, 0.1, 64), "erf": (2000, 0.5, 8)}
#: Where the axis of losses ends.
LEAST = 1e-4


def fixed_model(name: str, samples: int = 0) -> tuple[DeclaredModel, Start]:
    """One row with activation z, or four with erf, learning one direction by gradient descent on n samples."""
    link, width = Activation.parse(name), 1 if name == "z" else 4
    directions = Directions.orthonormal(Inputs.isotropic(FIXED_DIM), 1)
    student = committee(link, width, (1.0,) if width == 1 else (1.0, -1.0, 1.0, -1.0))
    rule = Rule(PASSES[name][1], max(samples, 1), noise=FIXED_NOISE, samples=samples)
    return DeclaredModel(directions, Additive(link, (1.0,)), student, rule), draw_start(directions, width, 0.5, SEED)


def many_passes(name: str) -> dict[str, np.ndarray]:
    """Ends of gradient descent at each n: train loss, loss and largest squared cosine of a row, (ratios, replicas)."""
    steps, _, replicas = PASSES[name]
    found: dict[str, list[np.ndarray]] = {"train loss": [], "loss": [], "squared cosine": []}
    for ratio in FIXED_RATIOS:
        samples = round(ratio * FIXED_DIM)
        model, start = fixed_model(name, samples)
        run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=SEED, saves=1, loss=True).dataset
        end = run.isel(time=-1, eigenspace=0)
        size = np.einsum("rkk->rk", end.gram.values)
        found["train loss"].append(end.train_loss.values)
        found["loss"].append(end.loss.values)
        found["squared cosine"].append((end.overlap.values[..., 0] ** 2 / size).max(axis=1))
    return {key: np.stack(values) for key, values in found.items()}


def fixed_data() -> Figure:
    """What is memorised and what is found after many passes, in n/d: the linear model with its law, and an erf committee."""
    canvas = Figure(figsize=(9.6, 4.2), layout="constrained")
    for ax, name in zip(canvas.subplots(1, 2), PASSES, strict=True):
        plot = Plot("samples n / d", "mean after many passes", "xy", ax=ax)
        ends = many_passes(name)
        for (key, values), colour in zip(ends.items(), colours(len(ends)), strict=True):
            mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
            plot.points(FIXED_RATIOS, mean, key, colour, error)
            print(name, key, *(f"{m:.4f}±{e:.4f}" for m, e in zip(mean, error, strict=True)))
        model, start = fixed_model(name)
        if name == "z":
            sizes = np.arange(4, 20 * FIXED_DIM)
            laws = [fitted(linear_model(model, start), int(n)) for n in sizes]
            plot.theory(sizes / FIXED_DIM, [law.loss for law in laws], "exact mean", INK)
            plot.theory(sizes / FIXED_DIM, [law.train_loss or np.nan for law in laws], "_exact mean, train", INK)
        steps, size, _ = PASSES[name]
        fresh = declared_flow(model, start, steps * size, np.array([0.0, steps * size])).dataset.loss.values[-1]
        print(name, "fresh samples", fresh)
        if fresh > LEAST:
            plot.level(fresh, "fresh samples")
        plot.words(0.98, 0.95, "one row, activation z" if name == "z" else "four rows, activation erf")
        plot.ax.set_ylim(LEAST, 5)
        plot.done(few=True)
    return canvas


#: Staircases: targets; dimensions; step size times d.
CLIMBED = ("z1+z1*z2+z1*z2*z3", "z1*z2", "z1*z2*z3")
STAIR_DIMS, STEP = (10**2, 10**4, 10**6), 0.002


def climbing(text: str, dim: int, batch: int = 1) -> tuple[DeclaredModel, Start]:
    """One row on the sphere, correlation loss, overlaps d^{-1/2} with each direction at the start."""
    target = Polynomial.parse(text)
    student = committee(Activation.parse("h1+h2+h3"), 1, rows="sphere")
    directions = Directions.orthonormal(Inputs.isotropic(dim), target.count)
    on = np.full(target.count, dim**-0.5)
    start = Start((np.append(on, np.sqrt(1 - on @ on))[None],))
    return DeclaredModel(directions, target, student, Rule(batch * STEP / dim, batch), Correlation()), start


def staircases() -> Figure:
    """Overlap with the last direction over flow time at three d, for leaps 1, 2, 3; online SGD at the smallest d."""
    canvas = Figure(figsize=(9.6, 3.6), layout="constrained")
    for ax, text in zip(canvas.subplots(1, 3, sharey=True), CLIMBED, strict=True):
        end = 8.0 if text != "z1*z2*z3" else 500.0
        plot = Plot("flow time; n·γ of SGD", f"last overlap, {text.replace('*', '')}", "x", ax=ax)
        times, hidden = np.geomspace(0.05, end, 400), "_" * (text == CLIMBED[-1])  # no room for a legend there
        for dim, colour in zip(STAIR_DIMS, colours(len(STAIR_DIMS)), strict=True):
            model, start = climbing(text, dim)
            flow = declared_flow(model, start, end, np.append(0.0, times), system=population_flow(model))
            plot.theory(
                times, flow.dataset.overlap.values[1:, 0, 0, -1], f"{hidden}flow, $d=10^{round(np.log10(dim))}$", colour
            )
        if text != "z1*z2*z3":
            model, start = climbing(text, STAIR_DIMS[0], 32)
            steps = int(3 / (32 * STEP / STAIR_DIMS[0]))
            run = declared_sgd(model, start, steps=steps, replicas=16, seed=SEED, saves=200).dataset
            plot.runs(run.time.values[1:], run.overlap.values[:, 1:, 0, 0, -1], "SGD, $d=10^2$", colours(1)[0])
        plot.done(few=True)
    return canvas


def overlaps_and_loss() -> dict[str, Figure]:
    """Both figures of one run."""
    prediction, flow = run()
    return {"overlaps": overlaps(prediction, flow), "staircase": loss(prediction, flow)}


def slopes() -> Figure:
    """Rules × links: slopes of samples in d from the page on them, predicted and measured."""
    page = (IMAGES.parent / "rules.md").read_text(encoding="utf-8").split("## Rules × links")[1].split("## ")[0]
    rows = [[x.strip() for x in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")][1:]
    links = list(dict.fromkeys(row[1] for row in rows))
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axes, link in zip(figure.subplots(1, len(links), sharey=True), links, strict=True):
        here = [row for row in rows if row[1] == link]
        axes.set_xticks(range(len(here)), [row[0] for row in here], rotation=40, ha="right")
        axes.set_title(f"{link} labels", fontsize=10)
        for place, row in enumerate(here):
            if "±" in row[7]:
                value, error = (float(x) for x in row[7].split("±"))
                axes.plot([place - 0.3, place + 0.3], [float(row[6])] * 2, color="#D55E00", lw=2)
                axes.errorbar(place, value, 2 * error, fmt="o", color="#0072B2", ms=5, capsize=3)
            else:
                axes.text(place, 0.15, row[4], rotation=90, ha="center", va="bottom", color="#666666")
        axes.set(xlim=(-0.6, len(here) - 0.4), ylim=(0, 4))
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("d ln(samples) / d ln d")
    handles = [Line2D([], [], color="#D55E00", lw=2), Line2D([], [], color="#0072B2", marker="o", ls="")]
    figure.axes[0].legend(handles, ["predicted", "measured ± 2 s.e."], fontsize=8, frameon=False, loc="upper right")
    return figure


#: Scripts of the gallery whose pictures stand on the pages, too.
OF_GALLERY = (
    "edge",
    "kernels",
    "label_noise",
    "power_law",
    "real_steps",
    "recovery",
    "riccati",
    "schedules",
    "selection",
    "sgd",
    "slopes",
    "step_size",
    "validity",
)


def of_gallery(name: str) -> dict[str, Figure]:
    """The figure that a script of the gallery leaves."""
    figure: Figure = run_path(str(IMAGES.parent / "gallery" / f"{name}.py"))["figure"]
    figure.set_size_inches(6.4, 4)
    return {name: figure}


def main(names: Sequence[str] = ()) -> None:
    """Write the figures of these names, or all."""
    makers = {
        "overlaps": overlaps_and_loss,
        "floor": lambda: {"floor": floor()},
        "scaling": lambda: {"scaling": scaling()},
        "structured_inputs": lambda: {"structured_inputs": structured()},
        "decay_momentum_muon": lambda: {"decay_momentum_muon": decay_momentum_muon()},
        "fixed_data": lambda: {"fixed_data": fixed_data()},
        "leaps": lambda: {"leaps": staircases()},
        "rules": lambda: {"rules": slopes()},
        **{name: partial(of_gallery, name) for name in OF_GALLERY},
    }
    IMAGES.mkdir(exist_ok=True)
    for name in names or makers:
        for made, figure in makers[name]().items():
            figure.savefig(IMAGES / f"{made}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1:])
