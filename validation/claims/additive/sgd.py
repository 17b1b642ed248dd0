"""E25, E35, E44: emergence times of real online SGD, exact in law, against theory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dynamics import SgdResult, gradient_flow, online_sgd
from theory import Activation, InitialState, Prediction, Student, Teacher, draw_initial_state, plateau, predict
from theory.core.curves import first_crossing
from theory.one_task.diffusion import Diffusion, OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.plateau import u as overlap_symbol
from theory.one_task.rare_samples import kick_kurtosis
from theory.one_task.whole_step import LightStep
from validation.figures.common import recovery_histogram
from validation.judge.claim import Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.readings import deviation
from validation.statistics.standard_errors import bootstrap_error, mean_and_error, share_error

COST = 50

#: How clear of ties a judged direction must be; and of how many standard deviations of noise in each overlap.
_CLEAR, _NOISE = 1.5, 3.0
#: With fewer replicas a standard deviation is not known well enough to reject its controls (4/√(2n) of it).
_LEAST_FOR_SPREAD = 128
#: Runs end after this many gradient-flow times of the last direction judged.
_HORIZON = 3.0
#: Cells of the law's grid.
_CELLS = 500
#: Samples per block of the simulator, after which recovery is looked at. (At six students the Gram matrix of a longer block
#: costs more than a block saves.)
_BLOCK = 4


@dataclass(frozen=True)
class Case:
    """One experiment: activation, dimension, student width, replicas, how many of the first directions are judged.

    ``spread`` is the relative spread that the step size aims at: small enough for the diffusion limit, large enough to
    be measured. Starts for which theory expects more than ``most_steps`` are passed over: at the same spread the number
    of steps varies a hundredfold from start to start, and with it the time that a check takes.
    """

    text: str
    dim: int
    width: int
    replicas: int
    judged: int
    spread: float
    most_steps: float = np.inf


QUICK = (Case("h4", 32, 6, 128, 2, 0.12, 2.5e5), Case("h3", 128, 6, 256, 1, 0.12, 6e4))
FULL = (QUICK[0], Case("h4", 200, 16, 48, 1, 0.12), Case("h3", 400, 6, 48, 1, 0.12))


def _clear_start(
    context: Context, activation: Activation, teacher: Teacher, case: Case
) -> tuple[InitialState, Prediction, float]:
    """The first start, in a fixed order of draws, that is clear of ties and soon learned (by theory alone), and η."""
    for draw in range(1000):
        rng = context.rng("E25", "start", case.text, teacher.dim, draw)
        initial = draw_initial_state(teacher, Student(case.width, 0.03), rng)
        prediction = predict(activation, teacher, initial)
        first = prediction.selection.directions[: case.judged]
        if len(first) == case.judged and np.all(prediction.selection.lead[: case.judged] >= _CLEAR):
            step_size = min(_step_size(prediction, int(q), case.spread) for q in first)
            if not all(_keeps_its_neuron(initial, prediction, int(q), case.spread) for q in first):
                continue
            if np.max(prediction.time_half[first]) <= case.most_steps * step_size:
                return initial, prediction, step_size
    raise RuntimeError("no start clear of ties in 1000 draws")


def _keeps_its_neuron(initial: InitialState, prediction: Prediction, direction: int, spread: float) -> bool:
    r"""Whether noise leaves the greedy neuron to `direction` in all replicas.

    All overlaps of a neuron feel the same noise. A relative spread s of times $\propto u^{-(J-2)}$ is one of $u_0s/(J-2)$ of
    the overlap, which a small overlap with a heavier direction may need no more of to overtake.
    """
    J, a = prediction.activation.information_exponent, prediction.teacher.a
    overlap = initial.overlap[prediction.neuron[direction]]
    start = abs(float(overlap[direction]))
    kick = _NOISE * start * spread / (J - 2)
    reach = np.delete((overlap if J % 2 else np.abs(overlap)) + kick, direction)
    rivals = np.delete(a, direction) * np.maximum(reach, 0.0) ** (J - 2)
    return bool(np.all(rivals < a[direction] * max(start - kick, 0.0) ** (J - 2)))


def _step_size(prediction: Prediction, direction: int, spread: float) -> float:
    """Step size at which the derived law predicts the aimed spread (spread ∝ √η)."""
    trial = 0.01 * prediction.stability_bound()[0]
    law = prediction.sgd_law(direction, trial)
    return trial * (spread / (law.std / law.mean)) ** 2


@lru_cache(maxsize=8)
def _experiment(context: Context, case: Case) -> tuple[Prediction, SgdResult, np.ndarray, float, int]:
    """Prediction, SGD replicas from one start, coupled-flow half times, step size, most steps."""
    activation, teacher = Activation.parse(case.text), Teacher.power_law(3, 1.0, case.dim)
    initial, prediction, step_size = _clear_start(context, activation, teacher, case)
    directions = prediction.selection.directions[: case.judged]
    flow = gradient_flow(activation, teacher, initial, t_end=1.2 * prediction.last_time)
    steps = int(_HORIZON * np.max(flow.half_time[directions]) / step_size)
    runs = online_sgd(
        activation,
        teacher,
        initial,
        step_size=step_size,
        steps=steps,
        replicas=case.replicas,
        block_steps=_BLOCK,
        seed=context.seed_for("E25", "SGD", case.text, case.dim),
        stop_when_learned=tuple(int(q) for q in directions),
        progress=context.within(f"{case.text}, d = {case.dim}"),
    )
    return prediction, runs, flow.half_time, step_size, steps


@dataclass(frozen=True)
class Law:
    """What theory says of one direction's min(T, H), H the end of the runs; every time is gradient-flow time.

    Attributes:
        diffusion: of the direction on its own. overlap: at its start. horizon: H.
        alone, flow: its recovery time in gradient flow, on its own and among all directions and students.
        left: Σa² of what is not yet learned when this direction's turn comes.
    """

    diffusion: LightStep
    overlap: float
    horizon: float
    alone: float
    flow: float
    left: float

    def moments(self, diffusion: Diffusion | None = None, cells: int = _CELLS) -> tuple[float, float]:
        """Mean and standard deviation of min(T, H) for the direction on its own."""
        return hitting_distribution(diffusion or self.diffusion, self.overlap, cells=cells).cut_moments(self.horizon)

    def spread_error(self, count: int) -> float:
        """Standard error of the standard deviation of so many replicas, by the law."""
        return hitting_distribution(self.diffusion, self.overlap, cells=_CELLS).spread_errors(self.horizon, count)[0]

    @property
    def predicted(self) -> tuple[float, float]:
        """Mean, moved by what the other directions and students do to gradient flow's time, and standard deviation."""
        mean, spread = self.moments()
        return mean + self.flow - self.alone, spread

    def within(self, share: float, diffusion: Diffusion | None = None, cells: int = _CELLS, late: float = 0.0) -> float:
        """P((1 − share)·c ≤ T ≤ (1 + share)·c) about the predicted mean c; of another law, or `late` by so much."""
        law = hitting_distribution(diffusion or self.diffusion, self.overlap, cells=cells)
        ends = self.predicted[0] * np.array([1 - share, 1 + share]) - (self.flow - self.alone) - late
        return float(np.diff(law.cdf(np.maximum(ends, 0.0)))[0])

    def within_left_out(self, share: float, block: float) -> float:
        """What that probability leaves out: what `left_out` names, and a look at recovery only every `block` of time."""
        plain = self.within(share)
        return sum(
            abs(other - plain)
            for other in (
                self.within(share, cells=_CELLS // 2),
                self.within(share, replace(self.diffusion, total=self.left)),
                self.within(share, late=self.left_out["coupling"][0] + block),
            )
        )

    @property
    def left_out(self) -> dict[str, tuple[float, float]]:
        """What the prediction leaves out, each computed, of the mean and of the standard deviation."""
        mean, spread = self.moments()
        stretch = abs(self.flow / self.alone - 1)

        def difference(other: tuple[float, float]) -> tuple[float, float]:
            return abs(other[0] - mean), abs(other[1] - spread)

        return {
            "grid": difference(self.moments(cells=_CELLS // 2)),
            # Coupling times fluctuation: the flow's change counted as a factor in place of a shift.
            "coupling": (abs(mean - self.alone) * stretch, spread * stretch),
            # The targets already learned no longer feed the noise and the shrinkage of later ones.
            "learned before": difference(self.moments(replace(self.diffusion, total=self.left))),
        }


def _law(context: Context, prediction: Prediction, rank: int, flow: np.ndarray, step_size: float, steps: int) -> Law:
    learned = prediction.selection.directions[:rank]
    direction = int(prediction.selection.directions[rank])
    diffusion = prediction.diffusion(direction, step_size)
    assert isinstance(diffusion, LightStep)
    return Law(
        diffusion,
        float(prediction.overlap[direction]),
        steps * step_size,
        float(prediction.time_half[direction]),
        float(flow[direction]),
        diffusion.total - float(np.sum(prediction.teacher.a[learned] ** 2)),
    )


@claim(
    id="E25",
    title="Online SGD emerges when theory says",
    statement="Recovery times of online SGD have the mean and spread of the one-task diffusion of whole steps.",
    latex=r"du=\frac{E\,\Delta u}\eta\,dt+\sqrt{\frac{\mathrm{Var}\,\Delta u}\eta}\,dW,\quad "
    r"E\,\Delta u=\eta a\varphi'(u)(1-u^2)-\eta^2K(u)+\dots",
    source="arXiv:2504.19983, Theorem 2.1; fluctuations derived",
    kind="asymptotic",
    regime="small step size: relative spread about 12 %",
    controls=(
        "loss without the ½ (time halved)",
        "J(J−1) in place of J(J−2)",
        "noise amplitude halved",
        "noise of the plateau's start only",
        "exponential waiting time",
    ),
)
def run_emergence(context: Context) -> Iterator[Part]:
    """Mean and spread of recovery times over replicas that share a start."""
    for case in FULL if context.full else QUICK:
        prediction, runs, flow, step_size, steps = _experiment(context, case)
        for rank, direction in enumerate(prediction.selection.directions[: case.judged].tolist()):
            law = _law(context, prediction, rank, flow, step_size, steps)
            times = np.minimum(runs.half_steps[:, direction] * step_size, law.horizon)
            key = f"{case.text}.d{case.dim}.{rank + 1}"
            yield _judge_mean(prediction, direction, law, times, key)
            if rank == 0 and len(times) >= _LEAST_FOR_SPREAD:
                yield _judge_spread(prediction, direction, law, times, key)
            if rank == 0:
                label = f"{case.text}, d = {case.dim}, first direction"
                caption = f"Recovery times of {len(times)} SGD replicas ({label}) and the derived mean and spread."
                yield caption, recovery_histogram(times, *law.predicted, label)


_REASON = "coupling × fluctuation, directions learned before, the law's grid, blocks of samples"


def _judge_mean(prediction: Prediction, direction: int, law: Law, times: np.ndarray, key: str) -> Measurement:
    """Mean recovery time; a replica that never recovers counts with the horizon, as in the law."""
    predicted, left_out = law.predicted[0], law.left_out
    estimate, stderr = mean_and_error(times)
    J, step_size = prediction.activation.information_exponent, law.diffusion.step_size
    allowed = sum(mean for mean, _ in left_out.values()) + _BLOCK * step_size
    text = f"mean time to squared overlap ½ under SGD, {key}"
    controls = {
        "loss without the ½ (time halved)": predicted / 2,
        "J(J−1) in place of J(J−2)": predicted * (J - 2) / (J - 1),
    }
    details = {
        "leading T_p": float(prediction.time_leading[direction]),
        "gradient flow": law.flow,
        "one direction alone": law.alone,
        "fluctuation shift": predicted - law.flow,
        **_shares(left_out, 0),
        "steps": estimate / step_size,
        "step size": step_size,
        "share recovered": float(np.mean(times < law.horizon)),
    }
    return Measurement(text, predicted, estimate, stderr, allowed, controls, _REASON, key=key, details=details)


def _judge_spread(prediction: Prediction, direction: int, law: Law, times: np.ndarray, key: str) -> Measurement:
    """Standard deviation over replicas of the first direction's time (later ones inherit noise from earlier ones)."""
    predicted, left_out, x = law.predicted[1], law.left_out, law.diffusion
    controls = {
        "noise amplitude halved": law.moments(replace(x, amplitude=0.5))[1],
        "exponential waiting time": law.predicted[0],
    }
    if x.activation.information_exponent == 4:
        # (At J = 3 and this size N(u) hardly changes before recovery, so this control could not be told apart.)
        # N frozen at u = 0 is correct as d → ∞ only.
        laws = plateau(x.activation)
        frozen = replace(laws, variance_law=laws.variance_law.subs(overlap_symbol, 0))
        second = OneTaskDiffusion(x.activation, x.weight, x.step_size, x.total, x.dim, constants=frozen)
        controls["noise of the plateau's start only"] = law.moments(second)[1]
    kurtosis = kick_kurtosis(x.activation, prediction.teacher.a.tolist(), direction)
    allowed = sum(spread for _, spread in left_out.values()) + _BLOCK * x.step_size
    text = f"standard deviation of that time, {key}"
    details = {
        **_shares(left_out, 1),
        "samples of a run over the kurtosis of a kick": law.alone / x.step_size / kurtosis,
    }
    estimate, error = deviation(times), law.spread_error(len(times))
    return Measurement(text, predicted, estimate, error, allowed, controls, _REASON, f"{key}.spread", details)


def _shares(left_out: dict[str, tuple[float, float]], place: int) -> dict[str, float]:
    return {f"left out: {name}": both[place] for name, both in left_out.items()}


#: Two thirds of the spread that the step size aims at: half of all runs lie within so much of their time.
_WINDOW = 0.08


@claim(
    id="E35",
    title="Several sharp transitions in one run",
    statement="A run of SGD has all its directions in their windows as often as independent one-task laws say.",
    latex=r"P\big(|T_p-ET_p|\le\Delta\,ET_p\ \forall p\big)=\prod_pP\big(|T_p-ET_p|\le\Delta\,ET_p\big)",
    source="arXiv:2504.19983, Theorem 2.1(b), (c) for all p at once; probabilities derived",
    kind="asymptotic",
    regime="small step size: relative spread about 12 %; directions clear of ties",
    controls=("noise amplitude halved", "no fluctuations (gradient flow): every run"),
)
def run_windows(context: Context) -> Iterator[Part]:
    """Share of replicas that learn each of the first two directions within 8 % of its predicted mean time."""
    case = QUICK[0]
    prediction, runs, flow, step_size, steps = _experiment(context, case)
    directions = prediction.selection.directions[: case.judged].tolist()
    laws = [_law(context, prediction, rank, flow, step_size, steps) for rank in range(case.judged)]
    chances = np.array([law.within(_WINDOW) for law in laws])
    predicted = float(np.prod(chances))
    left_out = [law.within_left_out(_WINDOW, _BLOCK * step_size) for law in laws]
    times = runs.half_steps[:, directions] * step_size
    inside = np.abs(times / np.array([law.predicted[0] for law in laws]) - 1) <= _WINDOW
    share = float(np.mean(np.all(inside, axis=1)))
    quiet = [x.within(_WINDOW, replace(x.diffusion, amplitude=0.5)) for x in laws]
    controls = {
        "noise amplitude halved": float(np.prod(quiet)),
        "no fluctuations": 1.0,
    }
    text = f"share of runs with both of the first directions within ±{_WINDOW:g} of their times, {case.text}, d = {case.dim}"
    reason = "coupling, directions learned before, the law's grid, blocks of samples"
    details = {"each alone": chances.tolist(), "measured": inside.mean(axis=0).tolist(), "replicas": len(times)}
    allowed, error = float(np.sum(predicted / chances * left_out)), share_error(share, len(times))
    source = computed_by(Law.within_left_out, reason)
    yield Measurement(text, predicted, share, error, allowed, controls, source, details=details)


@claim(
    id="E44",
    title="Stages of SGD's way",
    statement="SGD's time for the upper half of its way, in ln u, is that for the lower half times a power of the start.",
    latex=r"\frac{t(\sqrt{u_0h}\to h)}{t(u_0\to\sqrt{u_0h})}\simeq\Big(\frac{u_0}h\Big)^{(J-2)/2},\quad h=\sqrt{1/2}",
    source="arXiv:2504.19983, Lemmas D.5, D.7, D.8 and D.10; at finite step size by the one-task diffusion",
    kind="asymptotic",
    regime="small step size: relative spread about 12 %; direction clear of ties; J = 3",
    controls=("equal stages", "the power J − 1"),
)
def run_stages(context: Context) -> Iterator[Part]:
    """Mean time from the geometric mean of start and √½ on, over the mean time to it, first direction."""
    case = QUICK[1]
    prediction, runs, flow, step_size, steps = _experiment(context, case)
    direction = int(prediction.selection.directions[0])
    law = _law(context, prediction, 0, flow, step_size, steps)
    data, J = runs.dataset, prediction.activation.information_exponent
    middle = float(np.sqrt(law.overlap * np.sqrt(0.5)))
    path = data.overlap.values[:, :, prediction.neuron[direction], direction]
    half = np.minimum(runs.half_steps[:, direction] * step_size, law.horizon)
    found = np.stack([np.minimum(first_crossing(data.time.values, path, middle), law.horizon), half], axis=1)

    def share(means: np.ndarray) -> float:
        return float(means[1] / means[0] - 1)

    def expected(cells: int = _CELLS) -> float:
        ways = (hitting_distribution(law.diffusion, law.overlap, level, cells) for level in (middle**2, 0.5))
        return share(np.array([way.cut_moments(law.horizon)[0] for way in ways]))

    predicted = expected()
    read = float(np.diff(data.time.values).max()) + _BLOCK * step_size  # the record, and looks at recovery
    allowed = (
        abs(expected(_CELLS // 2) - predicted)
        + abs(law.flow / law.alone - 1) * predicted
        + read / float(found[:, 0].mean())
    )
    error = bootstrap_error(found, lambda rows: share(rows.mean(axis=0)), context.rng("E44", "resampling"))
    ratio = law.overlap / np.sqrt(0.5)
    controls = {"equal stages": 1.0, "the power J − 1": float(ratio ** ((J - 1) / 2))}
    reason = "coupling, the law's grid, spacing of the record and of looks"
    text = f"time from √(u₀h) to h = √½ over that from u₀ to √(u₀h), {case.text}, d = {case.dim}"
    details = {"limit (u₀/h)^((J−2)/2)": float(ratio ** ((J - 2) / 2)), "u₀": law.overlap}
    yield Measurement(
        text, predicted, share(found.mean(axis=0)), error, allowed, controls, reason, case.text, details=details
    )
