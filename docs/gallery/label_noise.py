"""Label noise: from lazy to rich

Norm of the first layer of a linear network: label noise shrinks it, clean labels leave it alone once they are fitted.

docs/label_noise.md
"""

from emergence import draw_linear_start, draw_linear_task, label_noise_sgd, plot

task = draw_linear_task(dim=20, target_norm=1.0, train_size=None, seed=0)
start = draw_linear_start(width=200, dim=20, seed=0)
noises, norms = (0.0, 0.5, 1.0), []
for noise in noises:
    run = label_noise_sgd(task, start, step_size=0.01, steps=20_000, noise=noise, replicas=4).dataset
    norms.append(run.frobenius2.mean("replica"))

names = [f"noise {noise}" for noise in noises]
figure = plot.linear.curves(run.step, norms, names, "squared norm of the first layer", log=False)
