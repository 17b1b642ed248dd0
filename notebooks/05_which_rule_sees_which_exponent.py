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
# %% [markdown]
# # Which rule sees which exponent
#
# One neuron learns one direction from labels $y=\sigma_*(\langle\theta,x\rangle)$, one sample at a time. The information
# exponent of the link says how many samples plain SGD needs. Other rules see more of a label: its sign, its square, in the end
# any function of it. In this notebook you will see
#
# 1. the *generative exponent*, the least Hermite degree of which labels know anything,
# 2. the drift of six rules on the same labels, read off the rules themselves, and the samples that follow from it,
# 3. real chains, exact in law at any dimension, beside the prediction,
# 4. a rule that hurts: from degree 2 on the sign counts,
# 5. labels of two values, which no rule can help.
#
# The page [which rule sees which exponent](../docs/rules.md) has the whole table.

# %%
import matplotlib.pyplot as plt
import numpy as np

from theory import Activation, InputError, generative_exponent
from theory.declared.generative import label_information
from theory.declared.passage import allowed_step, passage_steps
from validation.experiments.passages import LEVEL, LINKS, RULES, SHARE, START, case_of, run_case

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.2), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)

# %% [markdown]
# ## 1. What labels know
#
# $E\,\zeta_k^2$ with $\zeta_k(y)=E[h_k(a)\mid y]$ is the share of $h_k$ that the label shows. The first k where it is not 0 is
# the generative exponent. An odd polynomial shows degree 1, an even one degree 2; labels of two values show no more than their
# own Hermite coefficients.

# %%
polynomials = {text: Activation.parse(text) for text in ("h3", "h4", "0.8*h4+0.6*h5", "z**2*exp(-z**2)")}
links = {**polynomials, **{name: LINKS[name][0] for name in ("three-valued", "even", "binary")}}
for name, link in links.items():
    shares = "  ".join(f"{x:.3f}" for x in label_information(link, 4))
    print(f"{name:16} E ζ² of degrees 1 to 4: {shares}   exponent {generative_exponent(link)}")

# %% [markdown]
# ## 2. Six rules on three-valued labels
#
# $E\,\Delta u=\gamma f(u)$ with $f=(1-u^2)\sum_i\nu_iu^{i-1}$: the first $\nu_i\ne0$ decides. Left: $f$ over the size of ψ.
# Right: samples until the overlap is 0.4, at a quarter of the largest step size that the drift stands.

# %%
dims = 4 ** np.arange(4, 8)
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2))
u = np.linspace(0, 0.5, 200)
for name in RULES:
    case = case_of(name, "three-valued")
    found = case.drift(4096)
    left.plot(u, found.at(u) / found.square**0.5, label=f"{name}: i = {found.exponent(1e-5 * found.square**0.5)}")
    steps = []
    for d in dims:
        drift, start = case.drift(d), START / np.sqrt(d)
        size = allowed_step(drift, d, start, LEVEL, SHARE)
        steps.append(sum(passage_steps(drift, d, size, start, LEVEL)))
    right.loglog(dims, steps, "o-", ms=3, label=name)
left.set(xlabel="overlap u", ylabel="drift over the size of ψ")
right.set(xlabel="d", ylabel="samples")
left.legend(frameon=False)
right.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 3. Real chains
#
# Normalised SGD at batch 1, in its exact law. Nothing is fitted: the prediction has the step size's next order.

# %%
found = run_case(case_of("normalised", "three-valued"), (128, 512, 2048), 32, 0)
slope, stderr = found.mean_slope()
for d, n, predicted in zip(found.x, found.steps.mean(axis=1), found.predicted[:, :2].sum(axis=1), strict=True):
    print(f"d = {d:5g}: {n:6.0f} samples on average, predicted {predicted:6.0f}")
print(f"slope {slope:.3f} ± {stderr:.3f}, predicted {found.theory():.3f}; plain SGD would have 2 in the limit")

# %% [markdown]
# ## 4. A sign decides
#
# From degree 2 on a rule can hurt: $\nu_2<0$ repels. Even labels with a cosine for a student: alternating layers and SAM have
# no way up, reuse and normalised steps have one.

# %%
for name in RULES:
    case = case_of(name, "even")
    nu = case.drift(4096).coefficients[1] / case.drift(4096).square ** 0.5
    try:
        verdict = f"step size {case.step_size(4096):.2g} at d = 4096"
    except InputError as refusal:
        verdict = str(refusal).split(":")[0]
    print(f"{name:12} ν₂ = {nu:+.3f}   {verdict}")

# %% [markdown]
# ## 5. Two values
#
# A function of a label with two values is affine in it, so that whatever a rule does to labels, $\nu_1=\nu_2=0$.

# %%
for name in RULES:
    found = case_of(name, "binary").drift(4096)
    print(
        name.ljust(12),
        "  ".join(f"ν{i + 1} = {x:+.4f}" for i, x in enumerate(found.coefficients[:3] / found.square**0.5)),
    )
