"""Makes the figures of the README and of the pages with the toolkit itself: ``make figures`` writes ``docs/img/*.png``.

Names as arguments: these alone, ``python docs/figures.py floor``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dynamics import FlowResult, gradient_flow
from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation, Prediction, Student, Teacher, draw_initial_state, predict
from theory.core.power_sums import power_sum
from theory.core.streams import stream
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.random_features import RandomFeatures, phase_exponents
from theory.declared.rule import Rule
from theory.declared.schedule import Power
from theory.declared.start import draw_start
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive
from theory.scaling.bayes import BayesFloor, Channel
from theory.scaling.frontiers import exponent
from theory.scaling.frontiers import frontier as law_frontier
from theory.scaling.power_law_loss import PowerLawLoss
from validation.experiments import polar_batches
from validation.figures.common import overlap_curves, staircase
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
    jumps = np.concatenate([[0.0], np.sort(prediction.time_loss)])
    time, value = flow.dataset.time.values, flow.dataset.loss.values
    figure = staircase(time, value, jumps, prediction.loss(jumps), log=False)
    figure.axes[0].set_xscale("log")
    return figure


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
    plot.ax.set_ylim(1e-7, 1.5)
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


def overlaps_and_loss() -> dict[str, Figure]:
    """Both figures of one run."""
    prediction, flow = run()
    return {"overlaps": overlaps(prediction, flow), "staircase": loss(prediction, flow)}


def main(names: Sequence[str] = ()) -> None:
    """Write the figures of these names, or all."""
    makers = {
        "overlaps": overlaps_and_loss,
        "floor": lambda: {"floor": floor()},
        "scaling": lambda: {"scaling": scaling()},
        "structured_inputs": lambda: {"structured_inputs": structured()},
        "decay_momentum_muon": lambda: {"decay_momentum_muon": decay_momentum_muon()},
    }
    IMAGES.mkdir(exist_ok=True)
    for name in names or makers:
        for made, figure in makers[name]().items():
            figure.savefig(IMAGES / f"{made}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1:])
