r"""The linear model on a fixed data set: where gradient descent ends, exactly in the mean over data sets of any size.

$y=\langle w^*,x\rangle+\varsigma\xi$, $x\sim N(0,\lambda I_d)$, n samples, gradient descent on their mean loss
from $w_0$ to its end: the interpolant nearest to $w_0$, or least squares. The projector on the samples' span is
$\min(n/d,1)$ in the mean, $E\,\mathrm{tr}(XX^\top)^{-1}=n/(\lambda(d-n-1))$ for n < d, and for n > d that of $X^\top X$
is the same with n and d exchanged (inverse Wishart matrices), so that

$$2E\,\mathcal L=\lambda\|w_0-w^*\|^2\Big(1-\frac nd\Big)_++\varsigma^2\frac{\min(n,d)}{|n-d|-1},$$

and of the noise the samples keep $2E\,\mathcal L_{train}=\varsigma^2(1-d/n)_+$. On the way the mean of
$(1-\eta X^\top X/n)^t$ is $(1-\eta\lambda)^t+\binom t2(\eta\lambda)^2(1-\eta\lambda)^{t-2}\frac{d+1}n+O(n^{-2})$:
that of fresh samples, and what n lack.

Source: arXiv:1903.08560 (limit n, d → ∞); finite sizes derived.
"""

from dataclasses import dataclass
from math import comb, inf

from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.declared.linear_model import LinearModel


@dataclass(frozen=True)
class Fitted:
    r"""Means over data sets.

    Attributes:
        loss, train_loss: of the population and of the samples, ½ mean squared errors. found: share of the way from $w_0$ to
            $w^*$, of the mean end.
    """

    loss: float
    train_loss: float
    found: float


def fitted(linear: LinearModel, samples: int) -> Fitted:
    """The end of gradient descent on `samples` n. The loss is inf within one of n = d, where there is noise.

    Raises `InputError` for inputs of several eigenvalues, and unless n is a whole number from 1.
    """
    value, dim = _isotropic(linear)
    check_whole(samples=samples)
    found = min(samples / dim, 1.0)
    few, apart = min(samples, dim), abs(samples - dim) - 1
    variance = linear.noise**2
    amplified = variance * (few / apart if apart > 0 else inf) if variance else 0.0
    unseen = value * float(linear.start.sum()) * (1 - found)
    return Fitted((unseen + amplified) / 2, variance * max(0.0, 1 - dim / samples) / 2, found)


def found_by(linear: LinearModel, step_size: float, steps: int) -> tuple[float, float]:
    r"""`found` after t steps of gradient descent: with fresh samples or $n=\infty$, and its first correction times n.

    Raises `InputError` for inputs of several eigenvalues.
    """
    value, dim = _isotropic(linear)
    left, move = 1 - step_size * value, step_size * value
    return 1 - left**steps, -comb(steps, 2) * move**2 * left ** max(steps - 2, 0) * (dim + 1)


def _isotropic(linear: LinearModel) -> tuple[float, int]:
    if len(linear.eigenvalues) > 1:
        raise InputError(
            f"inputs have {len(linear.eigenvalues)} eigenvalues: the end on a fixed data set is known for one; make them "
            "isotropic"
        )
    return float(linear.eigenvalues[0]), int(linear.multiplicities[0])
