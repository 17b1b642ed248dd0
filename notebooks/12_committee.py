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
# # A committee, and its second layer
#
# A committee machine sits on a plateau on which all rows do the same, until they specialise. Does it help to train the
# second layer, too? The model is declared by its parts; its population flow is derived and integrated, and SGD is
# simulated exactly in law, with error bars. Time is step size × steps ([how a model is
# declared](../docs/declared.md)).

# %%
import matplotlib.pyplot as plt
import numpy as np

from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.0), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#333333"

# %% [markdown]
# ## 1. Two committees from one start
#
# Two rows of erf in 64 dimensions learn two directions of weights 1 and ½. The second layer begins too small, at 0.7
# for both rows: it stays there, or it is trained as the rows are.

# %%
DIM, WEIGHTS, SECOND, END, SIZES, REPLICAS = 64, (1.0, 0.5), 0.7, 220.0, (8e-3, 4e-3), 32
erf = Activation.parse("erf(z/sqrt(2))")
directions = Directions.orthonormal(Inputs.isotropic(DIM), len(WEIGHTS))
start = draw_start(directions, 2, scale=0.3, seed=1)


def model(trained: bool, size: float) -> DeclaredModel:
    """The committee with this step size."""
    return DeclaredModel(directions, Additive(erf, WEIGHTS), committee(erf, 2, SECOND, trained), Rule(size))


NAMES = {False: "fixed", True: "trained"}
times = np.linspace(0, END, 101)
flows = {trained: declared_flow(model(trained, 1.0), start, END, times, rtol=1e-6).dataset for trained in NAMES}
runs = {
    trained: [
        declared_sgd(
            model(trained, size), start, steps=int(END / size), replicas=REPLICAS, saves=100, loss=True
        ).dataset
        for size in SIZES
    ]
    for trained in NAMES
}


# %% [markdown]
# ## 2. Where the plateau ends
#
# The plateau is over when the loss first falls below half of what the flow has at a tenth of the run. A finite step
# lengthens it to first order in the step, so that twice the time at the half step minus that at the whole one is the
# limit of small steps.


# %%
def end_of(time: np.ndarray, loss: np.ndarray, level: float) -> np.ndarray:
    """First times at which losses (..., times) are below the level, linear between records."""
    late = time >= END / 10
    time, loss = time[late], loss[..., late]
    last = np.argmax(loss < level, axis=-1)[..., None]
    before, after = (np.take_along_axis(loss, place, axis=-1) for place in (last - 1, last))
    return (time[last - 1] + (before - level) / (before - after) * (time[last] - time[last - 1]))[..., 0]


for trained, name in NAMES.items():
    level = float(flows[trained].loss.interp(time=END / 10)) / 2
    theory = float(end_of(times, flows[trained].loss.values, level))
    found = [end_of(one.time.values, one.loss.transpose("replica", "time").values, level) for one in runs[trained]]
    (whole, half), (first, second) = ([f(x) for x in found] for f in (np.mean, lambda x: x.std(ddof=1) / REPLICAS**0.5))
    limit, error = 2 * half - whole, np.hypot(2 * second, first)
    print(
        f"{name}: flow {theory:.2f}; SGD {whole:.2f} ± {first:.2f}, half the step {half:.2f} ± {second:.2f}, "
        f"limit {limit:.2f} ± {error:.2f}: {(limit - theory) / error:+.1f} errors away"
    )

# %%
figure, ax = plt.subplots()
for (trained, name), colour in zip(NAMES.items(), (BLUE, ORANGE), strict=True):
    ax.plot(times, flows[trained].loss, color=colour, label=f"second layer {name}: flow")
    loss = runs[trained][1].loss
    mean, error = loss.mean("replica"), 2 * loss.std("replica", ddof=1) / REPLICAS**0.5
    ax.errorbar(
        loss.time[5::6], mean[5::6], error[5::6], fmt="o", ms=3, color=colour, label="SGD ± two standard errors"
    )
ax.set(yscale="log", xlabel="time", ylabel="population loss", ylim=(2e-4, 0.3))
ax.legend(frameon=False)
plt.show()
print("second layer at the end, trained:", np.round(flows[True].second.values[-1], 3))

# %% [markdown]
# **Verdict.** Training a second layer that begins too small helps twice: it grows, so that the rows specialise sooner,
# and the loss ends lower, because row lengths alone do not make up for it. SGD of both committees ends its plateau
# where the flow says, once the step size is extrapolated to zero; real steps stay on it longer.
