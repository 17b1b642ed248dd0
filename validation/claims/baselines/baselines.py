"""E28, S5, S8, S9: what the baselines do: correlation loss, toy losses, layer-wise training, kernel ridge regression."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dynamics import gradient_flow
from dynamics.baselines.kernel_ridge import kernel_ridge
from dynamics.baselines.layer_wise import LayerWiseResult, layer_wise_sgd, neuron_ends
from dynamics.baselines.toy_flow import ToyResult, toy_flow
from theory import Activation, InitialState, SingleTask, Student, Teacher, draw_initial_state, hitting_law
from theory.baselines.correlation import expected_cover, settled_loss, spherical_plateau, win_probabilities
from theory.baselines.kernel_ridge import Kernel, KernelRidge
from theory.baselines.toy import Toy
from theory.core.activation import c as kernel_variable
from validation.experiments.coupled_flow import system_of
from validation.figures.baselines import against_width, coverage, learning_curves, toy_curves
from validation.judge.claim import Claim, Control, Measurement, Outcome
from validation.judge.context import Context
from validation.statistics.standard_errors import bootstrap_error, mean_and_error

_SLIDES = "slides of arXiv:2504.19983"

# ------------------------------------------------------------------------------ E28

_DIRECTIONS, _STUDENTS, _DECAY = 8, 32, 1.5


def run_coverage(context: Context) -> Outcome:
    """Directions learned without deflation (every start) and with it (some of them), against each theory's count."""
    activation = Activation.parse("h4")
    teacher = Teacher.power_law(_DIRECTIONS, _DECAY, 1000)
    rng = context.rng("E28", "starts")
    starts = [draw_initial_state(teacher, Student(_STUDENTS), rng) for _ in range(context.pick(128, 1024))]
    ends = neuron_ends(activation, teacher, np.concatenate([start.overlap for start in starts]))
    learned = np.any((ends**2 > 0.5).reshape(len(starts), _STUDENTS, _DIRECTIONS), axis=1)
    count, error = mean_and_error(learned.sum(axis=1))
    rule = expected_cover(teacher.a, 4, _STUDENTS)
    deflated = np.array([_deflated(context, activation, teacher, start) for start in starts[: context.pick(6, 24)]])
    fewest = int(deflated.sum(axis=1).min())
    size = f"{_DIRECTIONS} directions, weights p^(−{_DECAY}), {_STUDENTS} neurons"
    found = [
        Measurement(
            f"directions learned with the correlation loss, {size}", rule, count, error, 0.0,
            [
                Control("all of them (deflation)", float(_DIRECTIONS)),
                Control("nearest direction, weights ignored", expected_cover(np.ones(_DIRECTIONS), 4, _STUDENTS)),
                Control("score a|v̄| in place of a v̄²", expected_cover(teacher.a, 3, _STUDENTS)),
            ],
            "none: the rule is exact at any dimension", key="correlation", details={"starts": len(starts)},
        ),
        Measurement(
            f"directions learned with the mean squared error, the fewest of any start, {size}", float(_DIRECTIONS),
            float(fewest), 0.0, 0.0,
            [Control("tensor power rule (no deflation)", rule)],
            "none: with deflation a free neuron is left for every direction", key="mse", details={"starts": len(deflated)},
        ),
    ]  # fmt: skip
    predicted = 1 - (1 - win_probabilities(teacher.a, 4)) ** _STUDENTS
    figure = coverage(predicted, learned.mean(axis=0), deflated.mean(axis=0), len(starts))
    return Outcome(found, figures=[("Who is learned with and without deflation.", figure)])


def _deflated(context: Context, activation: Activation, teacher: Teacher, start: InitialState) -> np.ndarray:
    """(P,) bool: directions that the coupled flow learns within 1.5 times the longest that one of them can need.

    Other directions take P − 1 neurons at most, so each has one of its P largest overlaps left. (Greedy selection says who
    takes which, and when; near a tie a direction may be left with another neuron than the one that it was given.)
    """
    task, count = context.theory.single_task(activation), teacher.width
    left = np.sort(np.abs(start.overlap), axis=0)[-count]
    t_end = 1.5 * max(task.half_time(float(a), float(overlap)) for a, overlap in zip(teacher.a, left, strict=True))
    flow = gradient_flow(
        activation, teacher, start, t_end=t_end, times=np.array([t_end]), stop_when_learned=True,
        system=system_of(context, activation),
    )  # fmt: skip
    return np.isfinite(flow.half_time)


