"""L9, L11, L12, L26: the two phases of label-noise SGD, noise that comes and goes, and the diffusion approximation."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dynamics import LinearRun, ito_ensemble, label_noise_sgd, lower
from dynamics.core.ito import Ensemble, Law
from dynamics.core.lowering import Arrays, State
from dynamics.linear.network import reduce
from theory import LinearStart, LinearTask, draw_linear_start, draw_linear_task
from theory.linear.kick import kick_forms
from theory.linear.label_noise import stationary_error
from theory.linear.phases import Phases, predict_phases
from theory.linear.sde import weight_sde
from validation.experiments.averaged_flow import ACCURACY, halving_steps, onset_steps
from validation.figures.linear import alternating, neuron_paths, norm_and_alignment
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import bootstrap_error, mean_and_error

COST = 11

#: The published synthetic experiment (arXiv:2603.10397, section 4.5), with ‖θ*‖ = 1.
WIDTH, DIM, STEP_SIZE, NOISE, TARGET = 1000, 20, 1e-3, 4.0, 1.0
_SOURCE = "arXiv:2603.10397"
_STATED = "the 10 % that the claim states: an accuracy asked for, not a derived bound"
_LEFT_OUT = "what the averaged flow leaves out of its rates then (Phases.left_out), and of a set's fourth moments"


# --------------------------------------------------------------------------- two phases


@dataclass(frozen=True)
class Published:
    """One training set: prediction, uncorrected prediction (fresh samples), both phases, and the start in detail."""

    task: LinearTask
    phases: Phases
    uncorrected: Phases
    run: LinearRun
    early: LinearRun


@lru_cache(maxsize=4)
def published(context: Context, points: int) -> Published:
    """The published setting with `points` training points; replicas have their own starts and samples."""
    replicas, saves = context.pick(8, 32), context.pick(100, 400)
    task = draw_linear_task(DIM, TARGET, points, context.rng("published", "task", points))
    start = draw_linear_start(WIDTH, DIM, context.rng("published", "start", points), replicas)
    shared: dict[str, Any] = {"width": WIDTH, "step_size": STEP_SIZE, "noise": NOISE}
    phases = predict_phases(task, **shared)
    uncorrected = predict_phases(draw_linear_task(DIM, TARGET, None, 0), **shared)
    seed = context.seed_for("published", "SGD", points)
    options: dict[str, Any] = {"step_size": STEP_SIZE, "noise": NOISE, "replicas": replicas, "seed": seed}
    steps = int(1.5 * phases.onset_steps)
    run = label_noise_sgd(
        task,
        start,
        steps=steps,
        saves=saves,
        **options,
        progress=context.within(f"n = {points}"),
    )
    # Looked at 200 times before the predicted escape, so that its time is known to half a per cent.
    options["replicas"] = context.pick(44, 96)
    start = draw_linear_start(WIDTH, DIM, context.rng("published", "early start", points), options["replicas"])
    early = label_noise_sgd(task, start, steps=int(2 * phases.escape_steps), saves=400, **options)
    return Published(task, phases, uncorrected, run, early)


def boundary(steps: np.ndarray, alignment: np.ndarray) -> float:
    """Where the best broken line of two straight pieces through the alignment curve has its kink (least squares)."""
    candidates = steps[2:-2]
    cost = []
    for kink in candidates:
        design = np.stack([np.ones_like(steps, dtype=float), steps, np.maximum(steps - kink, 0.0)], axis=1)
        design /= design.max(axis=0)
        fit, *_ = np.linalg.lstsq(design, alignment, rcond=None)
        cost.append(float(np.sum((design @ fit - alignment) ** 2)))
    return float(candidates[int(np.argmin(cost))])


@claim(
    id="L11",
    title="Two phases",
    statement="At the published setting the norm falls first and alignment follows; norm decay, median escape from the lazy "
    "regime and onset of alignment are predicted up to what the averaged flow leaves out (at n = 200 with the finite-n "
    "correction), the boundary between the phases within a stated 10 %.",
    latex=r"t_{1/2}(\|W\|_F^2),\ t_{esc},\ t_{onset}",
    source=f"{_SOURCE}, Figure 2, Table 1; times derived",
    kind="asymptotic",
    regime="m = 1000, d = 20, η = 10⁻³, σ = 4, ‖θ*‖ = 1; n = 20 000 and 200",
    controls=(
        "noise alone, no least-squares error",
        "twice the rate (no ½ in the amplitude)",
        "no finite-n correction",
        "the bound T₁ of theorem 4.2",
        "one phase (kink in the middle of any straight line)",
        "alignment from the start",
        "both at once (one phase)",
        "alignment first",
    ),
)
def run_two_phases(context: Context) -> Iterator[Part]:
    """Halving of ‖W‖², median escape, onset of alignment and the boundary between the phases, for two training sets."""
    for points in (20_000, 200):
        data = published(context, points)
        yield _halving(data, points)
        yield _escape(data, points)
        yield _onset(data, points)
        yield _boundary(data, points)
        yield _order_of_phases(data, points)
        yield from _figures(data, points)
    yield data.run.dataset.mean("replica")[["mean_norm", "mean_alignment", "top_share"]]


def _ratio(
    name: str,
    key: str,
    times: np.ndarray,
    predicted: float,
    wrong: dict[str, float],
    allowance: float,
    source: str,
    **details: object,
) -> Measurement:
    """A measured time over the predicted one; `wrong` are the times of wrong theories."""
    finite = np.all(np.isfinite(times))
    estimate, stderr = mean_and_error(times / predicted) if finite else (np.inf, 0.0)
    controls = {text: time / predicted for text, time in wrong.items()}
    kept = {"predicted steps": predicted, "replicas": len(times), **details}
    return Measurement(f"{name}, measured / predicted", 1.0, estimate, stderr, allowance, controls, source, key, kept)


def _left_out(phases: Phases, steps: float) -> float:
    """By how much, relatively, the averaged flow's rates may be off up to a time."""
    return float(np.interp(steps, phases.times, phases.left_out)) + (phases.neglected.moments or 0.0)


