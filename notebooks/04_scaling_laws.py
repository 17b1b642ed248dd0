# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Scaling laws: staircases that add up to power laws
#
# Every direction of the teacher is learned by a sharp step, late and suddenly. Where, then, do smooth scaling laws come
# from? In this notebook you will see
#
# 1. a hundred sharp steps of the *coupled* gradient flow adding up to a power law (arXiv:2504.19983, Proposition 2.2),
# 2. its exponent, measured with an interval, beside the asymptotic one and the one that the finite sum really has,
# 3. the floor that a student's width puts under the loss,
# 4. the compute-optimal frontier of fixed-step gradient descent (section 2.4),
# 5. the heavy tail, where there is no power law to be found.
#
# Weights are $a_p\propto p^{-\beta}$ with unit sum of squares. Theory picks a neuron for each direction greedily from the
# initial state, and gives it a time; nothing below is fitted. All windows are fixed by theory before the data.

# %%
import matplotlib.pyplot as plt
import numpy as np

from dynamics import gradient_descent, retiring_flow
from theory import Activation, Student, Teacher, draw_initial_state, predict
from theory.scaling.ideal_loss import exponent_values, staircase
from validation.reproduction import ideal_frontier_slope, slope_gap
from validation.statistics.exponents import Window, fit_exponent
from validation.statistics.frontier import Frontier, lower_envelope
from validation.statistics.resampling import ReplicaCurves

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.2), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
BLUE, RED, GREEN, INK, FAINT = "#0072B2", "#D55E00", "#009E73", "#333333", "#C8C8C8"
h4 = Activation.parse("h4")
P, DIM, BETA, SCALE = 128, 4096, 0.8, 0.003
teacher = Teacher.power_law(P, BETA, DIM)
theorem = exponent_values(BETA, h4)


def start(width: int, seed: int, target: Teacher = teacher):
    """Random students and what theory predicts for them."""
    state = draw_initial_state(target, Student(width, SCALE), seed)
    return state, predict(h4, target, state)


