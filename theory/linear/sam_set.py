r"""From which radius SAM on single samples of a training set lets go of its labels.

Small steps hold the labels $y_i=\langle\theta,x_i\rangle$ by chattering about each, the slope of sample i positive in a share
$\frac12(1+\sigma_i)$ of its steps. Of one neuron $W=v^\top$, a, inside θ = av, with $p_i=\langle v,x_i\rangle$,
$D_i^2=p_i^2+a^2|x_i|^2$ and $q_i=\rho^2y_i|x_i|^2/D_i^2$, the means of a step are
$$-n\dot a=\sum_i(\sigma_i\rho D_i+q_i)p_i+(\rho D_i+\sigma_iq_i)\frac{\rho a|x_i|^2}{D_i},\qquad
-n\dot v=\sum_i\Big[(\sigma_i\rho D_i+q_i)a+(\rho D_i+\sigma_iq_i)\frac{\rho p_i}{D_i}\Big]x_i .$$
θ stays where $a\dot v+v\dot a=0$: linear equations in σ, as many as the set has dimensions. Their solution with the least
$\max|\sigma_i|$ is that of a linear program, and of independent samples the only one; a is where it stays too. Labels are
held while $\max|\sigma_i|\le1$ (derived): a convex function of the error, $\sum\rho D_i|\langle e,x_i\rangle|$ and a linear
one, has its least value at e = 0 until then. In fresh samples all σ are ±1 there, as of an error along θ
(`theory.linear.sam.collapse_radius`).
"""

import numpy as np
import scipy

from theory.core.errors import InputError

#: Logarithms of a² over its least value here, ‖θ‖, between which a rests; relative steps of the search, and its error.
_RATIOS, _SEARCH, _CLOSE = (-6.0, 3.0), 1.25, 1e-3
#: Where the search begins and ends, in units of √‖θ‖.
_LEAST, _MOST = 0.05, 5.0
#: Share of θ* that is no part of it.
_NONE = 1e-12


def set_collapse_radius(inputs: np.ndarray, target: np.ndarray) -> float:
    r"""The least ρ at which not all labels of a training set are held by small steps on single samples; ∝ √‖θ*‖.

    Only the part of θ* in the span of the inputs is learned, and is meant. Of some 70 sets of Gaussian inputs (n from d/10
    to 4d for d = 5 to 20, to d for 40) an aligned neuron at its labels was lost from .94 to 1.06 times this on, up to 1.15
    where n ≈ d, where single labels go first (η‖θ*‖ = 10⁻⁴, time 50/‖θ*‖); of six points or fewer a neuron that begins at an
    exact fit, where nothing has a slope, may stay.

    Args: inputs (n, d) of full rank, θ* (d,). Takes 10 ms for n ≤ d, else a second for n d = 2000.
    Raises `InputError` for a target across all inputs.
    """
    basis = np.linalg.svd(inputs, full_matrices=False)[2]
    x, theta = inputs @ basis.T, basis @ target
    size = float(np.linalg.norm(theta))
    if not size > _NONE * np.linalg.norm(target):
        raise InputError(f"the target is across all {len(inputs)} inputs: give one that they see")
    theta = theta / size

    def over(radius: float) -> float:
        rest = scipy.optimize.brentq(lambda z: _held(np.exp(z / 2), theta, x, radius)[1], *_RATIOS, xtol=_CLOSE)
        return _held(np.exp(rest / 2), theta, x, radius)[0] - 1

    low = high = _LEAST
    while over(high) < 0 and high < _MOST:
        low, high = high, high * _SEARCH
    while high > low * (1 + _CLOSE):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if over(middle) >= 0 else (middle, high)
    return float(high * size**0.5)


def _held(a: float, theta: np.ndarray, x: np.ndarray, radius: float) -> tuple[float, float]:
    """The least max |σ| that holds θ at this a, and ȧ with it."""
    v, squares = theta / a, np.sum(x**2, axis=1)
    p = x @ v
    D = np.sqrt(p**2 + a**2 * squares)
    q = radius**2 * a * p * squares / D**2
    # −ȧ = free + turn·σ, −v̇ = xᵀ(still + push σ)
    free, turn = (
        float(np.mean(q * p + radius**2 * a * squares)),
        (radius * D * p + q * radius * a * squares / D) / len(x),
    )
    still, push = (q * a + radius**2 * p) / len(x), (radius * D * a + q * radius * p / D) / len(x)
    matrix, right = a * (push[:, None] * x).T + np.outer(v, turn), -(a * x.T @ still + v * free)
    scale = np.sum(np.abs(matrix), axis=1)
    matrix, right = matrix / scale[:, None], right / scale
    if len(x) <= len(matrix):
        sigma = np.linalg.solve(matrix, right)
    else:
        one, most = np.eye(len(x)), -np.ones((len(x), 1))
        sigma = scipy.optimize.linprog(
            np.append(np.zeros(len(x)), 1.0), np.block([[one, most], [-one, most]]), np.zeros(2 * len(x)),
            np.column_stack([matrix, np.zeros(len(matrix))]), right, [(None, None)] * len(x) + [(0, None)],
        ).x[:-1]  # fmt: skip
    return float(np.abs(sigma).max()), -free - float(turn @ sigma)
