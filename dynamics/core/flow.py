"""The one driver of Diffrax: Tsit5 with adaptive steps, and what is said where it cannot go on."""

from collections.abc import Callable
from inspect import unwrap
from typing import Any, NamedTuple

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp

from dynamics.core.interrupted import IntegrationError
from dynamics.core.symmetric import Symmetric

#: Solver steps of one call beyond which it gives up.
MOST_STEPS = 200_000


class Reached(NamedTuple):
    """Where an integration came to.

    Attributes:
        state: at the times asked for (time axis first), else at the end. time: reached. good: whether that is the end, or
            an event, with finite numbers. steps: taken, those included that were `rejected`. more: whether it is but for them
            that it is not good.
    """

    state: Any
    time: jax.Array
    good: jax.Array
    steps: jax.Array
    rejected: jax.Array
    more: jax.Array

    @property
    def lost(self) -> bool:
        """Whether most of its steps were rejected: another call would come no further."""
        return 2 * int(self.rejected) > int(self.steps)

    def check(self, what: str, end: float, remedy: str = "end before, or raise rtol") -> None:
        """Raises `IntegrationError` if `what` stopped on its way to `end`."""
        if bool(self.good):
            return
        why = "its numbers grow without bound" if self.lost else f"{int(self.steps)} steps did not suffice"
        raise IntegrationError(f"{what} stopped at time {float(self.time):g} of {end:g}: {why}; {remedy}")


def integrate(
    velocity: Callable[[Any, Any], Any],
    state: Any,
    start: float | jax.Array,
    end: float | jax.Array,
    args: Any = None,
    *,
    rtol: float | jax.Array,
    atol: float | jax.Array | None = None,
    times: jax.Array | None = None,
    meet: bool = False,
    held: Symmetric | None = None,
    event: dfx.Event | None = None,
    max_steps: int = MOST_STEPS,
) -> Reached:
    r"""Integrate $\dot y=\text{velocity}(y,\text{args})$ from `start` to `end`, or to an event; call it in compiled code.

    Args:
        state: pytree y. `held`: the form in which the integrator, and `velocity`, have a state with a symmetric component.
        atol: of a step's error; a thousandth of `rtol` by default.
        times: (n,) increasing, where states are wanted (interpolated, or with `meet` at the ends of steps).
    """
    controller: Any = dfx.PIDController(rtol=rtol, atol=1e-3 * rtol if atol is None else atol)
    y = held.pack(state) if held else state
    last = dfx.SubSaveAt(t1=True)
    # Converted and unwrapped, or compiled functions of Diffrax would hold the velocity, and its system, for good.
    pure = eqx.filter_closure_convert(velocity, y, args)
    solution = unwrap(dfx.diffeqsolve)(
        dfx.ODETerm(lambda t, y, x: pure(y, x)),
        dfx.Tsit5(),
        start,
        end,
        None,
        y,
        args=args,
        stepsize_controller=dfx.ClipStepSizeController(controller, step_ts=times) if meet else controller,
        saveat=dfx.SaveAt(subs=last if times is None else (dfx.SubSaveAt(ts=times), last)),
        event=event,
        max_steps=max_steps,
        # Nobody takes derivatives backwards through a flow: plain loops, which take a fifth less time to compile.
        adjoint=dfx.ForwardMode(),
        throw=False,
    )
    clock, ys = (solution.ts, solution.ys) if times is None else (solution.ts[1], solution.ys[0])
    found = jax.vmap(held.open)(ys) if held else ys
    found = jax.tree.map(lambda x: x[-1], found) if times is None else found
    finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(found)]
    whole = jnp.all(jnp.stack(finite))
    good, more = dfx.is_okay(solution.result) & whole, (solution.result == dfx.RESULTS.max_steps_reached) & whole
    time = jnp.max(jnp.where(jnp.isfinite(clock), clock, start))
    return Reached(found, time, good, solution.stats["num_steps"], solution.stats["num_rejected_steps"], more)
