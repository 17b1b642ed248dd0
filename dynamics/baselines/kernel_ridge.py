r"""Kernel ridge regression, run: fresh samples on the sphere, one linear solve, the test error without any test set.

For $\hat f=\sum_i\alpha_iK(x_i,\cdot)$ the addition theorem gives the population error of the very estimator that was fitted,
$$\|\hat f-f_*\|^2=\sum_kF_k^2-2\alpha^\top u+\alpha^\top K_2\alpha,\quad u_i=\sum_k\xi_kf_{*k}(x_i),\quad
K_2(x,y)=\sum_k\xi_kw_kQ_k,$$
so that the only randomness is that of the training set. Notation: `theory.baselines.kernel_ridge`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from dynamics.core.interrupted import Interrupted, Progress
from dynamics.core.trajectory import Plotted, variable
from theory import InputError
from theory.baselines import gegenbauer
from theory.baselines.kernel_ridge import KernelRidge
from theory.baselines.sample_pairs import conditions
from theory.core.arguments import check_whole
from theory.core.streams import stream

if TYPE_CHECKING:
    import xarray as xr

#: Numbers in a kernel matrix (2 GiB of doubles) beyond which a run is refused.
LARGEST = 2**28
#: Share of the target's square that rounding may make of an error, as it is estimated.
_ROUNDED = 1e-4


@dataclass(frozen=True)
class KernelRidgeResult(Plotted):
    """Attributes: dataset with ``risk`` (replica, samples), ``predicted``, ``predicted_valid`` and ``staircase`` (samples,);
    risk the array.
    """

    dataset: "xr.Dataset"
    risk: np.ndarray


def fitted_risk(problem: KernelRidge, samples: int, rng: np.random.Generator) -> float:
    """Population mean squared error of one fit to `samples` fresh points."""
    points = rng.standard_normal((samples, problem.dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    cosines = points @ points.T
    last = int(np.max(np.flatnonzero(problem.target_weights)))
    on_teachers = gegenbauer.values(points[:, : problem.teacher.width], last, problem.dim) @ problem.teacher.a
    parts = problem.target_weights[: last + 1, None] * on_teachers  # f_*k(x_i)
    gram, labels = problem.kernel.function(cosines), parts.sum(axis=0)
    gram[np.diag_indices(samples)] += problem.ridge
    alpha = linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), labels)
    seen = problem.eigenvalues[: last + 1] @ parts
    second = gegenbauer.series(cosines, problem.eigenvalues * problem.kernel_weights, problem.dim)
    if np.finfo(float).eps * np.sqrt(samples) * second[0, 0] * (alpha @ alpha) > _ROUNDED * problem.total:
        alpha = _in_range(problem.kernel.function(cosines), problem.ridge, labels)
    return float(problem.total - 2 * alpha @ seen + alpha @ second @ alpha)


def _in_range(gram: np.ndarray, ridge: float, labels: np.ndarray) -> np.ndarray:
    """(K + λ)⁻¹y without what K does not see: labels over λ there, no part of the fit, whose rounding would be (a kernel of
    few degrees, or a ridge that is nothing beside them).
    """
    values, vectors = linalg.eigh(gram, overwrite_a=True)
    vectors = vectors[:, kept := values > len(labels) * np.finfo(float).eps * values[-1]]
    return vectors @ ((vectors.T @ labels) / (values[kept] + ridge))


def kernel_ridge(
    problem: KernelRidge,
    samples: Sequence[int],
    *,
    replicas: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
) -> KernelRidgeResult:
    """Fit and evaluate for every number of samples and replica; cost n²(d + degrees) + n³/3 each, memory 3n².
    Where rounding would be seen (`_in_range`) eigenvectors are taken as well, at some 10n³.

    The same seed gives the same result, replica by replica.

    Raises:
        InputError: a number of samples that is no whole number from 1 on, or whose kernel matrix is too large.
        Interrupted: on Ctrl-C, with the fits so far; the others are NaN.
    """
    sizes = _checked(samples, replicas)
    risk = np.full((replicas, len(sizes)), np.nan)
    try:
        for place, size in enumerate(sizes):
            for replica in range(replicas):
                risk[replica, place] = fitted_risk(problem, size, stream(seed, "kernel ridge", size, replica=replica))
                if progress is not None:
                    done = (place * replicas + replica + 1) / (len(sizes) * replicas)
                    progress(done, f"kernel ridge regression: {size} samples, replica {replica + 1} of {replicas}")
    except KeyboardInterrupt as stop:
        kept = KernelRidgeResult(_dataset(problem, sizes, risk, seed), risk)
        raise Interrupted(kept, f"after {np.isfinite(risk).sum()} of {risk.size} fits") from stop
    return KernelRidgeResult(_dataset(problem, sizes, risk, seed), risk)


def _checked(samples: Sequence[int], replicas: int) -> list[int]:
    for size in samples:
        check_whole(samples=size)
        if size**2 > LARGEST:
            raise InputError(
                f"samples is {size}: a kernel matrix of {size}² numbers is too large, give {int(LARGEST**0.5)} or less"
            )
    if len(samples) == 0:
        raise InputError("samples is empty: give one or more whole numbers")
    check_whole(replicas=replicas)
    return sorted({int(size) for size in samples})


def _dataset(problem: KernelRidge, sizes: list[int], risk: np.ndarray, seed: int) -> "xr.Dataset":
    import xarray as xr

    degrees = problem.activation.degree + 1
    return xr.Dataset(
        {
            "risk": variable(("replica", "samples"), risk, "population mean squared error of the fit"),
            "predicted": variable("samples", [problem.risk(n) for n in sizes], "deterministic equivalent (exact for n = 1)"),
            "predicted_valid": variable(
                "samples",
                [float(all(one.holds for one in conditions(problem, n))) for n in sizes],
                "1 where the prediction's conditions hold, 0 where they do not",
            ),
            "staircase": variable("samples", [problem.staircase(n) for n in sizes], "energy of the degrees beyond n"),
            "energy": variable("degree", problem.energies[:degrees], "energy of the target"),
            "harmonics": variable("degree", problem.multiplicities[:degrees], "spherical harmonics of the degree"),
        },
        coords={"samples": sizes, "replica": np.arange(len(risk)), "degree": np.arange(degrees)},
        attrs={
            "what": "kernel-ridge", "activation": problem.activation.name, "kernel": problem.kernel.name,
            "ridge": problem.ridge, "dim": problem.dim, "seed": seed, "precision": "float64",
            "inputs": "uniform on the sphere of radius sqrt(d)",
        },
    )  # fmt: skip