# ------------------------------------------------------------------------------- S5

_STARTS = (1e-2, 1e-3)
_SPAN = float(np.log(_STARTS[0] / _STARTS[1]))
_TOYS = (Toy(1), Toy(2), Toy(3), Toy(3, "product"))
#: Of a sum of some thousand steps.
_ROUNDING = 1e-11


@lru_cache(maxsize=8)
def _toy(toy: Toy) -> ToyResult:
    return toy_flow(toy, _STARTS)


def run_toys(context: Context) -> Outcome:
    """Sharpness of the integrated toy losses against its exact value, and how it goes with the start."""
    found = []
    for toy in _TOYS:
        result, name = _toy(toy), f"{toy.shape}{toy.exponent}"
        exact = [toy.sharpness(start) for start in _STARTS]
        # Three times, each with the integrator's error (and rounding), over t50.
        noise = [
            float(3 * (error / times[1] + _ROUNDING)) for error, times in zip(result.error, result.times, strict=True)
        ]
        others = [k for k in (1, 2, 3) if k != toy.exponent]
        for place, start in enumerate(_STARTS):
            controls = [Control(f"law of k = {k}", Toy(k).sharpness(start)) for k in others]
            found.append(
                Measurement(
                    f"(t90 − t10)/t50, {_title(toy)}, start {start:g}", exact[place], float(result.sharpness[place]), 0.0,
                    noise[place], controls, "integrator's error, from half as many steps", key=f"{name}.{start:g}",
                    details={"leading form": toy.leading_sharpness(start)},
                )
            )  # fmt: skip
        slack = sum(n / s for n, s in zip(noise, exact, strict=True)) / _SPAN
        found.append(
            Measurement(
                f"exponent of the sharpness in the start, {_title(toy)}", _slope(exact), _slope(result.sharpness), 0.0,
                slack, [Control(f"law of k = {k}", _slope([Toy(k).sharpness(w) for w in _STARTS])) for k in others],
                "integrator's error, from half as many steps", key=f"{name}.exponent",
                details={"exponent as the start goes to 0": max(toy.exponent - 2, 0)},
            )
        )  # fmt: skip
    curves = {_title(toy): tuple(_toy(toy).dataset[name].values[0] for name in ("time", "share")) for toy in _TOYS}
    return Outcome(found, figures=[("The toy losses from 0.01: sharp for k ≥ 3 only.", toy_curves(curves))])


def _slope(sharpness: Sequence[float] | np.ndarray) -> float:
    """Of ln S in the logarithm of the start."""
    return float(np.log(sharpness[0] / sharpness[1])) / _SPAN


def _title(toy: Toy) -> str:
    return f"(w* − w^{toy.exponent})²" if toy.shape == "power" else f"(w* − product of {toy.exponent})²"


# ------------------------------------------------------------------------------- S8

_DIM, _BATCH, _REACH = 64, 32, 6.0
#: η = _RATE · a · d^{−J/2} for one sample, the theorem's rule; relaxation times that a settled run lasts.
_RATE, _RELAXATIONS = 0.1, 6


def run_layer_wise(context: Context) -> Outcome:
    """Samples of the first layer against P at equal weights, and the loss at which SGD settles against the step size."""
    return Outcome([*(pair := _against_width(context))[0], *_settled(context)], figures=pair[1])


