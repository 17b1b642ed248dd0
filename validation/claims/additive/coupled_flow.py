"""E9–E12, E16, E34, E39, S6: many neurons and directions under gradient flow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from dynamics import FlowResult, gradient_flow
from dynamics.additive.deflated_flow import deflated_flow
from theory import (
    Activation,
    InitialState,
    Prediction,
    SingleTask,
    Student,
    Teacher,
    draw_initial_state,
    overlap_flow,
    scores,
)
from theory.one_task.lone_path import lone_path
from theory.prediction.greedy import reorder
from validation.experiments.coupled_flow import (
    CoupledRun,
    coupled_run,
    coupled_start,
    light_pull,
    well_separated,
    without_deflation,
)
from validation.experiments.states import single_overlap_state
from validation.figures.common import overlap_curves, score_matrix, staircase
from validation.judge.claim import Control, Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.exponents import slope_weights

COST = 31

_PAPER = "arXiv:2504.19983"
_LARGE = 10_000
#: Within this of a jump, relative to its time, the loss is not compared with the staircase.
_AWAY = 0.15


def _runs(context: Context, dim: int, init_scale: float = 0.03) -> list[CoupledRun]:
    """Starts at one dimension; more at the largest, where who wins and who loses is looked at direction by direction."""
    starts = 20 if context.full else 5 if dim == _LARGE else 3
    return [coupled_run(context, dim, seed, init_scale) for seed in range(starts)]


def _gather(runs: list[CoupledRun], values: Callable[[CoupledRun], np.ndarray]) -> np.ndarray:
    """values(run) at the well-separated directions of all runs."""
    return np.concatenate([values(run)[run.separated] for run in runs])


@claim(
    id="E9",
    title="Greedy emergence in the coupled flow",
    statement="Directions emerge at T_p of their greedily selected neuron; finite-size excess shrinks with d as derived.",
    latex=r"t\big(\bar v_{p,\pi(p)}^2=\tfrac12\big)=T_p\,(1+o(1))",
    source=f"{_PAPER}, Theorem C.1 and eq. (5)",
    kind="asymptotic",
    regime="well-separated scores; compared with the deflated flow at finite d",
    controls=(
        "leading T_p, no finite-size excess",
        "no deflation (correlation loss)",
        "leading T_p",
        "each direction to its nearest neuron",
    ),
)
def run_greedy_emergence(context: Context) -> Iterator[Part]:
    """Half times of the coupled flow, over sizes, and who wins."""
    for dim in (256, 512, 1024, _LARGE):
        yield _excess(_seeing(context, dim), dim)
    large = _runs(context, _LARGE)
    yield _against_exact(large)
    yield _winners([*_telling(context, 1024), *large])
    run = large[0]
    yield run.flow.dataset
    yield _curves(run)
    yield _scores(run)


@dataclass(frozen=True)
class Excess:
    """Mean over directions of half time over leading T_p, by theory and by wrong theories, and theory's allowance."""

    predicted: float
    allowance: float
    controls: dict[str, float]

    @classmethod
    def of(cls, context: Context, dim: int, runs: list[CoupledRun]) -> "Excess":
        """The excess in dimension `dim`, averaged over the separated directions of all runs."""
        leading = _gather(runs, lambda x: x.prediction.time_leading)
        undeflated = [without_deflation(context, dim, seed).half_time[run.separated] for seed, run in enumerate(runs)]
        return cls(
            float(np.mean(_gather(runs, lambda x: x.deflated.half_time) / leading)),
            float(np.mean(_gather(runs, lambda x: x.spread / x.deflated.half_time + x.light))),
            {
                "leading T_p, no finite-size excess": 1.0,
                "no deflation (correlation loss)": float(np.mean(np.concatenate(undeflated) / leading)),
            },
        )

    @property
    def sees(self) -> bool:
        """Whether a measurement that agrees with theory is bound to reject every control."""
        return all(abs(x - self.predicted) > 2 * self.allowance for x in self.controls.values())


