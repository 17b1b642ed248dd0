r"""The averaged flow of label-noise SGD as matrix expressions: what ``derive label-noise`` shows, checks, and is integrated.

S = E ggᵀ, β the covariance of the boosts and μ their mean, G = WᵀW and A = ‖a‖² without them, Λ = G + A, Ĥ the inputs'
covariance (see `theory.linear.phases`).
"""

import sympy as sp

from theory.core.matrices import d, m

eta, A = sp.symbols("eta A", positive=True)
R_a = sp.Symbol("R_a")
W, a = sp.MatrixSymbol("W", m, d), sp.MatrixSymbol("a", m, 1)
S, boost, G, R, Lambda = (sp.MatrixSymbol(name, d, d) for name in ("S", "beta", "G", "R", "Lambda"))
inputs = sp.MatrixSymbol(r"\hat{H}", d, d)
target, q, mean, lean, q_W, q_a = (
    sp.MatrixSymbol(name, d, 1) for name in (r"\theta^{*}", "q", r"\mu", "c", "q_W", "q_a")
)
first_boost, second_boost = sp.MatrixSymbol("b", d, 1), sp.MatrixSymbol("b'", d, 1)
rotation = sp.MatrixSymbol("Omega", d, d)
#: Of two modes of $\hat H^{1/2}\Lambda\hat H^{1/2}$: its eigenvalues, and the variances of the boosts along them.
pace_i, pace_j, boost_i, boost_j = sp.symbols("lambda_i lambda_j b_i b_j", positive=True)
_HALF = sp.Rational(1, 2)

#: Mean drift of WWᵀ − aaᵀ over the boosts.
SLOW_DRIFT = -(eta**2) * (W * R * W.T - R_a * a * a.T) + W * lean * a.T + a * lean.T * W.T
#: R and R_a to first order in β.
RATE = S + _HALF * (boost * S + S * boost) - sp.Trace(S) * boost
OTHER_RATE = sp.Trace(S) * (1 + sp.Trace(boost)) - sp.Trace(S * boost)
#: The force q that holds θ = θ*, the mean of the boosts with which θ rests, and what it adds to the drift.
FORCE = eta**2 / 2 * Lambda.I * (R * target + R_a * target)
MEAN = -Lambda.I * (inputs.I * q / eta + 3 * _HALF * boost * target + _HALF * sp.Trace(boost) * target)
LEAN = eta**2 * (sp.Trace(S) * mean - S * mean)
#: The forces on W (along a) and on a (along W), and the rates of G and A, per step.
FIRST_FORCE = q + Lambda.I * G * lean
OTHER_FORCE = q - A * Lambda.I * lean
GRAM_RATE = -(eta**2) / 2 * (R * G + G * R) + target * q_W.T + q_W * target.T
NORM_RATE = -(eta**2) * R_a * A + 2 * sp.Trace(target * q_a.T)
#: Means of G and A over the boosts, from those of the slow manifold.
SEEN_GRAM = G + A * boost + _HALF * (boost * G + G * boost) + target * mean.T + mean * target.T
SEEN_NORM = A * (1 + sp.Trace(boost)) + sp.Trace(boost * G) + 2 * sp.Trace(target * mean.T)
#: Two boosts compose to a boost and a rotation; growth per step of its mean square in the plane of two modes, where it is
#: half the area that boosts sweep; and what rotations of the inputs make of G, in the mean over them.
ROTATION = _HALF * (first_boost * second_boost.T - second_boost * first_boost.T)
SWEPT = 2 * eta * boost_i * boost_j * pace_i * pace_j / (pace_i + pace_j)
MIXING = rotation * G * rotation.T - _HALF * (rotation * rotation.T * G + G * rotation * rotation.T)
