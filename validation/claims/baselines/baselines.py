"""E28, E36, E37, S5, S8, S9: the baselines: correlation loss, toy losses, layer-wise training, kernel ridge regression."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from dynamics import gradient_flow
from dynamics.baselines.kernel_ridge import kernel_ridge
from dynamics.baselines.layer_wise import LayerWiseResult, layer_wise_sgd, neuron_ends
from dynamics.baselines.toy_flow import ToyResult, toy_flow
from theory import Activation, InitialState, SingleTask, Student, Teacher, draw_initial_state, hitting_law, overlap_flow
from theory.baselines.correlation import expected_cover, settled_loss, spherical_plateau, win_probabilities
from theory.baselines.kernel_ridge import Kernel, KernelRidge
from theory.baselines.toy import Toy
from theory.core.activation import c as kernel_variable
from validation.figures.baselines import against_width, coverage, learning_curves, toy_curves
from validation.judge.claim import Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.exponents import slope_weights
from validation.statistics.readings import carried_slope
from validation.statistics.standard_errors import bootstrap_error, mean_and_error, share_error

COST = 15

_SLIDES = "slides of arXiv:2504.19983"

_DIRECTIONS, _STUDENTS, _DECAY = 8, 32, 1.5


@claim(
    id="E28",
    title="Deflation covers the small directions",
    statement="The mean squared error learns every direction; the correlation loss those that the tensor power rule selects.",
    latex=r"\sum_p1-(1-\pi_p)^m,\quad\pi_p=\Pr\big(p=\arg\max_qa_qg_q^{2}\big)\quad\text{against }P",
    source=f"{_SLIDES}; Li, Ma, Zhang (COLT 2020); arXiv:2406.11828; count derived",
    kind="exact",
    regime="one Hermite degree, random starts; deflation: width well above P",
    controls=(
        "all of them (deflation)",
        "nearest direction, weights ignored",
        "score a|v̄| in place of a v̄²",
        "tensor power rule (no deflation)",
    ),
)
def run_coverage(context: Context) -> Iterator[Part]:
    """Who wins a lone neuron; directions learned without deflation (every start) and with it (some); and both counts."""
    activation = Activation.parse("h4")
    teacher = Teacher.power_law(_DIRECTIONS, _DECAY, 1000)
    rng = context.rng("E28", "starts")
    starts = [draw_initial_state(teacher, Student(_STUDENTS), rng) for _ in range(context.pick(512, 2048))]
    ends = neuron_ends(activation, teacher, np.concatenate([start.overlap for start in starts]))
    taken = ends**2 > 0.5
    wins = win_probabilities(teacher.a, 4)
    yield _wins(teacher, float(wins[0]), taken[:, 0])
    learned = np.any(taken.reshape(len(starts), _STUDENTS, _DIRECTIONS), axis=1)
    count, error = mean_and_error(learned.sum(axis=1))
    rule = expected_cover(teacher.a, 4, _STUDENTS)
    deflated = np.array([_deflated(context, activation, teacher, start) for start in starts[: context.pick(6, 24)]])
    fewest = int(deflated.sum(axis=1).min())
    size = f"{_DIRECTIONS} directions, weights p^(−{_DECAY}), {_STUDENTS} neurons"
    text = f"directions learned with the correlation loss, {size}"
    controls = {
        "all of them (deflation)": float(_DIRECTIONS),
        "nearest direction, weights ignored": expected_cover(np.ones(_DIRECTIONS), 4, _STUDENTS),
        "score a|v̄| in place of a v̄²": expected_cover(teacher.a, 3, _STUDENTS),
    }
    source = "none: the rule is exact at any dimension"
    details = {"starts": len(starts)}
    yield Measurement(text, rule, count, error, 0.0, controls, source, key="correlation", details=details)
    text = f"directions learned with the mean squared error, the fewest of any start, {size}"
    controls = {"tensor power rule (no deflation)": rule}
    source = "none: with deflation a free neuron is left for every direction"
    details = {"starts": len(deflated)}
    yield Measurement(text, float(_DIRECTIONS), float(fewest), 0.0, 0.0, controls, source, key="mse", details=details)
    figure = coverage(1 - (1 - wins) ** _STUDENTS, learned.mean(axis=0), deflated.mean(axis=0), len(starts))
    yield "Who is learned with and without deflation.", figure


def _wins(teacher: Teacher, predicted: float, taken: np.ndarray) -> Measurement:
    """Share of lone neurons (bools) that end at the largest direction."""
    text = (
        f"share of neurons that end at the largest of {_DIRECTIONS} directions, weights p^(−{_DECAY}), correlation loss"
    )
    controls = {
        "nearest direction, weights ignored": 1 / _DIRECTIONS,
        "score a|v̄| in place of a v̄²": float(win_probabilities(teacher.a, 3)[0]),
    }
    share = float(taken.mean())
    source = "none: the rule is exact at any dimension"
    return Measurement(text, predicted, share, share_error(share, taken.size), 0.0, controls, source, key="wins")


def _deflated(context: Context, activation: Activation, teacher: Teacher, start: InitialState) -> np.ndarray:
    """(P,) bool: directions that the coupled flow learns within 1.5 times the longest that one of them can need.

    Other directions take P − 1 neurons at most, so each has one of its P largest overlaps left. (Greedy selection says who
    takes which, and when; near a tie a direction may be left with another neuron than the one that it was given.)
    """
    task, count = once(SingleTask, activation), teacher.width
    left = np.sort(np.abs(start.overlap), axis=0)[-count]
    t_end = 1.5 * max(task.half_time(float(a), float(overlap)) for a, overlap in zip(teacher.a, left, strict=True))
    system = once(overlap_flow, activation)
    flow = gradient_flow(
        activation, teacher, start, t_end=t_end, times=np.array([t_end]), stop_when_learned=True, system=system
    )
    return np.isfinite(flow.half_time)


_STARTS = (1e-2, 1e-3)
_SPAN = float(np.log(_STARTS[0] / _STARTS[1]))
_TOYS = (Toy(1), Toy(2), Toy(3), Toy(3, "product"))
#: Of a sum of some thousand steps.
_ROUNDING = 1e-11


@lru_cache(maxsize=8)
def _toy(toy: Toy) -> ToyResult:
    return toy_flow(toy, _STARTS)


@claim(
    id="S5",
    title="Sharpness of toy losses",
    statement="The transition of (w* − w^k)² is sharp for k ≥ 3 only; the product of three factors behaves as k = 3.",
    latex=r"S=\frac{t_{90}-t_{10}}{t_{50}}:\ \frac{\ln9}{\ln2},\ \frac{\ln9}{\ln(1/w_0)},\ \propto w_0^{k-2}\ (k\ge3)",
    source=f"{_SLIDES}; laws derived",
    kind="exact",
    regime="small start; product: balanced start",
    controls=("law of k = 1", "law of k = 2", "law of k = 3"),
)
def run_toys(context: Context) -> Iterator[Part]:
    """Sharpness of the integrated toy losses against its exact value, and how it goes with the start."""
    for toy in _TOYS:
        result, name = _toy(toy), f"{toy.shape}{toy.exponent}"
        exact = [toy.sharpness(start) for start in _STARTS]
        # Three times, each with the integrator's error (and rounding), over t50.
        noise = [
            float(3 * (error / times[1] + _ROUNDING)) for error, times in zip(result.error, result.times, strict=True)
        ]
        others = [k for k in (1, 2, 3) if k != toy.exponent]
        for place, start in enumerate(_STARTS):
            controls = {f"law of k = {k}": Toy(k).sharpness(start) for k in others}
            estimate = float(result.sharpness[place])
            text = f"(t90 − t10)/t50, {_title(toy)}, start {start:g}"
            source = "integrator's error, from half as many steps"
            details = {"leading form": toy.leading_sharpness(start)}
            key = f"{name}.{start:g}"
            yield Measurement(text, exact[place], estimate, 0.0, noise[place], controls, source, key, details)
        slack = sum(n / s for n, s in zip(noise, exact, strict=True)) / _SPAN
        estimate = _slope(result.sharpness)
        text = f"exponent of the sharpness in the start, {_title(toy)}"
        wrong = {f"law of k = {k}": _slope([Toy(k).sharpness(w) for w in _STARTS]) for k in others}
        source = "integrator's error, from half as many steps"
        details = {"exponent as the start goes to 0": max(toy.exponent - 2, 0)}
        yield Measurement(text, _slope(exact), estimate, 0.0, slack, wrong, source, f"{name}.exponent", details)
    curves = {_title(toy): tuple(_toy(toy).dataset[name].values[0] for name in ("time", "share")) for toy in _TOYS}
    yield "The toy losses from 0.01: sharp for k ≥ 3 only.", toy_curves(curves)


def _slope(sharpness: Sequence[float] | np.ndarray) -> float:
    """Of ln S in the logarithm of the start."""
    return float(np.log(sharpness[0] / sharpness[1])) / _SPAN


def _title(toy: Toy) -> str:
    return f"(w* − w^{toy.exponent})²" if toy.shape == "power" else f"(w* − product of {toy.exponent})²"


_PRODUCT = Toy(3, "product")


@claim(
    id="E36",
    title="Depth is sharp in small factors only",
    statement="A product of three is sharp only if all three factors start small; with one or two it is as blunt as k = 1, 2.",
    latex=r"t(q)=\int_0^{v(q)}\frac{dv}{4(w_*-p)p},\quad p(v)=\prod_i\sqrt{s_i^2+v}",
    source=f"{_SLIDES} (whether deep models always have sharp transitions); law derived",
    kind="exact",
    regime="factors from any positive starts",
    controls=("balanced start of the same product", "three small factors", "two small factors", "one small factor"),
)
def run_unbalanced(context: Context) -> Iterator[Part]:
    """Sharpness of the integrated product of three from starts with one, two or three small factors, and its exponent."""
    theory = Toy(3, "product")
    laws, found = {}, {}
    for small in (1, 2, 3):
        starts = [[start] * small + [1.0] * (3 - small) for start in _STARTS]
        result = toy_flow(_PRODUCT, np.array(starts))
        laws[small] = [theory.product_sharpness(one) for one in starts]
        noise = [float(3 * (e / t[1] + _ROUNDING)) for e, t in zip(result.error, result.times, strict=True)]
        found[small] = (result.sharpness, noise, starts)
    for small, (sharpness, noise, starts) in found.items():
        others = {f"{_COUNT[other]} small": laws[other] for other in laws if other != small}
        for place, start in enumerate(_STARTS):
            controls = {name: values[place] for name, values in others.items()}
            if small < 3:  # all factors at the mean: the same product at the start
                controls["balanced start"] = theory.sharpness(float(np.prod(starts[place]) ** (1 / 3)))
            text = f"(t90 − t10)/t50, {_title(_PRODUCT)}, {_COUNT[small]} from {start:g}, the others from 1"
            source = "integrator's error, from half as many steps"
            law, estimate, key = laws[small][place], float(sharpness[place]), f"small{small}.{start:g}"
            yield Measurement(text, law, estimate, 0.0, noise[place], controls, source, key)
        slack = sum(n / s for n, s in zip(noise, laws[small], strict=True)) / _SPAN
        text = f"exponent of the sharpness in the small starts, {_title(_PRODUCT)}, {_COUNT[small]} small"
        controls = {name: _slope(values) for name, values in others.items()}
        source, details = "integrator's error, from half as many steps", {"as the start goes to 0": max(small - 2, 0)}
        law = _slope(laws[small])
        yield Measurement(text, law, _slope(sharpness), 0.0, slack, controls, source, f"small{small}.exponent", details)


_COUNT = {1: "one", 2: "two", 3: "three"}

_DIM, _BATCH, _REACH = 64, 32, 6.0
#: η = _RATE · a · d^{−J/2} for one sample, the theorem's rule; relaxation times that a settled run lasts.
_RATE, _RELAXATIONS = 0.1, 6


@claim(
    id="S8",
    title="Layer-wise training at equal weights",
    statement="Samples of the first layer grow linearly in the teacher's width; what is left after both layers is ∝ "
    "the step size.",
    latex=r"n\asymp M_*d^{k-1}\vee M_*d\,\epsilon^{-2}",
    source="arXiv:2406.11828 (rates), as stated on the slides of arXiv:2504.19983; finite-size laws derived",
    kind="asymptotic",
    regime="κ = 1, η ∝ a d^{−J/2}; ε² the mean squared error",
    controls=(
        "P⁰",
        "P^½ (step size not lowered)",
        "P²",
        "noise along one direction only",
        "twice the noise",
        "√η",
        "η²",
    ),
)
def run_layer_wise(context: Context) -> Iterator[Part]:
    """Samples of the first layer against P at equal weights, and the loss at which SGD settles against the step size."""
    yield from (pair := _against_width(context))[0]
    yield from _settled(context)
    yield from pair[1]


def _against_width(context: Context) -> tuple[list[Measurement], list[tuple[str, object]]]:
    """Mean samples to squared overlap ½ with a direction, of a neuron that starts at squared overlap 6/d; η ∝ a d^{−J/2}."""
    activation, overlap = Activation.parse("h3"), np.sqrt(_REACH / _DIM)
    constants, replicas = spherical_plateau(activation), context.pick(80, 256)
    widths = (1, 2, 4, 8, 16) if context.full else (2, 16)
    mean: list[float] = []
    error: list[float] = []
    law, shift = [], []
    for width in widths:
        context.progress(f"layer-wise SGD, P = {width}")
        teacher = Teacher.of(np.ones(width), _DIM)
        weight = float(teacher.a[0])
        step = _RATE * _BATCH * weight / _DIM**1.5
        expected = hitting_law(activation, weight, overlap, step, 1.0, _DIM, _BATCH, constants=constants)
        row = np.zeros((1, width))
        row[0, 0] = overlap
        result = layer_wise_sgd(
            activation,
            teacher,
            InitialState(row, np.array([[np.sqrt(1 - overlap**2)]])),
            step_size=step,
            steps=int((expected.mean + 20 * expected.std) / step),
            batch=_BATCH,
            replicas=replicas,
            seed=context.seed_for("S8", "recovery", width),
            saves=20,
            stop_when_learned=(0,),
        )
        # Once in a thousand runs noise has another direction, as heavy, win the neuron.
        found = mean_and_error(_BATCH * result.half_steps.min(axis=1))
        mean, error = [*mean, found[0]], [*error, found[1]]
        law.append(_BATCH * expected.mean / step)
        still = SingleTask(activation).half_time(weight, float(overlap))
        shift.append(((expected.mean - still) / still) ** 2 + result.resolution * step / expected.mean)
    estimate, spread, allowed = carried_slope(widths, mean, np.array(error) / np.array(mean), shift)
    predicted = carried_slope(widths, law)[0]
    text = f"exponent of the samples to recovery in P, equal weights, h3, d = {_DIM}"
    controls = {"P⁰": 0.0, "P^½ (step size not lowered)": 0.5, "P²": 2.0}
    source = "fluctuation shift of the law, squared"
    details = {"asymptotic exponent": 1.0, "samples": [round(x) for x in mean], "predicted": [round(x) for x in law]}
    measurement = Measurement(text, predicted, estimate, spread, allowed, controls, source, "samples", details)
    figure = against_width(np.array(widths), np.array(mean), np.array(error), np.array(law))
    return [measurement], [("Samples of the first layer against the teacher's width.", figure)]


def _settled(context: Context) -> Iterator[Measurement]:
    """Loss left on a learned direction once SGD settles, at two step sizes; one neuron, the other direction unlearned."""
    activation, teacher = Activation.parse("h3"), Teacher.of(np.ones(2), _DIM)
    weight, unlearned = float(teacher.a[0]), 0.5 * float(teacher.a[1] ** 2)
    unit = settled_loss(activation, teacher.a[:1], 1.0, _DIM, total=1.0)
    mean: list[float] = []
    error: list[float] = []
    leading, rest = [], []
    for place, goal in enumerate((0.005, 0.02)):
        step = goal / unit * _BATCH
        loss = _settle(context, activation, teacher, step, goal, place).dataset.loss.values - unlearned
        found = mean_and_error(loss[:, loss.shape[1] // 2 :].mean(axis=1))  # the second half, of each replica
        mean, error = [*mean, found[0]], [*error, found[1]]
        leading.append(goal)
        rest.append(abs(_balanced_loss(activation, weight, step / _BATCH) - goal) + goal / _DIM)
    span = float(np.log(leading[1] / leading[0]))
    slack = sum(x / y for x, y in zip(rest, leading, strict=True))
    slope_error = float(np.hypot(error[0] / mean[0], error[1] / mean[1])) / span
    source = computed_by(_balanced_loss, "next order in the step size, by solving the drift's balance exactly; 1/d")
    text = f"loss left on a learned direction, both layers fitted, h3, d = {_DIM}"
    controls = {"noise along one direction only": leading[0] / _DIM, "twice the noise": 2 * leading[0]}
    yield Measurement(text, leading[0], mean[0], error[0], rest[0], controls, source, key="settled")
    estimate = float(np.log(mean[1] / mean[0])) / span
    text = "exponent of that loss in the step size"
    yield Measurement(text, 1.0, estimate, slope_error, slack / span, {"√η": 0.5, "η²": 2.0}, source, key="accuracy")


def _settle(
    context: Context, activation: Activation, teacher: Teacher, step: float, goal: float, place: int
) -> LayerWiseResult:
    """One neuron, run for several relaxation times of 1 − u² from about where it should settle."""
    slope, weight = float(activation.dual_derivative().subs(kernel_variable, 1)), float(teacher.a[0])
    off = 2 * goal / (slope * weight**2)  # loss = ½a²φ'(1)(1 − u²)
    start = InitialState(np.array([[np.sqrt(1 - off), 0.0]]), np.array([[np.sqrt(off)]]))
    steps = int(_RELAXATIONS / (2 * weight * slope * step))
    seed = context.seed_for("S8", "settled", place)
    replicas = context.pick(48, 256)
    return layer_wise_sgd(
        activation, teacher, start, step_size=step, steps=steps, batch=_BATCH, replicas=replicas, seed=seed, saves=20
    )


def _balanced_loss(activation: Activation, weight: float, step: float) -> float:
    """½a²(φ(1) − φ(u)²/φ(1)) at the overlap at which the one-task drift vanishes, all orders in 1 − u."""
    shrinkage, _ = spherical_plateau(activation).laws(weight, 1.0, _DIM)
    grid = np.linspace(0.7, 1.0, 30_001)
    drift = SingleTask(activation).speed(grid, weight) - step * shrinkage(grid)
    settled = float(grid[np.flatnonzero(drift > 0)[-1]])
    whole, part = (float(activation.dual.subs(kernel_variable, u)) for u in (1.0, settled))
    return 0.5 * weight**2 * (whole - part**2 / whole)


#: Degree → dimensions at which the samples to half of its energy are measured.
_KERNEL = {"quick": {2: (12, 20, 32), 3: (8, 11, 14)}, "full": {2: (16, 32, 56), 3: (10, 15, 22), 4: (8, 10, 13)}}
#: Samples over the predicted ones at which the risk is measured, to interpolate the crossing.
_AROUND = (0.85, 1.0, 1.18)
_FINITE = "variance of the relative error of one fit: the square of what the theorem bounds"


def _finite(risks: np.ndarray) -> float:
    """Relative error allowed to a mean risk: one fit strays by n^(−½), the theorem's rate; the mean by the square of that.

    Measured at the cases of E37 for d = 8 and 12 (thousands of fits): 0.6 to 1.0 of it; 1/n is once to an eighth of that.
    """
    return float(np.var(risks, ddof=1) / np.mean(risks) ** 2)


@claim(
    id="S9",
    title="Kernel ridge regression needs d^k samples",
    statement="An inner-product kernel learns degree k at n ∼ d^k, however few directions carry it, and nothing of it before.",
    latex=r"n\gtrsim d^{\deg\sigma}",
    source=f"{_SLIDES}; arXiv:2403.08938 (deterministic equivalent)",
    kind="asymptotic",
    regime="inputs uniform on the sphere, exponential kernel",
    controls=(
        "d^1",
        "d^2",
        "d^3",
        "d^4",
        "learned at d^1",
        "learned at d^2",
        "degree 1 in place of 2",
        "degree 2 in place of 3",
        "d^5 (full)",
        "learned at d^3 (full)",
        "degree 3 in place of 4 (full)",
    ),
)
def run_kernel(context: Context) -> Iterator[Part]:
    """Samples to half of the leading degree's energy against d, and the error far below them."""
    curves = {}
    for degree, dims in _KERNEL["full" if context.full else "quick"].items():
        context.progress(f"kernel ridge regression, degree {degree}")
        problems = [_kernel_problem(degree, dim) for dim in dims]
        crossings = [_crossing(context, problem, degree) for problem in problems]
        predicted = np.array([crossing[2] for crossing in crossings])
        arms = slope_weights(dims)
        estimate = float(arms @ [crossing[0] for crossing in crossings])
        error = float(np.sqrt(np.sum((arms * np.array([crossing[1] for crossing in crossings])) ** 2)))
        slack = float(np.abs(arms) @ [crossing[3] for crossing in crossings])
        text = f"exponent in d of the samples to half of the degree's energy, h{degree}, d = {dims[0]} … {dims[-1]}"
        controls = {f"d^{other}": float(other) for other in (degree - 1, degree + 1)}
        details = {"asymptotic exponent": degree, "samples": [round(float(x)) for x in predicted]}
        law, key = float(arms @ np.log(predicted)), f"h{degree}.exponent"
        yield Measurement(text, law, estimate, error, slack, controls, _FINITE, key, details)
        measurement, curves[f"h{degree}, d = {dims[-1]}"] = _below(context, problems[-1], degree)
        yield measurement
    caption = "Kernel ridge regression: measured, and the deterministic equivalent (dashed)."
    yield caption, learning_curves(curves)


