r"""The least work of one block of exact-in-law SGD (batch 1): random numbers and floating-point operations.

With B samples per block, m neurons and P teachers, a block needs the samples' known coordinates, B(P+m) normals, and
Bartlett's triangular factor, B(B−1)/2 normals and B chi variables (each counted as one normal, which it at least is).
"""

from dataclasses import dataclass

from benchmarks import rates
from benchmarks.sgd_runs import Sizes


@dataclass(frozen=True)
class Work:
    """Of one replica and one block. `products`: operations in matrix products; `other`: Cholesky and the inner steps."""

    normals: int
    chi: int
    products: float
    other: float


def work(problem: Sizes) -> Work:
    """Count one block. Triangular factors are multiplied as full matrices, as the block does it."""
    m = teachers = problem.width
    samples = problem.block_steps
    known = teachers + m
    products = [
        2 * samples * teachers,  # targets
        2 * m * known * samples,  # pre-activations at the block's start
        2 * samples**2 * known,  # Gram matrix of the known coordinates
        2 * samples**3,  # Gram matrix of the outside part
        2 * m * samples * known,  # students moved in the known coordinates
        2 * m * samples**2,  # columns appended to the residuals
        2 * m**2 * (m + samples),  # Gram matrix of the residuals
    ]
    # Within the block a step sees the samples before it, (B − 1)/2 on average.
    steps = 2 * m * samples * (samples - 1) / 2
    return Work(samples * known + samples * (samples - 1) // 2, samples, float(sum(products)), steps + m**3 / 3)


def seconds_per_step(problem: Sizes) -> tuple[float, float]:
    """Floor of one replica-step: (random numbers, operations), each at the rate measured for large arrays."""
    block = work(problem)
    random = (block.normals + block.chi) * rates.seconds_per_normal()
    return random / problem.block_steps, (block.products + block.other) / rates.flops_per_second() / problem.block_steps
