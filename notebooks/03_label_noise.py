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
# # Label noise: from lazy to rich
#
# A two-layer linear network $\hat y=a^\top Wx$ of a thousand neurons starts in the lazy regime. Without label noise it
# stays there. With labels seen as $y\pm\sigma$, SGD first shrinks the first layer and then aligns it with the truth
# (arXiv:2603.10397). The toolkit derives both phases, predicts their times, and judges them against SGD itself.
#
# Times are SGD steps, one fresh sample or training point each; $\|\theta^*\|=1$.

# %%
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Math, display

from dynamics import ito_ensemble, label_noise_sgd, lower, sam
from theory import draw_linear_start, draw_linear_task
from theory.linear.averaging import derivation
from theory.linear.phases import predict_phases
from theory.linear.sam import collapse_radius, decay_rate
from theory.linear.sde import weight_sde
from validation.experiments.averaged_flow import halving_steps, onset_steps

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.0), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
WIDTH, DIM, STEP_SIZE, NOISE = 1000, 20, 1e-3, 4.0
BLUE, ORANGE, GREEN, INK = "#0072B2", "#D55E00", "#009E73", "#333333"

# %% [markdown]
# ## 1. What is derived
#
# A step is a boost of the matrix $[W\ a]$. Boosts leave $D=WW^\top-aa^\top$ alone at first order; what moves D is of
# second order in the step size and pushes one way. Every step is checked on a road of its own before it is shown.

# %%
derived = derivation()
print(derived.verify(), "steps checked")
for step in derived.steps[4:9] + derived.steps[18:22]:
    print(step.title)
    display(Math(step.latex()))

# %% [markdown]
# ## 2. Lazy to rich at the published setting
#
# 200 training points, m = 1000, d = 20, η = 10⁻³, σ = 4. The predictions know the training set through its covariance;
# without that correction they would be too early.

# %%
task = draw_linear_task(DIM, 1.0, 200, 0)
setting = {"width": WIDTH, "step_size": STEP_SIZE, "noise": NOISE}
phases = predict_phases(task, **setting)
uncorrected = predict_phases(draw_linear_task(DIM, 1.0, None, 0), **setting)
print(f"residual variance      {phases.residual_variance:8.2f}   (the noise alone: {NOISE**2:.0f})")
print(f"largest stable step    {phases.stability_limit:8.5f}")
print(f"median escape          {phases.escape_steps:8.0f} steps   (printed bound: {phases.escape_bound:.0f})")
print(f"onset of alignment     {phases.onset_steps:8.0f} steps   (fresh samples: {uncorrected.onset_steps:.0f})")

# %%
REPLICAS = 16
start = draw_linear_start(WIDTH, DIM, 1, REPLICAS)
options = {"step_size": STEP_SIZE, "replicas": REPLICAS, "seed": 2}
steps = int(1.5 * phases.onset_steps)
noisy = label_noise_sgd(task, start, steps=steps, noise=NOISE, saves=150, **options)
quiet = label_noise_sgd(task, start, steps=steps, saves=150, **options)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained")
for run, colour, name in ((noisy, BLUE, "label noise"), (quiet, ORANGE, "no label noise")):
    left.plot(run.step, run.values("frobenius2").T / WIDTH, color=colour, lw=1)
    right.plot(run.step, run.values("mean_alignment").T, color=colour, lw=1)
    left.plot([], [], color=colour, label=f"{name}, {REPLICAS} runs")
left.plot(phases.times, phases.frobenius2 / WIDTH, "--", color=INK, label="derived")
right.plot(phases.times, phases.alignment, "--", color=INK)
for axis in (left, right):
    axis.axvline(phases.onset_steps, color=INK, lw=0.8, ls=":")
    axis.set(xlabel="step", xlim=(0, steps))
    axis.locator_params(axis="x", nbins=5)
left.set(ylabel="‖W‖² / m", title="Phase I: the first layer shrinks", yscale="log")
right.set(ylabel="mean |cos| with θ*", title="Phase II: it aligns (dotted: predicted onset)", ylim=(0, 1))
left.legend(frameon=False)
plt.show()

# %% [markdown]
# Measured over predicted, by the same rules as in the validation report. The escape is looked at more closely, in a
# short run of its own.

# %%
early = label_noise_sgd(task, start, steps=int(2 * phases.escape_steps), noise=NOISE, saves=400, **options)
for name, times, predicted in (
    ("half of ‖W‖²", *halving_steps(noisy, phases, WIDTH / 2)),
    ("median escape", np.median(early.escape_steps, axis=1), phases.escape_steps),
    ("onset", onset_steps(noisy, DIM), phases.onset_steps),
):
    ratio = times / predicted
    print(f"{name:14s} measured / predicted = {ratio.mean():.3f} ± {ratio.std(ddof=1) / REPLICAS**0.5:.3f}")

# %% [markdown]
# Single neurons of one run: down first, then to the right. Some never align: those with $\hat\theta\cdot w_i+a_i\approx0$.

# %%
norms, cosines = np.sqrt(noisy.values("norm2")[0]), np.abs(noisy.values("overlap")[0, ..., 0])
figure, axis = plt.subplots(layout="constrained")
colours = np.repeat(noisy.step, norms.shape[1])
points = axis.scatter(cosines, norms, c=colours.reshape(norms.shape), cmap="viridis_r", s=5, lw=0)
figure.colorbar(points, label="step")
axis.set(xlabel="|cos| with θ*", ylabel="norm of the neuron", xlim=(0, 1), title=f"{norms.shape[1]} neurons")
plt.show()