def _seeing(context: Context, dim: int) -> tuple[list[CoupledRun], Excess]:
    """Starts, as many as it takes until theory, asked before the flow, tells itself from its controls by two allowances.

    A wrong theory may never do: it gets four times the usual number.
    """
    runs = _runs(context, dim)
    most = 4 * len(runs)
    while not (theory := Excess.of(context, dim, runs)).sees and len(runs) < most:
        runs = [*runs, coupled_run(context, dim, len(runs))]
    return runs, theory


def _excess(seeing: tuple[list[CoupledRun], Excess], dim: int) -> Measurement:
    """Mean of half time over leading T_p: finite size pushes it above 1, as the deflated flow says."""
    runs, theory = seeing
    leading = _gather(runs, lambda x: x.prediction.time_leading)
    measured = _gather(runs, lambda x: x.flow.half_time) / leading
    single = _gather(runs, lambda x: x.prediction.time_half) / leading
    estimate = float(measured.mean())
    text = f"mean half time over T_p, well-separated directions, d = {dim}"
    source = computed_by(light_pull, "moment of the deflation switch, and the pull of light students at the start")
    details = {"excess": float(measured.mean() - 1), "single task alone": float(single.mean() - 1), "starts": len(runs)}
    law, allowed, controls = theory.predicted, theory.allowance, theory.controls
    return Measurement(text, law, estimate, 0.0, allowed, controls, source, key=f"d{dim}", details=details)


def _against_exact(runs: list[CoupledRun]) -> Measurement:
    """Largest deviation from the exact single-task time at d = 10⁴."""
    exact = _gather(runs, lambda x: x.prediction.time_half)
    measured = _gather(runs, lambda x: x.flow.half_time)
    leading = _gather(runs, lambda x: x.prediction.time_leading)
    coupling = np.abs(_gather(runs, lambda x: x.deflated.half_time) / exact - 1)
    slack = _gather(runs, lambda x: x.spread / x.deflated.half_time + x.light)
    worst = float(np.max(np.abs(measured / exact - 1)))
    text = "largest |half time / exact single-task time − 1|, d = 10⁴"
    controls = {"leading T_p": Control(0.0, float(np.max(np.abs(measured / leading - 1))))}
    source = computed_by(deflated_flow, "coupling to the other directions by the deflated flow")
    details = {"directions": len(exact), "below 0.5 %": bool(worst < 0.005)}
    return Measurement(text, 0.0, worst, 0.0, float(np.max(coupling + slack)), controls, source, "exact", details)


def _telling(context: Context, dim: int) -> list[CoupledRun]:
    """The runs, and if both rules of who wins say the same of them, the first start in which theory has them differ."""
    runs = _runs(context, dim)
    first = next(seed for seed in count() if _rules_differ(*coupled_start(context, dim, seed)))
    return runs if first < len(runs) else [*runs, coupled_run(context, dim, first)]


def _nearest(initial: InitialState) -> np.ndarray:
    """(P,) each direction's nearest neuron."""
    return np.argmax(np.abs(initial.overlap), axis=0)


def _rules_differ(initial: InitialState, prediction: Prediction) -> bool:
    """Whether the greedy neuron of a well-separated direction is not its nearest."""
    return bool(np.any((prediction.neuron != _nearest(initial)) & well_separated(prediction)))


def _winners(runs: list[CoupledRun]) -> Measurement:
    """Share of well-separated directions learned by the greedily selected neuron; near ties are named."""
    won = _gather(runs, lambda x: (x.flow.neuron == x.prediction.neuron).astype(float))
    nearest = _gather(runs, lambda x: (_nearest(x.initial) == x.flow.neuron).astype(float))
    ties = [
        f"run {i}: direction {q + 1}, lead {run.prediction.lead[q]:.3f}, "
        f"greedy neuron {run.prediction.neuron[q]}, winner {run.flow.neuron[q]}"
        for i, run in enumerate(runs)
        for q in np.flatnonzero(~run.separated)
    ]
    text = "share of well-separated directions won by the greedy neuron, d = 1024 and 10⁴"
    controls = {"each direction to its nearest neuron": Control(1.0, float(nearest.mean()))}
    source = "none: a well-separated winner is decided by the start"
    return Measurement(text, 1.0, float(won.mean()), 0.0, 0.0, controls, source, "winner", {"near ties": ties})


