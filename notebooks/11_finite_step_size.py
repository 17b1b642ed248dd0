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
# # Finite step size
#
# How far from gradient flow is SGD at *your* step size, and how much of the gap does theory know? Gradient flow is SGD
# with steps of size zero. A step of size η also shrinks an overlap, by an amount that grows with the dimension; the
# second order in η has it without anything fitted, the dimension included ([the page](../docs/finite_step.md)).
#
# One neuron, one direction, σ = h₂, in 200 dimensions, from an overlap well above the noise. Time is step size ×
# steps.

# %%
import matplotlib.pyplot as plt
import numpy as np

from dynamics import finite_step_flow, gradient_flow, online_sgd
from theory import Activation, InitialState, Teacher, finite_step

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.0), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#333333"

# %% [markdown]
# ## 1. The second order
#
# The mean of one step, derived to second order in η for any polynomial activation; in time the equation $\dot
# y=F-\tfrac\eta2F'F$ passes through the points of this map. Its parts are sums over neurons that fill a page
# (`emergence derive finite-step`); every step is checked.

# %%
h2 = Activation.parse("h2")
derivation = finite_step(h2).derivation
print(derivation.verify(), "steps checked:", ", ".join(step.title for step in derivation.steps[-3:]))

# %% [markdown]
# ## 2. Flow, second order, exact SGD
#
# Two step sizes, one half of the other.

# %%
DIM, OVERLAP, NORM2, SCALED, END, REPLICAS = 200, 0.4, 0.3, (0.05, 0.1), 2.0, 64
teacher = Teacher.of([1.0], DIM)
row = np.sqrt(NORM2) * np.array([OVERLAP, np.sqrt(1 - OVERLAP**2)])
start = InitialState(row[:1, None], row[1:, None])
flow = gradient_flow(h2, teacher, start, t_end=END, times=np.linspace(0, END, 101)).dataset
runs = {}
for scaled in SCALED:
    size = scaled / DIM
    second = finite_step_flow(h2, teacher, start, step_size=size, steps=int(END / size), saves=25).dataset
    sgd = online_sgd(h2, teacher, start, step_size=size, steps=int(END / size), saves=25, replicas=REPLICAS, seed=0)
    runs[scaled] = second, sgd.dataset

# %%
figure, ax = plt.subplots()
ax.plot(flow.time, flow.overlap[:, 0, 0], "--", color=INK, label="gradient flow")
for (scaled, (second, sgd)), colour in zip(runs.items(), (BLUE, ORANGE), strict=True):
    ax.plot(second.time, second.overlap[:, 0, 0], color=colour, label=f"second order, η = {scaled:g}/d")
    paths = sgd.overlap[:, :, 0, 0]
    error = 2 * paths.std("replica", ddof=1) / np.sqrt(REPLICAS)
    ax.errorbar(sgd.time, paths.mean("replica"), error, fmt="o", ms=3, color=colour, label="SGD ± two standard errors")
ax.set(xlabel="time", ylabel="overlap with the direction", ylim=(0.35, 1.02))
ax.legend(frameon=False)
plt.show()

# %%
at = END / 2
for scaled, (second, sgd) in runs.items():
    paths = sgd.overlap[:, :, 0, 0].interp(time=at)
    mean, error = float(paths.mean()), float(paths.std(ddof=1)) / np.sqrt(REPLICAS)
    theories = {"gradient flow": flow, "second order": second}
    told = ", ".join(
        f"{name} {(value := float(one.overlap[:, 0, 0].interp(time=at))):.4f} ({(mean - value) / error:+.1f} errors away)"
        for name, one in theories.items()
    )
    print(f"η = {scaled:g}/d, time {at:g}: SGD {mean:.4f} ± {error:.4f}, {told}")

# %% [markdown]
# **Verdict.** At both step sizes SGD is far from gradient flow, and a larger step learns later. The second order has
# the gap, without a fit: SGD is within one standard error of it. What fluctuations do to the mean is of first order in η
# as well, but without the factor d: too small for these runs to see.
