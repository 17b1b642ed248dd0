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
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quadratic networks: a matrix Riccati flow, and the SGD that follows it
#
# At information exponent 2 directions no longer decouple. A student $f=\gamma(x^\top WW^\top x-\mathrm{tr}WW^\top)$ that
# learns $f_*=\sum_ja_j(x_j^2-1)$ moves its column space by a matrix Riccati equation (arXiv:2508.03688),
# $$\dot G=\tilde AG+G\tilde A-2G\tilde AG,\qquad G=\Theta^\top UU^\top\Theta,$$
# with a closed form that is evaluated here at any time, in any dimension. Then comes the algorithm of the paper: online SGD
# on the Stiefel manifold, simulated exactly in law without vectors of $R^d$, and a radial phase at the end.

# %%
# %matplotlib inline
import time

import matplotlib.pyplot as plt
import numpy as np

from dynamics import radial_phase, riccati_flow, stiefel_sgd
from theory import QuadraticModel, Teacher, draw_subspace
from theory.quadratic.model import floor, half_times
from theory.quadratic.stiefel import PAPER_STEP, largest_step, mean_flow, projected_risk, radial_excess

plt.rcParams["figure.figsize"] = (7, 4)
plt.rcParams["axes.grid"] = True
plt.rcParams["grid.alpha"] = 0.3

# %% [markdown]
# ## 1. The flow of the column space
#
# Forty directions with weights $a_j\propto1/j$, a student of rank 12, a billion dimensions. $G$ starts at $N/d$ and fills up
# along its diagonal, strongest direction first; what the rank cannot hold stays empty.

# %%
teacher = Teacher.power_law(width=40, exponent=1.0, dim=10**9)
model = QuadraticModel(teacher, width=12)
flow = riccati_flow(model.spectrum, draw_subspace(40, 12, teacher.dim, seed=0))
last = half_times(model.spectrum, teacher.dim, 12)[11]
figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for axis, share in zip(axes, (0.1, 0.3, 0.8, 4.0), strict=True):
    image = axis.imshow(np.abs(flow.matrix([share * last])[0]), vmin=0, vmax=1, cmap="viridis")
    axis.set(title=f"|G| at {share:g} $T_{{12}}$", xlabel="direction")
    axis.grid(False)
figure.colorbar(image, ax=axes)
plt.show()

# %% [markdown]
# ## 2. Scaling law and floor
#
# Each direction emerges at $T_j=\log(d/N)/(2\tilde a_j)$. For decay $\beta>\tfrac12$ that makes the risk fall like
# $t^{(1-2\beta)/\beta}$, down to the floor that the rank sets, the teacher's tail beyond its N largest weights.

# %%
wide = Teacher.power_law(width=400, exponent=1.0, dim=10**9)
figure, axis = plt.subplots()
print("  N   slope in the middle of the learned directions   floor: predicted, reached")
for width, colour in ((4, "#0072B2"), (16, "#D55E00"), (64, "#009E73")):
    model = QuadraticModel(wide, width)
    flow = riccati_flow(model.spectrum, draw_subspace(400, width, wide.dim, seed=1))
    half = half_times(model.spectrum, wide.dim, width)
    times = np.geomspace(0.3 * half[0], 5 * half[width - 1], 80)
    risk = flow.risk(times)
    window = (times > half[0]) & (times < half[width - 1] / 2)
    slope = np.polyfit(np.log(times[window]), np.log(risk[window]), 1)[0] if window.sum() > 5 else np.nan
    print(
        f"{width:3d}   {slope:10.2f}{'':38s}{floor(model.spectrum, width):.4f}  {flow.risk([100 * half[width]])[0]:.4f}"
    )
    axis.loglog(times, risk, color=colour, label=f"N = {width}")
    axis.axhline(floor(model.spectrum, width), color=colour, ls="--", lw=0.9)
guide = np.geomspace(20, 800, 2)
axis.loglog(guide, 40 / guide, color="#333333", ls=":", label="slope −1, the limit for β = 1")
axis.set(xlabel="Riccati time", ylabel="risk (2 at the start)", title="400 directions, d = 10⁹; dashed, the floors")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 3. Stiefel SGD
#
# One fresh sample a step, the Riemannian gradient, the polar retraction. The polar factor of a one-sample step turns a single
# direction of the column space, so a step is a rank-one correction, and its cost does not depend on d.