def _curves(run: CoupledRun) -> tuple[str, object]:
    data = run.flow.dataset
    order = run.prediction.selection.directions
    neurons = run.prediction.neuron[order]
    squares = data.overlap.values[:, neurons, order] ** 2
    labels = [f"direction {q + 1}" for q in order]
    figure = overlap_curves(data.time.values, squares, run.prediction.time_half[order], labels, log_time=True)
    return (
        "Squared overlaps of the greedily selected neurons under gradient flow (d = 10⁴) and predicted times.",
        figure,
    )


def _scores(run: CoupledRun) -> tuple[str, object]:
    matrix, count = reorder(scores(run.initial.overlap, run.prediction.teacher, 4))
    caption = "Scores a_q v̄²_kq in the order of learning: each selected entry beats all below it and to its right."
    return caption, score_matrix(matrix, count)


@claim(
    id="E10",
    title="The norm follows the direction",
    statement="A neuron's norm grows only after it has aligned, logistically.",
    latex=r"t_{loss}-t_{1/2}=\frac1{4a\varphi(1)}\ln\frac{a-\sigma_0^2}{\sigma_0^2},\qquad 1-M\simeq(\sigma_0^2/a)^{J/2}",
    source=f"{_PAPER}, section 3; constants derived",
    kind="asymptotic",
    regime="small initial scale, 4σ₀²T ≪ 1",
    controls=(
        "norm grows with the direction (no lag)",
        "logistic lag of an aligned student only",
        "half the rate",
        "exponent 1",
        "exponent J",
    ),
)
def run_norm(context: Context) -> Iterator[Part]:
    """Lag between direction and norm in the coupled flow; misalignment at half norm of a lone student."""
    run = coupled_run(context, _LARGE, 0)
    use = run.separated
    norm2 = float(run.initial.norm2.mean())
    task = once(SingleTask, run.prediction.activation)
    weights = run.prediction.teacher.a[use]
    measured = (run.flow.loss_time - run.flow.half_time)[use]
    formula = np.array([task.lag(float(a), norm2) for a in weights])
    lone = np.array(
        [_lone_lag(context, float(a), float(x)) for a, x in zip(weights, run.prediction.overlap[use], strict=True)]
    )
    # While a student aligns, the other teachers see at most its largest other overlap.
    others = np.array(
        [
            np.max(np.delete(run.flow.dataset.overlap.values[-1][k] ** 2, q), initial=0.0)
            for q, k in enumerate(run.flow.neuron)
        ]
    )[use]
    slack = float((lone * others + run.light[use] * run.flow.half_time[use]).mean())
    text = "mean time from M = ½ to half norm, d = 10⁴"
    controls = {
        "norm grows with the direction (no lag)": 0.0,
        "logistic lag of an aligned student only": float(formula.mean()),
        "half the rate": 2 * float(lone.mean()),
    }
    source = "overlaps with other teachers, pull of light students"
    details = {"logistic lag": float(formula.mean())}
    yield Measurement(text, float(lone.mean()), float(measured.mean()), 0.0, slack, controls, source, "lag", details)
    yield from _misalignment(context)


def _lone_lag(context: Context, weight: float, overlap: float) -> float:
    flow = _lone_flow(context, weight, abs(overlap), 0.03)
    return float(flow.loss_time[0] - flow.half_time[0])


def _lone_flow(
    context: Context, weight: float, overlap: float, scale: float, times: np.ndarray | None = None
) -> FlowResult:
    activation = Activation.parse("h4")
    task = once(SingleTask, activation)
    t_end = 1.1 * (task.half_time(weight, overlap) + task.lag(weight, scale**2)) + 10 / weight
    return gradient_flow(
        activation,
        Teacher.of([weight], 10, normalise=False),
        single_overlap_state(overlap, scale),
        t_end=t_end,
        times=np.array([t_end]) if times is None else times,
        rtol=1e-10,
        atol=1e-16,
        system=once(overlap_flow, activation),
    )


