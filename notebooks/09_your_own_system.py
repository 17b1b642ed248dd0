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
# # Your own system
#
# How does a system that the toolkit does not know come to be derived, integrated, simulated and judged by the same
# commands as its own? By one file that ends in a `MODEL`. The one here, [online_pca.py](../examples/online_pca.py),
# has neither labels nor a loss: one row finds the strong direction of its inputs by Oja's rule. Copy it and change it
# ([how](../examples/README.md)).

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from IPython.display import Math, display

from emergence import models
from emergence.cli import main

plt.rcParams.update(
    {"figure.figsize": (7.0, 4.0), "figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False}
)
BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#333333"

file = Path("../examples/online_pca.py").resolve()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
Path("online_pca.py").write_bytes(file.read_bytes())
MODEL = ["--model", "online_pca.py"]
PROBLEM = [*MODEL, "--seed", "5", "--time", "2", "--quiet"]

# %% [markdown]
# ## 1. Derive
#
# Each step carries a check on a road of its own: the drift is computed again with whole covariances in three
# dimensions, the time by numerical integration.

# %%
status = main(["derive", "online-pca", *MODEL])

# %%
own = models.module_of("online_pca.py")
for step in own.derivation().steps:
    display(Math(step.latex()))

# %% [markdown]
# ## 2. Flow and simulation
#
# What is predicted; the flow, integrated from the derived right-hand side; Oja's rule in coordinates, which knows
# nothing of either.

# %%
status = main(["predict", *MODEL, "--seed", "5"])
status = main(["simulate", "flow", *PROBLEM])
status = main(["simulate", "sgd", *PROBLEM, "--step-size", "1e-3", "--replicas", "100"])

# %%
(of_flow,), (of_sgd,) = (list(Path("emergence-out").glob(f"{name}-*.nc")) for name in ("flow", "sgd"))
flow, sgd = xr.open_dataset(of_flow), xr.open_dataset(of_sgd)
resolved = own.resolve(own.PcaProblem(seed=5))
figure, ax = plt.subplots()
squared = sgd.overlap**2
mean, error = squared.mean("replica"), squared.std("replica", ddof=1) / np.sqrt(squared.sizes["replica"])
ax.plot(flow.time, flow.overlap**2, color=BLUE, label="flow")
ax.fill_between(
    sgd.time, mean - error, mean + error, color=ORANGE, alpha=0.4, lw=0, label="Oja's rule ± standard error"
)
ax.axvline(resolved.half_time, ls=":", color=INK, label="predicted time")
ax.axhline(0.5, ls=":", lw=0.8, color=INK)
ax.set(xlabel="time", ylabel="squared overlap", ylim=(0, 1.02))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 3. Compare
#
# At this step size the rule lags behind the flow and ends below it: a step shrinks the overlap, too, in proportion to
# its size. So the file compares after extrapolation to small steps. It says what is judged, by which allowance, and
# which wrong theory the same data must reject; the command gives verdicts and a report.

# %%
status = main(["compare", *PROBLEM, "--replicas", "100"])

# %% [markdown]
# **Verdict.** The formula, the flow and the rule agree, at step sizes extrapolated to zero. Sweeps and claims of one's
# own take the same file: `emergence sweep sgd --model online_pca.py --over dim=50,100`.
