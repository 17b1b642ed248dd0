"""Q21: the noise of many samples of Stiefel SGD in operator norm."""

from collections.abc import Iterator

import numpy as np

from theory import Teacher
from theory.quadratic.gradient_noise import entry_variance, few_samples, largest_singular_value, teachers_share
from theory.quadratic.model import QuadraticModel
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 3

_DIM, _TEACHERS, _SAMPLES = 128, 8, 16_000


def _noise(model: QuadraticModel, samples: int, rng: np.random.Generator) -> float:
    """Operator norm of the samples' noise over its root, W the last N axes."""
    a, gamma, width = model.teacher.a, model.speed_factor, model.width
    x = rng.standard_normal((samples, model.teacher.dim))
    h, rest = x[:, -width:], x[:, :-width]
    gap = (x[:, : a.size] ** 2 - 1) @ a - gamma * (np.sum(h**2, axis=1) - width)
    # (Its mean is 0 across the teacher, and across both W and the teacher by symmetry.)
    return float(np.linalg.norm((2 * gamma * gap[:, None] * rest).T @ h, 2)) / np.sqrt(samples)


@claim(
    id="Q21",
    title="Noise in operator norm",
    statement="The accumulated noise of Stiefel SGD is √(cn)(√d + √N) in operator norm, far below its Frobenius norm.",
    latex=r"\Big\|\sum_{i\le n}G_i-EG_i\Big\|\simeq\sqrt{cn}\,(\sqrt{d-N}+\sqrt N),\quad c=4\gamma^2(2\|a\|^2+\gamma^2(2N+8))",
    source="talk on arXiv:2508.03688 (Martingale terms in operator norm); constant derived",
    kind="asymptotic",
    regime="student across the teacher, many samples, several teachers",
    controls=("Frobenius norm", "√d alone: one neuron", "variance without the student's own part"),
)
def run_martingale(context: Context) -> Iterator[Part]:
    """Mean operator norm over draws, for two widths."""
    for width in (4, 16):
        model = QuadraticModel(Teacher.of([1.0] * _TEACHERS, _DIM), width, width**-0.5)
        rows, unit = _DIM - width, float(np.sqrt(entry_variance(model)))
        rng = context.rng("Q21", "samples", width)
        norms = np.array([_noise(model, _SAMPLES, rng) for _ in range(context.pick(32, 320))])
        law, (estimate, stderr) = unit * largest_singular_value(rows, width), mean_and_error(norms)
        bare = 2 * model.speed_factor * np.sqrt(2) * model.norm
        controls: Controls = {
            "Frobenius": float(unit * np.sqrt(rows * width)),
            "√d alone": float(unit * np.sqrt(rows)),
            "variance": float(bare) * law / unit,
        }
        yield Measurement(
            f"mean operator norm of {_SAMPLES} samples' noise over its root, d = {_DIM}, N = {width}",
            law, estimate, stderr, (abs(teachers_share(model)) + few_samples(model, _SAMPLES)) * law, controls,
            computed_by(few_samples, "the sum is no Gaussian matrix yet; another variance along the teacher"), f"N{width}",
        )  # fmt: skip
