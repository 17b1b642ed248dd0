r"""Fully connected network with one hidden layer, and its tangent kernel at a point of parameter space.

$f(x)=W_2\,\mathrm{erf}(W_1x+b_1)+b_2$ with $W_{ij}\sim N(0,1/\text{fan-in})$, $b_i\sim N(0,1)$ (arXiv:2603.10397, Figure 3:
the published experiment has inputs of 3072 pixels, 512 hidden neurons and 10 outputs).
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp


class FullyConnected(eqx.Module):
    """Weights: W₁ (m, d), b₁ (m,), W₂ (c, m), b₂ (c,)."""

    first: jax.Array
    first_bias: jax.Array
    second: jax.Array
    second_bias: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        """Outputs (c,) of one input (d,)."""
        return self.layers(x, (jnp.zeros_like(self.first_bias), jnp.zeros_like(self.second_bias)))[0]

    def layers(self, x: jax.Array, shifts: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Output, and the input of each layer; `shifts` are added to the pre-activations (for their derivatives)."""
        hidden = jax.scipy.special.erf(self.first @ x + self.first_bias + shifts[0])
        return self.second @ hidden + self.second_bias + shifts[1], (x, hidden)


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def draw_network(key: jax.Array, inputs: int, hidden: int, outputs: int, dtype: jnp.dtype) -> FullyConnected:
    """A network at its initialisation: weights of variance 1/fan-in, biases of variance 1."""
    keys = jax.random.split(key, 4)

    def normal(k: int, *shape: int) -> jax.Array:
        return jax.random.normal(keys[k], shape, dtype)

    return FullyConnected(
        normal(0, hidden, inputs) / jnp.sqrt(jnp.asarray(inputs, dtype)),
        normal(1, hidden),
        normal(2, outputs, hidden) / jnp.sqrt(jnp.asarray(hidden, dtype)),
        normal(3, outputs),
    )


@jax.jit
def outputs(network: FullyConnected, x: jax.Array) -> jax.Array:
    """Outputs (n, c) on inputs (n, d)."""
    return jax.vmap(network)(x)


@jax.jit
def tangent_kernel(network: FullyConnected, x: jax.Array, y: jax.Array) -> jax.Array:
    r"""$\langle\nabla_\theta f_a(x_i),\nabla_\theta f_b(y_j)\rangle$, shape (n_x·c, n_y·c).

    The gradient with respect to a dense layer is the outer product of the back-propagated signal and the layer's input
    (1 for the bias), so $\Theta=\sum_\ell\langle\delta_\ell,\delta'_\ell\rangle(\langle h_\ell,h'_\ell\rangle+1)$: no vector
    of length P is needed. The signals come from automatic differentiation.
    """

    def parts(one: jax.Array) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        zero = (jnp.zeros_like(network.first_bias), jnp.zeros_like(network.second_bias))
        return jax.jacrev(network.layers, argnums=1, has_aux=True)(one, zero)

    signals_x, inputs_x = jax.vmap(parts)(x)
    signals_y, inputs_y = jax.vmap(parts)(y)
    total = sum(
        jnp.einsum("iak,jbk->iajb", s, t) * (h @ g.T + 1.0)[:, None, :, None]
        for s, t, h, g in zip(signals_x, signals_y, inputs_x, inputs_y, strict=True)
    )
    assert isinstance(total, jax.Array)
    n, c, k, _ = total.shape
    return total.reshape(n * c, k * c)