def _against_width(context: Context) -> tuple[list[Measurement], list[tuple[str, object]]]:
    """Mean samples to squared overlap ½ with a direction, of a neuron that starts at squared overlap 6/d; η ∝ a d^{−J/2}."""
    activation, overlap = Activation.parse("h3"), np.sqrt(_REACH / _DIM)
    constants, replicas = spherical_plateau(activation), context.pick(48, 256)
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
            activation, teacher, InitialState(row, np.array([[np.sqrt(1 - overlap**2)]])), step_size=step,
            steps=int((expected.mean + 20 * expected.std) / step), batch=_BATCH, replicas=replicas,
            seed=context.seed_for("S8", "recovery", width), saves=20, stop_when_learned=(0,),
        )  # fmt: skip
        # Once in a thousand runs noise has another direction, as heavy, win the neuron.
        found = mean_and_error(_BATCH * result.half_steps.min(axis=1))
        mean, error = [*mean, found[0]], [*error, found[1]]
        law.append(_BATCH * expected.mean / step)
        still = SingleTask(activation).half_time(weight, float(overlap))
        shift.append(((expected.mean - still) / still) ** 2 + result.resolution * step / expected.mean)
    logs = np.log(widths)
    arms = (logs - logs.mean()) / np.sum((logs - logs.mean()) ** 2)
    slope = lambda values: float(arms @ np.log(values))  # noqa: E731
    relative = np.array(error) / np.array(mean)
    spread = float(np.sqrt(np.sum((arms * relative) ** 2)))
    measurement = Measurement(
        f"exponent of the samples to recovery in P, equal weights, h3, d = {_DIM}", slope(law), slope(mean), spread,
        float(np.abs(arms) @ np.array(shift)),
        [Control("P⁰", 0.0), Control("P^½ (step size not lowered)", 0.5), Control("P²", 2.0)],
        "fluctuation shift of the law, squared", key="samples",
        details={"asymptotic exponent": 1.0, "samples": [round(x) for x in mean], "predicted": [round(x) for x in law]},
    )  # fmt: skip
    figure = against_width(np.array(widths), np.array(mean), np.array(error), np.array(law))
    return [measurement], [("Samples of the first layer against the teacher's width.", figure)]


def _settled(context: Context) -> list[Measurement]:
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
    source = "next order in the step size, by solving the drift's balance exactly; 1/d"
    return [
        Measurement(
            f"loss left on a learned direction, both layers fitted, h3, d = {_DIM}", leading[0], mean[0], error[0],
            rest[0],
            [Control("noise along one direction only", leading[0] / _DIM), Control("twice the noise", 2 * leading[0])],
            source, key="settled",
        ),
        Measurement(
            "exponent of that loss in the step size", 1.0, float(np.log(mean[1] / mean[0])) / span, slope_error,
            slack / span, [Control("√η", 0.5), Control("η²", 2.0)], source, key="accuracy",
        ),
    ]  # fmt: skip


def _settle(
    context: Context, activation: Activation, teacher: Teacher, step: float, goal: float, place: int
) -> LayerWiseResult:
    """One neuron, run for several relaxation times of 1 − u² from about where it should settle."""
    slope, weight = float(activation.dual_derivative().subs(kernel_variable, 1)), float(teacher.a[0])
    off = 2 * goal / (slope * weight**2)  # loss = ½a²φ'(1)(1 − u²)
    start = InitialState(np.array([[np.sqrt(1 - off), 0.0]]), np.array([[np.sqrt(off)]]))
    return layer_wise_sgd(
        activation, teacher, start, step_size=step, steps=int(_RELAXATIONS / (2 * weight * slope * step)),
        batch=_BATCH, replicas=context.pick(48, 256), seed=context.seed_for("S8", "settled", place), saves=20,
    )  # fmt: skip


def _balanced_loss(activation: Activation, weight: float, step: float) -> float:
    """½a²(φ(1) − φ(u)²/φ(1)) at the overlap at which the one-task drift vanishes, all orders in 1 − u."""
    shrinkage, _ = spherical_plateau(activation).laws(weight, 1.0, _DIM)
    grid = np.linspace(0.7, 1.0, 30_001)
    drift = SingleTask(activation).speed(grid, weight) - step * shrinkage(grid)
    settled = float(grid[np.flatnonzero(drift > 0)[-1]])
    phi = lambda u: float(activation.dual.subs(kernel_variable, u))  # noqa: E731
    return 0.5 * weight**2 * (phi(1.0) - phi(settled) ** 2 / phi(1.0))