# %%
print("        d   microseconds per step and replica")
for dim in (1000, 1_000_000):
    model = QuadraticModel(Teacher.power_law(3, 1.0, dim), width=3, speed_factor=3**-0.5)
    start, options = (
        draw_subspace(3, 3, dim, seed=0),
        {"step_size": 0.02 / dim, "steps": 6400, "replicas": 32, "saves": 2},
    )
    stiefel_sgd(model, start, seed=0, **options)  # compiles
    before = time.perf_counter()
    run = stiefel_sgd(model, start, seed=1, **options)
    print(f"{dim:9d}   {1e6 * (time.perf_counter() - before) / (run.steps * 32):.1f}")

# %% [markdown]
# How closely does SGD follow the Riccati flow? The mean of one step is known exactly to second order in the step size. The
# second order, of relative size $\eta d$, pulls the subspace away from the teacher. It explains the gap, which disappears as
# $\eta d\to0$. (Step sizes as in the paper, for the loss $\tfrac18(f_*-f)^2$.)

# %%
dim = 128
model = QuadraticModel(Teacher.power_law(3, 1.0, dim), width=3, speed_factor=3**-0.5)
rng = np.random.default_rng(0)
starts = [draw_subspace(3, 3, dim, rng) for _ in range(32)]
seen = np.stack([start.on_teachers for start in starts])
print(f"largest stable step: ηd = {PAPER_STEP * dim * largest_step(model)[0]:.2f}")
figure, axis = plt.subplots()
print("  ηd   late risk: SGD              second-order drift   Riccati flow")
for load, colour in ((0.4, "#D55E00"), (0.2, "#E69F00"), (0.1, "#009E73")):
    step_size = load / dim / PAPER_STEP
    steps = 32 * round(30 / (model.riccati_rate * step_size) / 32)
    run = stiefel_sgd(model, starts, step_size=step_size, steps=steps, saves=60)
    times = run.dataset.riccati_time.values
    drift = projected_risk(model.spectrum, mean_flow(model, seen, times, step_size=step_size)).mean(axis=1)
    riccati = np.mean([riccati_flow(model.spectrum, start).risk(times) for start in starts], axis=0)
    axis.semilogy(times, run.risk.mean(axis=0), color=colour, label=f"SGD, ηd = {load:g}")
    axis.semilogy(times, drift, color=colour, ls="--", lw=1)
    end, error = run.risk[:, -1].mean(), run.risk[:, -1].std(ddof=1) / np.sqrt(len(run.risk))
    print(f"{load:4.1f}   {end:.4f} ± {error:.4f}             {drift[-1]:.4f}               {riccati[-1]:.4f}")
axis.semilogy(times, riccati, color="#333333", ls=":", label="Riccati flow")
axis.set(
    ylim=(1e-2, 3), xlabel="Riccati time", ylabel="risk", title="d = 128, mean of 32 runs; dashed, second-order drift"
)
axis.legend(frameon=False)
plt.show()
worst = max(np.abs(frame.rows.T @ frame.rows - np.eye(3)).max() for frame in run.frames)
print(f"largest entry of WᵀW − I after {run.steps} steps: {worst:.1e}")

# %% [markdown]
# ## 4. The radial phase
#
# With the column space found, the radial part is a linear least-squares problem in $N(N+1)/2$ unknowns, which needs
# $n'\sim N^2$ samples, however large d is.

# %%
figure, axis = plt.subplots()
for width, colour in ((4, "#0072B2"), (8, "#D55E00"), (16, "#009E73")):
    model = QuadraticModel(Teacher.power_law(20, 1.0, 10**6), width, width**-0.5)
    frame = draw_subspace(20, width, 10**6, seed=2)
    z = riccati_flow(model.spectrum, frame).factor([12.0])[0]
    learned = type(frame).of_overlap(z)
    unknowns = width * (width + 1) // 2
    shares = np.array([1.25, 2, 4, 8, 16, 32])
    samples = (shares * unknowns).astype(int)
    excess = [
        np.mean([(f := radial_phase(model, learned, n, s)).unprojected - f.optimal for s in range(20)]) for n in samples
    ]
    leading, _ = radial_excess(model, z)
    axis.loglog(samples / width**2, excess, "o-", color=colour, label=f"N = {width}")
    axis.loglog(samples / width**2, leading / samples, "--", color=colour, lw=1)
axis.set(xlabel="samples / N²", ylabel="excess risk", title="Radial phase; dashed, theory to leading order in 1/n′")
axis.legend(frameon=False)
plt.show()
