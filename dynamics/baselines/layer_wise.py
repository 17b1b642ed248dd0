r"""Layer-wise training: the first layer by spherical SGD on the correlation loss, the second by least squares.

The neurons keep unit norm and do not see each other, $w_k\leftarrow(w_k+\eta f_*(x)\sigma'(z_k)(x-z_kw_k))/\|\cdot\|$ (fixed
second layer, no deflation; arXiv:2406.11828). The chain of overlaps is exact in law, as in `dynamics.online_sgd`, whose steps
it takes. The population loss is quadratic in the second layer, so its minimum (with a ridge) and the loss there follow exactly
from the overlaps, by differentiating the derived loss; a fit on fresh samples needs their pre-activations only.
"""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.gradient_flow import lowered_overlap_flow
from dynamics.additive.online_sgd import Problem, all_learned, attributes
from dynamics.core.checks import check_run
from dynamics.core.flow import Reached, integrate
from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import LoweredSystem, State, lower, lower_kernel, lower_scalar
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Told, Track, drive, stretches
from dynamics.core.trajectory import Plotted, dataset, variable
from dynamics.declared.step import Run
from theory import Activation, InitialState, InputError, Teacher
from theory.baselines.correlation import correlation_flow
from theory.core.arguments import check_positive, check_whole
from theory.core.hermite import z as activation_variable
from theory.core.indexed import t as overlap_symbol
from theory.declared.loss import Correlation
from theory.declared.rule import Rule
from theory.declared.student import committee

if TYPE_CHECKING:
    import xarray as xr

_DEFAULT_RIDGE = 1e-6
#: Clock units that a neuron is followed (see `neuron_ends`): its distance from the end falls like e^{−2·clock}.
_CLOCK = 30.0


@dataclass(frozen=True)
class LayerWiseResult(Plotted):
    """A set of replicas.

    Attributes:
        dataset: overlap, norm2 (all 1), second_layer, loss on (replica, time, …): the loss after the second layer's population
            ridge fit at that moment; and, with `samples`, ``fitted_loss`` (replica,) after a fit to fresh samples at the end.
        half_steps: (replica, P) first step (to `resolution`) with a squared overlap ≥ ½; inf if not reached.
        steps: steps run. resolution: recovery is looked at every so many steps.
    """

    dataset: "xr.Dataset"
    half_steps: np.ndarray
    steps: int
    resolution: int


# ------------------------------------------------------------------------- second layer


@compiled
def second_layer(
    lowered: LoweredSystem, t: jax.Array, c: jax.Array, a: jax.Array, ridge: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""Minimiser b (m,) of $\mathcal L(b)+\tfrac\lambda2|b|^2$ and $\mathcal L$ there, from overlaps t (m, P), c (m, m).

    $\mathcal L$ is the derived population loss with second layer b; gradient and Hessian by differentiating it.
    """

    def height(b: jax.Array) -> jax.Array:
        return lowered.observable("loss", {"t": t, "c": c, "r": b}, {"a": a})

    zero = jnp.zeros(t.shape[0])
    hessian = jax.hessian(height)(zero) + ridge * jnp.eye(zero.size)
    weights = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(hessian), jax.grad(height)(zero))
    return weights, height(weights)


def _sampled_layer(
    activation: Activation, samples: int, rows: jax.Array, a: jax.Array, ridge: jax.Array, key: jax.Array
) -> jax.Array:
    """Ridge fit of the second layer, (m,), to fresh samples, $|y-Zb|^2/n+λ|b|^2$; rows (m, q) begin with the teachers'."""
    sigma = lower_scalar(activation_variable, activation.function)
    x = jax.random.normal(key, (samples, rows.shape[1]))
    features = sigma(x @ rows.T)
    labels = sigma(x[:, : a.size]) @ a
    gram = features.T @ features / samples + ridge * jnp.eye(features.shape[1])
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(gram), features.T @ labels / samples)


