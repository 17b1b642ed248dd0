r"""The idealised staircase loss and its power laws (arXiv:2504.19983, Theorem 2.1d, Proposition 2.2, Corollary 2.3).

$\mathcal L_{id}(t)=\tfrac12\varphi(1)\sum_pa_p^2\,1\{t<T_p\}$: a fitted neuron cancels its teacher exactly, so the loss
is what the unlearned directions leave. With a mean, $\varphi(0)\ne0$, these see each other, and a set S of them leaves
$\tfrac12[(\varphi(1)-\varphi(0))\sum_Sa^2+\varphi(0)(\sum_Sa)^2]$, as long as the other students stay light: a mean makes
them grow before they find anything, so that it does not last (`theory.prediction.validity`).
Without a mean, with $a_p\propto p^{-\beta}$, $\beta>\tfrac12$, and $T_p\propto p^\beta$ the stairs add up to power laws.
"""

from functools import cache, partial

import numpy as np
import sympy as sp

from theory.additive import flow as additive
from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.indexed import Index, Sums, Term, a, evaluate
from theory.scaling.loss_sums import LossSum

beta, kappa, x, width, speed, samples, compute, learned = sp.symbols("beta kappa x m tau n C p", positive=True)
J = sp.Symbol("J", positive=True)
_UNLEARNED = Index("p", sp.Symbol("U", integer=True, positive=True))
REFERENCE = "arXiv:2504.19983, Theorem 2.1(d), Proposition 2.2, Corollary 2.3, section 2.4"


def staircase(
    times: np.ndarray, emergence: np.ndarray, weights: np.ndarray, second_moment: float, squared_mean: float = 0.0
) -> np.ndarray:
    """L_id at `times`; `emergence` may hold inf for directions never learned. The value at T_p is that after the jump.

    `emergence` and `weights`: (P,); the result has the shape of `times`.
    """
    return LossSum.of(weights, emergence, second_moment, squared_mean)(times)


@cache
def tail() -> sp.Expr:
    r"""$\int_p^\infty s^{-2\beta}ds = p^{1-2\beta}/(2\beta-1)$, the loss left after p directions (up to ½φ(1)/Z²)."""
    steep = sp.Symbol("gamma", positive=True)  # 2β = 1 + γ, so that SymPy knows the integral converges
    antiderivative = sp.integrate(x ** (-1 - steep), x)
    value = sp.limit(antiderivative, x, sp.oo) - antiderivative.subs(x, learned)
    return sp.powsimp(value.subs(steep, 2 * beta - 1))