def _misalignment(context: Context) -> Iterator[Measurement]:
    weight, scale, overlap = 0.8, 0.03, 0.2
    flow = _lone_flow(context, weight, overlap, scale)
    hit = float(flow.loss_time[0])
    data = _lone_flow(context, weight, overlap, scale, np.array([hit])).dataset
    misalignment = 1 - float(data.overlap.values[0, 0, 0] ** 2)
    ratio, J = scale**2 / weight, 4
    law = J / 2 * float(np.log(ratio)) + float(np.log1p(-(overlap**2)))
    # Until it grows, its own repulsion shrinks the student by up to 1 + 4σ₀²t, which the early invariant leaves out.
    shrink = J / 2 * float(np.log1p(4 * scale**2 * hit))
    text = "ln of 1 − M at half norm, lone student"
    controls = {"exponent 1": law / (J / 2), "exponent J": 2 * law}
    source = "own repulsion before growth, 1 + 4σ₀²t, to the power J/2; matching of the two invariants, O(σ₀²/a)"
    yield Measurement(text, law, float(np.log(misalignment)), 0.0, shrink + 2 * ratio, controls, source, "alignment")


@claim(
    id="E11",
    title="Unused neurons stay small",
    statement="A neuron that learns nothing keeps a norm of the order of its initial one.",
    latex=r"\|v_k(t)\|^2\lesssim\sigma_0^2,\quad k>P_*",
    source=f"{_PAPER}, Theorem 2.1(a)",
    kind="asymptotic",
    regime="compared with the deflated flow at finite d",
    controls=("grows as if it had learned",),
)
def run_unused(context: Context) -> Iterator[Part]:
    """Largest growth of a neuron that learned nothing, with very light students."""
    runs = _runs(context, _LARGE, 1e-3)
    growth, predicted, slack = [], [], []
    for run in runs:
        unused = np.setdiff1d(np.arange(run.initial.norm2.size), run.flow.neuron)
        last = run.flow.dataset.norm2.values[-1] / run.initial.norm2
        growth.append(np.log(last[unused].max()))
        predicted.append(np.log(run.deflated.growth[unused].max()))
        slack.append(_growth_slack(run, unused))
    full_growth = float(np.log(runs[0].prediction.teacher.a.min() / runs[0].initial.norm2[0]))
    allowed = float(np.mean(slack))
    text = "ln of the largest growth of an unused neuron's squared norm, d = 10⁴, σ₀ = 0.001"
    controls = {"grows as if it had learned": full_growth}
    source = "moment of the deflation switch; own repulsion 4σ₀²t; pull of light students"
    details = {"growth per start": [float(np.exp(x)) for x in growth]}
    yield Measurement(
        text, float(np.mean(predicted)), float(np.mean(growth)), 0.0, allowed, controls, source, details=details
    )


def _growth_slack(run: CoupledRun, unused: np.ndarray) -> float:
    moved = run.bracket.move(lambda flow: np.log(flow.growth[unused].max()))
    repulsion = 4 * float(run.initial.norm2.mean()) * run.t_end
    return float(moved + repulsion + run.light.max())


def _rival_slack(run: CoupledRun, rivals: np.ndarray, direction: int) -> np.ndarray:
    """How far the rivals' final ln overlap moves with the moment of the switch."""
    return run.bracket.move(lambda flow: np.log(flow.overlap[rivals, direction] ** 2))