def shown(estimate) -> str:
    """A slope with its 95 % interval over seeds."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


# %% [markdown]
# ## 1. A hundred steps
#
# The flow below couples all 128 students and 128 directions. Learned pairs leave the equations (a fitted neuron cancels its
# teacher for everyone else), so that steps stay long and arrays shrink. Left: the learned share of every direction. Right:
# what each of them leaves of the loss, $\tfrac12a_p^2(1-\text{share})^2$, and their sum.

# %%
SEEDS, END = 4, 5000.0
times = np.geomspace(40.0, END, 200)
draws = [start(P, seed) for seed in range(SEEDS)]
flows = [retiring_flow(h4, teacher, state, t_end=END, times=times, rtol=1e-5, atol=1e-8) for state, _ in draws]
first, ahead = flows[0], draws[0][1]
print(f"{first.steps} steps, {np.isfinite(first.half_time).sum()} of {P} directions learned by time {END:g}")
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.4))
left.plot(times, first.share, color=FAINT, lw=0.5)
right.plot(times, 0.5 * teacher.a**2 * (1 - first.share) ** 2, color=FAINT, lw=0.5)
for p, colour in zip((0, 1, 3, 7, 15, 31), plt.cm.viridis(np.linspace(0, 0.9, 6)), strict=True):
    left.plot(times, first.share[:, p], color=colour, lw=1.8, label=f"p = {p + 1}")
    left.axvline(ahead.time_loss[p], color=colour, ls="--", lw=1)
    right.plot(times, 0.5 * teacher.a[p] ** 2 * (1 - first.share[:, p]) ** 2, color=colour, lw=1.2)
left.set(xscale="log", xlabel="time", ylabel="learned share", title="Single directions; dashed: predicted")
left.legend(frameon=False, fontsize=8, loc="upper left")
right.plot(times, first.loss, color=RED, lw=2.4, label="the loss")
right.plot(times, ahead.loss(times), color=INK, ls="--", lw=1.2, label="idealised staircase")
right.set(
    xscale="log",
    yscale="log",
    xlabel="time",
    ylabel="loss",
    ylim=(1e-6, 1),
    title="What each direction leaves, and the sum",
)
right.legend(frameon=False, loc="lower left")
plt.show()

# %% [markdown]
# ## 2. The exponent, honestly
#
# The theorem says $\mathcal L\propto t^{(1-2\beta)/\beta}$, here $t^{-3/4}$, *as $P\to\infty$*. A finite sum of 128 steps
# is steeper, because it ends. So the slope over the window from the 4th to the $P/8$-th predicted emergence time is
# compared with the slope that the predicted staircases of the same initial states have on that very window, by the same
# estimator. Seeds are the clusters of the interval. Four seeds make a wide one; but each run shares its initial state with
# its prediction, so that their difference, seed by seed, is known much better. Two wrong theories are the controls: emergence
# times whose power is 10 % off.

# %%
losses = np.array([flow.loss for flow in flows])
expected = np.array([prediction.loss(times) for _, prediction in draws])
nth = np.exp(np.mean([np.log(np.sort(prediction.time_loss)) for _, prediction in draws], axis=0))
window = Window(nth[3], nth[P // 8 - 1], "4th to P/8-th predicted emergence time")
fit = fit_exponent(ReplicaCurves(times, losses, rng=np.random.default_rng(0)), window)
print(f"measured                    {shown(fit.slope)}")
print(f"finite sum, same window     {fit.finite_size(expected.mean(axis=0)):.3f}")
print(f"theorem, P -> inf           {theorem['time']:.3f}")
print(f"measured minus predicted    {shown(slope_gap(losses, expected, fit.weights))}")
for name, power in (("times ∝ p^1.1β", 0.1 * BETA), ("times ∝ p^0.9β", -0.1 * BETA)):
    late = (np.arange(1, P + 1) / 8) ** power  # the same staircases, stretched
    control = np.array([staircase(times, late * prediction.time_loss, teacher.a, 1.0) for _, prediction in draws])
    print(f"measured minus control, {name}: {shown(slope_gap(losses, control, fit.weights))}")
figure, axis = plt.subplots()
axis.fill_between(times, losses.min(axis=0), losses.max(axis=0), color=BLUE, alpha=0.2, lw=0)
axis.plot(times, losses.mean(axis=0), color=BLUE, lw=2, label=f"mean of {SEEDS} coupled flows")
axis.plot(times, expected.mean(axis=0), color=INK, ls="--", label="predicted, same initial states")
axis.plot(times, control.mean(axis=0), color=RED, ls=":", label="control: times ∝ p^0.9β")
guide = 1.5 * losses.mean(axis=0)[np.searchsorted(times, window.low)] * (times / window.low) ** theorem["time"]
inside = (times > window.low) & (times < window.high)
axis.plot(times[inside], guide[inside], color=GREEN, lw=2, label="slope −3/4 (theorem)")
axis.axvspan(window.low, window.high, color="#E69F00", alpha=0.12, lw=0)
axis.set(xscale="log", yscale="log", xlabel="time", ylabel="loss", title="Loss and its window")
axis.legend(frameon=False, loc="lower left")
plt.show()

# %% [markdown]
# ## 3. The floor under a narrow student
#
# A student of width $m$ can learn $m$ directions; the others stay, $\mathcal L\gtrsim m^{1-2\beta}$. From here on the
# students are trained as in the paper's Figure 2: gradient descent with a fixed step on the population loss, in a smaller
# dimension, since each of its steps is taken. There $d$ is only four times $P$, and students that come late are later than
# theory says: it treats every direction as a task of its own, which is right for $d\gg P$.
#
# Which m directions a student learns is up to its initial overlaps as much as to the weights. Some large ones are missed, so
# that it ends above the best that its width allows (dotted, in the colour of the curve).

# %%
WIDTHS, ETA, STEPS, RUNS = (4, 8, 16, 32), 0.2, 8000, 4
close = Teacher.power_law(P, BETA, 512)  # times are proportional to d, and every step is taken here
marks = np.unique(np.geomspace(10, STEPS, 150).astype(int))
wide = {m: [start(m, seed, close) for seed in range(RUNS)] for m in WIDTHS}
descents = {
    m: np.array([gradient_descent(h4, close, s, step_size=ETA, steps=STEPS, saves=marks).loss for s, _ in wide[m]])
    for m in WIDTHS
}
ideal = {m: np.mean([prediction.loss(ETA * marks) for _, prediction in wide[m]], axis=0) for m in WIDTHS}
colours = dict(zip(WIDTHS, plt.cm.viridis(np.linspace(0, 0.85, len(WIDTHS))), strict=True))
figure, axis = plt.subplots()
for m in WIDTHS:
    axis.plot(marks, descents[m].mean(axis=0), color=colours[m], lw=2, label=f"m = {m}")
    axis.plot(marks, ideal[m], color=colours[m], lw=1, ls="--")
    axis.axhline(0.5 * np.sum(teacher.a[m:] ** 2), color=colours[m], lw=0.8, ls=":")
axis.set(
    xscale="log", yscale="log", xlabel="steps", ylabel="loss",
    title="Solid: gradient descent; dashed: predicted; dotted: best possible",
)  # fmt: skip
axis.legend(frameon=False)
plt.show()
final, ahead = (
    np.array([descents[m][:, -1] for m in WIDTHS]).T,
    np.array([[x.loss(ETA * marks)[-1] for _, x in wide[m]] for m in WIDTHS]).T,
)
fit = fit_exponent(
    ReplicaCurves(WIDTHS, final, rng=np.random.default_rng(0)), Window(WIDTHS[0], WIDTHS[-1], "all widths")
)
print(f"final loss against width: measured {fit.slope.value:.3f} ± {fit.slope.stderr:.3f} (standard error)")
print(f"measured minus predicted for the same draws {shown(slope_gap(final, ahead, fit.weights))}")
print(f"theorem, P -> inf and long runs {theorem['width']:.3f}")

# %% [markdown]
# ## 4. The compute-optimal frontier
#
# A step costs in proportion to the width, so compute is $C=m\cdot$steps. Narrow students are best early, wide ones late;
# the lower envelope of all curves is the frontier, $C^{(1-2\beta)/(1+\beta)}=C^{-1/3}$ in the limit. Right: how slowly an
# ideal sum (a student exactly as wide as what it has learned, $p$ from 4 to $P/8$) approaches the limit.

# %%
spacing = np.exp(
    np.mean([np.log(np.sort(prediction.time_loss)[: WIDTHS[-1]]) for _, prediction in wide[WIDTHS[-1]]], axis=0)
)
ends = [2 * p * spacing[p - 1] / ETA for p in (4, P // 8)]  # a width of 2p learns p directions without a gap
grid = np.geomspace(*ends, 60)
compute = [m * marks for m in WIDTHS]
frontier = Frontier(compute, [descents[m] for m in WIDTHS], grid, rng=np.random.default_rng(0), paired=True)  # seeds
predicted, _ = lower_envelope(compute, [ideal[m] for m in WIDTHS], grid)
fit = fit_exponent(frontier, Window(*ends, "compute 2p T(p) of directions 4 and P/8"))
print(f"frontier exponent: measured {fit.slope.value:.3f} ± {fit.slope.stderr:.3f} (standard error)")
print(f"                   predicted for the same runs {fit.finite_size(predicted):.3f}")
print(f"                   theorem, P -> inf {theorem['compute']:.3f}")
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.4))
for m in WIDTHS:
    left.plot(m * marks, descents[m].mean(axis=0), color=colours[m], lw=1.5, label=f"m = {m}")
left.plot(grid, np.exp(frontier.logs), color=RED, lw=3, label="frontier")
left.plot(grid, predicted, color=INK, ls="--", lw=1.5, label="predicted frontier")
left.set(xscale="log", yscale="log", xlabel="compute: width × steps", ylabel="loss", title="Loss against compute")
left.legend(frameon=False)
sizes = np.geomspace(100, 1e8, 13).round()
right.semilogx(
    sizes,
    [ideal_frontier_slope(BETA, int(size)) for size in sizes],
    "o--",
    color=INK,
    label="ideal sum of P directions",
)
right.axhline(theorem["compute"], color=GREEN, label="theorem: −1/3")
right.set(xlabel="P", ylabel="frontier exponent", title="Towards the limit")
right.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 5. The heavy tail
#
# For $\beta<\tfrac12$ the late, small directions hold most of the loss. There is no power law: with $p(t)$ directions
# learned of $P$, the loss is $1-(p/P)^{1-2\beta}$ of what it was, a curve that falls only when nearly everything is
# learned. Steps below emerge at $p^\beta$; what an infinite teacher would do is drawn as a line.

# %%
figure, axis = plt.subplots()
clock = np.geomspace(0.02, 1.0, 400)
for count, colour in ((32, BLUE), (1024, RED)):
    p = np.arange(1, count + 1)
    for beta, style in ((0.25, "-"), (0.4, "--")):
        weights = p**-beta / np.sqrt(np.sum(p ** (-2 * beta)))
        axis.plot(
            clock, 2 * staircase(clock, (p / count) ** beta, weights, 1.0), color=colour, ls=style, lw=1.6,
            label=f"P = {count}, β = {beta}",
        )  # fmt: skip
for beta in (0.25, 0.4):
    axis.plot(clock, 1 - clock ** ((1 - 2 * beta) / beta), color=INK, lw=1, ls=":")
axis.set(
    xlabel="time over that of the last direction", ylabel="loss over initial loss", title="Dotted: 1 − (p/P)^(1−2β)"
)
axis.legend(frameon=False)
plt.show()
