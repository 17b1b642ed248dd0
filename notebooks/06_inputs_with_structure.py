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
# # Inputs with structure
#
# When is a direction found if the inputs have a covariance, $x\sim N(0,\Lambda)$? A model is declared by its parts, its flow
# closes eigenspace by eigenspace, and what theory says is put beside it. Times are flow times, the sum of the step sizes.

# %%
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Math, display

from dynamics.declared.descent import population_descent
from dynamics.declared.flow import declared_flow
from theory import Activation
from theory.declared import anisotropic_emergence, polar_emergence
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Muon, Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import committee, two_homogeneous, whitened
from theory.declared.target import Additive

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.0), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
BLUE, ORANGE, GREEN, INK = "#0072B2", "#D55E00", "#009E73", "#333333"
H4 = Activation.parse("h4")

# %% [markdown]
# ## 1. What is derived
#
# Teachers along eigenvectors with fields of unit variance, a student that is normed by its field. Λ is then the metric in
# which the whitened vectors move, and direction p has an effective dimension $\mathrm{Tr}\Lambda/\lambda_p$.

# %%
derived = anisotropic_emergence.derivation()
print(derived.verify(), "steps checked")
for step in derived.steps[2:]:
    print(step.title)
    display(Math(step.latex()))

# %% [markdown]
# ## 2. A power-law spectrum
#
# $\lambda_j=j^{-0.6}$, d = 3000: the first eight eigenvalues are blocks of their own, the others are binned. One row, one
# direction at a time, all squared coordinates of the row equal at the start.

# %%
ALPHA, RANKS = 0.6, (1, 2, 4, 8)
values = np.arange(1, 3001.0) ** -ALPHA
edges = np.geomspace(8, 3000, 9).astype(int)
blocks = [(x, 1) for x in values[:8]]
blocks += [(values[a:b].mean(), b - a) for a, b in pairwise(edges.tolist())]
inputs = Inputs.blocks(*blocks)
directions = Directions.eigenvectors(inputs, [p - 1 for p in RANKS], variance=1.0)
rows = []
for d in inputs.multiplicities:
    part = np.zeros((1, min(d, len(RANKS) + 1)))
    part[0, -1] = 1e-5 * np.sqrt(d / inputs.dim)
    rows.append(part)
start = Start(tuple(rows))
law = anisotropic_emergence.emergence_time(H4, 1.0, values[np.array(RANKS) - 1], inputs.trace)

found = []
for place in range(len(RANKS)):
    weights = tuple(float(q == place) for q in range(len(RANKS)))
    model = DeclaredModel(directions, Additive(H4, weights), whitened(H4, 1), Rule(1.0))
    times = np.linspace(0, 1.5 * law[place], 400)
    data = declared_flow(model, start, times[-1], times).dataset
    field = np.einsum("i,ti->t", inputs.eigenvalues, data.overlap.values[:, :, 0, place])
    variance = np.einsum("i,ti->t", inputs.eigenvalues, data.gram.values[:, :, 0, 0])
    found.append(np.interp(0.5, field**2 / variance, times))
for p, time, theory in zip(RANKS, found, law, strict=True):
    print(f"direction {p}: flow {time:6.2f}, T_p {theory:6.2f}, ratio {time / theory:.3f}")

# %% [markdown]
# The ratio tends to 1 as $\mathrm{Tr}\Lambda/\lambda_p$ grows; the exponent in p is $\alpha J/2$, not α.

# %%
figure, ax = plt.subplots()
ax.loglog(RANKS, found, "o", color=BLUE, label="flow")
ax.loglog(RANKS, law, "--", color=INK, label="effective dimension Tr Λ/λ_p")
wrong = found[0] * values[np.array(RANKS) - 1] ** -1.0
ax.loglog(RANKS, wrong, ":", color=ORANGE, label="one dimension for all directions")
ax.set(xlabel="direction p", ylabel="time to squared cosine ½")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 3. A committee's plateau
#
# The setting of arXiv:2410.09005, Figure 1, in the limit of small steps: two erf rows learn two, with L eigenvalues
# $\lambda_l\propto l^{-2}$ of equal multiplicity. The plateau shortens with L, and the end turns from exponential
# to a power law.

# %%
erf = Activation.parse("erf(z/sqrt(2))")
times = np.geomspace(1, 1000, 80)
figure, ax = plt.subplots()
for count, colour in zip((1, 4, 16), (BLUE, ORANGE, GREEN), strict=True):
    spectrum = np.arange(1, count + 1.0) ** -2
    spectrum *= count / spectrum.sum()
    divided = Inputs.blocks(*((float(x), 1024 // count) for x in spectrum))
    teachers = Directions.random(divided, 2, seed=0)
    model = DeclaredModel(teachers, Additive(erf, (1.0, 1.0)), committee(erf, 2), Rule(1.0))
    loss = declared_flow(model, draw_start(teachers, 2, 0.01, 0), times[-1], times, rtol=1e-6).dataset.loss
    ax.loglog(times, loss, color=colour, label=f"L = {count}")
    end = np.interp(-0.3 * np.interp(8.0, times, loss), -loss, times)
    print(f"L = {count}: 0.3 of its height at time 8 at time {end:.0f}")
ax.set(xlabel="flow time", ylabel="loss", ylim=(1e-6, 0.1))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 4. Another metric: Muon
#
# A polar step changes the metric from step to step. With the population's gradient all directions emerge within the time in
# which a row moves by its own length, whatever their weights: here 1, ½, ⅓, ¼ in 10⁴ dimensions. (With batches: an open
# question, see [the page on Muon](../docs/decay_momentum_muon.md).)

# %%
SCALE, WEIGHTS = 0.01, tuple(1 / np.arange(1, 5.0))
isotropic = Directions.orthonormal(Inputs.isotropic(10**4), 4)
first = draw_start(isotropic, 6, SCALE, 1)
model = DeclaredModel(isotropic, Additive(H4, WEIGHTS), two_homogeneous(H4, 6), Muon(SCALE / 100))
data = population_descent(model, first, steps=200, saves=200)
squared = data.overlap.values[:, 0] ** 2 / np.einsum("tkk->tk", data.gram.values[:, 0])[:, :, None]
figure, ax = plt.subplots()
for p, colour in enumerate((BLUE, ORANGE, GREEN, INK)):
    best = squared[:, :, p].max(axis=1)
    ax.plot(data.time / SCALE, best, color=colour, label=f"a = {WEIGHTS[p]:.2g}")
    print(f"a = {WEIGHTS[p]:.2f}: time to squared cosine ½ over σ₀ {np.interp(0.5, best, data.time) / SCALE:.2f}")
print(f"a lone light row: {polar_emergence.half_time(H4, 1.0, 1e-5, SCALE, light=True) / SCALE:.3f}")
ax.set(xlabel="time / σ₀", ylabel="largest squared cosine")
ax.legend(frameon=False)
plt.show()