@claim(
    id="E16",
    title="Irrelevant overlaps stay small",
    statement="A losing overlap grows by the factor 1/(1 − S'/S) only, by the time the winner has emerged.",
    latex=r"M'(T)=\frac{M_0'}{1-S'/S}\le M_0'\,\frac{1+\Delta}\Delta",
    source=f"{_PAPER}, section 3; factor derived",
    kind="asymptotic",
    regime="J = 4, unused neurons",
    controls=("no growth", "growth (1 − S'/S)⁻²"),
)
def run_irrelevant(context: Context) -> Iterator[Part]:
    """Growth of overlaps that lose: M₀ → M₀/(1 − S'/S) by the time the winner has emerged (J = 4)."""
    logs, formula, deflated, slack = [], [], [], []
    for run in _runs(context, _LARGE):
        start = run.initial.overlap**2
        unused = np.setdiff1d(np.arange(start.shape[0]), run.flow.neuron)
        for q in np.flatnonzero(run.separated):
            ratio = start[unused, q] / start[run.prediction.neuron[q], q]
            rivals = unused[(ratio > 0.2) & (ratio < 0.7)]
            if rivals.size == 0:
                continue
            end = run.flow.dataset.overlap.values[-1][rivals, q] ** 2
            logs += list(np.log(end / start[rivals, q]))
            formula += list(-np.log1p(-start[rivals, q] / start[run.prediction.neuron[q], q]))
            deflated += list(np.log(run.deflated.overlap[rivals, q] ** 2 / start[rivals, q]))
            slack += list(_rival_slack(run, rivals, int(q)) + run.light[q])
    allowance = float(np.mean(np.abs(np.array(deflated) - formula)) + np.mean(slack))
    predicted = float(np.mean(formula))
    text = "mean ln growth of rivals with 0.2 < S'/S < 0.7, d = 10⁴"
    controls = {"no growth": 0.0, "growth (1 − S'/S)⁻²": 2 * predicted}
    source = computed_by(deflated_flow, "finite size, by the deflated flow; moment of the switch")
    yield Measurement(
        text, predicted, float(np.mean(logs)), 0.0, allowance, controls, source, details={"pairs": len(logs)}
    )


@dataclass(frozen=True)
class Progress:
    """Mean ln growth of later directions' squared overlaps when an earlier one emerges, by the flow and by theories."""

    measured: float
    predicted: float
    restarted: float
    allowance: float
    pairs: int

    @classmethod
    def of(cls, runs: list[CoupledRun]) -> "Progress":
        """Over all well-separated pairs of directions in which the later one has a tenth of its time or more to go."""
        rows = [row for run in runs for row in _progress(run)]
        measured, predicted, restarted, slack = np.mean(rows, axis=0)
        return cls(float(measured), float(predicted), float(restarted), float(slack), len(rows))


def _progress(run: CoupledRun) -> Iterator[tuple[float, float, float, float]]:
    """Of each pair: ln M/M₀ in the flow, by theory, by theory if the clock restarts at each emergence; theory's slack."""
    x, data = run.prediction, run.flow.dataset
    order = [q for q in np.argsort(x.time_half) if run.separated[q]]
    for place, (earlier, later) in ((i, (p, q)) for i, p in enumerate(order) for q in order[i + 1 :]):
        time, since = x.time_half[earlier], x.time_half[order[place - 1]] if place else 0.0
        whole, exact = x.time_leading[later], x.time_half[later]
        if time > 0.9 * exact:
            continue
        neuron, start = x.neuron[later], x.overlap[later] ** 2
        # 1/M falls linearly on the plateau (J = 4), so it can be interpolated.
        inverse = float(np.interp(time, data.time.values, 1 / data.overlap.values[:, neuron, later] ** 2))
        # Its other overlaps and the light students hold a neuron back, at the start most.
        pull = run.others[later] + run.light[later]
        law, size, held = (float(-np.log1p(-time / y)) for y in (whole, exact, whole / (1 - pull)))
        restarted = float(-np.log1p(-(time - since) / whole))
        yield float(-np.log(inverse * start)), law, restarted, abs(size - law) + abs(held - law)