def _kernel_problem(degree: int, dim: int) -> KernelRidge:
    return KernelRidge(Activation.from_degree(degree), Teacher.of([1.0, 1.0], dim), Kernel.parse("exp"))


def _crossing(context: Context, problem: KernelRidge, degree: int) -> tuple[float, float, float, float]:
    """ln n at which half of the degree's energy is left: estimate and stderr; n predicted; allowance on ln n."""
    level = problem.energies[degree] / 2
    predicted = problem.samples_to(level)
    sizes = [max(2, round(share * predicted)) for share in _AROUND]
    seed = context.seed_for("S9", "crossing", degree, problem.dim)
    # (Fits of the higher degrees are dearer, and what the theorem leaves open of them is more than their error.)
    replicas = context.pick(240 if degree == 2 else 40, 240)
    risk = kernel_ridge(problem, sizes, replicas=replicas, seed=seed).risk

    def place(values: np.ndarray) -> float:
        """Inverse interpolation: the line of ln n against ln risk through the three means."""
        fit = np.polyfit(np.log(values.mean(axis=0)), np.log(sizes), 1)
        return float(np.polyval(fit, np.log(level)))

    noise = bootstrap_error(risk, place, context.rng("S9", "resampling", degree, problem.dim), 200)
    # The equivalent through the same three points says what the interpolation adds.
    exact = place(np.array([[problem.risk(n) for n in sizes]]))
    steepness = np.log(problem.risk(sizes[0]) / problem.risk(sizes[-1])) / np.log(sizes[-1] / sizes[0])
    allowance = max(map(_finite, risk.T)) / steepness + abs(exact - np.log(predicted))
    return place(risk), noise, predicted, float(allowance)


