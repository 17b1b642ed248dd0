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
    """Count one block of plain SGD."""
    return declared_work(problem.width, problem.width, 1, 1, problem.block_steps, 1)


def declared_work(width: int, teachers: int, kinds: int, batch: int, steps: int, eigenvalues: int) -> Work:
    """Count one block of a declared model with `kinds` · m vectors; triangular factors are multiplied as full matrices, as
    the block does it. Within it a step is counted once, whatever the rule makes of it.
    """
    n, samples = kinds * width, batch * steps
    known = teachers + n
    each = [
        2 * n * known * samples,  # fields at the block's start
        2 * samples**2 * known,  # Gram matrix of the known coordinates
        2 * samples**3,  # Gram matrix of the outside part
        2 * n * samples * known,  # vectors moved in the known coordinates
        2 * n * samples**2,  # columns appended to what is outside the directions
        2 * n**2 * (n + samples),  # Gram matrix of that
    ]
    # Within the block a step sees the samples before it, half of them on average.
    within = 2 * n * samples * (samples - batch) / 2
    normals = samples * known + samples * (samples - 1) // 2
    products = 2 * samples * teachers + eigenvalues * float(sum(each))
    return Work(eigenvalues * normals, eigenvalues * samples, products, within + eigenvalues * n**3 / 3)


def seconds(block: Work) -> tuple[float, float]:
    """Floor of a block: (random numbers, operations), each at the rate measured for large arrays."""
    random = (block.normals + block.chi) * rates.seconds_per_normal()
    return random, (block.products + block.other) / rates.flops_per_second()


def seconds_per_step(problem: Sizes) -> tuple[float, float]:
    """The same of one replica-step."""
    random, operations = seconds(work(problem))
    return random / problem.block_steps, operations / problem.block_steps
