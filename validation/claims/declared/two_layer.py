"""M28: two-layer linear networks, closed forms against gradient flow of both layers."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.flow import Reached, integrate
from dynamics.core.precision import double_precision
from theory.core import matrices
from theory.linear import two_layer
from theory.linear.two_layer import TwoLayer, draw_balanced, mode_time
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.judge.under_test import built_in

COST = 6

_OUTPUTS, _INPUTS, _WIDTH = 4, 5, 3
#: Groups that are not of rank one any more, by rounding, grow with the largest |λⱼ|: not much longer than this.
_TIMES = np.array([0.3, 1.0, 2.0, 3.0])
#: Solver tolerance of what is judged, and how much looser the run is whose change bounds its error.
_RTOL, _LOOSER = 1e-11, 100.0
#: Rounding of sums of about 100 products, 100 times over for safety; a wrong term shows at 1e-2.
_ROUNDING = 100 * 100 * float(np.finfo(float).eps)


@lru_cache(maxsize=1)
def _descent() -> Callable[..., Reached]:
    def loss(layers: tuple[jax.Array, jax.Array], target: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum((target - layers[1] @ layers[0]) ** 2)

    def velocity(layers: tuple[jax.Array, jax.Array], target: jax.Array) -> tuple[jax.Array, jax.Array]:
        down, up = jax.grad(loss)(layers, target)
        return -down, -up

    return jax.jit(
        lambda layers, target, times, rtol: integrate(
            velocity, layers, 0.0, times[-1], target, rtol=rtol, times=times, meet=True
        )
    )


@lru_cache(maxsize=1)
def _group_flow() -> Callable[..., Reached]:
    """The derived rates of all groups, integrated."""
    rate = matrices.function(
        two_layer.group_rate(), (two_layer.S, two_layer.J, two_layer.lam, two_layer.P, two_layer.P_j)
    )

    def velocity(groups: jax.Array, known: tuple[jax.Array, ...]) -> jax.Array:
        signal, sides, shifts = known
        together = jnp.sum(groups, axis=0)
        return jax.vmap(lambda shift, own: rate(signal, sides, shift, together, own))(shifts, groups)

    return jax.jit(
        lambda groups, known, times, rtol: integrate(
            velocity, groups, 0.0, times[-1], known, rtol=rtol, times=times, meet=True
        )
    )


@double_precision
def _direct(start: TwoLayer, rtol: float) -> np.ndarray:
    """QQᵀ along gradient flow of both layers, (time, n, n)."""
    layers = jnp.asarray(start.first), jnp.asarray(start.second)
    found = _descent()(layers, jnp.asarray(start.target), jnp.asarray(_TIMES), rtol)
    found.check("gradient flow of both layers", float(_TIMES[-1]))
    first, second = (np.asarray(x) for x in found.state)
    frame = np.concatenate([np.swapaxes(first, 1, 2), second], axis=1)
    return frame @ np.swapaxes(frame, 1, 2)


@double_precision
def _grouped(start: TwoLayer, rtol: float) -> np.ndarray:
    """QQᵀ from the flow of the groups, (time, n, n)."""
    shifts, groups = start.groups()
    known = tuple(jnp.asarray(x) for x in (start.signal, start.sides, shifts))
    found = _group_flow()(jnp.asarray(groups), known, jnp.asarray(_TIMES), rtol)
    found.check("flow of the groups", float(_TIMES[-1]))
    return np.asarray(jnp.sum(found.state, axis=1))


def _target(context: Context) -> np.ndarray:
    return context.rng("M28", "target").standard_normal((_OUTPUTS, _INPUTS)) / np.sqrt(_INPUTS)


def _judged(text: str, key: str, start: TwoLayer, found: np.ndarray, wrong: dict[str, np.ndarray], own: float) -> Part:
    """QQᵀ by theory against both layers; `own`: the solver's error on theory's side."""
    fine, coarse = (_direct(start, rtol) for rtol in (_RTOL, _RTOL * _LOOSER))
    size = float(np.abs(fine).max())

    def gap(path: np.ndarray) -> float:
        return float(np.abs(path - fine).max()) / size

    controls: Controls = {name: Control(0.0, gap(path)) for name, path in wrong.items()}
    allowance = gap(coarse) + own / size + _ROUNDING
    source = f"change of the integrations when their tolerance is {_LOOSER:g} times looser, and rounding"
    return Measurement(text, 0.0, gap(found), 0.0, allowance, controls, source, key=key)


@claim(
    id="M28",
    title="Two-layer linear networks",
    statement="A λ-balanced network is solved by a matrix formula, any other closes in its hidden units' groups.",
    latex=r"P(t)=e^{Ft}P_0(I+\Phi_tP_0)^{-1}e^{Ft},\quad\dot P_j=F_jP_j+P_jF_j-\tfrac12(PP_j+P_jP)",
    source="arXiv:2409.14623 (λ-balanced), arXiv:1312.6120 (modes); groups derived",
    kind="exact",
    regime="whitened inputs, gradient flow",
    controls=("λ = 0 in place of λ", "half of λ", "mean of 𝒟 in place of 𝒟", "half the time"),
)
def run_two_layer(context: Context) -> Iterator[Part]:
    """QQᵀ at four times against gradient flow of W₁ and W₂; λ > 0, < 0, 0; a general start; one aligned mode."""
    target = _target(context)
    for shift, key in ((0.7, "positive"), (-0.6, "negative"), (0.0, "zero")):
        start = draw_balanced(target, _WIDTH, shift, 0.4, context.rng("M28", "balanced", key))
        wrong = {"λ = 0": start.at(_TIMES, 0.0), "half of λ": start.at(_TIMES, shift / 2)} if shift else {}
        wrong["half the time"] = start.at(_TIMES / 2)
        text = f"largest relative deviation of QQᵀ, λ = {shift:g}, m = {_WIDTH}, t ≤ {_TIMES[-1]:g}"
        yield _judged(text, key, start, start.at(_TIMES), wrong, 0.0)
    yield _general(context, target)
    yield _mode()


def _general(context: Context, target: np.ndarray) -> Part:
    rng = context.rng("M28", "general")
    layers = rng.standard_normal((_WIDTH + 1, _INPUTS)) * 0.5, rng.standard_normal((_OUTPUTS, _WIDTH + 1)) * 0.5
    start = TwoLayer(target, *layers)
    fine, coarse = (_grouped(start, rtol) for rtol in (_RTOL, _RTOL * _LOOSER))
    mean = float(np.trace(start.balance)) / len(start.first)
    text = f"largest relative deviation of QQᵀ from its groups, any 𝒟, m = {_WIDTH + 1}"
    wrong = {"mean of 𝒟": start.at(_TIMES, mean), "λ = 0": start.at(_TIMES, 0.0)}
    return _judged(text, "groups", start, fine, wrong, float(np.abs(coarse - fine).max()))


def _mode() -> Part:
    """One mode: the time at which the direct flow is where it is."""
    value, start = 1.3, TwoLayer(np.array([[1.3]]), np.array([[0.05]]), np.array([[0.9]]))
    shift, at_start = start.shift, 0.05 * 0.9
    fine, coarse = (_direct(start, rtol)[:2, 1, 0] for rtol in (_RTOL, _RTOL * _LOOSER))

    def gap(strength: np.ndarray, shift: float = shift, pace: float = 1.0) -> float:
        return float(np.abs(pace * mode_time(strength, at_start, value, shift) / _TIMES[:2] - 1).max())

    controls: Controls = {
        "λ = 0": Control(0.0, gap(fine, 0.0)),
        "half of λ": Control(0.0, gap(fine, shift / 2)),
        "half the time": Control(0.0, gap(fine, pace=2.0)),
    }
    text = "largest relative deviation of the time of one aligned mode, λ = 0.81, σ = 1.3"
    source = f"change when the integration's tolerance is {_LOOSER:g} times looser, and rounding"
    times = [built_in(mode_time)(strength, at_start, value, shift) for strength in (fine, coarse)]
    changed = float(np.abs(times[1] / times[0] - 1).max())
    return Measurement(text, 0.0, gap(fine), 0.0, changed + _ROUNDING, controls, source, key="mode")
