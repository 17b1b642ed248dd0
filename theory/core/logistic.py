r"""tanh and its like as mixtures of error functions, whose Gaussian integrals are closed.

A logistic variable is 2K times a standard Gaussian, K of Kolmogorov's law (Andrews and Mallows 1974, doi:10.1111/j.2517-6161.
1974.tb00989.x), so that

$$\tanh z=E\,\mathrm{erf}\frac z{\sqrt2K},\qquad\ln\cosh z=E\int_0^z\mathrm{erf}\frac{u}{\sqrt2K}du.$$

The Gauss rule of ln K with ten nodes is tanh to $2\cdot10^{-8}$ everywhere and its derivative to $8\cdot10^{-8}$; Gaussian
means of both are nearer (measured).
"""

from functools import cache

import numpy as np
import scipy
import sympy as sp

from theory.core.derivation import Step
from theory.core.hermite import z
from theory.core.quadrature import Rule, of_measure

#: Error of the rule anywhere (measured, rounded up).
_ERROR = 2e-8
#: Nodes; steps and ends of the grid in ln K, beyond which its density is below rounding.
_NODES, _STEPS, _ENDS = 10, 4000, (-2.2, 1.5)


@cache
def slopes() -> Rule:
    r"""Slopes b and weights w (10,) of $\tanh z=\sum w\,\mathrm{erf}(bz)$, the weights positive and of sum one."""
    places = np.linspace(*_ENDS, _STEPS)
    values = np.exp(places)
    nodes, weights = of_measure(places, scipy.stats.kstwobign.pdf(values) * values, _NODES)
    return np.exp(-nodes) / np.sqrt(2), weights / weights.sum()


def step() -> Step:
    r"""$\tanh z=E_\beta\,\mathrm{erf}(\beta z)$ as a step of a derivation, checked at the nodes of `slopes`."""
    beta = sp.Symbol("beta", positive=True)
    mean = sp.Function("E_beta")(sp.erf(beta * z))
    return Step("A mean over a random slope β", sp.Eq(sp.tanh(z), mean), _residual, _ERROR)


def _residual(claim: sp.Expr) -> sp.Float:
    (inner,) = claim.args
    (beta,) = inner.free_symbols - {z}
    places, (nodes, weights) = np.linspace(-6.0, 6.0, 97), slopes()
    mean = sp.lambdify((beta, z), inner, modules=["scipy", "numpy"])(nodes, places[:, None]) @ weights
    return sp.Float(np.abs(mean - np.tanh(places)).max())
