"""Label noise: from lazy to rich

Norm of the first layer of a linear network: label noise shrinks it, clean labels leave it alone.

docs/label_noise.md
"""

from matplotlib.figure import Figure

from emergence import draw_linear_start, draw_linear_task, label_noise_sgd

task = draw_linear_task(dim=20, target_norm=1.0, train_size=None, seed=0)
start = draw_linear_start(width=200, dim=20, seed=0)

figure = Figure(layout="constrained")
axes = figure.add_subplot(xlabel="steps", ylabel="squared norm of the first layer")
for noise in (0.0, 0.5, 1.0):
    run = label_noise_sgd(task, start, step_size=0.01, steps=20_000, noise=noise, replicas=4).dataset
    axes.plot(run.step, run.frobenius2.mean("replica"), label=f"noise {noise}")
axes.legend()
