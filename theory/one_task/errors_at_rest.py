r"""How errors of a row that rests along a direction feed each other, step by step, in the mean of their squares.

By $\delta\leftarrow\delta-\eta gg^\top\delta$, g the gradients of one sample, the second moments of the error have a part R
across the row, and $A=E\,aa^\top$ of the parts along it (and of a second layer), φ their gradients. With $G=E\varphi
\varphi^\top$, $h=b^2E\sigma'^2$ and $\delta^2=b^2\sigma'^2R+\varphi^\top A\varphi$ what one sample adds to what relaxes is
$$2hR=\eta\,b^2\big(T\,E\sigma'^2\delta^2+2\bar\lambda\,b^2E\sigma'^4R\big),\qquad GA+AG=\eta\,E\varphi\varphi^\top\delta^2,$$
T the trace of the inputs' covariance across the row, $\bar\lambda$ that along the error itself. In a batch of B samples this
counts 1/B, and the mean step 1 − 1/B, which adds $\eta h^2R$ and $\eta\,GAG$. Mean squares grow from the step size on that is
one over the largest eigenvalue. Exact for a single row, isotropic inputs and labels without noise (derived).
"""

import numpy as np

#: Rates below this share of the largest are none.
_ROUNDING = 1e-12


def errors_at_rest(
    mass: np.ndarray, slope: np.ndarray, along: np.ndarray, square: float, trace: float, itself: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""The loop of one sample and of the mean step, (k, k) each, over η, and the rates (k,): of R, then of A by G's axes.

    Args: mass, slope: (n,) weights of points of the row's field, and σ' there. along: φ (r, n). square: b². trace: T.
        itself: λ̄ over the variance of an input.
    """
    rates, axes = np.linalg.eigh((along * mass) @ along.T)
    there = rates > _ROUNDING * rates.max(initial=0.0)  # (of relu, trained, the two along are one)
    rates, own = rates[there], axes[:, there].T @ along
    across = square * float(mass @ slope**2)
    seen = np.concatenate([square * slope[None] ** 2, (own[:, None] * own).reshape(-1, mass.size)])
    relaxing = np.append(2 * across, rates[:, None] + rates)
    one = (seen * mass) @ seen.T / relaxing[:, None]
    one[0] *= np.append(trace + 2 * itself, np.full(len(one) - 1, trace))
    return one, np.diag(np.append(across**2, np.outer(rates, rates)) / relaxing), relaxing / 2