def _halving(data: Published, points: int) -> Measurement:
    phases = data.phases
    level = WIDTH / 2
    times, predicted = halving_steps(data.run, phases, level)
    bare = predicted * phases.residual_variance / NOISE**2  # ϱ² = σ²: the noise alone, without the error it causes
    wrong = {"noise alone, no least-squares error": bare, "twice the rate (no ½ in the amplitude)": predicted / 2}
    text, allowed = f"steps to half of ‖W‖²_F, n = {points}", _left_out(phases, predicted)
    return _ratio(text, f"n{points}.halving", times, predicted, wrong, allowed, _LEFT_OUT)


def _escape(data: Published, points: int) -> Measurement:
    phases = data.phases
    times = np.median(data.early.escape_steps, axis=1)
    wrong = {
        "the bound T₁ of theorem 4.2": phases.escape_bound,
        "noise alone, no least-squares error": phases.escape_steps * phases.residual_variance / NOISE**2,
    }
    text, looks = f"median escape from the lazy regime, n = {points}", int(data.early.step[1])
    allowed = _left_out(phases, phases.escape_steps) + phases.neglected.relaxed
    source = f"{_LEFT_OUT}; and the error's relaxation, before which it kicks less"
    return _ratio(text, f"n{points}.escape", times, phases.escape_steps, wrong, allowed, source, resolution_steps=looks)


def _onset(data: Published, points: int) -> Measurement:
    phases, times = data.phases, onset_steps(data.run, DIM)
    wrong = {"noise alone, no least-squares error": phases.onset_steps * phases.residual_variance / NOISE**2}
    if points <= 10 * DIM:
        wrong["no finite-n correction"] = data.uncorrected.onset_steps
    text = f"onset of alignment (mean |cos| a quarter of the way from chance to 1), n = {points}"
    bare, allowed = data.uncorrected.onset_steps, _left_out(phases, phases.onset_steps)
    return _ratio(
        text, f"n{points}.onset", times, phases.onset_steps, wrong, allowed, _LEFT_OUT, uncorrected_steps=bare
    )