def _below(
    context: Context, problem: KernelRidge, degree: int
) -> tuple[Measurement, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Error at n = d^{k−1}, over that of knowing nothing, and the whole learning curve for the figure."""
    few = problem.dim ** (degree - 1)
    sizes = sorted({few, *np.geomspace(problem.dim, 1.6 * problem.multiplicities[degree], 5).astype(int).tolist()})
    seed = context.seed_for("S9", "curve", degree)
    risk = kernel_ridge(problem, sizes, replicas=context.pick(16, 24), seed=seed).risk / problem.total
    mean, error = risk.mean(axis=0), risk.std(axis=0, ddof=1) / np.sqrt(len(risk))
    predicted = np.array([problem.risk(n) for n in sizes]) / problem.total
    lower = _kernel_problem(degree - 1, problem.dim)
    seed = context.seed_for("S9", "few", degree)
    judged = kernel_ridge(problem, [few], replicas=100, seed=seed).risk[:, 0] / problem.total
    expected = float(predicted[sizes.index(few)])
    allowed = expected * _finite(judged)
    text = f"mean squared error over E f*² at n = d^{degree - 1} = {few}, h{degree}, d = {problem.dim}"
    controls = {
        f"learned at d^{degree - 1}": 0.0,
        f"degree {degree - 1} in place of {degree}": lower.risk(few) / lower.total,
    }
    details = {"asymptotic": problem.staircase(few) / problem.total}
    key = f"h{degree}.few"
    measurement = Measurement(text, expected, *mean_and_error(judged), allowed, controls, _FINITE, key, details)
    return measurement, (np.array(sizes, dtype=float), mean, error, predicted)


@claim(
    id="E37",
    title="Kernel ridge regression learns degree by degree",
    statement="A link of two degrees is learned in two steps: only what belongs to the higher one needs d^deg σ samples.",
    latex=r"\frac{R(n)}{R(0)}:\ 1\to\frac{E_3}{E_2+E_3}\text{ at }n\sim d^2,\ \to0\text{ at }n\sim d^3",
    source="talk on arXiv:2504.19983 (n ≳ d^p for degree p); arXiv:2403.08938 (deterministic equivalent)",
    kind="asymptotic",
    regime="inputs uniform on the sphere, exponential kernel; compared with the equivalent at finite d",
    controls=("nothing before d³", "all of it at d²"),
)
def run_two_degrees(context: Context) -> Iterator[Part]:
    """Error where half of degree 2 is due, half-way to degree 3, and where half of that is due."""
    activation = Activation.parse("0.8*h2+0.6*h3")
    problem = KernelRidge(activation, Teacher.of([1.0, 1.0], context.pick(12, 20)), Kernel.parse("exp"))
    first, last = (
        problem.samples_to(x) for x in (problem.energies[2] / 2 + problem.energies[3], problem.energies[3] / 2)
    )
    sizes = [round(x) for x in (first, np.sqrt(first * last), last)]
    seed = context.seed_for("E37", "samples")
    risk = kernel_ridge(problem, sizes, replicas=context.pick(450, 900), seed=seed).risk / problem.total
    for n, values, name, late, early in zip(
        sizes,
        risk.T,
        ("half of degree 2", "between", "half of degree 3"),
        (1.0, 1.0, 0.5),
        (0.5, 0.0, 0.0),
        strict=True,
    ):
        expected = float(problem.risk(n) / problem.total)
        text = f"mean squared error over E f*² at n = {n} ({name}), d = {problem.dim}"
        controls = {"nothing before": late, "all of it": early}
        details = {"energies": (problem.energies[1:4] / problem.total).tolist()}
        key = f"n{sizes.index(n) + 1}"
        yield Measurement(
            text, expected, *mean_and_error(values), expected * _finite(values), controls, _FINITE, key, details
        )
