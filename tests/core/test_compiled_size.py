"""What simulators and flows compile: nothing twice, nothing that only derivatives would need; and the law of what is drawn."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from dynamics.core.flow import integrate
from dynamics.core.keys import stream_key
from dynamics.core.outside import chi_square


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all operations of a program, those of its loops' bodies included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            if hasattr(inner, "jaxpr"):
                yield from _primitives(inner.jaxpr)


def _draw(key: jax.Array) -> jax.Array:
    return chi_square(key, jnp.array([2.0, 3.0, 17.0]))


def test_proposals_of_a_chi_square_are_compiled_once() -> None:
    drawn = list(_primitives(jax.make_jaxpr(_draw)(stream_key(0, "chi square", "program")).jaxpr))
    assert drawn.count("random_bits") == 2  # a Gaussian and a uniform


def test_chi_squares_have_their_law_and_a_refused_one_is_drawn_again() -> None:
    keys = jax.random.split(stream_key(0, "chi square", "law"), 20_000)
    drawn = np.asarray(jax.jit(jax.vmap(_draw))(keys))
    # (At two degrees of freedom every twentieth proposal is refused: kept, they would stand out.)
    for freedom, column in zip((2, 3, 17), drawn.T, strict=True):
        assert stats.kstest(column, stats.chi2(freedom).cdf).pvalue > 1e-4
        assert stats.kstest(column, stats.chi2(1.05 * freedom).cdf).pvalue < 1e-4


def test_a_flow_compiles_nothing_for_derivatives_backwards() -> None:
    program = jax.make_jaxpr(lambda y: integrate(lambda y, _: -y, y, 0.0, 1.0, rtol=1e-8).state)(jnp.ones(3))
    assert not [name for name in _primitives(program.jaxpr) if name.startswith("custom_vjp")]
