r"""The diffusion approximation of label-noise SGD, for all weights and for its closed order parameters.

One step moves the weights by $-\eta(ag^\top,Wg)$ with $E\,g=e$, $E\,gg^\top=\varrho^2I+2ee^\top$,
$\varrho^2=\sigma^2+|e|^2$. With $t=\eta\cdot$ steps this is, to the order of a diffusion (Itô),
$$dW=-a\,(e\,dt+\sqrt\eta\,dN)^\top,\qquad da=-W(e\,dt+\sqrt\eta\,dN),\qquad dN=(\varrho I+\gamma ee^\top)\,dB,$$
$\gamma=c/(\varrho+\sqrt{\varrho^2+c|e|^2})$, so that $E\,dN\,dN^\top=(\varrho^2I+c\,ee^\top)dt$. c = 1 is the covariance of g:
then an Euler–Maruyama step of all weights of length η has the first two moments of an SGD step. c = 2 is its second moment:
then the continuous diffusion itself has SGD's mean drift of $WW^\top-aa^\top$ and its stationary least-squares error.

$(G,\theta,A)=(W^\top W,W^\top a,\|a\|^2)$ close among themselves, whatever the width: the drift picks up the Itô terms
$\eta A\,\Sigma$, $\eta\Sigma\theta$ and $\eta\,\mathrm{tr}(G\Sigma)$, $\Sigma=\varrho^2I+c\,ee^\top$. With c = 2 their drift
is the mean of an SGD step over η, exactly; SGD's own step is `theory.linear.step`.
(arXiv:2603.10397, section 4.1; derived.)
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.indexed import B, Index, Sums, Term, a, evaluate, h, i, k
from theory.core.streams import stream
from theory.core.system import System
from theory.linear.label_noise import name

REFERENCE = "arXiv:2603.10397, eqs. 2-4; diffusion with matched first and second moments, derived"
TIME_UNIT = "gradient-flow time of ½E(ŷ−y)²; one SGD step of size η advances it by η"
#: ‖a‖² has no index of its own: one that takes a single value.
only = Index("y", 1)
j = Index("i2", i.length)  # a third input index

W, G, A, theta, target, e = (sp.IndexedBase(x) for x in ("W", "G", "A", "theta", "target", "e"))
identity = sp.IndexedBase("identity")
eta, sigma = sp.symbols("eta sigma")
rho2, size2, whole2, roots, gain = sp.symbols("rho2 size2 whole2 roots gain")


def _spread(share: int) -> dict[sp.Symbol | sp.Indexed, Sums]:
    r"""|e|², ϱ², ϱ² + c|e|², $\varrho+\sqrt{\varrho^2+c|e|^2}$ and γ, from e."""
    c = sp.Integer(share)
    return {
        size2: Sums.of((e[i] ** 2, i)),
        rho2: Sums.of(sigma**2, size2),
        whole2: Sums.of(rho2, c * size2),
        roots: Sums.of(sp.sqrt(rho2), sp.sqrt(whole2)),
        gain: Sums.of(c / roots),
    }


def _kick(index: sp.Symbol, other: sp.Symbol) -> Sums:
    r"""$dN_i=\varrho\,dB_i+\gamma e_i\sum_he_h\,dB_h$; `other` is the bound index."""
    return Sums.of(sp.sqrt(rho2) * B[index], (gain * e[index] * e[other] * B[other], other))


def _times(sums: Sums, factor: sp.Expr, *bound: sp.Symbol) -> list[Term]:
    return [Term(factor * term.body, (*term.bound, *bound)) for term in sums]


def _share(moments: str) -> int:
    if moments not in ("covariance", "second"):
        raise InputError(f"moments is {moments!r}: use 'covariance' or 'second'")
    return 1 if moments == "covariance" else 2


def weight_sde(moments: str = "covariance") -> System:
    r"""The diffusion of all weights, for fresh Gaussian inputs.

    State: W (m, d), a (m,). Parameters: ``target`` (d,), ``eta``, ``sigma``. Brownian motions: (d,).

    Args:
        moments: ``"covariance"`` (c = 1, for steps of length η) or ``"second"`` (c = 2, for the continuous limit).

    Raises `InputError` for other `moments`.
    """
    share = _share(moments)
    drift = {W[k, i]: Sums.of(-a[k] * e[i]), a[k]: Sums.of((-W[k, i] * e[i], i))}
    noise = {
        W[k, i]: Sums(_times(_kick(i, h), -sp.sqrt(eta) * a[k])),
        a[k]: Sums(_times(_kick(i, h), -sp.sqrt(eta) * W[k, i], i)),
    }
    definitions = {e[i]: Sums.of((a[k] * W[k, i], k), -target[i]), **_spread(share)}
    return _system("label-noise-weights", drift, noise, definitions, share)


def order_parameter_sde(moments: str = "second") -> System:
    r"""The diffusion of $G=W^\top W$, $\theta=W^\top a$ and $A=\|a\|^2$: closed, for any width.

    State: G (d, d), theta (d,), A (1,). Parameters: those of `weight_sde`, and ``identity`` (d, d).

    Args:
        moments: ``"second"`` (c = 2: the drift is the mean of an SGD step, the noise has $ee^\top$ too much) or
            ``"covariance"`` (c = 1: the noise has the covariance of a step to leading order in η, the drift lacks
            $\eta A\,ee^\top$, $\eta ee^\top\theta$ and $\eta e^\top Ge$).

    Euler–Maruyama steps of length η do not stay products of weights, and ‖a‖² may fall below 0: for steps of SGD take
    `theory.linear.step.order_parameter_step`. Raises `InputError` for other `moments`.
    """
    share = _share(moments)
    c, root = sp.Integer(share), sp.sqrt(eta)
    drift = {
        G[i, h]: Sums.of(
            -theta[i] * e[h],
            -e[i] * theta[h],
            (eta * A[only] * rho2 * identity[i, h], only),
            (eta * c * A[only] * e[i] * e[h], only),
        ),
        theta[i]: Sums.of(
            (-G[i, h] * e[h], h), (-A[only] * e[i], only), eta * rho2 * theta[i], (eta * c * e[i] * e[h] * theta[h], h)
        ),
        A[only]: Sums.of((-2 * theta[i] * e[i], i), (eta * rho2 * G[i, i], i), (eta * c * G[i, h] * e[i] * e[h], i, h)),
    }
    noise = {
        G[i, h]: Sums([*_times(_kick(h, j), -root * theta[i]), *_times(_kick(i, j), -root * theta[h])]),
        theta[i]: Sums([*_times(_kick(h, j), -root * G[i, h], h), *_times(_kick(i, j), -root * A[only], only)]),
        A[only]: Sums(_times(_kick(i, j), -2 * root * theta[i], i)),
    }
    definitions = {e[i]: Sums.of(theta[i], -target[i]), **_spread(share)}
    return _system("label-noise-order-parameters", drift, noise, definitions, share)


def _system(
    title: str,
    drift: dict[sp.Indexed, Sums],
    noise: dict[sp.Indexed, Sums],
    definitions: dict[sp.Symbol | sp.Indexed, Sums],
    share: int,
) -> System:
    steps = [
        *[Step(f"Definition of {x}", equation(sp.sympify(x), y.as_sympy())) for x, y in definitions.items()],
        *[
            Step(
                f"{part.capitalize()} of {x}",
                equation(name(rf"{mark}{{{sp.latex(x)}}}"), y.as_sympy()),
                partial(_component_residual, share, part, x),
                1e-12,
            )
            for part, mark, found in (("drift", r"\dot", drift), ("noise", "d", noise))
            for x, y in found.items()
        ],
    ]
    equations = {sp.latex(x): y.as_sympy() for x, y in drift.items()}
    equations |= {rf"d{sp.latex(x)}": y.as_sympy() for x, y in noise.items()}
    assumptions = (Assumption("x ~ N(0, I_d), fresh samples"), Assumption("small steps: η‖W‖² ≪ d"))
    return System(
        name=title,
        activation=None,
        drift=drift,
        observables={},
        parameters=("target", "eta", "sigma", *(("identity",) if A[only] in drift else ())),
        derivation=Derivation(title, tuple(steps), equations, assumptions, REFERENCE),
        time_unit=TIME_UNIT,
        limit="small step size at fixed η·steps; noise kept to order √η (Itô)",
        definitions=definitions,
        noise=noise,
    )


# --------------------------------------------------------------------------------- checks


def numbers(system: System, state: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Drift and noise matrices (last axis: Brownian motions) of a system at numbers: slow and independent of lowering.

    Arrays by name, of the shapes that the system states; noise with (d,) appended.
    """
    exact = np.vectorize(sp.Float, otypes=[object])
    arrays: dict[str, np.ndarray] = {key: exact(x) if np.ndim(x) else sp.Float(float(x)) for key, x in state.items()}
    dim = len(state["target"])

    def found(sums: Sums, free: tuple[sp.Symbol, ...]) -> np.ndarray:
        return evaluate(sums, free, arrays, lambda *_: sp.Integer(0))

    for symbol, sums in system.definitions.items():
        free = symbol.indices if isinstance(symbol, sp.Indexed) else ()
        value = found(sums, free)
        arrays[str(getattr(symbol, "base", symbol))] = value if free else value[()]
    drift, noise = {}, {}
    for component, sums in system.drift.items():
        drift[str(component.base)] = found(sums, component.indices).astype(float)
        columns = []
        for unit in np.eye(dim):
            arrays["B"] = exact(unit)
            columns.append(found(system.noise[component], component.indices).astype(float))
        noise[str(component.base)] = np.stack(columns, axis=-1)
    return drift, noise


