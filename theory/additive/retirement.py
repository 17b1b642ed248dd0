r"""When a learned direction may leave the equations, and what leaving it out neglects.

A neuron that sits at $v_l=\sqrt{a_q}\,e_q$ cancels its teacher for all others at every Hermite degree, so the pair may be
taken out of the overlap flow: what is left is the overlap flow of the others, exactly. With light neurons about, the
fitted neuron does not sit there: it follows them so that the sum of its own and their features stays optimal. To first
order in their masses this takes away from their mutual interaction its projection on the tangent space of the fitted
neuron's feature,

$$ \Pi_q(k,k') = \frac{\varphi(t_{kq})\varphi(t_{k'q})}{\varphi(1)}
   + \frac{\varphi'(t_{kq})\varphi'(t_{k'q})}{\varphi'(1)}(c_{kk'}-t_{kq}t_{k'q}). $$

Retiring the pair neglects the force $\sum_{k'}r_{k'}\nabla_{\bar v_k}\Pi_q(k,k')$ on the direction of k, whose length is
bounded here by sums over one index at a time.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import sympy as sp

from theory.additive.exact_points import E, V
from theory.additive.flow import GAUSSIAN, ORTHONORMAL, overlap_drift
from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.indexed import Dual, a, evaluate, r, symmetric_overlap, t
from theory.core.indexed import k as neuron
from theory.core.indexed import l as other
from theory.core.indexed import q as direction
from theory.core.streams import stream

REFERENCE = "arXiv:2504.19983, section 3 (automatic deflation); the response is derived here"
#: The squared-overlap variable of the scalar profiles.
x = sp.Symbol("x", real=True)
_LIGHT = Assumption("unfitted neurons are light: Σ r_k ≪ a_q, so that fitted ones follow them")
_ROUNDING = 1e-11


@dataclass(frozen=True)
class PullBound:
    r"""Scalar profiles with $|\text{neglected force on }k|\le\sum_q\sum_i f_i(t_{kq})\sum_{k'}r_{k'}g_i(t_{k'q})$.

    Attributes:
        force: the $f_i$, expressions in `x`.
        mass: the $g_i$, expressions in `x`.
    """

    force: tuple[sp.Expr, ...]
    mass: tuple[sp.Expr, ...]


def projection() -> sp.Expr:
    r"""$\Pi_q(k,l)$ in indexed symbols and an unspecified kernel."""
    mine, theirs = t[neuron, direction], t[other, direction]
    radial = Dual(mine, 0) * Dual(theirs, 0) / Dual(sp.Integer(1), 0)
    tangent = Dual(mine, 1) * Dual(theirs, 1) / Dual(sp.Integer(1), 1)
    return radial + tangent * (symmetric_overlap(neuron, other) - mine * theirs)


def force() -> sp.Expr:
    r"""$a_q\varphi'(t_{kq})(e_q-t_{kq}\bar v_k)-r_l\varphi'(c_{kl})(\bar v_l-c_{kl}\bar v_k)$, on the direction of k."""
    mine, overlap = t[neuron, direction], symmetric_overlap(neuron, other)
    teacher = a[direction] * Dual(mine, 1) * (E[direction] - mine * V[neuron])
    return teacher - r[other] * Dual(overlap, 1) * (V[other] - overlap * V[neuron])


def pull_bound(activation: Activation) -> PullBound:
    r"""Bound of $|\nabla_{\bar v_k}\Pi_q(k,k')|$, term by term: $|c-tt'|\le\sqrt{(1-t^2)(1-t'^2)}$ by Cauchy–Schwarz, and
    $|\bar v_{k'}-t'e_q|=\sqrt{1-t'^2}$.
    """
    value, slope, curvature = (sp.Abs(activation.kernel_at(x, n)) for n in range(3))
    at_one = [activation.kernel_at(1, n) for n in range(2)]
    across = sp.sqrt(sp.Max(0, 1 - x**2))  # (rounding may carry an overlap past 1)
    return PullBound((slope, slope + curvature * across), (value / at_one[0], slope * across / at_one[1]))


def derivation(activation: Activation) -> Derivation:
    """Cancellation and response as checked steps."""
    steps = (
        Step(
            "Force of a neuron and a teacher on another neuron: none once the neuron is fitted to the teacher",
            equation(r"\mathbf{F}_k", force()),
            lambda shown: _cancellation_residual(activation) + _force_residual(activation, shown),
            activation.check_tolerance,
        ),
        Step(
            "With light neurons about it follows them: their interaction loses its tangent projection",
            equation(r"\Pi_q(k,l)", projection()),
            lambda shown: _projection_residual(activation, shown),
            _ROUNDING * float(activation.second_moment),
        ),
    )
    assumptions = (GAUSSIAN, ORTHONORMAL, _LIGHT)
    return Derivation("retirement", steps, {r"\Pi_q(k,l)": projection()}, assumptions, REFERENCE)


def _cancellation_residual(activation: Activation) -> sp.Expr:
    """The derived drift of another neuron's overlaps and norm, with the fitted pair and without it."""
    one, zero = sp.Integer(1), sp.Integer(0)
    seen, free, weight, norm = sp.Rational(2, 7), sp.Rational(3, 7), sp.Rational(4, 5), sp.Rational(1, 10)
    alone = {"t": [[free]], "c": [[one]], "r": [norm], "a": [sp.Rational(3, 5)]}
    pair = {
        "t": [[free, seen], [zero, one]],
        "c": [[one, seen], [seen, one]],
        "r": [norm, weight],
        "a": [sp.Rational(3, 5), weight],
    }
    difference = zero
    for component, sums in overlap_drift().items():
        with_pair, without = (
            evaluate(sums, tuple(component.indices), arrays, activation.kernel_at).ravel()[0]
            for arrays in (pair, alone)
        )
        difference += sp.Abs(sp.N(with_pair - without, 50))
    return difference


def _force_residual(activation: Activation, shown: sp.Expr) -> sp.Expr:
    """The force along another teacher, against what a pair that is not fitted adds to the derived drift; and 0 if it is."""
    one, rational = sp.Integer(1), sp.Rational
    mine, theirs = (rational(2, 7), rational(3, 7), rational(6, 7)), (rational(2, 3), rational(1, 3), rational(2, 3))
    seen, size, weights = (
        sum(x * y for x, y in zip(mine, theirs, strict=True)),
        rational(2, 5),
        (rational(3, 5), rational(4, 5)),
    )
    pair = {"t": [mine[:2], theirs[:2]], "c": [[one, seen], [seen, one]], "r": [rational(1, 10), size], "a": weights}
    alone = {"t": [mine[:1]], "c": [[one]], "r": [rational(1, 10)], "a": weights[:1]}
    with_pair, without = (
        evaluate(overlap_drift()[t[neuron, direction]], (neuron, direction), arrays, activation.kernel_at)[0, 0]
        for arrays in (pair, alone)
    )
    number = {
        a[direction]: weights[1],
        r[other]: size,
        t[neuron, direction]: mine[1],
        symmetric_overlap(neuron, other): seen,
    }
    along = {E[direction]: sp.Integer(0), V[neuron]: mine[0], V[other]: theirs[0]}
    fitted = {r[other]: a[direction], symmetric_overlap(neuron, other): t[neuron, direction], V[other]: E[direction]}
    found = shown.xreplace(number | along).replace(Dual, activation.kernel_at)
    return sp.Abs(sp.N(with_pair - without - found, 50)) + sp.Abs(sp.expand(shown.xreplace(fitted)))


def _projection_residual(activation: Activation, shown: sp.Expr) -> sp.Expr:
    """Against features as explicit tensors in three dimensions: least squares on the tangent space at e_q.

    Two Hermite degrees stand in for an activation with more, or with high ones.
    """
    lowest = sorted(degree for degree in activation.coefficients if degree > 0)[:2]
    stand_in = Activation.from_coefficients({i: activation.coefficients[i] for i in lowest if i <= max(6, lowest[0])})
    weights = {i: float(value) for i, value in stand_in.coefficients.items()}
    rng = stream(0, "retirement", "residual")
    first, second = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    frame = np.eye(3)
    radial, *features = (_power(weights, v) for v in (frame[0], first, second))
    tangent = [_slope(weights, frame[0], w) for w in frame[1:]]
    basis, _ = np.linalg.qr(np.stack([radial, *tangent]).T)
    mine, theirs = (basis.T @ feature for feature in features)
    numbers = {
        t[neuron, direction]: first[0],
        t[other, direction]: second[0],
        symmetric_overlap(neuron, other): first @ second,
    }
    return sp.Float(shown.xreplace(numbers).replace(Dual, stand_in.kernel_at) - mine @ theirs)


def _power(weights: dict[int, float], v: np.ndarray) -> np.ndarray:
    """The feature of a neuron: σ̂_i v^{⊗i} over all degrees i, one after the other."""
    return np.concatenate([weight * np.ravel(_outer([v] * degree)) for degree, weight in weights.items()])


def _slope(weights: dict[int, float], v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Its derivative at v along w: one factor is exchanged at a time."""
    parts = []
    for degree, weight in weights.items():
        exchanged = [[w if slot == place else v for slot in range(degree)] for place in range(degree)]
        parts.append(weight * np.ravel(sum(_outer(vectors) for vectors in exchanged)))
    return np.concatenate(parts)


def _outer(vectors: list[np.ndarray]) -> np.ndarray:
    return np.asarray(reduce(np.multiply.outer, vectors))
