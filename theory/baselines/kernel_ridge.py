r"""Kernel ridge regression with an inner-product kernel on the additive target: what it learns from n samples.

Inputs are uniform on the sphere of radius $\sqrt d$, labels $f_*(x)=\sum_pa_p\sigma(\langle e_p,x\rangle)$ without noise, the
kernel $K(x,y)=k(\langle x,y\rangle/d)$. Both are diagonal in the degree of spherical harmonics
(`theory.baselines.gegenbauer`): $k=\sum_kw_kQ_k$ has the eigenvalue $\xi_k=w_k/B_k$, $B_k$ times; $f_*$ has the energy
$F_k^2$ at degree k. The estimator $\hat f=\sum_i\alpha_iK(x_i,\cdot)$, $(K+\lambda)\alpha=y$, has the deterministic
equivalent (Canatar, Bordelon, Pehlevan 2021; Misiakiewicz and Saeed, arXiv:2403.08938, whose bound on the relative error
falls like $n^{-1/2}$ up to logarithms) $$E\|\hat
f-f_*\|^2\simeq\frac{\sum_kF_k^2\big(\frac\kappa{\xi_k+\kappa}\big)^2}{1-\frac1n\sum_kB_k\big(\frac{\xi_k}
{\xi_k+\kappa}\big)^2},\qquad n=\sum_kB_k\frac{\xi_k}{\xi_k+\kappa}+\frac\lambda\kappa.$$ With $B_k\simeq d^k/k!$ that is a
staircase: degree k is learned at $n\sim d^k$, however few directions carry it (arXiv:2504.19983 and slides: kernels do not
adapt to low-dimensional structure). On the sphere a Hermite polynomial has parts of lower degree too, of relative size
$O(1/d)$: they are in $F_k^2$, exactly.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import sympy as sp

from theory.baselines import gegenbauer
from theory.core.activation import Activation
from theory.core.activation import c as cosine
from theory.core.arguments import check_positive
from theory.core.errors import InputError
from theory.core.teacher import Teacher

#: Degrees of the kernel that are kept apart; what is beyond acts as a ridge.
DEGREES = 40
#: Shares of k(1): below the one a weight may be rounding, the other is what weights and their sum may be off by.
_ROUNDING, _SLACK = 1e-14, 1e-6
EXPONENTIAL = "exp"


@dataclass(frozen=True)
class Kernel:
    r"""An inner-product kernel $k(s)=\sum_jc_js^j$, $c_j\ge0$, s the cosine of two inputs.

    Attributes: name; expression in `theory.core.activation.c`.
    """

    name: str
    expression: sp.Expr

    @classmethod
    def parse(cls, text: str) -> "Kernel":
        """``exp`` for $e^s$, or an activation: its dual kernel φ, the limit of infinitely many random features.

        Raises `InputError` for a text that is neither.
        """
        if text.strip() == EXPONENTIAL:
            return cls(EXPONENTIAL, sp.exp(cosine))
        activation = Activation.parse(text)
        return cls(activation.name, activation.dual)

    @cached_property
    def in_the_disc(self) -> Callable[[np.ndarray], np.ndarray]:
        """k as a NumPy function of s, real or complex, |s| ≤ 1."""
        compiled = sp.lambdify(cosine, self.expression, modules=["scipy", "numpy"])
        return lambda s: compiled(s) + 0.0 * s

    def function(self, cosines: np.ndarray) -> np.ndarray:
        """k(s), of the shape of s; rounding beyond ±1 is cut off."""
        return self.in_the_disc(np.clip(cosines, -1.0, 1.0))

    @cached_property
    def trace(self) -> float:
        """k(1), what an input has with itself."""
        return float(self.function(np.ones(1))[0])


@dataclass(frozen=True)
class KernelRidge:
    r"""Kernel ridge regression of one target.

    Attributes:
        activation, teacher: the target; d is the teacher's. kernel: k. ridge: λ > 0, added to the diagonal of K.

    Raises `InputError` for an activation that is no polynomial, d < 3, a d with more harmonics of the last degree than there
    are doubles for, a ridge that is not positive and finite, or a kernel that is not positive on the sphere.
    """

    activation: Activation
    teacher: Teacher
    kernel: Kernel
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        gegenbauer.check_dim(self.teacher.dim)
        if gegenbauer.multiplicity(self.dim, DEGREES) > sys.float_info.max:
            raise InputError(f"dim is {self.dim}: its harmonics of degree {DEGREES} cannot be counted: lower it")
        self.activation.require_polynomial("the target, whose degrees on the sphere must be exact,")
        check_positive(ridge=self.ridge)
        found, whole = self._projected, self.kernel.trace
        if not (found.min() >= -_SLACK * whole and found.sum() <= (1 + _SLACK) * whole):
            raise InputError(
                f"kernel is {self.kernel.name!r}: with k(1) = {whole:.3g} the sum of its weights is {found.sum():.3g} "
                f"and the least {found.min():.3g}; give a power series with coefficients of 0 or more"
            )

    @property
    def dim(self) -> int:
        return self.teacher.dim

    @cached_property
    def multiplicities(self) -> np.ndarray:
        """$B_k$, shape (DEGREES + 1,)."""
        return np.array([float(gegenbauer.multiplicity(self.dim, k)) for k in range(DEGREES + 1)])

    @cached_property
    def _projected(self) -> np.ndarray:
        return gegenbauer.project(self.kernel.in_the_disc, DEGREES, self.dim)

    @property
    def kernel_weights(self) -> np.ndarray:
        """$w_k\\ge0$ of the kernel, shape (DEGREES + 1,); what may be rounding is 0."""
        return np.where(self._projected > _ROUNDING * self.kernel.trace, self._projected, 0.0)

    @property
    def eigenvalues(self) -> np.ndarray:
        r"""$\xi_k$, shape (DEGREES + 1,)."""
        return self.kernel_weights / self.multiplicities

    @cached_property
    def effective_ridge(self) -> float:
        """λ and the kernel's weight beyond `DEGREES`, which no number of samples resolves."""
        return self.ridge + max(self.kernel.trace - float(self.kernel_weights.sum()), 0.0)

    @cached_property
    def target_weights(self) -> np.ndarray:
        r"""$\sigma(\sqrt d\,s)=\sum_kg_kQ_k(s)$: $g_k$, shape (DEGREES + 1,), zero beyond the activation's degree."""
        degrees = list(self.activation.coefficients)
        values = np.array([float(value) for value in self.activation.coefficients.values()])
        return np.asarray(values @ gegenbauer.hermite(DEGREES, self.dim)[degrees])

    @cached_property
    def energies(self) -> np.ndarray:
        r"""$F_k^2=\frac{g_k^2}{B_k}\sum_{pq}a_pa_qQ_k(\delta_{pq})$, shape (DEGREES + 1,)."""
        a = self.teacher.a
        across = gegenbauer.values(np.zeros(()), DEGREES, self.dim)
        pairs = np.sum(a**2) + (np.sum(a) ** 2 - np.sum(a**2)) * across
        return self.target_weights**2 / self.multiplicities * pairs

    @property
    def total(self) -> float:
        """E f_*²: the mean squared error of knowing nothing."""
        return float(self.energies.sum())

    # ---------------------------------------------------------------- prediction

    def resolution(self, samples: float) -> float:
        r"""κ for n samples: $n=\sum_kB_k\xi_k/(\xi_k+\kappa)+\lambda/\kappa$."""
        check_positive(samples=samples)

        def balance(y: float) -> float:
            excess = float(np.sum(self.kernel_weights / (self.eigenvalues + np.exp(y))))
            return float(excess + self.effective_ridge * np.exp(-y) - samples)

        top = np.log((self.kernel_weights.sum() + self.effective_ridge) / samples) + 1.0
        bottom = np.log(self.effective_ridge / samples) - 1.0
        return float(np.exp(scipy.optimize.brentq(balance, bottom, top, xtol=1e-13)))

    def risk(self, samples: float) -> float:
        r"""Predicted mean squared error $E\|\hat f-f_*\|^2$ (twice the toolkit's loss).

        Of one sample it is exact: $\hat f=f_*(x)K(x,\cdot)/s$, $s=k(1)+\lambda$, leaves
        $\sum_kF_k^2(1-2\xi_k/s)+E f_*^2\sum_k\xi_kw_k/s^2$ (derived).
        The mean over training sets lies above it: where samples are many beside what is learned by some 1/n, or 8/n where half
        of the last degree is (measured in d = 8 and 12; docs/baselines.md); else by what `theory.baselines.sample_pairs` says.
        """
        kappa = self.resolution(samples)
        xi = self.eigenvalues
        if samples == 1:
            share = xi / (self.kernel.trace + self.ridge)
            return float(self.energies @ (1 - 2 * share) + self.total * (share @ (share * self.multiplicities)))
        degrees_of_freedom = float(np.sum(self.multiplicities * (xi / (xi + kappa)) ** 2))
        bias = float(np.sum(self.energies * (kappa / (xi + kappa)) ** 2))
        return bias / (1 - degrees_of_freedom / samples)

    def staircase(self, samples: float) -> float:
        r"""The asymptotic picture: every degree of the kernel with fewer than n harmonics (all its degrees up to it) learned,
        no other. What is left of degrees that it does not have acts as noise, which `risk` counts and this does not.
        """
        check_positive(samples=samples)
        own = self.kernel_weights > 0
        learned = own & (np.cumsum(np.where(own, self.multiplicities, 0.0)) <= samples)
        return float(self.energies[~learned].sum())

    def samples_to(self, risk: float) -> float:
        """The largest n with at least this predicted mean squared error (risk falls beyond it); `InputError` if none."""
        largest = 1e3 * float(np.sum(self.multiplicities[: self.activation.degree + 1]))
        grid = np.geomspace(1.0, largest, 100)
        above = np.flatnonzero([self.risk(n) >= risk for n in grid])
        if above.size == 0 or above[-1] == grid.size - 1:
            raise InputError(f"risk is {risk:g}: it is not crossed below {largest:.3g} samples, give another")
        first, last = grid[above[-1]], grid[above[-1] + 1]
        return float(scipy.optimize.brentq(lambda n: self.risk(n) - risk, first, last))
