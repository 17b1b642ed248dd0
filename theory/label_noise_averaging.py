r"""The averaged flow of label-noise SGD, derived: its steps, each checked against the diffusion or against exact boosts.

The road of the checks is not that of `theory.label_noise_phases`: weights are moved by exact boosts $e^{\mathsf M_b}$
whose covariance is β (their mean over the points $\pm\sqrt n\,\beta^{1/2}e_j$), the drift of $D=WW^\top-aa^\top$ is read
off the derived diffusion of the weights (`theory.label_noise_sde.weight_sde`) by Itô's formula, and rotations off a
polar decomposition. What is of first order in β is isolated by a small β.
(arXiv:2603.10397, section 4; derived.)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import sympy as sp
from scipy.linalg import expm, logm, sqrtm

from theory import label_noise
from theory.derivation import Assumption, Derivation, Step
from theory.label_noise import name
from theory.label_noise_phases import Geometry, Law, Residual
from theory.label_noise_sde import numbers, weight_sde
from theory.streams import stream

#: Covariance of the boosts in the checks; what is left is of second order in it.
SMALL = 1e-5
_STEP, _NOISE, _DIM = 1e-5, 0.7, 2
_RELATIVE = 1e-3


def generator(boost: np.ndarray) -> np.ndarray:
    r"""$\mathsf M_b=\begin{psmallmatrix}0&b\\b^\top&0\end{psmallmatrix}$."""
    size = len(boost)
    found = np.zeros((size + 1, size + 1))
    found[:size, size] = found[size, :size] = boost
    return found


def _boosts(covariance: np.ndarray) -> list[np.ndarray]:
    """Points of equal weight with mean 0 and the given covariance."""
    columns = (np.real(sqrtm(covariance)) * np.sqrt(len(covariance))).T
    return [sign * column for column in columns for sign in (1.0, -1.0)]


def _mean(function: Callable[[np.ndarray], np.ndarray], boosts: list[np.ndarray]) -> np.ndarray:
    return np.asarray(np.mean([function(boost) for boost in boosts], axis=0))


def _weights(norm: float = 0.6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[W a] of three neurons in two dimensions, G diagonal and θ = θ* along the first axis; and θ*."""
    target = np.array([norm, 0.0])
    gram = np.array([[3.0, 0.0, norm], [0.0, 1.7, 0.0], [norm, 0.0, 0.8]])
    turn = np.linalg.qr(stream(0, "label noise averaging", "residual").standard_normal((3, 3)))[0]
    return turn @ np.linalg.cholesky(gram).T, gram[:2, :2], target


def _law(target: np.ndarray) -> Law:
    return Law(Geometry(np.eye(_DIM), target, np.ones(_DIM), 1.0), _STEP, _NOISE, 1)


