r"""The linear model $y=\langle w^*,x\rangle+\sigma\xi$, $x\sim N(0,\Lambda)$, under SGD: exact moments at any step size.

With $e=w-w^*$ and a velocity u, a step is $u'=\beta u-cg$, $w'=w+\eta(\alpha u+\gamma g)$: plain SGD has β = α = 0, γ = −1;
heavy ball α = β, γ = −c. The gradient of b fresh samples has $E\,g=\lambda e$ and, for Gaussian inputs, by eigenspace
(dimension n, all its coordinates together)

$$S=E\,g^2=\tfrac{b+1}b\lambda^2C+\tfrac{n\lambda}b(R+\sigma^2),\qquad R=\sum\lambda C,$$

so that $C=E\,e^2$, $X=E\,eu$, $V=E\,u^2$ are iterated exactly, with any batch, schedule or momentum (derived here).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import sympy as sp

from theory.core import gaussian
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.declared.loss import Square
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import check_length
from theory.declared.start import Start
from theory.declared.target import Additive

REFERENCE = "derived; plain SGD: arXiv:2405.15074"

C, X, V, R, eta, beta, batch, sigma, lam, n = sp.symbols("C X V R eta beta b sigma lambda n", real=True)
#: $u'=\beta u-cg$, $w'=w+\eta(\alpha u+\gamma g)$.
alpha, gamma, c = sp.symbols("alpha gamma c", real=True)
_e, _u, _g = sp.symbols("e u g", real=True)


def gradient_square(own: sp.Expr = (batch + 1) / batch) -> sp.Expr:
    r"""$S=E\,g^2$ of one eigenspace; 1 for `own` forgets what the inputs' fourth moment adds (a wrong theory)."""
    return own * lam**2 * C + n * lam / batch * (R + sigma**2)


@cache
def step_equations(square: sp.Expr | None = None) -> dict[str, sp.Expr]:
    """C, X and V after a step: squares and product of the new error and velocity, averaged. `square`: in the place of S."""
    error, velocity = _e + eta * (alpha * _u + gamma * _g), beta * _u - c * _g
    known = {
        (2, 0, 0): C,
        (1, 1, 0): X,
        (0, 2, 0): V,
        (1, 0, 1): lam * C,
        (0, 1, 1): lam * X,
        (0, 0, 2): gradient_square() if square is None else square,
    }

    def mean(product: sp.Expr) -> sp.Expr:
        return sp.Add(*[value * known[powers] for powers, value in sp.Poly(product, _e, _u, _g).terms()])

    return {"C": mean(error**2), "X": mean(error * velocity), "V": mean(velocity**2)}


#: What plain SGD puts for the coefficients of a step.
PLAIN = {alpha: 0, gamma: -1, beta: 0, c: 1}


def coefficients(rule: Rule) -> dict[sp.Symbol, float]:
    """α, γ, β and c of a rule. Raises `InputError` for any but plain SGD and `Momentum` on fresh samples."""
    if type(rule) not in (Rule, Momentum) or rule.decay or rule.samples:
        raise InputError(
            f"rule is {type(rule).__name__}, decay {rule.decay:g}, data set {rule.samples}: the linear model's moments close "
            "for plain SGD and momentum on fresh samples without decay; use these, or simulate it"
        )
    if not isinstance(rule, Momentum):
        return {name: float(value) for name, value in PLAIN.items()}
    size = 1 - rule.beta if rule.kind == "average" else 1.0
    if rule.kind == "nesterov":
        return {alpha: rule.beta**2, gamma: -(1 + rule.beta), beta: rule.beta, c: 1.0}
    return {alpha: rule.beta, gamma: -size, beta: rule.beta, c: size}


@dataclass(frozen=True, eq=False)
class LinearModel:
    r"""Eigenspaces, noise and start.

    Attributes:
        eigenvalues: λ, (L,). multiplicities: n, (L,). noise: σ. start: $C$ at the start, of each eigenspace, (L,).
    """

    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    noise: float
    start: np.ndarray

    def path(self, rule: Rule, steps: int, equations: Mapping[str, sp.Expr] | None = None) -> np.ndarray:
        """C before each step and after the last, (steps + 1, L), by the exact recursion; the velocity begins at zero.

        `equations`: C, X and V after a step, in the place of `step_equations()`.

        Raises `InputError` for a rule whose moments do not close, and for a run longer than its schedule.
        """
        check_length(rule.step_size, steps)
        known: dict[sp.Symbol, Any] = {**coefficients(rule), batch: rule.batch, sigma: self.noise}
        known |= {lam: self.eigenvalues, n: self.multiplicities}
        move = sp.lambdify(
            [C, X, V, R, eta, *known], list((equations or step_equations()).values()), modules="numpy", cse=True
        )
        given, sizes = rule.step_size, np.arange(steps)
        each = np.asarray(given(sizes)) if callable(given) else np.full(steps, float(given))
        state, found = [self.start, 0.0 * self.start, 0.0 * self.start], [self.start]
        for size in each:
            state = move(*state, float(self.eigenvalues @ state[0]), float(size), *known.values())
            found.append(state[0])
        return np.stack(found)


