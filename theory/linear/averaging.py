r"""The averaged flow of label-noise SGD, derived: its steps, each checked against the diffusion or against exact boosts.

The road of the checks is not that of `theory.linear.phases`: weights are moved by exact boosts $e^{\mathsf M_b}$
whose covariance is β (their mean over the points $\pm\sqrt n\,\beta^{1/2}e_j$), the drift of $D=WW^\top-aa^\top$ is read
off the derived diffusion of the weights (`theory.linear.sde.weight_sde`) by Itô's formula, and rotations off a
polar decomposition. What is of first order in β is isolated by a small β.
(arXiv:2603.10397, section 4; derived.)
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.matrices import function
from theory.core.streams import stream
from theory.linear import label_noise, law
from theory.linear.label_noise import name
from theory.linear.phases import Geometry, Law, Residual, Rotations, State
from theory.linear.sde import numbers, weight_sde

#: Covariance of the boosts in the checks; what is left is of second order in it.
SMALL = 1e-5
_STEP, _NOISE, _DIM = 1e-5, 0.7, 2
_RELATIVE, _EXACT = 1e-3, 1e-30


def generator(boost: np.ndarray) -> np.ndarray:
    r"""$\mathsf M_b=\begin{psmallmatrix}0&b\\b^\top&0\end{psmallmatrix}$, shape (d + 1, d + 1), from b of shape (d,)."""
    size = len(boost)
    found = np.zeros((size + 1, size + 1))
    found[:size, size] = found[size, :size] = boost
    return found


def _boosts(covariance: np.ndarray, mean: np.ndarray | float = 0.0) -> list[np.ndarray]:
    """Points of equal weight with the given covariance, (d, d), and mean, (d,)."""
    columns = (np.real(scipy.linalg.sqrtm(covariance)) * np.sqrt(len(covariance))).T
    return [sign * column + mean for column in columns for sign in (1.0, -1.0)]


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
    drift, kick = _diffusion(joint, target)
    first = W @ drift["W"].T - np.outer(a, drift["a"])
    ito = np.einsum("kiB,liB->kl", kick["W"], kick["W"]) - kick["a"] @ kick["a"].T
    return np.asarray(_STEP * (first + first.T + ito))


def _diffusion(joint: np.ndarray, target: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Drift and noise of the weights per η at [W a]."""
    constants = {"target": target, "eta": np.array(_STEP), "sigma": np.array(_NOISE)}
    return numbers(weight_sde("second"), {"W": joint[:, :-1], "a": joint[:, -1], **constants})