def _boundary(data: Published, points: int) -> Measurement:
    """The kink of the alignment curve, by the same rule in the data and in the prediction."""
    steps = data.run.step
    predicted = boundary(steps, np.interp(steps, data.phases.times, data.phases.alignment))
    times = np.array([boundary(steps, curve) for curve in data.run.values("mean_alignment")])
    wrong = {"one phase (kink in the middle of any straight line)": steps[-1] / 2.0, "alignment from the start": 0.0}
    grid = float(steps[1] / predicted)
    return _ratio(
        f"boundary between the phases (kink of the alignment curve), n = {points}",
        f"n{points}.boundary",
        times,
        predicted,
        wrong,
        ACCURACY + grid,
        _STATED,
    )


def _order_of_phases(data: Published, points: int) -> Measurement:
    """Share of the alignment's rise that falls after the boundary, less the share of the fall of ‖W‖²_F that does."""
    steps, phases = data.run.step, data.phases
    kink = boundary(steps, np.interp(steps, phases.times, phases.alignment))

    def late(curve: np.ndarray) -> float:
        return float((curve[-1] - np.interp(kink, steps, curve)) / (curve[-1] - curve[0]))

    def lag(alignment: np.ndarray, norm: np.ndarray) -> float:
        return late(alignment) - late(norm)

    predicted = lag(*(np.interp(steps, phases.times, x) for x in (phases.alignment, phases.frobenius2)))
    pairs = zip(data.run.values("mean_alignment"), data.run.values("frobenius2"), strict=True)
    estimate, stderr = mean_and_error(np.array([lag(*pair) for pair in pairs]))
    text = f"late share of the alignment's rise minus late share of the norm's fall, n = {points}"
    controls = {"both at once (one phase)": 0.0, "alignment first": -predicted}
    return Measurement(
        text, predicted, estimate, stderr, _left_out(phases, kink), controls, _LEFT_OUT, key=f"n{points}.order"
    )


def _figures(data: Published, points: int) -> list[tuple[str, object]]:
    run, phases = data.run, data.phases
    norms = np.interp(run.step, phases.times, np.sqrt(phases.frobenius2 / WIDTH))
    curve = np.interp(run.step, phases.times, phases.alignment)
    root_mean_square = np.sqrt(run.values("frobenius2") / WIDTH)
    both = norm_and_alignment(
        run.step,
        root_mean_square,
        run.values("mean_alignment"),
        predicted=(norms, curve),
        marks={"predicted onset": phases.onset_steps},
    )
    paths = neuron_paths(np.sqrt(run.values("norm2")[0]), np.abs(run.values("overlap")[0, ..., 0]), run.step)
    return [
        (
            f"Root mean square norm and mean alignment of the neurons, n = {points}, and the derived averaged flow.",
            both,
        ),
        (f"{run.values('norm2').shape[2]} neurons of one run: they shrink first, then align (n = {points}).", paths),
    ]


@claim(
    id="L12",
    title="Drift towards rank one",
    statement="Label noise drives the first layer towards rank one: the largest singular value takes over, as "
    "predicted up to what the averaged flow leaves out.",
    latex=r"WW^\top\to d\,aa^\top",
    source="derived",
    kind="asymptotic",
    regime="the long run of L11",
    controls=("no drift towards rank one", "rank one already"),
)
def run_rank_one(context: Context) -> Iterator[Part]:
    """Share of the largest singular value at the predicted onset of alignment."""
    for points in (20_000, 200):
        data = published(context, points)
        onset = data.phases.onset_steps
        predicted = float(np.interp(onset, data.phases.times, data.phases.top_share))
        shares = data.run.values("top_share")
        first, then = shares[:, 0], np.array([np.interp(onset, data.run.step, share) for share in shares])
        estimate, stderr = mean_and_error(then)
        allowed = _left_out(data.phases, onset) / 2 * predicted
        text = f"s₁/‖W‖_F at the predicted onset of alignment, n = {points}"
        controls = {"no drift towards rank one": float(first.mean()), "rank one already": 1.0}
        details = {"at the start": float(first.mean())}
        source = f"{_LEFT_OUT}, half of it in a root"
        yield Measurement(text, predicted, estimate, stderr, allowed, controls, source, f"n{points}", details)


# ------------------------------------------------------------------------ alternating noise

PERIOD, BLOCKS = 5000, 6


