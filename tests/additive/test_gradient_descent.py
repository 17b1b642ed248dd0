"""Population gradient descent in overlap coordinates against explicit vectors, and against the flow at small steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics import gradient_descent, gradient_flow
from dynamics.additive.ambient_flow import ambient_loss, embed
from theory import Activation, InitialState, InputError, Student, Teacher, draw_initial_state, predict
from theory.additive.gradient_descent import descent_map

ACTIVATIONS = ["h4", "h3", "0.8*h4+0.6*h6", "erf", "quadratic"]


def problem(dim=20, width=3, students=5, scale=1.0):
    teacher = Teacher.power_law(width, 1.0, dim)
    return teacher, draw_initial_state(teacher, Student(students, scale), seed=0)


@pytest.mark.parametrize("text", ACTIVATIONS[:4])
def test_the_map_is_derived(text):
    assert descent_map(Activation.parse(text)).derivation.verify() == 2


@pytest.mark.slow_for("quadratic")
@pytest.mark.parametrize("text", ACTIVATIONS)
def test_equals_descent_on_explicit_vectors(text):
    activation = Activation.parse(text)
    teacher, start = problem()
    vectors, a = jnp.asarray(embed(start, teacher.dim)), jnp.asarray(teacher.a)
    slope = jax.jit(jax.grad(lambda v: ambient_loss(activation, v, a)))
    losses = []
    for _ in range(30):
        vectors = vectors - 0.05 * slope(vectors)
        losses.append(float(ambient_loss(activation, vectors, a)))
    run = gradient_descent(activation, teacher, start, step_size=0.05, steps=30, saves=np.arange(1, 31))
    assert np.allclose(run.loss, losses, rtol=1e-11)


def test_small_steps_follow_the_flow_with_an_error_of_first_order():
    activation = Activation.from_degree(4)
    teacher, start = problem(60, 2, 4, 0.1)
    flow = gradient_flow(activation, teacher, start, t_end=1.3 * predict(activation, teacher, start).last_time)
    first = int(np.argmin(flow.half_time))
    errors = []
    for eta in (0.02, 0.01):
        steps = int(1.2 * flow.half_time[first] / eta)
        run = gradient_descent(activation, teacher, start, step_size=eta, steps=steps)
        errors.append(run.half_steps[first] * eta - flow.half_time[first])
    assert abs(errors[1]) < 0.02 * flow.half_time[first]
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.5)


def test_what_is_learned_at_the_start_takes_no_step():
    teacher = Teacher.of([0.8, 0.6], 20)
    row = np.array([[0.95, 0.0], [0.0, 0.1]])
    start = InitialState(row, np.diag(np.sqrt(1 - np.sum(row**2, axis=1))))
    run = gradient_descent(Activation.parse("h4"), teacher, start, step_size=0.01, steps=2)
    assert run.half_steps.tolist() == [0.0, np.inf]


def test_a_step_beyond_stability_is_reported():
    teacher, start = problem(scale=0.5)
    run = gradient_descent(Activation.from_degree(4), teacher, start, step_size=50.0, steps=200)
    assert run.diverged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0, "steps": 5}, "step_size is 0.0: give a positive"),
        ({"step_size": 0.1, "steps": 0}, "steps is 0: give a whole number, 1 or more"),
        ({"step_size": 0.1, "steps": 5, "saves": np.array([9])}, "saves must increase within"),
    ],
)
def test_bad_input_is_refused(options, message):
    teacher, start = problem()
    with pytest.raises(InputError, match=message):
        gradient_descent(Activation.from_degree(4), teacher, start, **options)
