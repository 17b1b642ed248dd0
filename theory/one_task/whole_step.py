r"""Mean and variance of one whole step of SGD, to all orders in the step size, by quadrature (derived).

A sample x moves a student $v$, $z=\langle\bar v,x\rangle$, by a part w along itself and q times the rest of x, both over |v|:
$$u'=\frac{(1+w)u+q(x_e-uz)}{L},\qquad L^2=(1+w)^2+q^2(|x|^2-z^2),$$
exactly. A light student of the additive model with the square loss has $w=2\eta f_*\sigma(z)$, $q=\eta f_*\sigma'(z)$; one on
the sphere, $w=0$, `theory.one_task.spherical_step`. The mean of $u'-u$ has an expansion in η
(`theory.one_task.plateau`), whose terms are carried by samples so rare, and so large, that it fails at sizes that can be
simulated: of h4 at d = 64, at a fifth of the step at which growth ends, the second order makes a run a third too long, and the
third order has the wrong sign (d = 400).

Other directions count as Gaussian noise of their variance, $s^2=(A-a^2)E\sigma^2$, $A=\sum_pa_p^2$. A batch of b counts as b
steps of η/b: of the same mean and variance to second order, and each of its samples as rare as it is.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import Chebyshev

from theory.core.activation import Activation
from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.core.quadrature import chi_squared, gauss_hermite
from theory.one_task.diffusion import Diffusion
from theory.one_task.single_task import SingleTask

#: Quadrature nodes in each of the two Gaussians, and in |x_rest|².
_NODES, _RADIAL = 64, 5
#: The same with the noise of other directions, and nodes in that noise.
_NODES_NOISY, _NODES_OTHERS = 32, 8
#: Overlaps at which moments are taken; between them by the polynomial through all of them.
_PLACES = 48


@dataclass(frozen=True)
class WholeStep(Diffusion):
    """The diffusion whose drift and variance are those of one real step, to all orders in the step size.

    Attributes:
        weight: a. step_size: η. total: A, other directions being noise of variance (A − a²) E σ². dim: d.
        amplitude: of the noise; 1 is right (others are controls). batch: b, as so many steps of η/b.

    Raises `InputError` for an activation with a kink, across which the quadrature is off by some per cent, and for d < 3.
    """

    activation: Activation
    weight: float
    step_size: float
    total: float
    dim: int
    amplitude: float = 1.0
    batch: int = 1

    def __post_init__(self) -> None:
        if not self.activation.is_smooth:
            raise InputError(f"activation {self.activation.name!r} is not smooth: whole steps need one without kinks")
        check_whole(3, dim=self.dim)

    @abstractmethod
    def moved(
        self, target: np.ndarray, own: np.ndarray, sigma: np.ndarray, slope: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """w and q over η of samples, from the target's value, z, σ(z) and σ'(z); shapes that broadcast against each other."""

    def coefficients(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drift and diffusion at overlaps of shape (n,): mean and variance of u' − u, over η."""
        if overlap.size <= _PLACES:
            drift, noise = self._at(overlap)
            return drift, self.amplitude**2 * noise
        low, high = float(overlap.min()), float(overlap.max())
        places = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(_PLACES) + 0.5) / _PLACES)
        signal = SingleTask(self.activation).speed
        drift, noise = self._at(places)
        # (What the first order in η has exactly is not interpolated: near 0 it is far smaller than elsewhere.)
        beside, log_noise = (
            Chebyshev.fit(places, values, _PLACES - 1, domain=[low, high])(overlap)
            for values in (drift - signal(places, self.weight), np.log(noise))
        )
        return signal(overlap, self.weight) + beside, self.amplitude**2 * np.exp(log_noise)

    def _at(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same by quadrature at every one of them, with the noise that is right."""
        step = self.step_size / self.batch
        sigma, slope = _numerical(self.activation)
        others = noise_of_others(self.activation, self.weight, self.total)
        points, mass = self.activation.gaussian(_NODES_NOISY if others > 0 else _NODES)
        noise, chance = gauss_hermite(_NODES_OTHERS if others > 0 else 1)
        radius, share = chi_squared(self.dim - 2, _RADIAL)
        weights = mass[:, None, None, None] * mass[:, None, None] * share[:, None] * chance
        x, other, rest = points[:, None, None, None], points[:, None, None], radius[:, None]
        target = self.weight * sigma(x) + others * noise
        mean, square = np.empty_like(overlap), np.empty_like(overlap)
        for place, at in enumerate(overlap.tolist()):
            own = at * x + np.sqrt(1 - at * at) * other
            along, across = (step * y for y in self.moved(target, own, sigma(own), slope(own)))
            square2, kept = across**2 * (x**2 + other**2 - own**2 + rest), 1 + along
            length = np.sqrt(kept**2 + square2)
            # L − (1 + w), written so that a tiny step keeps its digits; a step back beyond 0 turns the student round.
            longer = square2 / (length + np.abs(kept)) + np.maximum(-2 * kept, 0.0)
            change = (across * (x - at * own) - at * longer) / length
            mean[place], square[place] = (float(np.sum(weights * y)) for y in (change, change**2))
        return mean / step, (square - mean**2) / step


@dataclass(frozen=True)
class LightStep(WholeStep):
    """Of a light student of the additive model with the square loss: what it fits is nothing beside the target."""

    def moved(
        self, target: np.ndarray, own: np.ndarray, sigma: np.ndarray, slope: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """2f∗σ and f∗σ', of broadcast shape."""
        return 2 * target * sigma, target * slope


def noise_of_others(activation: Activation, weight: float, total: float) -> float:
    r"""s, standard deviation of the target's part from directions other than the one of weight `weight`; Σa² = `total`."""
    return float(np.sqrt(max(total - weight**2, 0.0) * float(activation.second_moment)))


@lru_cache(maxsize=32)
def _numerical(activation: Activation) -> tuple[Callable, Callable]:
    return activation.arrays(), activation.arrays(1)