@lru_cache(maxsize=2)
def _alternating(context: Context) -> tuple[LinearRun, Phases]:
    replicas = context.pick(16, 32)
    task = draw_linear_task(DIM, TARGET, None, 0)
    phases = predict_phases(
        task, width=WIDTH, step_size=STEP_SIZE, noise=NOISE, horizon=float(PERIOD * BLOCKS), points=BLOCKS * 20
    )
    start = draw_linear_start(WIDTH, DIM, context.rng("L9", "start"), replicas)
    run = label_noise_sgd(
        task,
        start,
        step_size=STEP_SIZE,
        steps=PERIOD * BLOCKS,
        noise=NOISE,
        period=PERIOD,
        replicas=replicas,
        seed=context.seed_for("L9", "SGD"),
        saves=40 * BLOCKS,
    )
    return run, phases


@claim(
    id="L9",
    title="Alternating noise",
    statement="Label noise that is on for 5000 steps and off for 5000 switches the decay of the first layer on and off, but "
    "for what is lost as boosts and error relax.",
    latex=r"\Delta\ln\|W\|_F^2=\begin{cases}\text{as with noise}&\epsilon=\pm\sigma\\"
    r"\text{what boosts and error leave}&\epsilon=0\end{cases}",
    source=f"{_SOURCE}, Figure 6; amounts derived",
    kind="asymptotic",
    regime="published synthetic setting, fresh samples",
    controls=(
        "decay without a pause between them",
        "no decay",
        "decay goes on",
        "decay at a tenth of the rate",
        "nothing moves",
        "second layer at rest",
        "as wide as its initial law 1/√m",
        "as with noise",
    ),
)
def run_alternating(context: Context) -> Iterator[Part]:
    """Change of ln‖W‖²_F in blocks with and without noise, and how far the second layer wanders in each."""
    run, phases = _alternating(context)
    per_block = (len(run.step) - 1) // BLOCKS
    logs = np.log(run.values("frobenius2")[:, ::per_block])
    change = np.diff(logs, axis=1)
    on, off = change[:, 0::2].sum(axis=1), change[:, 1::2].sum(axis=1)
    noisy_steps, blocks = PERIOD * BLOCKS / 2, BLOCKS // 2
    falls = np.interp(PERIOD * np.arange(blocks + 1), phases.times, phases.switched)
    plain = float(np.log(phases.norm_at(np.array([noisy_steps]))[0] / phases.norm_at(np.array([0.0]))[0]))
    predicted, stopped = plain + float(falls[:-1].sum()), -float(falls[1:].sum())
    always = float(np.log(phases.norm_at(np.array([2 * noisy_steps]))[0] / phases.norm_at(np.array([0.0]))[0]))
    ends = np.log(phases.norm_at(PERIOD * np.arange(BLOCKS + 1.0)))
    without_pause = float(np.sum(np.diff(ends)[0::2]))
    stiffness = WIDTH / DIM + 1.0
    k, left_out = STEP_SIZE * stiffness, float(phases.left_out.max())
    relaxation = 1 / (2 * k - k**2 * (DIM + 2))  # steps in which the least-squares error comes and goes
    caused = (1 - NOISE**2 / phases.residual_variance) * 2 * k * relaxation  # d ln ϱ²/d ln Λ
    larger = abs(plain) * (left_out + float(phases.boost.mean()) * caused)
    spread_on, spread_off = (_wander(run.values("second"), per_block, parity) for parity in (0, 1))
    a_predicted, boost = _predicted_wander(phases)
    rest = float(np.exp(-PERIOD / 4 / relaxation))  # of an amplitude, at the middle of a block without noise
    text = "change of ln‖W‖²_F over the blocks with noise"
    controls = {"decay without a pause between them": without_pause, "no decay": 0.0}
    source = "what the averaged flow leaves out: a boost makes Λ larger along the error, by tr β, and the error with it"
    yield Measurement(text, predicted, *mean_and_error(on), larger, controls, source, key="on")
    text = "change of ln‖W‖²_F over the blocks without noise"
    controls = {"decay goes on": always - plain, "decay at a tenth of the rate": plain / 10, "nothing moves": 0.0}
    allowed, source = abs(stopped) * larger / abs(plain), "the same share of what the boosts and the error's kicks take"
    yield Measurement(text, stopped, *mean_and_error(off), allowed, controls, source, key="off")
    text = "standard deviation in time of a second-layer weight, first block with noise"
    controls = {"second layer at rest": 0.0, "as wide as its initial law 1/√m": 1 / np.sqrt(WIDTH)}
    source = "tr β: the averaged flow is first order in the covariance β of the boosts"
    yield Measurement(text, a_predicted, *mean_and_error(spread_on), boost * a_predicted, controls, source, "second-on")
    allowed = (rest + 10 * float(np.finfo(float).eps)) * a_predicted
    text = "standard deviation in time of a second-layer weight, first block without noise"
    controls = {"as with noise": a_predicted}
    source = "what the relaxation leaves of the boosts in half a block, and rounding"
    yield Measurement(text, 0.0, *mean_and_error(spread_off), allowed, controls, source, key="second-off")
    yield from _alternating_figures(run, phases)


