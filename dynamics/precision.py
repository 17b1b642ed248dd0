"""Double precision, switched on once, before any JAX array exists."""

import jax

jax.config.update("jax_enable_x64", True)