# ------------------------------------------------------------------------------- S9

#: Degree → dimensions at which the samples to half of its energy are measured.
_KERNEL = {"quick": {2: (12, 20, 32), 3: (8, 11, 14)}, "full": {2: (16, 32, 56), 3: (10, 15, 22), 4: (8, 10, 13)}}
#: Samples over the predicted ones at which the risk is measured, to interpolate the crossing.
_AROUND = (0.85, 1.0, 1.18)
#: One fit's risk strays by n^(−½), the rate of the theorem's bound; its mean only by the square of that.
_FINITE = "mean of the deterministic equivalent's relative error: 1/n (the order is that of its squared fluctuations)"


def run_kernel(context: Context) -> Outcome:
    """Samples to half of the leading degree's energy against d, and the error far below them."""
    found, curves = [], {}
    for degree, dims in _KERNEL["full" if context.full else "quick"].items():
        context.progress(f"kernel ridge regression, degree {degree}")
        problems = [_kernel_problem(degree, dim) for dim in dims]
        crossings = [_crossing(context, problem, degree) for problem in problems]
        predicted = np.array([crossing[2] for crossing in crossings])
        logs = np.log(dims)
        arms = (logs - logs.mean()) / np.sum((logs - logs.mean()) ** 2)
        estimate = float(arms @ [crossing[0] for crossing in crossings])
        error = float(np.sqrt(np.sum((arms * np.array([crossing[1] for crossing in crossings])) ** 2)))
        slack = float(np.abs(arms) @ [crossing[3] for crossing in crossings])
        found.append(
            Measurement(
                f"exponent in d of the samples to half of the degree's energy, h{degree}, d = {dims[0]} … {dims[-1]}",
                float(arms @ np.log(predicted)), estimate, error, slack,
                [Control(f"d^{degree - 1}", degree - 1.0), Control(f"d^{degree + 1}", degree + 1.0)],
                _FINITE, key=f"h{degree}.exponent",
                details={"asymptotic exponent": degree, "samples": [round(float(x)) for x in predicted]},
            )
        )  # fmt: skip
        measurement, curve = _below(context, problems[-1], degree)
        found.append(measurement)
        curves[f"h{degree}, d = {dims[-1]}"] = curve
    return Outcome(found, figures=[("Kernel ridge regression: measured, and the deterministic equivalent (dashed).",
                                    learning_curves(curves))])  # fmt: skip


def _kernel_problem(degree: int, dim: int) -> KernelRidge:
    return KernelRidge(Activation.from_degree(degree), Teacher.of([1.0, 1.0], dim), Kernel.parse("exp"))


def _crossing(context: Context, problem: KernelRidge, degree: int) -> tuple[float, float, float, float]:
    """ln n at which half of the degree's energy is left: estimate and stderr; n predicted; allowance on ln n."""
    level = problem.energies[degree] / 2
    predicted = problem.samples_to(level)
    sizes = [max(2, round(share * predicted)) for share in _AROUND]
    seed = context.seed_for("S9", "crossing", degree, problem.dim)
    risk = kernel_ridge(problem, sizes, replicas=context.pick(24, 32), seed=seed).risk

    def place(values: np.ndarray) -> float:
        """Inverse interpolation: the line of ln n against ln risk through the three means."""
        fit = np.polyfit(np.log(values.mean(axis=0)), np.log(sizes), 1)
        return float(np.polyval(fit, np.log(level)))

    noise = bootstrap_error(risk, place, context.rng("S9", "resampling", degree, problem.dim), 200)
    # The equivalent through the same three points says what the interpolation adds.
    exact = place(np.array([[problem.risk(n) for n in sizes]]))
    steepness = np.log(problem.risk(sizes[0]) / problem.risk(sizes[-1])) / np.log(sizes[-1] / sizes[0])
    allowance = 1 / (predicted * steepness) + abs(exact - np.log(predicted))
    return place(risk), noise, predicted, float(allowance)