def _alternating_figures(run: LinearRun, phases: Phases) -> list[tuple[str, object]]:
    rms = np.sqrt(run.values("second_norm2") / WIDTH).mean(axis=0)
    steps_with_noise = run.step // (2 * PERIOD) * PERIOD + np.minimum(run.step % (2 * PERIOD), PERIOD)
    curve = np.sqrt(phases.norm_at(steps_with_noise.astype(float)) / WIDTH)
    norm = np.sqrt(run.values("frobenius2") / WIDTH).mean(axis=0)
    first, second = np.sqrt(run.values("norm2")[0, :, 0]), np.abs(run.values("second")[0, :, 0])
    return [
        (
            "Label noise on (shaded) and off, 5000 steps each: the norm falls only with noise, and as derived.",
            alternating(run.step, norm, rms, PERIOD, curve),
        ),
        (
            "One neuron of one run: its second-layer weight oscillates with noise and rests without.",
            alternating(run.step, first, second, PERIOD, labels=("norm of the neuron", "$|a_i|$")),
        ),
    ]


def _predicted_wander(phases: Phases) -> tuple[float, float]:
    r"""$\sqrt{w^\top\beta w}$ over neurons and over the second half of the first block, and tr β there."""
    steps = np.linspace(PERIOD / 2, PERIOD, 50)
    boost = np.interp(steps, phases.times, phases.boost)
    return float(np.sqrt(np.mean(boost / DIM * phases.norm_at(steps) / WIDTH))), float(boost.max())