def _slow_drift(joint: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Drift of D per step at the weights [W a], by Itô's formula from the diffusion of all weights."""
    W, a = joint[:, :-1], joint[:, -1]
    constants = {"target": target, "eta": np.array(_STEP), "sigma": np.array(_NOISE)}
    drift, kick = numbers(weight_sde("second"), {"W": W, "a": a, **constants})
    first = W @ drift["W"].T - np.outer(a, drift["a"])
    ito = np.einsum("kiB,liB->kl", kick["W"], kick["W"]) - kick["a"] @ kick["a"].T
    return np.asarray(_STEP * (first + first.T + ito))


def rates_residual() -> sp.Expr:
    """R and R_a, their parts of order β singled out, against the mean drift of D over exact boosts."""
    joint, gram, target = _weights()
    W, a = joint[:, :-1], joint[:, -1]
    stiffness = gram + a @ a * np.eye(_DIM)
    law, boost = _law(target), SMALL * np.array([[1.0, 0.0], [0.0, 0.4]])

    def derived(size: float) -> np.ndarray:
        error = size * stiffness @ boost @ stiffness
        second = (_NOISE**2 + np.trace(error)) * np.eye(_DIM) + 2 * error
        first, other = law.rates(Residual(error, second, size * boost, 0.0))
        return -(_STEP**2) * (W @ first @ W.T - other * np.outer(a, a))

    exact = _mean(lambda b: _slow_drift(joint @ expm(generator(b)), target), _boosts(boost))
    still = _slow_drift(joint, target)
    gaps = (derived(0.0) - still) / np.max(np.abs(still)), (derived(1.0) - derived(0.0) - exact + still)
    change = np.max(np.abs(exact - still))
    return sp.Float(max(float(np.max(np.abs(gaps[0]))), float(np.max(np.abs(gaps[1]))) / change))


def flow_residual() -> sp.Expr:
    r"""The flow of (G, A) against $\frac d{dt}\mathrm{tr}D^n=n\,\mathrm{tr}(D^{n-1}\dot D)$, n = 1, 2, 3, at fixed θ = θ*.

    With G diagonal these three determine the three rates. D has the traces of $KJ$, K the Gram matrix of [W a],
    $J=\mathrm{diag}(1,\dots,1,-1)$.
    """
    joint, gram, target = _weights()
    W, a = joint[:, :-1], joint[:, -1]
    law = _law(target)
    packed = np.concatenate([gram.ravel(), [a @ a], np.zeros(2 * _DIM**2)])
    rate = law(0.0, packed)
    first, other = law.rates(law.observed(gram, float(a @ a))[2])
    slow = W @ W.T - np.outer(a, a)
    moved = -(_STEP**2) * (W @ first @ W.T - other * np.outer(a, a))
    J, K = np.diag([1.0] * _DIM + [-1.0]), joint.T @ joint
    change = np.zeros_like(K)
    change[:_DIM, :_DIM], change[_DIM, _DIM] = rate[: _DIM**2].reshape(_DIM, _DIM), rate[_DIM**2]
    gaps = []
    for power in (1, 2, 3):
        exact = np.trace(np.linalg.matrix_power(slow, power - 1) @ moved)
        gaps.append(np.trace(np.linalg.matrix_power(K @ J, power - 1) @ change @ J) / exact - 1)
    return sp.Float(float(np.max(np.abs(gaps))))


def means_residual() -> sp.Expr:
    """Mean G and A over the boosts, as observed, against exact boosts (relative to what the boosts change)."""
    joint, gram, target = _weights()
    size2 = float(joint[:, -1] @ joint[:, -1])
    seen, size, now = _law(target).observed(gram, size2)

    def moved(boost: np.ndarray) -> np.ndarray:
        turned = joint @ expm(generator(boost))
        return np.asarray(turned.T @ turned)

    exact = _mean(moved, _boosts(now.boost)) - joint.T @ joint
    gaps = np.append((seen - gram - exact[:_DIM, :_DIM]).ravel(), size - size2 - exact[_DIM, _DIM])
    return sp.Float(float(np.max(np.abs(gaps)) / np.max(np.abs(exact))))


def turning_residual() -> sp.Expr:
    r"""$E\,\Omega\Omega^\top$ of one step against the polar decomposition of $e^{\mathsf M_b}e^{-\eta\mathsf M_g}$."""
    law, size = _law(np.array([0.6, 0.0])), 1e-2
    boost, second = size**2 * np.array([[1.0, 0.3], [0.3, 0.4]]), np.array([[0.9, -0.2], [-0.2, 0.5]])
    total = np.zeros((_DIM, _DIM))
    for b in _boosts(boost):
        for g in _boosts(second):
            both = expm(generator(b)) @ expm(-_STEP * generator(g))
            rotation = np.real(logm(np.linalg.solve(np.real(sqrtm(both @ both.T)), both)))[:_DIM, :_DIM]
            total += rotation @ rotation.T
    exact = total / (2 * _DIM) ** 2
    found = law.turning(Residual(np.zeros((_DIM, _DIM)), second, boost, 0.0))
    return sp.Float(float(np.max(np.abs(found - exact)) / np.max(np.abs(exact))))


def derivation() -> Derivation:
    """``derive label-noise``: identities, least-squares error and escape, then the averaged flow of both phases."""
    exact = label_noise.derivation()
    rates = {
        "R": name(r"S+\tfrac12(\beta S+S\beta)-\mathrm{tr}(S)\,\beta"),
        "R_a": name(r"\mathrm{tr}S\,(1+\mathrm{tr}\beta)-\mathrm{tr}(S\beta)"),
        "q": name(r"\tfrac{\eta^2}{2}\Lambda^{-1}(R+R_a)\theta^*"),
        r"\dot G": name(r"-\tfrac{\eta^2}{2}(RG+GR)+\theta^*q^{\top}+q\theta^{*\top}"),
        r"\dot A": name(r"-\eta^2R_aA+2\langle\theta^*,q\rangle"),
    }
    mean = name(r"-\eta^2\{WRW^{\top}-R_a\,aa^{\top}\}")
    turned = name(r"\tfrac{\eta^2}{4}\{\beta\,\mathrm{tr}S+S\,\mathrm{tr}\beta-\beta S-S\beta\}")
    observed = name(r"(G+A\beta+\tfrac12(\beta G+G\beta),\ A(1+\mathrm{tr}\beta)+\mathrm{tr}\,\beta G)")
    steps = (
        Step("Mean drift over the boosts, to first order in their covariance β",
             sp.Eq(name(r"E_b\,\Delta(WW^{\top}-aa^{\top})"), mean, evaluate=False), rates_residual, _RELATIVE),
        Step("Averaged flow at θ = θ*", sp.Eq(name(r"\dot G"), rates[r"\dot G"], evaluate=False), flow_residual, 1e-9),
        Step("Gram matrix and norm in the mean over the boosts",
             sp.Eq(name("E_b(G,A)"), observed, evaluate=False), means_residual, _RELATIVE),
        Step("Rotation by boosts in different directions",
             sp.Eq(name(r"\Delta E\,\Omega\Omega^{\top}"), turned, evaluate=False), turning_residual, _RELATIVE),
    )  # fmt: skip
    return replace(
        exact,
        steps=exact.steps + steps,
        equations={**exact.equations, **rates},
        assumptions=(*exact.assumptions, Assumption("averaged flow: first order in the covariance β of the boosts")),
    )
