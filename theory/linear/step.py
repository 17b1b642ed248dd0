r"""One step of label-noise SGD on the two-layer linear network, in its order parameters: exact at any width and step size.

With $g=(\langle\theta-\theta^*,x\rangle-\epsilon)x$, a step takes $[W\ a]$ to $[W\ a](I-\eta\mathsf M_g)$,
$\mathsf M_g=\begin{psmallmatrix}0&g\\g^\top&0\end{psmallmatrix}$, so that the Gram matrix P of these columns goes to
$(I-\eta\mathsf M_g)P(I-\eta\mathsf M_g)$. Its blocks are $(G,\theta,A)=(W^\top W,W^\top a,\|a\|^2)$, which hence close, and
stay those of some weights: $P\succeq0$. No width enters beyond the start, and no moment of x or ϵ.
(arXiv:2603.10397, eqs. 2-4; derived.)
"""

from typing import Any

import sympy as sp

from theory.core.derivation import Assumption, Derivation
from theory.core.indexed import Index, Sums, evaluate, h, i
from theory.core.matrices import at, total
from theory.core.system import System, component_steps
from theory.linear import label_noise
from theory.linear.sde import A, G, e, eta, only, target, theta

REFERENCE = "arXiv:2603.10397, eqs. 2-4; Gram matrix of one step, derived"
x, g = sp.IndexedBase("x"), sp.IndexedBase("g")
epsilon = sp.Symbol("epsilon")


def _definitions() -> dict[sp.Indexed, Sums]:
    r"""$e=\theta-\theta^*$ and $g=(\langle e,x\rangle-\epsilon)x$."""
    return {e[i]: Sums.of(theta[i], -target[i]), g[i]: Sums.of((e[h] * x[h] * x[i], h), -epsilon * x[i])}


def _drift() -> dict[sp.Indexed, Sums]:
    """The blocks of −(MP + PM) + ηMPM."""
    return {
        G[i, h]: Sums.of(-theta[i] * g[h], -g[i] * theta[h], (eta * A[only] * g[i] * g[h], only)),
        theta[i]: Sums.of((-G[i, h] * g[h], h), (-A[only] * g[i], only), (eta * theta[h] * g[h] * g[i], h)),
        A[only]: Sums.of((-2 * theta[i] * g[i], i), (eta * G[i, h] * g[i] * g[h], i, h)),
    }


def order_parameter_step() -> System:
    r"""One SGD step of $G=W^\top W$, $\theta=W^\top a$ and $A=\|a\|^2$ on a sample x with label noise ϵ: it adds η·drift.

    State: G (d, d), theta (d,), A (1,). Parameters: ``target`` (d,), ``eta``, the sample ``x`` (d,) and ``epsilon``, what is
    added to its label. For fresh Gaussian x the mean is that of `theory.linear.sde.order_parameter_sde("second")`. Costs
    O(d²) a step.
    """
    definitions, drift = _definitions(), _drift()
    steps, equations = component_steps(drift, "One step of {0.base}", _residual, 1e-30, r"\Delta {}/\eta")
    assumptions = (Assumption("one sample x a step, its label ⟨θ*, x⟩ + ϵ"),)
    return System(
        name="label-noise-step",
        activation=None,
        drift=drift,
        observables={},
        parameters=("target", "eta", "x", "epsilon"),
        derivation=Derivation("label-noise-step", steps, equations, assumptions, REFERENCE),
        time_unit="one SGD step of size η is η",
        limit="exact for any width, step size and sample",
        definitions=definitions,
    )


# --------------------------------------------------------------------------------- checks


def _residual(component: sp.Indexed, shown: Sums) -> sp.Expr:
    """Total deviation from stepping all weights (m = 3, d = 2) and taking the products then, in exact fractions."""
    R = sp.Rational
    W, a = sp.Matrix([[R(1, 2), R(-2, 3)], [R(3, 4), R(1, 5)], [R(-1, 3), R(5, 7)]]), sp.Matrix([R(2, 5), R(-3, 4), 1])
    goal, sample, noise, size = sp.Matrix([R(4, 5), R(-1, 6)]), sp.Matrix([R(3, 2), R(-5, 4)]), R(7, 6), R(2, 9)
    pull = (sample.dot(W.T * a - goal) - noise) * sample
    weights = {label_noise.W: W, label_noise.a: a, label_noise.g: pull, label_noise.eta: size}
    before, after = (
        {"G": V.T * V, "theta": V.T * b, "A": b.T * b}
        for V, b in ((W, a), tuple(at(part, weights) for part in label_noise.UPDATE))
    )
    arrays: dict[str, Any] = {"G": before["G"].tolist(), "eta": size, "epsilon": noise}
    arrays |= {"target": list(goal), "x": list(sample), "theta": list(before["theta"]), "A": list(before["A"])}

    def found(sums: Sums, free: tuple[Index, ...]) -> list[sp.Expr]:
        return list(evaluate(sums, free, arrays, lambda *_: sp.Integer(0)).ravel())

    for symbol, sums in _definitions().items():
        arrays[str(symbol.base)] = found(sums, symbol.indices)
    name = str(component.base)
    changes = (after[name] - before[name]) / size
    return total(changes.reshape(changes.rows * changes.cols, 1) - sp.Matrix(found(shown, component.indices)))