def _wander(second: np.ndarray, per_block: int, parity: int) -> np.ndarray:
    """(replica,) root mean square over neurons of the deviation in time, second half of the first such block."""
    window = second[:, parity * per_block + per_block // 2 + 1 : (parity + 1) * per_block + 1]
    return np.sqrt(window.var(axis=1, ddof=1).mean(axis=1))


# -------------------------------------------------------------------- diffusion approximation

_SDE = {"width": 20, "dim": 5, "step_size": 0.01, "noise": 1.5, "target": 0.5}
_STEPS = 3000
#: Least correlation of norm and alignment in a judged start: the quick preset sees eleven standard errors of the sign then.
_CORRELATED = 0.3


class _Stratonovich:
    """The same equation read in the sense of Stratonovich: noise averaged over both ends of its own increment."""

    def __init__(self, law: Law) -> None:
        self._law = law

    def drift(self, state: Arrays, parameters: Arrays) -> State:
        return self._law.drift(state, parameters)

    def noise(self, state: Arrays, increments: jax.Array, parameters: Arrays) -> State:
        first = self._law.noise(state, increments, parameters)
        moved = {name: state[name] + first[name] for name in state}
        second = self._law.noise(moved, increments, parameters)
        return {name: (first[name] + second[name]) / 2 for name in state}


class _NoDiffusion(_Stratonovich):
    """The drift alone."""

    def noise(self, state: Arrays, increments: jax.Array, parameters: Arrays) -> State:
        return {name: 0.0 * value for name, value in state.items()}


def _order_parameters(first: np.ndarray, second: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(…, 3): ln‖W‖²_F, share of ‖W‖²_F along θ* (the alignment, weighted by norms), ln‖a‖²."""
    norm2 = np.sum(first**2, axis=(-2, -1))
    along = np.sum((first @ target / np.linalg.norm(target)) ** 2, axis=-1)
    return np.stack([np.log(norm2), along / norm2, np.log(np.sum(second**2, axis=-1))], axis=-1)


def _ends(law: Law, start: LinearStart, task: LinearTask, paths: int, seed: int) -> np.ndarray:
    """Order parameters of a diffusion at the end, (path, 3)."""
    _, small = reduce(start, 1)
    run: Ensemble = ito_ensemble(
        law,
        {"W": small.first[0], "a": small.second[0]},
        {"target": task.target, "eta": _SDE["step_size"], "sigma": _SDE["noise"]},
        step=_SDE["step_size"],
        steps=_STEPS,
        brownian=(task.dim,),
        paths=paths,
        seed=seed,
        saves=1,
    )
    return _order_parameters(run.state["W"][:, -1], run.state["a"][:, -1], task.target)


def _coupled_start(context: Context, law: Law, task: LinearTask) -> LinearStart:
    """The first start, in a fixed order of draws, whose diffusion is seen to correlate norm and alignment, before any SGD.

    The correlation ρ is the start's; from n replicas of both a covariance differs from its opposite by 2/√(2(1 + 1/ρ²)/n)
    standard errors.
    """
    for draw in range(20):
        start = draw_linear_start(int(_SDE["width"]), task.dim, context.rng("L26", "start", draw))
        pilot = _ends(law, start, task, 400, context.seed_for("L26", "pilot", draw))
        if abs(np.corrcoef(pilot[:, 0], pilot[:, 1])[0, 1]) >= _CORRELATED:
            break
    return start


@lru_cache(maxsize=2)
def _diffusion(context: Context) -> dict[str, np.ndarray]:
    """Order parameters at the end, (replica, 3), of SGD, of the diffusion and of its controls, from one start."""
    replicas, dim = context.pick(960, 2000), int(_SDE["dim"])
    task, law = draw_linear_task(dim, _SDE["target"], None, 0), lower(weight_sde("covariance"))
    start = _coupled_start(context, law, task)
    sgd = label_noise_sgd(
        task,
        start,
        step_size=_SDE["step_size"],
        steps=_STEPS,
        noise=_SDE["noise"],
        replicas=replicas,
        seed=context.seed_for("L26", "SGD"),
        saves=50,
    )
    norm2, cosine = sgd.values("norm2")[:, -1], sgd.values("overlap")[:, -1, :, 0]
    total = norm2.sum(axis=1)
    ends = {
        "excess": _fourth_moment_excess(sgd, task),
        "sgd": np.stack(
            [np.log(total), np.sum(norm2 * cosine**2, axis=1) / total, np.log(sgd.values("second_norm2")[:, -1])],
            axis=-1,
        ),
    }
    variants: dict[str, Law] = {"sde": law, "stratonovich": _Stratonovich(law), "drift": _NoDiffusion(law)}
    noise = context.seed_for("L26", "SDE")  # one for all variants
    for name, variant in variants.items():
        context.progress(f"diffusion approximation: {name}")
        ends[name] = _ends(variant, start, task, 2 if name == "drift" else replicas, noise)
    return ends


_NAMES = ("norm", "alignment", "second")
_TEXTS = ("ln‖W‖²_F", "share of ‖W‖²_F along θ*", "ln‖a‖²")


@claim(
    id="L26",
    title="Diffusion approximation",
    statement="The Itô diffusion of label-noise SGD has its means and covariances of norms and alignment.",
    latex=r"dW=-a(e\,dt+\sqrt\eta\,dN)^\top,\quad da=-W(e\,dt+\sqrt\eta\,dN)",
    source=f"{_SOURCE}, eqs. 2-4; diffusion derived",
    kind="asymptotic",
    regime="small step size; m = 20, d = 5, 800 replicas or more; norm and alignment correlated by 0.3 or more",
    controls=(
        "Stratonovich in place of Itô",
        "diffusion dropped",
        "noise amplitude doubled (variance × 4)",
        "opposite sign",
    ),
)
def run_diffusion(context: Context) -> Iterator[Part]:
    """Mean and covariance of norms and alignment at the end of phase I: SGD against the diffusion."""
    ends = _diffusion(context)
    for place, (key, text) in enumerate(zip(_NAMES, _TEXTS, strict=True)):
        sde, sde_error = mean_and_error(ends["sde"][:, place])
        sgd, sgd_error = mean_and_error(ends["sgd"][:, place])
        controls = {}
        if key == "norm":
            controls["Stratonovich in place of Itô"] = float(ends["stratonovich"][:, place].mean())
        controls["diffusion dropped"] = float(ends["drift"][:, place].mean())
        what = f"mean of {text}, SGD against the diffusion"
        source = "none: both by the same steps"
        yield Measurement(what, sde, sgd, float(np.hypot(sde_error, sgd_error)), 0.0, controls, source, f"mean.{key}")
    yield from (_covariance(context, ends, x, y) for x, y in ((0, 0), (1, 1), (2, 2), (0, 1)))


def _fourth_moment_excess(run: LinearRun, task: LinearTask) -> np.ndarray:
    r"""Covariance of the order parameters that SGD has beyond its diffusion, (3, 3).

    A step leaves forms $\eta^2g^\top Mg$ of them (`theory.linear.kick`), and those ask for the fourth moment of g = ℓ'x,
    which a Gaussian of the same covariance does not have: with |e|² = E at its stationary value, in any direction, Gaussian x
    and noise ±σ, $E(g^\top Mg)(g^\top Ng)=\kappa(2\mathrm{tr}MN+\mathrm{tr}M\,\mathrm{tr}N)$ with
    $\kappa=\sigma^4+6E\sigma^2\frac{d+4}d+3E^2\frac{(d+4)(d+6)}{d(d+2)}$ against $(\sigma^2+E)^2$.
    """
    eta, noise2, dim = _SDE["step_size"], _SDE["noise"] ** 2, task.dim
    norm2, first2 = run.values("norm2"), run.values("frobenius2")
    share = np.sum(norm2 * run.values("overlap")[..., 0] ** 2, axis=-1) / first2
    first2, second2, share = first2.mean(axis=0), run.values("second_norm2").mean(axis=0), share.mean(axis=0)
    along, across = kick_forms(first2, second2, share, float(task.target @ task.target), dim)
    error = np.array([float(stationary_error(x, dim, _SDE["noise"])) for x in eta * (first2 / dim + second2)])
    sgd = noise2**2 + 6 * error * noise2 * (dim + 4) / dim + 3 * error**2 * (dim + 4) * (dim + 6) / (dim * (dim + 2))
    trace, both = along + (dim - 1) * across, np.einsum("xt,yt->xyt", along, along)
    both = 2 * (both + (dim - 1) * np.einsum("xt,yt->xyt", across, across)) + np.einsum("xt,yt->xyt", trace, trace)
    return np.array(np.trapezoid(eta**4 * (sgd - (noise2 + error) ** 2) * both, run.step))


def _covariance(context: Context, ends: dict[str, np.ndarray], x: int, y: int) -> Measurement:
    def statistic(values: np.ndarray) -> float:
        return float(np.cov(values[:, x], values[:, y])[0, 1])

    sgd_error = bootstrap_error(ends["sgd"], statistic, context.rng("L26", "resampling", "SGD", x, y))
    sde_error = bootstrap_error(ends["sde"], statistic, context.rng("L26", "resampling", "SDE", x, y))
    plain = statistic(ends["sde"])
    # The excess is damped, as ϱ² grows with the norm: what is left of it at the end lies between nothing and all.
    half = float(ends["excess"][x, y]) / 2
    predicted = plain + half
    controls = {"opposite sign": -plain}
    if x == y:
        controls = {"diffusion dropped": 0.0, "noise amplitude doubled (variance × 4)": 4 * plain}
    estimate = statistic(ends["sgd"])
    stderr = float(np.hypot(sgd_error, sde_error))
    text = f"covariance of {_TEXTS[x]} and {_TEXTS[y]}, SGD against the diffusion"
    source = (
        "fourth moments of the gradient, which the diffusion lacks: half of their share, the middle being predicted"
    )
    details, key = {"of the diffusion": plain}, f"cov.{_NAMES[x]}.{_NAMES[y]}"
    return Measurement(text, predicted, estimate, stderr, abs(half), controls, source, key, details)
