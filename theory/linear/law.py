r"""The averaged flow of label-noise SGD as matrix expressions: what ``derive label-noise`` shows, checks, and is integrated.

S = E ggᵀ, β the covariance of the boosts, G = WᵀW and A = ‖a‖² in the mean over them, Λ = G + A (see
`theory.linear.phases`).
"""

import sympy as sp

from theory.core.matrices import d, m

eta, A = sp.symbols("eta A", positive=True)
R_a = sp.Symbol("R_a")
W, a = sp.MatrixSymbol("W", m, d), sp.MatrixSymbol("a", m, 1)
S, boost, G, R, Lambda = (sp.MatrixSymbol(name, d, d) for name in ("S", "beta", "G", "R", "Lambda"))
target, q = sp.MatrixSymbol(r"\theta^{*}", d, 1), sp.MatrixSymbol("q", d, 1)
_HALF = sp.Rational(1, 2)

#: Mean drift of WWᵀ − aaᵀ over the boosts.
SLOW_DRIFT = -(eta**2) * (W * R * W.T - R_a * a * a.T)
#: R and R_a to first order in β.
RATE = S + _HALF * (boost * S + S * boost) - sp.Trace(S) * boost
OTHER_RATE = sp.Trace(S) * (1 + sp.Trace(boost)) - sp.Trace(S * boost)
#: Rates of G and A at θ = θ*, per step, with the force q that holds θ there.
FORCE = eta**2 / 2 * Lambda.I * (R * target + R_a * target)
GRAM_RATE = -(eta**2) / 2 * (R * G + G * R) + target * q.T + q * target.T
NORM_RATE = -(eta**2) * R_a * A + 2 * sp.Trace(target * q.T)
#: Means of G and A over the boosts, from those of the slow manifold.
SEEN_GRAM = G + A * boost + _HALF * (boost * G + G * boost)
SEEN_NORM = A * (1 + sp.Trace(boost)) + sp.Trace(boost * G)
#: Growth of E ΩΩᵀ in a step: boosts in different directions compose to a rotation.
TURNING = eta**2 / 4 * (sp.Trace(S) * boost + sp.Trace(boost) * S - boost * S - S * boost)
