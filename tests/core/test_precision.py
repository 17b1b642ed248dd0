"""Double precision for all of ours, and a program in single precision beside it that keeps its numbers."""

import contextlib
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynamics
from dynamics import networks
from dynamics.core import precision
from theory import Activation, InitialState, Student, Teacher, draw_initial_state

ROOT = Path(__file__).resolve().parents[2]

#: Somebody's training loop. `named` gives every dtype, `unnamed` leaves them to JAX's default.
PROGRAM = """
import hashlib
import jax, jax.numpy as jnp
import numpy as np

def train(**dtype):
    first, second = jax.random.split(jax.random.key(0))
    w = jax.random.normal(first, (8, 4), **dtype)
    x = jax.random.normal(second, (64, 8), **dtype)
    y = jnp.asarray(np.sin(np.arange(64.0)), **dtype)
    loss = lambda w: jnp.mean((jnp.tanh(x @ w).sum(axis=1) - y) ** 2)
    step = lambda w, _: (w - 0.1 * jax.grad(loss)(w), loss(w))
    return jax.lax.scan(step, w, None, length=20)

def shown(result):
    w, losses = result
    return str(w.dtype), hashlib.sha256(w.tobytes() + losses.tobytes()).hexdigest()

named = lambda: shown(train(dtype=jnp.float32))
unnamed = lambda: shown(train())
"""


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints, warnings included."""
    kept = {name: value for name, value in os.environ.items() if name not in ("JAX_ENABLE_X64", "JAX_PLATFORMS")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=kept | environment, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


@pytest.fixture
def problem() -> tuple[Activation, Teacher, InitialState]:
    teacher = Teacher.power_law(width=2, exponent=1.0, dim=100)
    return Activation.parse("h3"), teacher, draw_initial_state(teacher, Student(width=3, init_scale=0.1), seed=0)


@pytest.fixture
def single() -> Iterator[None]:
    """A process whose user has switched double precision off again."""
    jax.config.update("jax_enable_x64", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", True)


# -------------------------------------------------------------------------------- a float32 program beside us


@pytest.mark.slow
def test_a_float32_program_keeps_its_numbers_beside_dynamics() -> None:
    alone = python(PROGRAM + "print(named()); print(unnamed())").splitlines()
    assert alone[0] == alone[1]
    beside = f"{PROGRAM}import dynamics\nprint(named())\nwith jax.enable_x64(False): print(unnamed())\nprint(unnamed())"
    named, inside, outside = python(beside).splitlines()
    assert named == inside == alone[0]
    assert "float64" in outside  # what the documentation warns of


@pytest.mark.parametrize("local", [True, False], ids=["context", "configuration"])
def test_ours_are_double_where_the_caller_is_single(
    problem: tuple[Activation, Teacher, InitialState], request: pytest.FixtureRequest, local: bool
) -> None:
    times = np.linspace(0.0, 6.0, 4)
    expected = dynamics.gradient_flow(*problem, t_end=6.0, times=times).dataset
    if not local:
        request.getfixturevalue("single")
    with jax.enable_x64(False) if local else contextlib.nullcontext():
        found = dynamics.gradient_flow(*problem, t_end=6.0, times=times).dataset
        assert jnp.ones(1).dtype == jnp.float32
    assert found.equals(expected)


def test_so_does_sgd(problem: tuple[Activation, Teacher, InitialState]) -> None:
    run = lambda: dynamics.online_sgd(*problem, step_size=1e-3, steps=64, replicas=1, seed=0).dataset  # noqa: E731
    with jax.enable_x64(False):
        found = run()
    assert found.equals(run())


def test_every_public_function_that_uses_jax_sees_to_its_precision() -> None:
    code = precision.double_precision(lambda: None).__code__
    public = [getattr(module, name) for module in (dynamics, networks) for name in module.__all__]
    functions = [f for f in public if inspect.isfunction(f)]
    numerical = [f for f in functions if {"jax", "jnp"} & set(vars(sys.modules[f.__module__]))]
    assert len(numerical) > 20
    assert [f.__name__ for f in numerical if f.__code__ is not code] == []


# --------------------------------------------------------------------------------------------------- the place


@precision.double_precision
def _device() -> object:
    return jax.config.jax_default_device


@pytest.fixture
def unasked() -> Iterator[None]:
    """A process whose user has named no device."""
    before = jax.config.jax_platforms  # type: ignore[attr-defined]
    jax.config.update("jax_platforms", None)
    try:
        yield
    finally:
        jax.config.update("jax_platforms", before)


def test_ours_leave_an_accelerator_alone_that_nobody_asks_for(unasked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = jax.devices("cpu")[0]
    assert _device() is None  # the processor is all there is
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert _device() == processor
    assert jax.config.jax_default_device is None  # type: ignore[attr-defined]  # the user's own arrays go where they went
    with jax.default_device("cpu"):  # (a platform by its name: told apart from what would be chosen)
        assert _device() == "cpu"
    jax.config.update("jax_platforms", "cuda,cpu")
    assert _device() is None


@pytest.mark.parametrize(("asked", "found"), [({}, "cpu"), ({"JAX_PLATFORMS": "cuda"}, "cuda")])
def test_so_does_the_command_line(asked: dict[str, str], found: str) -> None:
    code = "import os; from emergence.cli import main; main(['claims', 'E7']); print(os.environ['JAX_PLATFORMS'])"
    assert python(code, **asked).splitlines()[-1] == found


# ------------------------------------------------------------------------------------------------- the warning


def test_switching_on_warns_a_program_that_has_used_jax(single: None) -> None:
    with pytest.warns(UserWarning, match=r"float64 JAX's default .* under jax.enable_x64\(False\)"):
        precision._switch_on()
    assert precision.is_double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision._switch_on()  # it is on


@pytest.mark.parametrize("asked", ["", "0"])
def test_switching_on_warns_if_the_environment_says_otherwise(
    single: None, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(precision, "_in_use", lambda: False)
    monkeypatch.delenv("JAX_ENABLE_X64", raising=False)
    if asked:
        monkeypatch.setenv("JAX_ENABLE_X64", asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        precision._switch_on()
    assert len(caught) == bool(asked)


def test_importing_jax_and_its_libraries_is_not_yet_using_it() -> None:
    load = f"import runpy; run = runpy.run_path({str(ROOT / 'dynamics' / 'core' / 'precision.py')!r})"
    code = f"import jax, diffrax, equinox, sys; {load}; print(run['_in_use'](), run['is_double']())"
    assert python(code) == "False True\n"
    used = python(f"import jax.numpy as jnp; jnp.ones(1); {load}")
    assert used.count("UserWarning") == 1