def _below(
    context: Context, problem: KernelRidge, degree: int
) -> tuple[Measurement, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Error at n = d^{k−1}, over that of knowing nothing, and the whole learning curve for the figure."""
    few = problem.dim ** (degree - 1)
    sizes = sorted({few, *np.geomspace(problem.dim, 1.6 * problem.multiplicities[degree], 5).astype(int).tolist()})
    seed = context.seed_for("S9", "few", degree)
    risk = kernel_ridge(problem, sizes, replicas=context.pick(16, 24), seed=seed).risk / problem.total
    mean, error = risk.mean(axis=0), risk.std(axis=0, ddof=1) / np.sqrt(len(risk))
    predicted = np.array([problem.risk(n) for n in sizes]) / problem.total
    at = sizes.index(few)
    lower = _kernel_problem(degree - 1, problem.dim)
    measurement = Measurement(
        f"mean squared error over E f*² at n = d^{degree - 1} = {few}, h{degree}, d = {problem.dim}", float(predicted[at]),
        float(mean[at]), float(error[at]), float(predicted[at] / few),
        [
            Control(f"learned at d^{degree - 1}", 0.0),
            Control(f"degree {degree - 1} in place of {degree}", lower.risk(few) / lower.total),
        ],
        _FINITE, key=f"h{degree}.few",
        details={"asymptotic": problem.staircase(few) / problem.total},
    )  # fmt: skip
    return measurement, (np.array(sizes, dtype=float), mean, error, predicted)


CLAIMS = [
    Claim(
        "E28",
        "Deflation covers the small directions",
        "The mean squared error learns every direction; the correlation loss those that the tensor power rule selects.",
        r"\sum_p1-(1-\pi_p)^m,\quad\pi_p=\Pr\big(p=\arg\max_qa_qg_q^{2}\big)\quad\text{against }P",
        f"{_SLIDES}; Li, Ma, Zhang (COLT 2020); arXiv:2406.11828; count derived",
        "exact",
        "one Hermite degree, random starts; deflation: width well above P",
        (
            "all of them (deflation)",
            "nearest direction, weights ignored",
            "score a|v̄| in place of a v̄²",
            "tensor power rule (no deflation)",
        ),
        run_coverage,
    ),
    Claim(
        "S5",
        "Sharpness of toy losses",
        "The transition of (w* − w^k)² is sharp for k ≥ 3 only; the product of three factors behaves as k = 3.",
        r"S=\frac{t_{90}-t_{10}}{t_{50}}:\ \frac{\ln9}{\ln2},\ \frac{\ln9}{\ln(1/w_0)},\ \propto w_0^{k-2}\ (k\ge3)",
        f"{_SLIDES}; laws derived",
        "exact",
        "small start; product: balanced start",
        ("law of k = 1", "law of k = 2", "law of k = 3"),
        run_toys,
    ),
    Claim(
        "S8",
        "Layer-wise training at equal weights",
        "Samples of the first layer grow linearly in the teacher's width; what is left after both layers is ∝ the step size.",
        r"n\asymp M_*d^{k-1}\vee M_*d\,\epsilon^{-2}",
        "arXiv:2406.11828 (rates), as stated on the slides of arXiv:2504.19983; finite-size laws derived",
        "asymptotic",
        "κ = 1, η ∝ a d^{−J/2}; ε² the mean squared error",
        (
            "P⁰",
            "P^½ (step size not lowered)",
            "P²",
            "noise along one direction only",
            "twice the noise",
            "√η",
            "η²",
        ),
        run_layer_wise,
    ),
    Claim(
        "S9",
        "Kernel ridge regression needs d^k samples",
        "An inner-product kernel learns degree k at n ∼ d^k, however few directions carry it, and nothing of it before.",
        r"n\gtrsim d^{\deg\sigma}",
        f"{_SLIDES}; arXiv:2403.08938 (deterministic equivalent)",
        "asymptotic",
        "inputs uniform on the sphere, exponential kernel",
        (
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
        run_kernel,
    ),
]