@claim(
    id="E34",
    title="Partial progress is preserved",
    statement="While one direction is learned the neurons of later ones go on as if alone, and keep what they have gained.",
    latex=r"M_p(T_q)=\frac{M_{p}(0)}{1-T_q/T_p},\quad T_q<T_p",
    source="slides of arXiv:2504.19983; law derived",
    kind="asymptotic",
    regime="J = 4, directions clear of ties, T_q < 0.9 T_p; light students",
    controls=("no growth before one's turn", "the clock restarts at each emergence", "growth (1 − T_q/T_p)⁻²"),
)
def run_progress(context: Context) -> Iterator[Part]:
    """Growth of the selected neurons' overlaps with later directions by the predicted time of each earlier one."""
    found = Progress.of(_runs(context, _LARGE))
    text = "mean ln growth of a later direction's squared overlap when an earlier one emerges, d = 10⁴"
    controls = {
        "no growth": 0.0,
        "the clock restarts": found.restarted,
        "growth (1 − T_q/T_p)⁻²": 2 * found.predicted,
    }
    source = "finite size of T_p; pull of the neuron's other overlaps and of light students, as at the start"
    law, details = found.predicted, {"pairs": found.pairs}
    yield Measurement(text, law, found.measured, 0.0, found.allowance, controls, source, details=details)


@claim(
    id="E12",
    title="Staircase loss",
    statement="Away from the jumps the loss is half the sum of squared weights of the directions not yet learned.",
    latex=r"\mathcal L(t)=\tfrac12\sum_pa_p^2\,1\{t<T_p\}+o(1)",
    source=f"{_PAPER}, Theorem 2.1(d)",
    kind="asymptotic",
    regime="outside ±15 % of the jumps; a direction in a near tie jumps when it was learned",
    controls=("jumps at half the time (loss without the ½)", "no ½ (as on the slides)", "one direction never learned"),
)
def run_staircase(context: Context) -> Iterator[Part]:
    """Loss of the coupled flow away from the jumps against ½Σa²1{t < T}.

    Who wins a near tie finite size decides, so a direction in one jumps when it was learned: only its height is predicted.
    """
    run = coupled_run(context, _LARGE, 0)
    data, teacher = run.flow.dataset, run.prediction.teacher
    times, loss = data.time.values, data.loss.values
    jumps = np.where(run.separated, run.prediction.time_loss, run.flow.loss_time)
    away = np.all(np.abs(times[:, None] / jumps[None, :] - 1) > _AWAY, axis=1)
    placed = replace(run.prediction, time_loss=jumps)
    ideal = placed.loss(times)
    estimate = float(np.max(np.abs(loss - ideal)[away]))
    # Left over by theory: the start's own deviation, and the logistic tails of the nearest jumps.
    a = teacher.a
    nearest = np.min(np.abs(times[away][:, None] - jumps[None, :]), axis=0)
    tails = float(np.sum(a**2 / (1 + np.exp(np.minimum(4 * a * nearest, 700.0)))))
    start = abs(float(run.prediction.loss(np.zeros(1))[0]) - _loss_at_start(context, run))
    last = np.argmin(np.where(run.separated, a, np.inf))
    unlearned = replace(placed, time_loss=np.where(np.arange(a.size) == last, np.inf, jumps)).loss(times)
    controls = {
        name: Control(0.0, float(np.max(np.abs(loss - wrong)[away])))
        for name, wrong in (
            ("jumps at half the time (loss without the ½)", placed.loss(2 * times)),
            ("no ½ (as on the slides)", 2 * ideal),
            ("one direction never learned", unlearned),
        )
    }
    figure = staircase(times, loss, times, ideal, log=True)
    caption = "Loss of the coupled flow (d = 10⁴) and the idealised staircase."
    text = "largest |L − L_id| outside ±15 % of the jumps, d = 10⁴"
    source = "logistic tails of the jumps; the light students' own loss at the start"
    yield Measurement(text, 0.0, estimate, 0.0, tails + start, controls, source)
    yield caption, figure


def _loss_at_start(context: Context, run: CoupledRun) -> float:
    system = once(overlap_flow, run.prediction.activation)
    times = np.array([0.0, 1e-6])
    flow = gradient_flow(
        run.prediction.activation, run.prediction.teacher, run.initial, t_end=1e-6, times=times, system=system
    )
    return float(flow.dataset.loss.values[0])


