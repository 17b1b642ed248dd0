r"""What fitting the labels makes of the layers, before noise has taken any of them: one boost.

Gradient flow of $a^\top Wx$ leaves $WW^\top-aa^\top$ alone (arXiv:1806.00900), so that it moves $B=[W\ a]$ by Lorentz
transformations only; what follows from it is derived here.
From $W^\top W=gI$ and an $a\perp W$ of squared norm $A_0$, where θ = 0, the one to θ = θ* is the boost by φ along θ*,
$$B\leftarrow B\exp\begin{psmallmatrix}0&\varphi\hat\theta^*\\\varphi\hat\theta^{*\top}&0\end{psmallmatrix},\quad
\sinh2\varphi=\frac{2\|\theta^*\|}{g+A_0},\quad\|a\|^2=A_0\cosh^2\varphi+g\sinh^2\varphi.$$
The start $w_{ij}\sim N(0,1/d)$, $a_i\sim N(0,1/m)$ is not at θ = 0: $g=m/d$, and of $\|a\|^2=1$ the share d/m lies in the span
of W, where it makes θ(0), of mean square 1, which has to be unlearned. To first order in d/m.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fitted:
    r"""The layers at θ = θ*, without noise.

    Attributes:
        moved: the boost less I, (D + 1, D + 1); the last row and column are those of a.
        gram: $W^\top W$, (D, D). norm2: $\|a\|^2$.
        boosted: sinh 2φ.
        unlearned: $E|\theta(0)|^2/(g+A_0)^2$: neuron i has also moved by this times $a_i(0)^2$, in mean square.
    """

    moved: np.ndarray
    gram: np.ndarray
    norm2: float
    boosted: float
    unlearned: float


def fitted(target: np.ndarray, dim: float, width: int) -> Fitted:
    r"""From $w_{ij}\sim N(0,1/d)$, $a_i\sim N(0,1/m)$. Valid for m ≫ d.

    Args: θ* in D ≤ d coordinates, shape (D,), those across it standing for any number of directions; d; m.
    """
    size, norm = len(target), float(np.linalg.norm(target))
    stiffness, outside = width / dim, max(1 - dim / width, 0.0)
    both = stiffness + outside
    boosted = 2 * norm / both
    rapidity = np.arcsinh(boosted) / 2
    line = np.append(target / norm, 0.0)
    side = np.eye(size + 1)[size]
    moved = (np.cosh(rapidity) - 1) * (np.outer(line, line) + np.outer(side, side))
    moved += np.sinh(rapidity) * (np.outer(line, side) + np.outer(side, line))
    boost = np.eye(size + 1) + moved
    joint = boost.T @ np.diag([stiffness] * size + [outside]) @ boost
    return Fitted(moved, joint[:size, :size], float(joint[size, size]), boosted, 1 / both**2)