@partial(jax.jit, static_argnums=0)
def _fits(activation: Activation, state: State, a: jax.Array, ridge: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Second layer and loss of every replica."""
    lowered = lowered_overlap_flow(activation)
    return jax.vmap(lambda one: second_layer(lowered, one["t"], one["c"], a, ridge))(state)


# ---------------------------------------------------------------------------------- SGD


@double_precision
def layer_wise_sgd(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    batch: int = 1,
    replicas: int = 32,
    seed: int = 0,
    method: str = "exact",
    ridge: float = _DEFAULT_RIDGE,
    samples: int | None = None,
    saves: int = 100,
    stop_when_learned: tuple[int, ...] | None = None,
    block_steps: int | None = None,
    progress: Progress | None = None,
) -> LayerWiseResult:
    r"""Spherical SGD on the correlation loss with fresh samples, then least squares for the second layer.

    Args:
        initial: directions of the neurons; their norms are set to 1. step_size: η, for unit second layer.
        ridge: λ of the second layer's fit. samples: fit it to so many fresh samples too, at the end.
        method, saves, stop_when_learned, block_steps, seed: as in `online_sgd`.

    Time is η·steps, the flow time of the correlation loss with unit second layer. Cost per step O(m(P + m + B)).

    Raises:
        InputError: a number out of range, d < P + m, or an activation with a mean.
        Interrupted: on Ctrl-C, with the result so far.
    """
    correlation_flow(activation)  # refuses a mean
    check_run(step_size, seed, method, steps=steps, batch=batch, replicas=replicas, saves=saves)
    rule, row = Rule(float(step_size), batch), committee(activation, len(initial.norm2), rows="projected")
    size, ridge_, a = np.sqrt(initial.norm2)[:, None], jnp.asarray(float(ridge)), jnp.asarray(teacher.a)
    unit = InitialState(initial.on_teachers / size, initial.residual / size)
    problem = Problem.of(
        activation, teacher, unit, rule,
        steps=steps, method=method, block_steps=block_steps, student=row, loss=Correlation(),
    )  # fmt: skip
    check_positive(ridge=ridge)
    if samples is not None:
        check_whole(samples=samples)

    def look(run: Run) -> tuple[jax.Array, ...]:
        state = problem.overlaps(run)
        return state["t"], state["r"], *_fits(activation, state, a, ridge_)

    def done(track: Track[Run]) -> bool:
        return all_learned(track.state.seen, stop_when_learned)

    def result(track: Track[Run]) -> LayerWiseResult:
        fitted = None
        if samples is not None:
            fresh = replica_keys(seed, replicas, "layer-wise SGD", "second layer", samples)
            rows = problem.engine.coordinates(track.state.vectors)
            fitted = np.asarray(
                _fitted_loss(activation, samples, problem.overlaps(track.state), rows, a, ridge_, fresh)
            )
        about = attributes(problem, rule, "layer-wise", method, seed) | {"ridge": ridge}
        return _result(problem, about, track, fitted)

    keys = replica_keys(seed, replicas, "layer-wise SGD")
    advance = problem.engine.advance(keys, problem.watch)
    parts = stretches(steps, saves, problem.block)
    told = Told("layer-wise SGD", steps, progress, f", {replicas} replicas")
    return drive(problem.begin(keys), parts, advance, look, result, told, done=done)


@partial(jax.jit, static_argnums=(0, 1))
def _fitted_loss(
    activation: Activation,
    samples: int,
    state: State,
    rows: jax.Array,
    a: jax.Array,
    ridge: jax.Array,
    keys: jax.Array,
) -> jax.Array:
    """(replica,) population loss after the second layer's fit to fresh samples."""
    lowered = lowered_overlap_flow(activation)

    def one(state: State, rows: jax.Array, key: jax.Array) -> jax.Array:
        b = _sampled_layer(activation, samples, rows, a, ridge, key)
        return lowered.observable("loss", {**state, "r": b}, {"a": a})

    return jax.vmap(one)(state, rows, keys)


def _result(problem: Problem, about: dict[str, Any], track: Track[Run], fitted: np.ndarray | None) -> LayerWiseResult:
    overlap, norm2, weights, loss = track.columns()
    steps, half_steps, eta = np.array(track.at), np.asarray(track.state.seen.half_step), about["step_size"]
    data = dataset(steps * eta, overlap, norm2, loss, step_size=eta, attributes=about, half_steps=half_steps)
    data["time"].attrs["long_name"] = "flow time of the correlation loss with unit second layer"
    data["norm2"].attrs["long_name"] = "squared norm of student neuron (kept at 1)"
    data["loss"].attrs["long_name"] = "population loss ½E(f*−f)² after the second layer's least-squares fit"
    data["second_layer"] = variable(
        ("replica", "time", "neuron"), weights, "second layer, population ridge fit at that moment"
    )
    if fitted is not None:
        data["fitted_loss"] = variable("replica", fitted, "population loss after the fit to fresh samples")
    return LayerWiseResult(data, half_steps, int(steps[-1]), problem.block)


# ------------------------------------------------------------------- where neurons end up


@lru_cache(maxsize=32)
def _overlaps_alone(activation: Activation) -> LoweredSystem:
    """The correlation flow of the overlaps with the teachers, which close by themselves."""
    system = correlation_flow(activation)
    drift = {component: sums for component, sums in system.drift.items() if component.base == overlap_symbol}
    return lower(replace(system, drift=drift, observables={}))


@compiled
def _ends(lowered: LoweredSystem, start: jax.Array, a: jax.Array, rtol: jax.Array) -> Reached:
    slope = lower_kernel(lowered.system.activation, 1)

    def velocity(t: jax.Array, a: jax.Array) -> jax.Array:
        pace = jnp.abs(jnp.sum(a * slope(t) * t, axis=1, keepdims=True))
        return lowered.drift({"t": t}, {"a": a})["t"] / jnp.where(pace > 0, pace, 1.0)

    return integrate(velocity, start, jnp.zeros(()), jnp.asarray(_CLOCK), a, rtol=rtol)


@double_precision
def neuron_ends(activation: Activation, teacher: Teacher, overlap: np.ndarray, rtol: float = 1e-8) -> np.ndarray:
    r"""Overlaps (n, P) at which neurons of the correlation flow end, from overlaps (n, P); they do not see each other.

    Each neuron runs on a clock of its own, $ds=\sum_pa_p\varphi'(t_p)t_p\,dt$, so that the plateau costs no more than the rest
    whatever the dimension, and a neuron that has arrived does not slow the others down.

    Raises: InputError for overlaps of the wrong shape, and for an activation that is not even: negative overlaps then may
    shrink to 0, where they stay, on a clock that does not end; IntegrationError if the integrator gives up.
    """
    activation.require_even("where neurons end")
    start = np.asarray(overlap, dtype=float)
    if start.ndim != 2 or start.shape[1] != teacher.width:
        raise InputError(f"overlap has shape {start.shape}: give (neurons, {teacher.width})")
    found = _ends(_overlaps_alone(activation), jnp.asarray(start), jnp.asarray(teacher.a), jnp.asarray(rtol))
    found.check("correlation flow", _CLOCK)
    return np.asarray(found.state)
