"""What is made for an object goes with it: lowered systems and their compiled code."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics import committee_flow, finite_step_flow, gradient_flow, lower, sde_ensemble
from dynamics.additive.deflated_flow import deflated_flow
from dynamics.core.flow import Reached, integrate
from dynamics.core.kept import compiled, kept
from dynamics.quadratic.riccati_integration import integrate_overlap
from theory import Activation, Student, System, Teacher, draw_initial_state, finite_step, overlap_flow
from theory.quadratic.riccati import overlap_system
from theory.quadratic.subspace import draw_subspace
from theory.steps.committee import committee

H3, ERF = Activation.parse("h3"), Activation.parse("erf")
TEACHER = Teacher.of([1.0], 8)
START = draw_initial_state(TEACHER, Student(1, 0.5), 0)
STEP = {"step_size": 1e-3, "steps": 4, "saves": 2}
NOISY = {"step_size": 1e-3, "time": 2e-3, "paths": 2, "saves": 1}
RUNS: dict[str, tuple[System, Callable[[System], object]]] = {
    "gradient flow": (overlap_flow(H3), lambda own: gradient_flow(H3, TEACHER, START, t_end=0.1, system=own)),
    "finite step": (finite_step(H3), lambda own: finite_step_flow(H3, TEACHER, START, **STEP, system=own)),
    "committee": (committee(ERF), lambda own: committee_flow(ERF, TEACHER, [1.0], START, **STEP, system=own)),
    "SDE": (
        finite_step(H3, fluctuations=True),
        lambda own: sde_ensemble(H3, TEACHER, START, **NOISY, system=own),
    ),
    "Riccati": (
        overlap_system(),
        lambda own: integrate_overlap([1.0, 0.5], draw_subspace(2, 1, 8, 0), [0.1], system=own),
    ),
}


def _alive() -> int:
    """Compiled programs that are held."""
    gc.collect()
    return len(jax.devices()[0].client.live_executables())


@pytest.mark.slow_for("finite step", "committee", "SDE", "Riccati")
@pytest.mark.parametrize(
    "what",
    RUNS,
)
def test_nothing_is_kept_of_a_system_that_is_gone(what: str) -> None:
    """A second system of the same shapes leaves nothing behind; while it lives, its programs do too."""
    derived, run = RUNS[what]
    run(replace(derived))  # compiles what is shared
    before = _alive()
    own = replace(derived)
    run(own)
    gone = weakref.ref(own)
    assert _alive() > before
    del own
    assert _alive() == before
    assert gone() is None


def test_a_system_is_lowered_once_and_each_object_for_itself() -> None:
    first, second = replace(overlap_flow(H3)), replace(overlap_flow(H3))
    assert lower(first) is lower(first)
    assert lower(first) is not lower(second)


class _Owner:
    def __init__(self, factor: float) -> None:
        self.factor = factor


def test_code_is_compiled_once_for_an_owner_and_its_static_values() -> None:
    traced = []

    @compiled
    def scaled(owner: _Owner, x: jax.Array, *, power: int) -> jax.Array:
        traced.append(power)
        return owner.factor * x**power

    two, three = _Owner(2.0), _Owner(3.0)
    for owner, power, expected in ((two, 1, 4.0), (two, 2, 8.0), (two, 1, 4.0), (three, 1, 6.0)):
        assert float(scaled(owner, np.float64(2.0), power=power)) == expected
    assert traced == [1, 2, 1]


def test_numbers_of_python_and_of_arrays_are_one_code() -> None:
    """Weakly typed ones were compiled for apart; inside compiled code they are left as they are."""
    traced = []

    @compiled
    def scaled(owner: _Owner, x: jax.Array) -> jax.Array:
        traced.append(x)
        return owner.factor * x

    two = _Owner(2.0)
    with jax.enable_x64(True):
        for x in (3.0, np.float64(3.0), np.asarray(3.0), jnp.asarray(3.0), jnp.full((), 3.0)):
            assert float(scaled(two, x)) == 6.0
        assert len(traced) == 1
        assert float(jax.jit(partial(scaled, two))(3.0)) == 6.0


def test_the_deflated_flow_is_the_code_of_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was compiled twice more, for its first part and for what follows."""
    system, traced = replace(overlap_flow(H3)), []

    def counted(*arguments: Any, **named: Any) -> Reached:
        traced.append(1)
        return integrate(*arguments, **named)

    monkeypatch.setattr("dynamics.additive.gradient_flow.integrate", counted)
    gradient_flow(H3, TEACHER, START, t_end=30.0, system=system)
    assert np.isfinite(deflated_flow(H3, TEACHER, START, t_end=30.0, system=system).off_time).all()  # in two parts
    assert len(traced) == 1


def test_an_object_that_can_hold_nothing_is_served_all_the_same() -> None:
    assert kept((1, 2), lambda pair, more: (*pair, more), 3) == (1, 2, 3)
