r"""Classification with flipped labels: what any interpolating model fits, and how a linear model gets there.

At every visit a label is replaced, with probability $\tau$, by a class drawn uniformly from all $c$ classes (``any``) or
from the $c-1$ others (``other``). The mean one-hot label is then $p=E\tilde y$ with $p_+$ on the true class and $p_-$ on
the others, its covariance $\mathrm{diag}(p)-pp^\top$. Least squares fits the mean, so a model that can interpolate, linear
or not, reaches the loss against *clean* labels
$$\tfrac1{2c}\{(1-p_+)^2+(c-1)p_-^2\}$$
($\tfrac12$ mean over samples and classes). A linear model that is trained by full-batch steps on fresh flips follows,
in an eigendirection of its kernel with multiplier $\kappa=\eta\lambda/(nc)$, $\delta\leftarrow(1-\kappa)\delta+\kappa\xi$,
with $\delta$ the distance of its output from $p$ and $\xi$ the centred label noise of variance $v$: after T steps the mean is
$(1-\kappa)^T\delta_0$ and the variance $v\kappa\{1-(1-\kappa)^{2T}\}/(2-\kappa)$, for $0<\kappa<2$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step
from theory.core.errors import InputError

tau, kappa, v = sp.symbols("tau kappa v", positive=True)
c = sp.Symbol("c", integer=True, positive=True)
T = sp.Symbol("T", integer=True, nonnegative=True)
REPLACEMENTS = ("any", "other")
REFERENCE = "arXiv:2603.10397, Algorithm 1 and Figure 3; plateau and mode law derived"


@dataclass(frozen=True)
class LabelFlips:
    """The flips of one experiment.

    Attributes:
        probability: τ in [0, 1]. classes: c ≥ 2. replacement: ``any`` (all classes) or ``other`` (Algorithm 1).

    Raises: `InputError` for numbers out of range.
    """

    probability: float
    classes: int = 10
    replacement: str = "other"

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise InputError(f"flip probability is {self.probability!r}: give a number from 0 to 1")
        if self.classes < 2:
            raise InputError(f"classes is {self.classes!r}: give 2 or more")
        if self.replacement not in REPLACEMENTS:
            raise InputError(f"replacement is {self.replacement!r}: use {' or '.join(REPLACEMENTS)}")

    def _number(self, expression: sp.Expr) -> float:
        return float(expression.subs({tau: sp.Rational(self.probability), c: self.classes}))

    @cached_property
    def plateau(self) -> float:
        """Loss against clean labels, ½ mean over samples and classes, of a model that fits the mean label exactly."""
        return self._number(plateau_law(self.replacement))

    def mean_label(self, one_hot: np.ndarray) -> np.ndarray:
        """E ỹ for one-hot labels of any shape (…, c)."""
        right, wrong = (self._number(x) for x in mean_label_law(self.replacement))
        return wrong + (right - wrong) * np.asarray(one_hot, dtype=float)

    def covariance(self, one_hot: np.ndarray) -> np.ndarray:
        """Covariance of ỹ given its true class: diag(p) − ppᵀ, shape (…, c, c)."""
        mean = self.mean_label(one_hot)
        return np.eye(mean.shape[-1]) * mean[..., None, :] - mean[..., :, None] * mean[..., None, :]


def mean_label_law(replacement: str) -> tuple[sp.Expr, sp.Expr]:
    """(p₊, p₋): expected label on the true class and on each other class."""
    draws = c if replacement == "any" else c - 1
    lands_on_truth = 1 / draws if replacement == "any" else sp.Integer(0)
    return sp.simplify(1 - tau + tau * lands_on_truth), tau / draws


def plateau_law(replacement: str) -> sp.Expr:
    """Loss of the mean label against the clean one."""
    right, wrong = mean_label_law(replacement)
    return sp.factor(((1 - right) ** 2 + (c - 1) * wrong**2) / (2 * c))


@lru_cache(maxsize=1)
def variance_law() -> sp.Expr:
    """Variance of δ after T steps from a certain start: Σ_j κ²(1 − κ)^{2j} v."""
    j = sp.Symbol("j", integer=True, nonnegative=True)
    # The ratio stays a symbol during the sum; SymPy would split into cases otherwise.
    ratio = sp.Symbol("q")
    total = sp.summation(ratio**j, (j, 0, T - 1))
    generic = total.args[-1][0] if isinstance(total, sp.Piecewise) else total
    return sp.simplify(kappa**2 * v * generic.subs(ratio, (1 - kappa) ** 2))


@lru_cache(maxsize=1)
def variance_function() -> Callable[..., np.ndarray]:
    """`variance_law` as a NumPy function of (κ, v, T)."""
    return sp.lambdify((kappa, v, T), variance_law(), "numpy")


def derivation(replacement: str = "other") -> Derivation:
    """The mean label, its loss, and the law of one mode, each checked by enumeration or by iterating the recursion."""
    right, wrong = mean_label_law(replacement)
    p_right, p_wrong = sp.symbols("p_+ p_-")
    loss, variance = sp.Symbol("L"), sp.Function(r"\operatorname{Var}")
    law = variance_law()
    equations = {"p_+": right, "p_-": wrong, "L": plateau_law(replacement), r"\operatorname{Var}\delta": law}
    steps = (
        Step(
            "Mean label on the true class",
            sp.Eq(p_right, right),
            lambda shown: _enumerated(replacement, 0) - _at(shown),
        ),
        Step(
            "Mean label on another class", sp.Eq(p_wrong, wrong), lambda shown: _enumerated(replacement, 1) - _at(shown)
        ),
        Step(
            "Loss of the mean label against clean labels",
            sp.Eq(loss, plateau_law(replacement)),
            lambda shown: sp.expand(
                sum((_enumerated(replacement, k) - int(k == 0)) ** 2 for k in range(4)) / 8 - _at(shown)
            ),
        ),
        Step("Variance of a mode after T steps", sp.Eq(variance(sp.Symbol("delta")), law), _iterated),
    )
    assumptions = (Assumption("flips are drawn afresh at every visit"), Assumption("0 < κ < 2 in every mode"))
    return Derivation("label-flips", steps, equations, assumptions, REFERENCE)


def _at(expression: sp.Expr) -> sp.Expr:
    return sp.expand(expression.subs({c: 4}))


def _enumerated(replacement: str, entry: int) -> sp.Expr:
    """E ỹ[entry] for c = 4 and true class 0, by listing what the label can become."""
    choices = range(4) if replacement == "any" else range(1, 4)
    flipped = sum((sp.Integer(int(drawn == entry)) for drawn in choices), sp.Integer(0)) / len(choices)
    return sp.expand((1 - tau) * int(entry == 0) + tau * flipped)


def _iterated(law: sp.Expr) -> sp.Expr:
    """The recursion Var ← (1 − κ)² Var + κ² v, five times, against the law."""
    value: sp.Expr = sp.Integer(0)
    for _ in range(5):
        value = (1 - kappa) ** 2 * value + kappa**2 * v
    return sp.simplify(value - law.subs(T, 5))
