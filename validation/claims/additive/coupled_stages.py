"""E40, E41: stages of a coupled run, and how little light students see of each other."""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad

from dynamics import gradient_flow
from dynamics.additive.gradient_flow import overlaps_of
from dynamics.core.lowering import State, lower
from theory import Activation, InitialState, SingleTask, Student, Teacher, draw_initial_state, overlap_flow, predict
from theory.additive.interaction import mean_square
from validation.experiments.coupled_flow import leads_throughout, light_pull, rivalry, teachers_pull
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.exponents import slope_weights
from validation.statistics.standard_errors import mean_and_error

COST = 6

_PAPER = "arXiv:2504.19983"
# --------------------------------------------------------------------------- stages of a run

#: Squared overlaps at which stages 1 and 3 end.
_WEAK, _STRONG = 0.05, 0.98
#: Of each link: dimensions, and starts.
_STAGED = {"h4": (256, 1024, 4096), "h6": (64, 128, 256)}


def _stages(context: Context, text: str, dim: int, number: int) -> np.ndarray:
    """(3, k) of the directions whose pair leads throughout: share of the time between M = 0.05 and 0.98 in the coupled flow,
    by single tasks, and the pull of other directions and light students on the neuron, its mean over the search at most."""
    activation = Activation.parse(text)
    teacher, rng = Teacher.power_law(4, 0.5, dim), context.rng("E40", "start", text, dim, number)
    initial = draw_initial_state(teacher, Student(16, 1e-2), rng)
    prediction, system = predict(activation, teacher, initial), once(overlap_flow, activation)
    use = np.flatnonzero(leads_throughout(prediction, initial))
    t_end = 1.4 * prediction.last_time
    context.progress(f"stages of {text}, d = {dim}, start {number + 1}")
    weak, strong = (
        gradient_flow(
            activation, teacher, initial, t_end=t_end, times=np.array([t_end]), level=level, system=system,
            stop_when_learned=True,
        ).half_time[use]
        for level in (_WEAK, _STRONG)
    )  # fmt: skip
    task = once(SingleTask, activation)
    pairs = [(float(teacher.a[q]), abs(float(prediction.overlap[q]))) for q in use]
    early, whole = (np.array([task.passage_time(a, u, np.sqrt(level)) for a, u in pairs]) for level in (_WEAK, _STRONG))
    pull = teachers_pull(prediction, initial, system) + light_pull(prediction, initial, system)
    risen = [_risen(activation.information_exponent, ratio) for ratio in rivalry(prediction, initial)[use]]
    return np.stack([1 - weak / strong, 1 - early / whole, pull[use] * risen])


def _risen(J: int, ratio: float) -> float:
    r"""Mean over the search of a pull over its start, for a rival overlap of so much of the score.

    The pull $\propto t_p^J/t_q^{J-2}$, overlaps $\propto(1-S\tau)^{-1/(J-2)}$ with S of each, τ in units of the search.
    """
    return float(quad(lambda tau: (1 - tau) * (1 - ratio * tau) ** (-J / (J - 2)), 0, 1)[0])


@claim(
    id="E40",
    title="Stages of a coupled run",
    statement="Of several directions learned at once each spends the share of a single task, d^{1−J/2} in the limit, of its "
    "time above a small overlap.",
    latex=r"\frac{t(M:0.05\to0.98)}{t(M:0\to0.98)}\propto d^{1-J/2}",
    source=f"{_PAPER}, Lemmas C.3 to C.6 and the remark after C.3; share derived",
    kind="asymptotic",
    regime="pairs that lead their neuron and their direction from the start; against single tasks from the same overlaps",
    controls=("share d^{−1/2}", "share d^{−1}", "no stage is short"),
)
def run_stages(context: Context) -> Iterator[Part]:
    """Share of the time after M = 0.05, J = 4 and 6: its exponent in d, and its size at the largest d."""
    for text, dims in _STAGED.items():
        rows = [
            np.concatenate([_stages(context, text, d, i) for i in range(context.pick(4, 12))], axis=1) for d in dims
        ]
        measured, alone = (np.array([row[place].mean() for row in rows]) for place in (0, 1))
        # A pull lengthens the search, by its own share at most; what is left after it is free of it.
        slack = np.array([np.mean(row[1] * row[2]) for row in rows])
        weights = slope_weights(np.array(dims, dtype=float))
        law, J = float(weights @ np.log(alone)), Activation.parse(text).information_exponent
        controls: Controls = {"share d^{−1/2}": -0.5}
        if J != 4:
            controls["share d^{−1}"] = -1.0
        source = "pull of other directions and of light students on the neuron, which grows as their overlaps do"
        yield Measurement(
            f"exponent in d of the share of time from M = {_WEAK:g} to {_STRONG:g}, coupled flow, {text}, d = {dims[0]} to "
            f"{dims[-1]}",
            law, float(weights @ np.log(measured)), 0.0, float(np.abs(weights) @ (slack / alone)), controls, source,
            f"{text}.exponent", {"limit": 1 - J / 2, "directions": [row.shape[1] for row in rows]},
        )  # fmt: skip
        yield Measurement(
            f"share of time from M = {_WEAK:g} to {_STRONG:g}, coupled flow, {text}, d = {dims[-1]}",
            float(alone[-1]), float(measured[-1]), 0.0, float(slack[-1]), {"no stage is short": 1 / 3}, source, text,
        )  # fmt: skip