def _output_drift(joint: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Drift of θ = Wᵀa per η, likewise."""
    drift, kick = _diffusion(joint, target)
    ito = np.einsum("kiB,kB->i", kick["W"], kick["a"])
    return np.asarray(drift["W"].T @ joint[:, -1] + joint[:, :-1].T @ drift["a"] + ito)


def _rates(state: Residual, shown: Mapping[str, sp.Basic]) -> tuple[np.ndarray, float]:
    """R and R_a as they are shown."""
    values = state.second, state.boost
    first, other = (function(shown[key], (law.S, law.boost))(*values) for key in ("R", "R_a"))
    return np.asarray(first), float(other)


def _slow(joint: np.ndarray, first: np.ndarray, other: float, lean: np.ndarray, shown: sp.Basic) -> np.ndarray:
    """The shown mean drift of D at the weights [W a]."""
    symbols = (law.W, law.a, law.R, law.R_a, law.lean, law.eta)
    return np.asarray(function(shown, symbols)(joint[:, :-1], joint[:, -1:], first, other, lean, _STEP))


def rates_residual(which: str, claim: sp.Basic) -> sp.Expr:
    """R, R_a and c, their parts of order β singled out, and D's mean drift, against its mean over exact boosts; `Law` too."""
    shown = {**_SHOWN, which: claim}
    joint, gram, target = _weights()
    stiffness = gram + joint[:, -1] @ joint[:, -1] * np.eye(_DIM)
    boost, mean = SMALL * np.array([[1.0, 0.0], [0.0, 0.4]]), SMALL * np.array([0.7, -0.3])
    lean = function(shown["c"], (law.S, law.mean, law.eta))
    still_error = _law(target).residual(gram, float(joint[:, -1] @ joint[:, -1]))

    def derived(size: float, rates: Callable[[Residual], tuple[np.ndarray, float]]) -> np.ndarray:
        error = size * stiffness @ boost @ stiffness
        second = (_NOISE**2 + np.trace(error)) * np.eye(_DIM) + 2 * error
        pulled = lean(second, size * mean[:, None], _STEP)
        state = replace(still_error, error=error, second=second, boost=size * boost)
        return _slow(joint, *rates(state), pulled, shown["drift"])

    exact = _mean(lambda b: _slow_drift(joint @ scipy.linalg.expm(generator(b)), target), _boosts(boost, mean))
    still = _slow_drift(joint, target)
    gaps = []
    for rates in (lambda state: _rates(state, shown), _law(target).rates):
        first, both = derived(0.0, rates), derived(1.0, rates)
        gaps += [
            (first - still) / np.max(np.abs(still)),
            (both - first - exact + still) / np.max(np.abs(exact - still)),
        ]
    return sp.Float(float(np.max(np.abs(gaps))))


def flow_residual(which: str, claim: sp.Basic) -> sp.Expr:
    r"""The flow of (G, A) against $\frac d{dt}\mathrm{tr}D^n=n\,\mathrm{tr}(D^{n-1}\dot D)$, n = 1, 2, 3, at fixed θ = θ*.

    With G diagonal these three determine the three rates. D has the traces of $KJ$, K the Gram matrix of [W a],
    $J=\mathrm{diag}(1,\dots,1,-1)$. `Law` is compared too.
    """
    shown = {**_SHOWN, which: claim}
    joint, gram, target = _weights()
    size2, goal, averaged = float(joint[:, -1] @ joint[:, -1]), target[:, None], _law(target)
    now = averaged.observed(gram, size2)[2]
    first, other = averaged.rates(now)
    stiffness = gram + size2 * np.eye(_DIM)
    symbols = (law.Lambda, law.R, law.R_a, law.target, law.eta)
    force = function(shown["q"], symbols)(stiffness, first, other, goal, _STEP)

    def pace(lean: np.ndarray) -> tuple[np.ndarray, float]:
        q_W = function(shown["q_W"], (law.Lambda, law.G, law.q, law.lean))(stiffness, gram, force, lean)
        q_a = function(shown["q_a"], (law.Lambda, law.A, law.q, law.lean))(stiffness, size2, force, lean)
        gram_rate = function(shown["G"], (law.G, law.R, law.target, law.q_W, law.eta))(gram, first, goal, q_W, _STEP)
        norm_rate = function(shown["A"], (law.A, law.R_a, law.target, law.q_a, law.eta))(size2, other, goal, q_a, _STEP)
        return np.asarray(gram_rate), float(norm_rate)

    lean = np.array([[-0.7], [0.4]]) * _STEP**2  # as large as the force
    moved = _slow(joint, first, other, lean, law.SLOW_DRIFT)
    slow = joint[:, :-1] @ joint[:, :-1].T - np.outer(joint[:, -1], joint[:, -1])
    J, K = np.diag([1.0] * _DIM + [-1.0]), joint.T @ joint
    change = np.zeros_like(K)
    change[:_DIM, :_DIM], change[_DIM, _DIM] = pace(lean)
    began = State(gram, size2, np.zeros((_DIM + 1, _DIM + 1)), np.zeros((_DIM, _DIM)))
    code = State.of(averaged(0.0, began.packed), _DIM)
    gram_rate, norm_rate = pace(averaged.forces(gram, size2, now).lean)
    own: dict[str, tuple[Any, Any]] = {"G": (code.gram, gram_rate), "A": (code.norm2, norm_rate)}
    gaps = [np.max(np.abs((own[which][0] - own[which][1]) / np.max(np.abs(own[which][1]))))] if which in own else []
    for power in (1, 2, 3):
        exact = np.trace(np.linalg.matrix_power(slow, power - 1) @ moved)
        gaps.append(np.trace(np.linalg.matrix_power(K @ J, power - 1) @ change @ J) / exact - 1)
    return sp.Float(float(np.max(np.abs(gaps))))


def mean_residual(_: str, claim: sp.Basic) -> sp.Expr:
    """θ rests in the mean over exact boosts with the shown mean: its drift against η S θ*, by Itô's formula; `Law` too."""
    joint, gram, target = _weights()
    size2 = float(joint[:, -1] @ joint[:, -1])
    averaged, goal, stiffness = _law(target), target[:, None], gram + size2 * np.eye(_DIM)
    now = averaged.residual(gram, size2)
    force = function(law.FORCE, (law.Lambda, law.R, law.R_a, law.target, law.eta))(
        stiffness, *averaged.rates(now), goal, _STEP
    )
    symbols = (law.Lambda, law.inputs, law.q, law.boost, law.target, law.eta)
    shown = function(claim, symbols)(stiffness, np.eye(_DIM), force, now.boost, goal, _STEP)
    gaps = []
    for mean in (shown, averaged.forces(gram, size2, now).mean):
        boosts = _boosts(now.boost, np.ravel(mean))
        drift = _mean(lambda b: _output_drift(joint @ scipy.linalg.expm(generator(b)), target), boosts)
        gaps.append(drift / (_STEP * np.max(np.abs(now.second @ target))))
    return sp.Float(float(np.max(np.abs(gaps))))


def means_residual(which: str, claim: sp.Basic) -> sp.Expr:
    """Mean G or A over the boosts against exact boosts (relative to what the boosts change); and as `Law` has it."""
    joint, gram, target = _weights()
    size2 = float(joint[:, -1] @ joint[:, -1])
    seen, size, now = _law(target).observed(gram, size2)

    def moved(boost: np.ndarray) -> np.ndarray:
        turned = joint @ scipy.linalg.expm(generator(boost))
        return np.asarray(turned.T @ turned)

    mean = _law(target).forces(gram, size2, now).mean
    exact = _mean(moved, _boosts(now.boost, mean[:, 0])) - joint.T @ joint
    symbols = (law.G, law.A, law.boost, law.mean, law.target)
    found = function(claim, symbols)(gram, size2, now.boost, mean, target[:, None])
    code, before = (seen, gram) if which == "seen G" else (size, size2)
    known = exact[:_DIM, :_DIM] if which == "seen G" else exact[_DIM, _DIM]
    gap = np.max([np.max(np.abs(value - before - known)) for value in (found, code)])
    return sp.Float(float(gap / np.max(np.abs(exact))))


def rotation_residual(_: str, claim: sp.Basic) -> sp.Expr:
    """The rotation of two small boosts against the polar decomposition of their product."""
    size = 1e-3
    boosts = size * np.array([[[0.6], [-0.3]], [[0.2], [0.7]]])
    both = scipy.linalg.expm(generator(boosts[0][:, 0])) @ scipy.linalg.expm(generator(boosts[1][:, 0]))
    stretch = np.real(scipy.linalg.sqrtm(both @ both.T))
    exact = np.real(scipy.linalg.logm(np.linalg.solve(stretch, both)))[:_DIM, :_DIM]
    shown = function(claim, (law.first_boost, law.second_boost))(*boosts)
    return sp.Float(float(np.max(np.abs(shown - exact)) / np.max(np.abs(exact))))


def swept_residual(_: str, claim: sp.Basic) -> sp.Expr:
    r"""Mean square of the area between two modes, exactly, in the limit of small steps; and as `Law` has it, to rounding.

    A mode is $x\leftarrow(1-k_i)x+\xi$, of variance $b_i$, $k_i=\eta\lambda_i$. With the area's growth
    $\Delta=\frac12(xy'-yx')$ its product with xy has the stationary mean M, and its square grows by
    $E(k_1-k_2)xyA+E\Delta^2$.
    """
    k1, k2 = (law.eta * x for x in (law.pace_i, law.pace_j))
    noise1, noise2 = law.boost_i * (1 - (1 - k1) ** 2), law.boost_j * (1 - (1 - k2) ** 2)
    spread = law.boost_i * law.boost_j
    together = (
        (k1 - k2) * (1 - k1) * (1 - k2) * spread + (1 - k1) * law.boost_i * noise2 - (1 - k2) * law.boost_j * noise1
    ) / 2
    product = together / (1 - (1 - k1) * (1 - k2))
    square = ((k1 - k2) ** 2 * spread + law.boost_i * noise2 + law.boost_j * noise1) / 4
    growth = sp.limit(sp.together(((k1 - k2) * product + square) / law.eta), law.eta, 0)
    joint, gram, target = _weights()
    norm2 = float(joint[:, -1] @ joint[:, -1])
    now = _law(target).residual(gram, norm2)
    paces = np.linalg.eigvalsh(gram + norm2 * np.eye(_DIM))
    variances = np.diagonal(now.rotations.frame.T @ now.boost @ now.rotations.frame)
    known = dict(zip((law.pace_i, law.pace_j, law.boost_i, law.boost_j), (*paces, *variances), strict=True))
    code = now.rotations.squares[0, 1] / float((law.eta * growth).subs({**known, law.eta: _STEP})) - 1
    return sp.Add(sp.simplify(claim / law.eta - growth), sp.Integer(abs(code) > 1e-9))


def mixing_residual(_: str, claim: sp.Basic) -> sp.Expr:
    """The mean of G over rotations of independent planes, each either way; and `Law`'s, across θ*."""
    size, frame = 1e-4, np.array([[1.0, 0.2, 0.0], [0.0, 0.9, 0.3], [0.4, 0.0, 1.1]])
    squares = size * np.array([[0.0, 0.7, 0.2], [0.7, 0.0, 1.0], [0.2, 1.0, 0.0]])
    gram, target = np.array([[3.0, 0.4, 0.6], [0.4, 1.7, -0.2], [0.6, -0.2, 0.8]]), np.array([0.3, 0.5, -0.2])
    averaged = Law(Geometry(np.eye(3), target, np.ones(3), 1.0), _STEP, _NOISE, 1)
    now = replace(averaged.residual(gram, 0.8), rotations=Rotations(frame, squares, np.ones(3)))
    shown, gaps = function(claim, (law.rotation, law.G)), []
    across = np.eye(3) - np.outer(target, target) / (target @ target)
    for seen, code in ((np.eye(3), None), (across, averaged.mixing(gram, now))):
        turns = []
        for i, j in ((0, 1), (0, 2), (1, 2)):
            plane = np.zeros((3, 3))
            plane[i, j], plane[j, i] = np.sqrt(3 * squares[i, j]) * np.array([1, -1])
            turns += [sign * seen @ frame @ plane @ frame.T @ seen for sign in (1.0, -1.0)]
        exact = np.mean([scipy.linalg.expm(x) @ gram @ scipy.linalg.expm(-x) for x in turns], axis=0) - gram
        found = [np.mean([shown(x, gram) for x in turns], axis=0), *([] if code is None else [code])]
        gaps += [np.max(np.abs(x - exact)) / np.max(np.abs(exact)) for x in found]
    return sp.Float(float(np.max(gaps)))


#: What is shown, by the names that the checks use.
_SHOWN = {
    "drift": law.SLOW_DRIFT,
    "R": law.RATE,
    "R_a": law.OTHER_RATE,
    "q": law.FORCE,
    "mean": law.MEAN,
    "c": law.LEAN,
    "q_W": law.FIRST_FORCE,
    "q_a": law.OTHER_FORCE,
    "G": law.GRAM_RATE,
    "A": law.NORM_RATE,
    "seen G": law.SEEN_GRAM,
    "seen A": law.SEEN_NORM,
    "rotation": law.ROTATION,
    "swept": law.SWEPT,
    "mixing": law.MIXING,
}


def _step(title: str, left: str, which: str, residual: Callable[[str, sp.Basic], sp.Expr], tolerance: float) -> Step:
    return Step(title, equation(name(left), _SHOWN[which]), partial(residual, which), tolerance)


def derivation() -> Derivation:
    """``derive label-noise``: identities, least-squares error and escape, then the averaged flow of both phases."""
    exact = label_noise.derivation()
    first = "Rate of the first layer, to first order in the covariance β of the boosts"
    held, flow, rates, means = "Averaged flow at θ = θ*, Λ = G + A", flow_residual, rates_residual, means_residual
    steps = (
        _step(first, "R", "R", rates, _RELATIVE),
        _step("Rate of the second layer, likewise", "R_a", "R_a", rates, _RELATIVE),
        _step("What the mean μ of the boosts adds to the drift", "c", "c", rates, _RELATIVE),
        _step("Mean drift over the boosts", r"E_b\,\Delta(WW^{\top}-aa^{\top})", "drift", rates, _RELATIVE),
        _step("The force that holds θ = θ*, Λ = G + A", "q", "q", flow, 1e-9),
        _step("Mean of the boosts, with which θ rests", r"\mu", "mean", mean_residual, _RELATIVE),
        _step("The force on the first layer, along a", "q_W", "q_W", flow, 1e-9),
        _step("The force on the second layer, along W", "q_a", "q_a", flow, 1e-9),
        _step(f"{held}: Gram matrix", r"\dot G", "G", flow, 1e-9),
        _step(f"{held}: norm of the second layer", r"\dot A", "A", flow, 1e-9),
        _step("Mean Gram matrix over the boosts", r"E_b\,G", "seen G", means, _RELATIVE),
        _step("Mean norm over the boosts", r"E_b\,A", "seen A", means, _RELATIVE),
        _step("Rotation by two boosts", r"\Omega", "rotation", rotation_residual, _RELATIVE),
        _step("Mean square of rotations in a step", r"\Delta E\,\tilde\Omega_{ij}^2", "swept", swept_residual, _EXACT),
        _step("What rotations do to the Gram matrix", r"\Delta G", "mixing", mixing_residual, _RELATIVE),
    )
    flows = {
        **{"R": law.RATE, "R_a": law.OTHER_RATE, "q": law.FORCE, r"\mu": law.MEAN, "c": law.LEAN},
        **{"q_W": law.FIRST_FORCE, "q_a": law.OTHER_FORCE, r"\dot G": law.GRAM_RATE, r"\dot A": law.NORM_RATE},
    }
    return replace(
        exact,
        steps=exact.steps + steps,
        equations={**exact.equations, **flows},
        assumptions=(*exact.assumptions, Assumption("averaged flow: first order in the covariance β of the boosts")),
    )
