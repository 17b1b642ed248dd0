r"""When the deterministic equivalent of kernel ridge regression holds: what pairs of samples add to the risk.

In orthonormal harmonics φ(x), with the equivalent's κ and the share $u_k=\xi_k/(\xi_k+\kappa)$ of degree k that is learned, a
fit leaves $f_*-\hat f=\sum_m(-1)^m(u\Delta)^m(1-u)f_*$, $\Delta=\frac1n\sum_i\varphi(x_i)\varphi(x_i)^\top-1$. In the mean of
its square the equivalent has all products in which samples are nested. The first that are not go twice from one sample to
another and back, i, j, i, j. There are five, by how many of the four factors each of the two residuals has, and where u
is 1 they add to the risk, beside itself,
$$\frac5{n^2}\,E\big[g(s)^3Q_k(s)\big],\qquad g(s)=\sum_ku_kB_kQ_k(s),$$
s the cosine of two inputs (derived; what else a finite n does is −3/n there, and $9/n^2$ for every harmonic that is learned).
In few dimensions g is high where two samples are near, and these five are the most of it where all degrees of the target are
learned and many of the kernel's. A degree that is not learned leaves its energy whatever pairs do: it counts by $u_k^3$. (What
u < 1 does to the five is measured, not derived.)

Of 191 regressions (five kernels, six targets, d = 4 to 200, n = 20 to 3000, ridges $10^{-6}$ to .3; tens to hundreds of
training sets each) 45 have a mean that is off by a tenth and 1.5 of its errors or more, up to 25 times the risk: `pairs` is
above .1 for all of them. Of the 117 that are within a tenth by an error it is above .1 for 4, up to .2.

What is not learned (1 − u of its energy) acts as noise on the labels, of which a fit takes the trace of $(1+\Delta)^{-1}/n$:
in that the same pairs add $\frac1{n^2}E\,g^4$, and what is nested between them makes that larger, by about the square of
$(1-\frac1n\sum_kB_ku_k^2)^{-1}$ (which power, and the limit, are measured, not derived). It is most where n is little above
the harmonics that are learned. Of some 350 regressions at 1 to 1.6 times as many samples as harmonics up to degree 1, 2 or 3
(seven kernels, d = 4 to 59; 300 training sets each) with `pairs` below .1, 51 have a mean that is above the risk by a
tenth and 1.5 of its errors, up to three times the risk: `noise` is above its limit for 49 of them, and for 26 of the 156 that
are within a tenth and known to .06.
"""

import numpy as np

from theory.baselines import gegenbauer
from theory.baselines.kernel_ridge import DEGREES, KernelRidge
from theory.prediction.validity import Condition

#: Share of the risk that pairs may add to it; size of what they add by noise.
MOST, NOISE = 0.1, 0.5
_SENTENCE = (
    "pairs: samples that are near to one another, which the equivalent leaves out, add {:.2g} of it to leading order: "
    "the mean may be far above"
)
_NOISY = (
    "noise: what is not learned acts as noise, and where few samples are beyond those that the rest takes, which makes {:.2g} "
    f"(of {NOISE:g}), the mean may be far above: give more samples or another ridge"
)


def conditions(problem: KernelRidge, samples: float) -> tuple[Condition, ...]:
    """What must hold for `KernelRidge.risk` to be within some tenth of the mean over training sets (of one sample: none)."""
    return () if samples == 1 else (pairs(problem, samples), noise(problem, samples))


def noise(problem: KernelRidge, samples: float) -> Condition:
    r"""That what pairs of samples add by way of what is not learned is small: $E\,g^4/n^3$ by $(1-\sum_kB_ku_k^2/n)^2$."""
    learned = _learned(problem, samples)
    left = problem.energies * (1 - learned) ** 2
    cosines, chances = gegenbauer.gauss(2 * DEGREES + 1, problem.dim)
    near = (learned * problem.multiplicities) @ gegenbauer.values(cosines, DEGREES, problem.dim)
    free = 1 - float(problem.multiplicities @ learned**2) / samples
    added = float(left @ (1 - learned) / left.sum() * (chances @ near**4)) / samples**3 / free**2
    return Condition("noise", added <= NOISE, added, NOISE, _NOISY.format(added))


def _learned(problem: KernelRidge, samples: float) -> np.ndarray:
    """u, (DEGREES + 1,)."""
    return np.asarray(problem.eigenvalues / (problem.eigenvalues + problem.resolution(samples)))


def pairs(problem: KernelRidge, samples: float) -> Condition:
    """That what pairs of samples add to `KernelRidge.risk` is small beside it."""
    resolution, learned = problem.resolution(samples), _learned(problem, samples)
    missed = resolution / (problem.eigenvalues + resolution)
    # (g³Q_k is of degree 4 `DEGREES` at most.)
    cosines, chances = gegenbauer.gauss(2 * DEGREES + 1, problem.dim)
    harmonics = gegenbauer.values(cosines, DEGREES, problem.dim)
    near = (learned * problem.multiplicities) @ harmonics
    left = problem.energies * missed**2
    added = float(5 / samples**2 * (left * learned**3) @ (harmonics @ (chances * near**3)) / left.sum())
    return Condition("pairs", added <= MOST, added, MOST, _SENTENCE.format(added))