# ------------------------------------------------------------------------------ Theorem C.1

#: What is left of the squared overlap of a direction that counts as learned, and of its norm.
_LEFT, _NORM_LEFT = 0.02, 0.05


@dataclass(frozen=True)
class Windows:
    """Of one start, the separated directions.

    Attributes:
        run: whose record goes on beyond the last direction. unit: largest M₀ ln(1/M₀). needed: the least δ with every half
            time in (1 ± δ)T_p. predicted: the same by the deflated flow. slack: by which that may be off.
    """

    run: CoupledRun
    unit: float
    needed: float
    predicted: float
    slack: float

    @classmethod
    def of(cls, run: CoupledRun) -> "Windows":
        """Of a start with a separated direction or more."""
        use, x = run.separated, run.prediction
        leading, start = x.time_leading[use], x.overlap[use] ** 2
        needed = float(np.max(np.abs(run.flow.half_time[use] / leading - 1)))
        each = np.abs(run.deflated.half_time[use] / leading - 1)
        slack = (run.spread / run.deflated.half_time + run.light)[use]
        law = float(each.max())
        off = max(float(np.max(each + slack)) - law, law - float(np.max(each - slack)))
        return cls(run, float(np.max(start * np.log(1 / start))), needed, law, off)

    def held(self, moved: float = 0.0) -> float:
        """Share of the directions that are where Theorem C.1 has them, at theory's δ, about the time (1 + `moved`·δ)T_p.

        (c): still light before δ of it; (b): aligned and fitted at all times from δ after it on.
        """
        delta = self.predicted + self.slack
        chosen = np.flatnonzero(self.run.separated).tolist()
        return float(np.mean([_where_it_is(self.run, q, delta, 1 + moved * delta) for q in chosen]))


def _where_it_is(run: CoupledRun, direction: int, delta: float, centre: float) -> bool:
    """(c) before (centre − δ)T_p and (b) from (centre + δ)T_p on, in all that is recorded of the direction's neuron.

    From half its overlap to all but a share of its norm takes what a lone student takes.
    """
    x, data = run.prediction, run.flow.dataset
    time, neuron, weight = data.time.values, x.neuron[direction], float(x.teacher.a[direction])
    square, norm2 = data.overlap.values[:, neuron, direction] ** 2, data.norm2.values[:, neuron]
    start, first = abs(float(x.overlap[direction])), float(run.initial.norm2[neuron])
    path = once(lone_path, x.activation, 1)
    lag = path.loss_time(weight, start, first, 1 - _NORM_LEFT) - float(path.half_time(np.array(start))) / weight
    before = time <= (centre - delta) * x.time_leading[direction]
    after = time >= (centre + delta) * x.time_leading[direction] + lag
    # Before: M = M₀/(1 − t/T) ≤ M₀/δ (J = 4), and a light student grows by (1 − M)^{−2/J} at most.
    most = start**2 / delta
    light = np.all(square[before] <= most) and np.all(norm2[before] ** 2 * (1 - most) <= first**2)
    fitted = np.all(square[after] >= 1 - _LEFT) and np.all(np.abs(norm2[after] / weight - 1) <= _NORM_LEFT)
    return bool(before.any() and light and after.any() and fitted)


