r"""The best schedule of plain SGD on the linear model (arXiv:2405.15074) with label noise, to first order in the step size.

With $S(t)=\int_t^T\eta$, the step sizes still to come, the risk after T steps is

$$R(T)=\sum_\lambda\lambda C(0)e^{-2\lambda S(0)}+\frac{\sigma^2}b\int_0^T\dot S^2K(S)\,dt,\qquad
K(S)=\sum_\lambda n\lambda^2e^{-2\lambda S}.$$

t does not stand in the integrand alone, so that $\dot S^2K$ is conserved (derived: Euler–Lagrange, or Cauchy–Schwarz):
$\eta\propto1/\sqrt{K(S)}$, at any size of the spectrum, and

$$R(T)=\min_{S_0}\Big[\sum\lambda C(0)e^{-2\lambda S_0}+\frac{\sigma^2}{bT}\Big(\int_0^{S_0}\sqrt K\,dS\Big)^2\Big].$$

For $\lambda_k=k^{-b}$, $\lambda_kw_k^{*2}=k^{-a}$, b > ½, a > b, 1, ever so many of them, that is $\eta\propto(1-t/T)^{2b-1}$,
$S_0\propto T^{b/a}$ and $R\propto T^{-(a-1)/a}$ in the limit. One step size for all T steps pays
$\frac{\sigma^2S_0}{bT}\int_0^{S_0}K\,dS\asymp S_0^{\max(1,1/b)}/T$ (b = 1: and a logarithm) for a signal
$S_0^{-(a-1)/b}$: it reaches $T^{-(a-1)/(a-1+\max(1,b))}$, for b ≤ 1 the exponent of the best.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.declared.inputs import Inputs
from theory.declared.linear_model import LinearModel

#: Points of S, geometric between these ends in units of 1/λ₁ and of 1/λ_L.
_POINTS, _ENDS = 4001, (1e-3, 20.0)


def power_law(dim: int, a: float, b: float, noise: float = 1.0, bins: int = 8) -> LinearModel:
    r"""$\lambda_k=k^{-b}$ and $\lambda_kC_k=k^{-a}$ at the start, k = 1 … dim, in `bins` bins per factor e of λ.

    Raises `InputError` as `Inputs.power_law` does.
    """
    inputs = Inputs.power_law(dim, b, bins)
    counts, k = np.asarray(inputs.multiplicities), np.arange(1, dim + 1, dtype=float)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    eigenvalues = np.asarray(inputs.eigenvalues)
    signal = np.add.reduceat(k**-a, first)
    return LinearModel(eigenvalues, counts.astype(float), noise, signal / eigenvalues)


def signal_left(model: LinearModel, reach: ArrayLike) -> np.ndarray:
    r"""$\sum\lambda C(0)e^{-2\lambda S}$, shape of S."""
    decay = np.exp(-2 * np.asarray(reach, dtype=float)[..., None] * model.eigenvalues)
    return np.asarray(decay @ (model.eigenvalues * model.start))


def noise_kept(model: LinearModel, reach: ArrayLike) -> np.ndarray:
    r"""$K(S)$, shape of S: what of a step's noise is left when step sizes of sum S follow it."""
    decay = np.exp(-2 * np.asarray(reach, dtype=float)[..., None] * model.eigenvalues)
    return np.asarray(decay @ (model.multiplicities * model.eigenvalues**2))


@dataclass(frozen=True, eq=False)
class Optimum:
    """Attributes: risk: R(T). reach: S₀. step_sizes: (T,)."""

    risk: float
    reach: float
    step_sizes: np.ndarray


def least_risk(model: LinearModel, batch: int, steps: int) -> tuple[float, float]:
    """R(T) and S₀ of the minimum above.

    Raises `InputError` without noise, or with next to none: to first order nothing limits the step size.
    """
    place, reach, paid = _minimum(model, batch, steps)
    cost = model.noise**2 / (batch * steps) * float(np.interp(place, reach, paid)) ** 2
    return float(signal_left(model, place)) + cost, place


def best_schedule(model: LinearModel, batch: int, steps: int) -> Optimum:
    """The minimum above with its schedule, at the middle of each step. Raises `InputError` as `least_risk` does."""
    place, reach, paid = _minimum(model, batch, steps)
    whole = float(np.interp(place, reach, paid))
    left = np.interp(whole * (1 - (np.arange(steps) + 0.5) / steps), paid, reach)
    return Optimum(*least_risk(model, batch, steps), whole / steps / np.sqrt(noise_kept(model, left)))


def _minimum(model: LinearModel, batch: int, steps: int) -> tuple[float, np.ndarray, np.ndarray]:
    """S₀, points S and ∫√K up to each, (n,)."""
    check_whole(batch=batch, steps=steps)
    if not model.noise > 0:
        raise InputError("noise is 0: to first order nothing limits the step size; give the model label noise")
    ends = _ENDS[0] / model.eigenvalues.max(), _ENDS[1] / model.eigenvalues.min()
    reach = np.concatenate([[0.0], np.geomspace(*ends, _POINTS)])
    root = np.sqrt(noise_kept(model, reach))
    # Between neighbours √K is nearly a power of S: the trapezium is good to the square of their ratio.
    paid = np.concatenate([[0.0], np.cumsum(np.diff(reach) * (root[1:] + root[:-1]) / 2)])
    gained = np.exp(-2 * reach[:, None] * model.eigenvalues) @ (model.eigenvalues**2 * model.start)
    slope = model.noise**2 / (batch * steps) * paid * root - gained
    beyond = np.flatnonzero(slope > 0)
    if not beyond.size:
        raise InputError(
            f"noise is {model.noise:g}: in {steps} steps the best step sizes have a sum beyond {reach[-1]:.3g}, where "
            "nothing is left of the signal; give more noise or fewer steps"
        )
    first = int(beyond[0])
    return float(np.interp(0.0, slope[first - 1 : first + 1], reach[first - 1 : first + 1])), reach, paid


def exponents(a: float, b: float) -> dict[str, float]:
    """Of T in the limit: ``risk`` and ``reach`` of the best schedule, and of the best single step size (``constant …``).

    At b = 1 the best single step size has a logarithm besides. Raises `InputError` unless b > ½, a > b and a > 1.
    """
    if not (a > b > 0.5 and a > 1):
        raise InputError(f"a is {a:g}, b is {b:g}: the exponents are those of a > b > 1/2, a > 1")
    whole = a - 1 + max(1.0, b)
    return {"risk": -(a - 1) / a, "reach": b / a, "constant risk": -(a - 1) / whole, "constant reach": b / whole}