def _component_residual(share: int, part: str, component: sp.Indexed, shown: sp.Expr) -> sp.Expr:
    """`check` with one component's drift or noise taken from what is shown."""
    moments = "covariance" if share == 1 else "second"
    systems = {"weights": weight_sde(moments), "order": order_parameter_sde(moments)}
    for key, system in systems.items():
        if component in system.drift:
            changed: dict[str, Any] = {part: {**getattr(system, part), component: Sums.read(shown)}}
            systems[key] = replace(system, **changed)
    return check(share, **systems)


def check(share: int, weights: System | None = None, order: System | None = None) -> sp.Expr:
    r"""Largest deviation of both systems from the step they stand for, at random numbers (m = 3, d = 2).

    The weights' noise against a Cholesky-free statement of its covariance, $\eta\,u\,\Sigma\,u^\top$; the order
    parameters' drift and noise against Itô's formula applied to the weights' (products of matrices, no indices).
    """
    rng = stream(0, "label noise SDE", "residual")
    first, second, goal = rng.standard_normal((3, 2)), rng.standard_normal(3), rng.standard_normal(2)
    step, noise = 0.3, 0.7
    moments = "covariance" if share == 1 else "second"
    constants = {"target": goal, "eta": np.array(step), "sigma": np.array(noise)}
    drift, kick = numbers(weights or weight_sde(moments), {"W": first, "a": second, **constants})
    state = {"identity": np.eye(2), "G": first.T @ first, "theta": first.T @ second, "A": np.array([second @ second])}
    drift2, kick2 = numbers(order or order_parameter_sde(moments), {**state, **constants})
    error = first.T @ second - goal
    sigma_matrix = (noise**2 + error @ error) * np.eye(2) + share * np.outer(error, error)
    joint = np.concatenate([kick["W"].reshape(6, 2), kick["a"]])
    factor = np.concatenate([np.einsum("k,ij->kij", second, np.eye(2)).reshape(6, 2), first])
    gaps = [
        drift["W"] + np.outer(second, error),
        drift["a"] + first @ error,
        joint @ joint.T - step * factor @ sigma_matrix @ factor.T,
    ]
    u, v = kick["W"], kick["a"]
    ito = np.einsum("kiB,khB->ih", u, u), np.einsum("kiB,kB->i", u, v), np.einsum("kB,kB->", v, v)
    gaps += [
        drift2["G"] - (first.T @ drift["W"] + drift["W"].T @ first + ito[0]),
        drift2["theta"] - (first.T @ drift["a"] + drift["W"].T @ second + ito[1]),
        drift2["A"] - (2 * second @ drift["a"] + ito[2]),
        kick2["G"] - np.einsum("ki,khB->ihB", first, u) - np.einsum("kh,kiB->ihB", first, u),
        kick2["theta"] - np.einsum("ki,kB->iB", first, v) - np.einsum("kiB,k->iB", u, second),
        kick2["A"] - 2 * np.einsum("k,kB->B", second, v),
    ]
    return sp.Float(max(float(np.max(np.abs(gap))) for gap in gaps))
