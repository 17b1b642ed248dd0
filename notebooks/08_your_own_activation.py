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
# # Your own activation
#
# How long will a student with *your* activation search for each direction, and does real SGD take as long? Change the
# text in the second cell and run the rest: everything below is derived again ([what may be
# given](../docs/own_activation.md)).

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Math, display

from dynamics import gradient_flow, online_sgd
from emergence import plot
from theory import Activation, SingleTask, Student, Teacher, draw_initial_state, predict

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.0), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#333333"

# %% [markdown]
# ## 1. What it can see
#
# The *information exponent* J is the lowest Hermite degree of σ. A sine has a linear part, so that it would never wait
# on a plateau; without that part J = 3, and it has to search.

# %%
TEXT = "2*sin(2*z) - 4*exp(-2)*z"
activation = Activation.parse(TEXT)
for text in ("2*sin(2*z)", TEXT):
    one = Activation.parse(text)
    weights = {degree: round(float(c), 3) for degree, c in one.coefficients.items() if abs(c) > 5e-4}
    print(f"{text}: information exponent {one.information_exponent}, Hermite coefficients {weights}")

# %% [markdown]
# ## 2. One neuron, one direction
#
# The equation of its overlap u with a direction of weight a, and the leading time it takes from a small overlap.

# %%
task = SingleTask(activation)
print(task.derivation().verify(), "steps checked")
display(Math(task.derivation().steps[0].latex()))
slope = {degree - 1: degree * float(c) ** 2 for degree, c in activation.coefficients.items()}
print("φ'(u) =", " + ".join(f"{c:.3f} u^{power}" for power, c in slope.items() if c > 0.005))

# %% [markdown]
# ## 3. Two directions, six neurons
#
# Who finds which direction, and when, is predicted from the start alone; the coupled flow of all overlaps is
# integrated beside it.

# %%
teacher = Teacher.power_law(width=2, exponent=1.0, dim=32)
start = draw_initial_state(teacher, Student(width=6, init_scale=0.1), seed=4)
prediction = predict(activation, teacher, start)
end = 2 * prediction.last_time
flow = gradient_flow(activation, teacher, start, t_end=end)
for p in range(2):
    print(f"direction {p + 1}: predicted {prediction.time_half[p]:.3f}, flow {flow.half_time[p]:.3f}")

# %% [markdown]
# ## 4. Exact SGD
#
# Online SGD from the same start, exact in law, at two step sizes, one half of the other; a time is step size × steps.
# To first order a finite step adds a delay in proportion to it, so that twice the second time minus the first is the
# limit of small steps.

# %%
SIZES, REPLICAS = (2e-4, 1e-4), 32
runs = [
    online_sgd(
        activation, teacher, start, step_size=size, steps=int(2 * end / size), replicas=REPLICAS, seed=2, saves=200,
        stop_when_learned=(0, 1),
    )
    for place, size in enumerate(SIZES)
]  # fmt: skip
times = [size * run.half_steps for size, run in zip(SIZES, runs, strict=True)]
means = [one.mean(axis=0) for one in times]
errors = [one.std(axis=0, ddof=1) / np.sqrt(REPLICAS) for one in times]
limit, stderr = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
for p in range(2):
    sizes = ", ".join(f"{mean[p]:.2f} ± {error[p]:.2f}" for mean, error in zip(means, errors, strict=True))
    away = (limit[p] - prediction.time_half[p]) / stderr[p]
    print(
        f"direction {p + 1}: SGD {sizes}; limit {limit[p]:.2f} ± {stderr[p]:.2f}, {away:+.1f} standard errors from predicted"
    )

# %%
figure, ax = plt.subplots()
best = (flow.dataset.overlap**2).max("neuron")
found = (runs[1].dataset.overlap ** 2).max("neuron")
mean, error = found.mean("replica"), found.std("replica", ddof=1) / np.sqrt(REPLICAS)
for p, colour in enumerate((BLUE, ORANGE)):
    ax.plot(flow.dataset.time, best[:, p], color=colour, label=f"direction {p + 1}: flow")
    low, high = (mean + sign * error for sign in (-1, 1))
    ax.fill_between(
        found.time, low[:, p], high[:, p], color=colour, alpha=0.3, lw=0, label="SGD, mean ± standard error"
    )
    ax.axvline(prediction.time_half[p], color=INK, ls=":", label="predicted" if p else None)
ax.set(xlabel="time", ylabel="best squared overlap", xlim=(0, end), ylim=(0, 1.02))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# For a paper, in the width of a column, as PDF.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "own.pdf"
    plot.save(plot.paper(figure, "column"), path)
    print(path.name, "begins with", path.read_bytes()[:5].decode())

# %% [markdown]
# **Verdict.** With its linear part the activation would not wait; without it each direction has a time of its own,
# which the start gives away. The flow keeps it; SGD of these steps scatters around it, and its mean curve is less
# steep than each of its runs.