# ------------------------------------------------------------------- students and each other

#: A wrong law is judged where it differs by this share or more: twice four standard errors of the quick preset.
_APART = 0.25


def _interactions(activation: Activation, teacher: Teacher, starts: Sequence[InitialState]) -> np.ndarray:
    """(starts,) mean over overlaps of the square of what the others' mass adds to a rate, over 1 − t²."""
    drift, weights = lower(once(overlap_flow, activation)).drift, {"a": jnp.asarray(teacher.a)}

    def mean(state: State) -> jax.Array:
        gap = drift(state, weights)["t"] - drift(state | {"r": 0.0 * state["r"]}, weights)["t"]
        return jnp.mean(gap**2 / (1 - state["t"] ** 2))

    # (NumPy stacks: thousands of arguments of one JAX program are minutes of compilation.)
    states = jax.tree.map(lambda *each: np.stack(each), *(overlaps_of(start) for start in starts))
    return np.asarray(jax.jit(jax.vmap(mean))(states))


@claim(
    id="E41",
    title="Light students hardly see each other",
    statement="What m light students add to each other's overlaps at a random start is a random walk of m small steps.",
    latex=r"E\Big(\sum_{l\ne k}r_l\varphi'(c_{kl})(t_{lq}-c_{kl}t_{kq})\Big)^2=\sum_{l\ne k}r_l^2"
    r"\,E[\varphi'^2(c)(1-c^2)]\frac{1-t_{kq}^2}{d-1}",
    source=f"{_PAPER}, Lemma C.2: a bound; mean square derived",
    kind="exact",
    regime="random start, any dimension and norms",
    controls=("students add up", "one student", "Gaussian cosines"),
)
def run_interaction(context: Context) -> Iterator[Part]:
    """Drift of all overlaps at random starts, less the same of students without mass."""
    for text, dim in (("h4", 24), ("h4", 256), ("h3", 64)):
        activation, teacher = Activation.parse(text), Teacher.power_law(4, 1.0, dim)
        rng, initial = context.rng("E41", text, dim), draw_initial_state(teacher, Student(16, 0.3), 0)
        law, m = mean_square(activation, initial.norm2, dim), initial.norm2.size
        starts = [draw_initial_state(teacher, Student(16, 0.3), rng) for _ in range(context.pick(4000, 8000))]
        estimate, stderr = mean_and_error(_interactions(activation, teacher, starts))
        J = activation.information_exponent
        odd = float(np.prod(np.arange(2 * J - 3, 0, -2.0)))
        gaussian = J**2 * odd * float(dim) ** (1 - J) * (m - 1) * float(initial.norm2[0]) ** 2 / dim
        controls: Controls = {"students add up": (m - 1) * law, "one student": law / (m - 1)}
        if abs(gaussian / law - 1) > _APART:
            controls["Gaussian cosines"] = gaussian
        yield Measurement(
            f"mean square of what {m} students of squared norm {initial.norm2[0]:.2g} add to an overlap's rate, {text}, "
            f"d = {dim}",
            law, estimate, stderr, 0.0, controls, "none: exact", f"{text}.d{dim}",
            {"root mean square over the signal's": float(np.sqrt(law)) / (J * teacher.a[0] * dim ** ((1 - J) / 2))},
        )  # fmt: skip
