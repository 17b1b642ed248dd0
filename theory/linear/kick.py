r"""What one step of label-noise SGD leaves of the order parameters, once $W^\top a=\theta_*$ again.

A step is $(W,a)(1-\eta K)$ with $K=\begin{pmatrix}0&g\\g^\top&0\end{pmatrix}$, and the gradient flow multiplies (W, a) by
boosts $e^{K(u)}$, too. So what is linear in g is undone, and there stays $-\tfrac{\eta^2}2(W,a)K^2$ and the boost that brings
$W^\top a$ back, $u=\tfrac{\eta^2}2(G+A)^{-1}(gg^\top+|g|^2)\theta_*$, $G=W^\top W$, $A=|a|^2$: forms $\eta^2g^\top Mg$ of
the gradient, whose covariances over steps ask for its fourth moments. (Derived.)
"""

import numpy as np


def kick_forms(
    first2: np.ndarray, second2: np.ndarray, share: np.ndarray, target2: float, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""M of ln‖W‖²_F, of the share of ‖W‖²_F along θ*, and of ln‖a‖²: its eigenvalue along θ*, and across, (3, …) each.

    Args:
        first2, second2: ‖W‖²_F and ‖a‖². share: of ‖W‖²_F along θ*; θ* is an eigenvector of G, isotropic across it.
        target2, dim: |θ*|² and d, at least 2.
    """
    back = target2 / (share * first2 + second2)  # of the boost: 2⟨θ*, u⟩ is η²·back·(|g|² + (g·θ*)²/|θ*|²)
    across = (1 - share) / (dim - 1)
    along_star = [
        -share + 2 * back / first2,
        (1 - share) * (2 * back / first2 - share),
        2 * back / second2 - 1,
    ]
    across_star = [back / first2 - across, share * across + (1 - share) * back / first2, back / second2 - 1]
    return np.array(along_star), np.array(across_star)