@claim(
    id="E39",
    title="All directions in their windows under flow",
    statement="All directions are learned within (1 ± δ)T_p and stay so, for a δ that falls as ln(d)/d (J = 4).",
    latex=r"\delta_T=\max_p\Big|\frac{t_p}{T_p}-1\Big|\propto\max_pM_p(0)\ln\frac1{M_p(0)},\quad M_p(0)=\frac{g_p^2}d",
    source=f"{_PAPER}, Theorem C.1; width derived",
    kind="asymptotic",
    regime="directions clear of ties; against the deflated flow of the same starts",
    controls=("δ ∝ √M₀", "δ ∝ M₀²", "no finite-size excess", "learned before its time"),
)
def run_windows(context: Context) -> Iterator[Part]:
    """The least δ that holds all separated directions of a start, over starts and d; what the theorem says at all times."""
    dims = (256, 512, 1024, _LARGE)
    found = [[Windows.of(run) for run in _runs(context, dim) if run.separated.any()] for dim in dims]
    rows = np.array(sorted([x.unit, x.needed, x.predicted, x.slack] for row in found for x in row)).T
    weights = slope_weights(rows[0])
    slope, law = (float(weights @ np.log(row)) for row in rows[1:3])
    source = computed_by(light_pull, "moment of the deflation switch, and the pull of light students at the start")
    yield Measurement(
        f"exponent in M₀ ln(1/M₀) of the least δ for all directions, {rows.shape[1]} starts, d = 256 to 10⁴",
        law, slope, 0.0, float(np.abs(weights) @ (rows[3] / rows[2])), {"δ ∝ √M₀": law / 2, "δ ∝ M₀²": 2 * law}, source,
        "exponent", {"by theory": rows[2].tolist(), "δ": rows[1].tolist()},
    )  # fmt: skip
    needed, predicted, off = (
        float(np.mean([getattr(x, name) for x in found[-1]])) for name in ("needed", "predicted", "slack")
    )
    text = "least δ for all directions, d = 10⁴, mean over starts"
    controls: Controls = {"no finite-size excess": 0.0, "δ ∝ √M₀": float(np.sqrt(predicted))}
    yield Measurement(text, predicted, needed, 0.0, off, controls, source, "width")
    text = "share of directions that are light before (1 − δ)T_p, and aligned and fitted ever after (1 + δ)T_p, d = 10⁴"
    held, early = (float(np.mean([x.held(moved) for x in found[-1]])) for moved in (0.0, -2.0))
    wrong: Controls = {"learned before its time": Control(1.0, early)}
    yield Measurement(text, 1.0, held, 0.0, 0.0, wrong, "none: δ is theory's, with its slack", "events")


@claim(
    id="S6",
    title="Tensor power method",
    statement="Without deflation a neuron converges to the direction of its largest a_q|v̄_q|^{J−2}.",
    latex=r"\bar v\to e_{q^*},\quad q^*=\arg\max_qa_q|\bar v_q(0)|^{J-2}",
    source="slides of arXiv:2504.19983; Li, Ma, Zhang (COLT 2020)",
    kind="asymptotic",
    regime="correlation loss, no ties",
    controls=("nearest direction, weights ignored", "score a|v̄|"),
)
def run_tensor_power(context: Context) -> Iterator[Part]:
    """Without deflation each neuron ends at the direction of its largest score."""
    activation = Activation.parse("h4")
    dim, students = 2000, 64
    teacher = Teacher.power_law(8, 0.5, dim)
    initial = draw_initial_state(teacher, Student(students), context.rng("S6", "start"))
    score = scores(initial.overlap, teacher, 4)
    t_end = 1.5 * float(np.max(1 / (8 * score.max(axis=1))))
    final = deflated_flow(
        activation, teacher, initial, t_end=t_end, deflate=False, system=once(overlap_flow, activation)
    )
    learned = np.argmax(final.overlap**2, axis=1)
    ordered = np.sort(score, axis=1)
    lead = ordered[:, -1] / ordered[:, -2]
    # Finite size shifts a neuron's two leading times by their M₀ ln(1/M₀): a smaller lead is a tie.
    largest = float(np.max(initial.overlap**2))
    tie = float(np.mean(lead < 1 + largest * np.log(1 / largest)))

    def share(rule: np.ndarray) -> float:
        return float(np.mean(np.argmax(rule, axis=1) == learned))

    controls = {
        "nearest direction, weights ignored": Control(1.0, share(np.abs(initial.overlap))),
        "score a|v̄|": Control(1.0, share(teacher.a * np.abs(initial.overlap))),
    }
    text = "share of neurons that end at argmax a_q v̄_q² (correlation loss)"
    yield Measurement(
        text, 1.0, share(score), 0.0, tie, controls, "share of neurons whose two best scores tie at this size"
    )