def linear_model(model: DeclaredModel, start: Start) -> LinearModel:
    """The linear model that a declared one is.

    Raises `InputError` for what is none: activation and link z, one free row, second layer 1 and fixed, the square loss.
    """
    student, target = model.student, model.target
    plain = (
        isinstance(target, Additive) and isinstance(model.loss, Square) and not (student.homogeneous or student.trained)
    )
    functions = {student.activation.function, target.link.function} if isinstance(target, Additive) else set()
    if not plain or functions != {z} or student.rows != "free" or student.second != (1.0,):
        raise InputError(
            "the linear model has activation and link z, one free row with second layer 1, and the square loss: declare these"
        )
    assert isinstance(target, Additive)
    start.check(model.directions)
    a = np.asarray(target.weights)
    squares = np.einsum("p,ipq,q->i", a, model.directions.grams, a)
    errors = start.grams[:, 0, 0] - 2 * start.overlaps(model.directions)[:, 0] @ a + squares
    inputs = model.inputs
    return LinearModel(
        np.asarray(inputs.eigenvalues),
        np.asarray(inputs.multiplicities, dtype=float),
        model.rule.noise_deviation,
        errors,
    )


# ----------------------------------------------------------------------- the derivation

_ERROR, _VELOCITY = sp.Matrix([sp.Rational(1, 2), -1, 2]), sp.Matrix([1, sp.Rational(1, 3), -1])
_NUMBERS = {eta: sp.Rational(1, 3), beta: sp.Rational(3, 5), alpha: sp.Rational(2, 7), gamma: -sp.Rational(5, 4), c: 2}
_LAMBDA, _OTHER, _SIGMA = sp.Integer(2), sp.Integer(3), sp.Rational(1, 2)


def _expected(vectors: Callable[[sp.Matrix], tuple[sp.Matrix, sp.Matrix]]) -> sp.Expr:
    """E of the inner product, in the first eigenspace (two dimensions), of vectors made from the gradient of two samples."""
    normal = sp.symbols("q0:8")
    gradient = sp.zeros(3, 1)
    for one in range(2):
        x = sp.Matrix([sp.sqrt(_LAMBDA) * normal[4 * one], sp.sqrt(_LAMBDA) * normal[4 * one + 1], 0])
        x[2] = sp.sqrt(_OTHER) * normal[4 * one + 2]
        gradient += x * (x.dot(_ERROR) - _SIGMA * normal[4 * one + 3]) / 2
    first, second = vectors(gradient)
    return gaussian.standard_expectation(sp.expand(first[:2, :].dot(second[:2, :])), *normal)


def _residual(pick: Callable[[sp.Matrix], tuple[sp.Matrix, sp.Matrix]], claim: sp.Basic) -> sp.Expr:
    """What is shown, at two eigenspaces, minus the mean by pairings of Gaussian coordinates."""
    error, velocity = _ERROR[:2, :], _VELOCITY[:2, :]
    squares = {C: error.dot(error), X: error.dot(velocity), V: velocity.dot(velocity)}
    risk = _LAMBDA * squares[C] + _OTHER * _ERROR[2] ** 2
    known = {**_NUMBERS, **squares, R: risk, lam: _LAMBDA, n: 2, batch: 2, sigma: _SIGMA}
    return sp.nsimplify(claim.subs(known)) - _expected(pick)


def _after(gradient: sp.Matrix) -> tuple[sp.Matrix, sp.Matrix]:
    x = _NUMBERS
    return _ERROR + x[eta] * (x[alpha] * _VELOCITY + x[gamma] * gradient), x[beta] * _VELOCITY - x[c] * gradient


def derivation() -> Derivation:
    """S and the three recursions, each against pairings of Gaussians in coordinates."""
    roads: dict[str, Callable[[sp.Matrix], tuple[sp.Matrix, sp.Matrix]]] = {
        "C'": lambda g: (_after(g)[0], _after(g)[0]),
        "X'": lambda g: _after(g),
        "V'": lambda g: (_after(g)[1], _after(g)[1]),
    }
    shown = {f"{name}'": value for name, value in step_equations().items()}
    steps = [Step("Square of the gradient", equation("S", gradient_square()), partial(_residual, lambda g: (g, g)))]
    steps += [Step(f"After a step: {x}", equation(x, shown[x]), partial(_residual, road)) for x, road in roads.items()]
    assumptions = (Assumption("Gaussian inputs, a batch of fresh samples each step"),)
    return Derivation("linear-model", tuple(steps), shown, assumptions, REFERENCE)