# %% [markdown]
# ## 3. Alternating noise
#
# Label noise that is on for 5000 steps and off for 5000 switches the decay on and off.

# %%
PERIOD, BLOCKS = 5000, 6
fresh = draw_linear_task(DIM, 1.0, None, 0)
run = label_noise_sgd(fresh, start, steps=PERIOD * BLOCKS, noise=NOISE, period=PERIOD, saves=40 * BLOCKS, **options)
noise_steps = run.step // (2 * PERIOD) * PERIOD + np.minimum(run.step % (2 * PERIOD), PERIOD)
predicted = predict_phases(fresh, **setting, horizon=PERIOD * BLOCKS).norm_at(noise_steps)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained")
for axis in (left, right):
    for first in range(0, PERIOD * BLOCKS, 2 * PERIOD):
        axis.axvspan(first, first + PERIOD, color="#56B4E9", alpha=0.2, lw=0)
    axis.set(xlabel="step (shaded: label noise on)")
left.plot(run.step, run.values("frobenius2").T / WIDTH, color=BLUE, lw=1)
left.plot(run.step, predicted / WIDTH, "--", color=INK, label="derived")
left.set(ylabel="‖W‖² / m", title="The decay needs the noise")
left.legend(frameon=False)
right.plot(run.step, np.abs(run.values("second")[0, :, :3]), lw=0.8)
right.set(ylabel="|aᵢ|", title="Second-layer weights of three neurons")
plt.show()

# %% [markdown]
# ## 4. Sharpness-aware minimisation
#
# The slope that SAM sees has a term of the size ρ‖W‖ whose sign opposes convergence: label noise made by the algorithm
# itself. Its law is another one, and beyond a critical radius the network collapses to 0.

# %%
RADIUS, STEPS = 0.2, 60_000
sharp = sam(fresh, start, radius=RADIUS, steps=STEPS, saves=120, **options)
law = [float(WIDTH)]
for gap in np.diff(sharp.step):
    law.append(law[-1] * np.exp(-decay_rate(RADIUS, STEP_SIZE, law[-1], 1.0, DIM) * gap))
critical = collapse_radius(1.0, DIM)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained")
left.plot(sharp.step, sharp.values("frobenius2").T / WIDTH, color=BLUE, lw=1)
lazy = np.array(law) > 4 * DIM
left.plot(sharp.step[lazy], np.array(law)[lazy] / WIDTH, "--", color=INK, label="derived, while ‖W‖² ≫ d‖a‖²")
left.set(xlabel="step", ylabel="‖W‖² / m (log)", yscale="log", title=f"ρ = {RADIUS}: two phases again")
twin = left.twinx()
twin.plot(sharp.step, sharp.values("mean_alignment").T, color=ORANGE, lw=1)
twin.set_ylabel("mean |cos| with θ*", color=ORANGE)
twin.set_ylim(0, 1)
left.legend(frameon=False, loc="lower left")
for share, colour in ((0.5, BLUE), (1.0, GREEN), (2.0, ORANGE)):
    run = sam(fresh, start, radius=share * critical, steps=STEPS, saves=60, **options)
    right.plot(run.step, run.values("theta")[:, :, 0].mean(axis=0), color=colour, label=f"ρ = {share * critical:.2f}")
right.set(xlabel="step", ylabel="⟨θ, θ*⟩", title=f"Critical radius for small steps: {critical:.2f}")
right.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 5. The diffusion against SGD
#
# Label-noise SGD as an Itô diffusion of all weights, derived as a system like any other and integrated by a fast scan
# over many paths; 300 replicas of each from one start (m = 20, d = 5). Read in the sense of Stratonovich, or without
# its diffusion, the same equation would not do: claim L26 tests exactly that.

# %%
PATHS, STEPS, ETA, SIGMA = 300, 3000, 0.01, 1.5
small = draw_linear_task(5, 0.5, None, 0)
begin = draw_linear_start(20, 5, 5)
sgd = label_noise_sgd(small, begin, step_size=ETA, steps=STEPS, noise=SIGMA, replicas=PATHS, seed=6, saves=30)
paths = ito_ensemble(
    lower(weight_sde("covariance")),
    {"W": begin.first, "a": begin.second},
    {"target": small.target, "eta": ETA, "sigma": SIGMA},
    step=ETA, steps=STEPS, brownian=(5,), paths=PATHS, seed=7, saves=30,
)  # fmt: skip
both = {
    "‖W‖²": (np.sum(paths.state["W"] ** 2, axis=(2, 3)), sgd.values("frobenius2")),
    "‖a‖²": (np.sum(paths.state["a"] ** 2, axis=2), sgd.values("second_norm2")),
}
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained")
for axis, (name, pair) in zip(axes, both.items(), strict=True):
    for values, colour, label in zip(pair, (INK, BLUE), ("diffusion", "SGD"), strict=True):
        low, middle, high = np.percentile(values, (10, 50, 90), axis=0)
        axis.plot(sgd.step, middle, color=colour, ls="--" if label == "diffusion" else "-", label=label)
        axis.fill_between(sgd.step, low, high, color=colour, alpha=0.2, lw=0)
    axis.set(xlabel="step", title=f"{name}: median, and 10–90 % of {PATHS} replicas")
    axis.legend(frameon=False)
    ends = [np.log(values[:, -1]) for values in pair]
    error = np.hypot(*[x.std(ddof=1) / PATHS**0.5 for x in ends])
    print(f"mean of ln {name}: diffusion {ends[0].mean():.4f}, SGD {ends[1].mean():.4f}, error of both {error:.4f}")
plt.show()
