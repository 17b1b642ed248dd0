r"""Phase II of a quadratic network: the radial part by least squares on fresh samples, the column space held fixed.

$W^{final}=U\Omega$, $\Omega_*=\arg\min_\Omega\sum_{i\le n'}(f_*-f)^2(x_i)$ (arXiv:2508.03688, phase II) is linear least
squares in the $D=N(N+1)/2$ entries of the symmetric $S=\Omega\Omega^\top$, followed by a projection to $S\succeq0$. Only
$u=U^\top x$ and the teacher coordinates of x enter, jointly Gaussian: samples are drawn in P + N coordinates, whatever d.
"""

from dataclasses import dataclass

import numpy as np

from theory import QuadraticModel, Subspace
from theory.core.arguments import check_whole
from theory.core.streams import generator
from theory.quadratic.model import optimal_risk


@dataclass(frozen=True)
class RadialFit:
    r"""Attributes: gram, $\Omega_*\Omega_*^\top\succeq0$ (N, N), in units where f = x⊤UΩΩ⊤U⊤x − tr fits the unit-norm
    teacher; risk, 2‖M̃ − UΩΩ⊤U⊤‖²; unprojected, the risk of the least-squares fit itself; optimal, the least value,
    reached at ΩΩ⊤ = U⊤M̃U. Always optimal ≤ risk ≤ unprojected: the projection is onto a convex set that holds U⊤M̃U.
    """

    gram: np.ndarray
    risk: float
    unprojected: float
    optimal: float


def radial_phase(model: QuadraticModel, frame: Subspace, samples: int, seed: int | np.random.Generator) -> RadialFit:
    """Fit the radial part on `samples` fresh samples (n'); below D = N(N+1)/2 of them that of least ‖ΩΩ⊤‖_F.

    Args:
        frame: an orthonormal frame U. Cost n'·D² operations, memory n'·D numbers.

    Raises: `InputError` unless samples ≥ 1.
    """
    check_whole(samples=samples)
    rng = generator(seed, "radial phase")
    a, width = model.spectrum, model.width
    x = rng.standard_normal((samples, a.size))
    u = x @ frame.on_teachers + rng.standard_normal((samples, frame.rest.shape[0])) @ frame.rest
    i, j = np.triu_indices(width)
    # An entry off the diagonal appears twice in the symmetric S: in units of √2 the least norm is ‖S‖_F, of no basis.
    twice = np.where(i == j, 1.0, np.sqrt(2))
    features = twice * (u[:, i] * u[:, j] - (i == j))
    entries = np.linalg.lstsq(features, (x**2 - 1) @ a, rcond=None)[0] / twice
    fitted = np.zeros((width, width))
    fitted[i, j] = fitted[j, i] = entries
    values, vectors = np.linalg.eigh(fitted)
    gram = (vectors * np.maximum(values, 0.0)) @ vectors.T
    best = frame.on_teachers.T @ (a[:, None] * frame.on_teachers)
    optimal = float(optimal_risk(a, frame.on_teachers))
    excess, unprojected = (2 * float(np.sum((matrix - best) ** 2)) for matrix in (gram, fitted))
    return RadialFit(gram, optimal + excess, optimal + unprojected, optimal)