def exponent_in(expression: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    r"""$d\ln f/d\ln x$ of an expression f in x."""
    return sp.cancel(sp.powsimp(variable * sp.diff(expression, variable) / expression))


@cache
def compute_exponent(samples: sp.Expr | int = kappa) -> sp.Expr:
    r"""$\frac{1-2\beta}{1+\kappa\beta}$: compute $m\,t^\kappa$, m = p(t), is $p^{1+\kappa\beta}$; κ = 2: re-tuned steps."""
    return exponent_in(tail().subs(learned, compute ** (1 / (1 + samples * beta))), compute)


#: What each exponent is in, in words.
NAMES = {
    "time": "time",
    "width": "width",
    "samples_unstable": "samples at re-tuned steps",
    "compute": "compute",
    "compute_unstable": "compute at re-tuned steps",
}


@cache
def scaling_exponents() -> dict[str, sp.Expr]:
    r"""Exponents of the loss, by algebra from the tail: p(t) ∝ t^{1/β}, p ≤ m, C = m t, and η ∝ a_p.

    ``time`` (1−2β)/β, ``width`` 1−2β, ``samples_unstable`` (1−2β)/(2β), ``compute`` (1−2β)/(1+β).
    """
    number_learned = speed ** (1 / beta)
    time = exponent_in(tail().subs(learned, number_learned), speed)
    by_width = exponent_in(tail().subs(learned, width), width)
    # Step η ∝ a_p re-tuned per horizon: n = T_p/η ∝ p^{2β}.
    by_samples = exponent_in(tail().subs(learned, samples ** (1 / (2 * beta))), samples)
    return {"time": time, "width": by_width, "samples_unstable": by_samples, "compute": compute_exponent(1)}


def exponent_values(decay: float | None, activation: Activation) -> dict[str, float | None]:
    """The exponents as numbers; None where they do not apply.

    That is without a power law, for β ≤ ½, an information exponent below 3, or an activation with a mean.
    """
    centred = activation.squared_mean == 0
    applies = decay is not None and decay > 0.5 and activation.information_exponent >= 3 and centred
    return {
        name: float(value.subs(beta, sp.Rational(str(decay)))) if applies else None
        for name, value in scaling_exponents().items()
    }


def derivation(activation: Activation) -> Derivation:
    """``derive ideal-loss``. Raises `InputError` unless the activation meets Assumption 2.1 (even, exponent ≥ 4)."""
    activation.require_even("Theorem 2.1 (the staircase loss)")
    activation.require_exponent(4, "Theorem 2.1 (the staircase loss)")
    activation.require_centred("Theorem 2.1 (the staircase loss)")
    steps = [
        Step(
            "With U directions still unlearned (those counted here) and the others fitted, the loss is what they leave",
            equation(r"\mathcal{L}", activation.second_moment / 2 * Term(a[_UNLEARNED] ** 2, (_UNLEARNED,)).as_sympy()),
            lambda shown: _fitted_residual(activation, shown),
            activation.check_tolerance,
        ),
        Step(
            "Stairs at the emergence times",
            equation(r"\mathcal{L}_{id}(t)", activation.second_moment / 2 * sp.Symbol(r"\sum_{p}a_p^2\,1\{t<T_p\}")),
        ),
        Step(
            "Power-law weights: what is left after the first p directions",
            equation(r"\sum_{s>p}s^{-2\beta}\approx", tail()),
            lambda shown: sp.simplify(sp.diff(shown, learned) + learned ** (-2 * beta)),
        ),
        *[
            Step(f"Exponent of the loss in {NAMES[name]}", equation(symbol, value), partial(_exponent_residual, name))
            for (name, value), symbol in zip(
                scaling_exponents().items(), (r"\gamma_t", r"\gamma_m", r"\gamma_n", r"\gamma_C"), strict=True
            )
        ],
    ]
    equations = {
        r"\gamma_t": scaling_exponents()["time"],
        r"\gamma_m": scaling_exponents()["width"],
        r"\gamma_n": scaling_exponents()["samples_unstable"],
        r"\gamma_C": scaling_exponents()["compute"],
    }
    assumptions = (
        Assumption("β > ½ for the power laws"),
        Assumption("gaps of Lemma 3.1, d large", None),
        Assumption("even activation, information exponent ≥ 4", True),
    )
    return Derivation("ideal-loss", tuple(steps), equations, assumptions, REFERENCE)


def _fitted_residual(activation: Activation, shown: sp.Expr) -> sp.Expr:
    """The derived loss at a state with one of three directions fitted and one massless student, against what is shown."""
    rational = sp.Rational
    weights = [rational(4, 5), rational(3, 5), rational(2, 5)]
    arrays = {
        "a": weights,
        "r": [rational(4, 5), sp.Integer(0)],
        "t": [[sp.Integer(1), 0, 0], [rational(1, 3), rational(2, 3), 0]],
        "c": [[sp.Integer(1), rational(1, 3)], [rational(1, 3), sp.Integer(1)]],
    }
    loss = evaluate(additive.population_loss(), (), arrays, activation.kernel_at)[()]
    return sp.N(loss - evaluate(Sums.read(shown), (), {"a": weights[1:]}, lambda at, order: at)[()], 50)


def _exponent_residual(name: str, shown: sp.Expr) -> sp.Expr:
    """Measure the exponent at β = 4/5 by a logarithmic difference of the tail at two explicit numbers of directions."""
    decay = sp.Rational(4, 5)
    growth = {"time": decay, "width": 1, "samples_unstable": 2 * decay, "compute": 1 + decay}[name]
    ratio = tail().subs(beta, decay)
    slope = sp.log(ratio.subs(learned, 8) / ratio.subs(learned, 2)) / (growth * sp.log(4))
    return sp.N(slope - shown.subs(beta, decay), 50)
