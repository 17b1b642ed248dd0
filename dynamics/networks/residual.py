"""Residual networks for small images; ResNet-18 (arXiv:1512.03385) is one of them, a net for 8 × 8 digits another.

A stem of 3 × 3 convolutions, then stages of blocks (two 3 × 3 convolutions with a shortcut; each stage after the first halves
the resolution), a mean over pixels and a dense layer. Every convolution is followed by batch normalisation. Weights are
(out, in, 3, 3), images (n, height, width, channels).
"""

from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from dynamics.core.precision import double_precision
from theory import InputError

_EPSILON = 1e-5
#: Weight of a new batch in the running statistics that are used after training.
_MOMENTUM = 0.1
RESNET18 = ((64, 128, 256, 512), 2)
SMALL = ((8, 16), 1)


class Unit(eqx.Module):
    """Convolution and batch normalisation. `mean` and `variance` are running statistics, not trained."""

    weight: jax.Array
    scale: jax.Array
    shift: jax.Array
    mean: jax.Array
    variance: jax.Array
    stride: int = eqx.field(static=True)

    def __call__(self, x: jax.Array, training: bool) -> tuple[jax.Array, "Unit"]:
        """Output, and the unit with its running statistics moved on if `training`."""
        y = _convolve(x, self.weight, self.stride)
        mean, variance, unit = self.mean, self.variance, self
        if training:
            mean, variance = jnp.mean(y, axis=(0, 1, 2)), jnp.var(y, axis=(0, 1, 2))
            unit = replace(self, mean=_blend(self.mean, mean), variance=_blend(self.variance, variance))
        return (y - mean) * (self.scale / jnp.sqrt(variance + _EPSILON)) + self.shift, unit


def _blend(old: jax.Array, new: jax.Array) -> jax.Array:
    """A running mean, moved on."""
    return jax.lax.stop_gradient((1 - _MOMENTUM) * old + _MOMENTUM * new)


def _is_unit(node: Any) -> bool:
    return isinstance(node, Unit)


class Folded(eqx.Module):
    """A trained `Unit` as one convolution with bias: the same function."""

    weight: jax.Array
    bias: jax.Array
    stride: int = eqx.field(static=True)

    def __call__(self, x: jax.Array, training: bool) -> tuple[jax.Array, "Folded"]:
        return _convolve(x, self.weight, self.stride) + self.bias, self


def _convolve(x: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    """'Same' convolution; padding is half the kernel on each side, so a stride of 2 halves even sizes."""
    edge = weight.shape[-1] // 2
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), [(edge, edge)] * 2, dimension_numbers=("NHWC", "OIHW", "NHWC")
    )


Layer = TypeVar("Layer", Unit, Folded)


class Block(eqx.Module, Generic[Layer]):
    """relu(second(relu(first(x))) + shortcut(x)); the shortcut is the identity where shapes agree."""

    first: Layer
    second: Layer
    shortcut: Layer | None

    def __call__(self, x: jax.Array, training: bool) -> tuple[jax.Array, "Block[Layer]"]:
        hidden, first = self.first(x, training)
        out, second = self.second(jax.nn.relu(hidden), training)
        if self.shortcut is None:
            return jax.nn.relu(out + x), Block(first, second, None)
        side, shortcut = self.shortcut(x, training)
        return jax.nn.relu(out + side), Block(first, second, shortcut)


class ResNet(eqx.Module, Generic[Layer]):
    """Stem, stages of blocks, and a dense head with weight (classes, channels)."""

    stem: Layer
    stages: tuple[tuple[Block[Layer], ...], ...]
    head: jax.Array
    head_bias: jax.Array

    def __call__(self, x: jax.Array, training: bool = False) -> tuple[jax.Array, "ResNet[Layer]"]:
        """Logits (n, classes) of images (n, h, w, channels), and the network with running statistics moved on."""
        hidden, stem = self.stem(x, training)
        hidden = jax.nn.relu(hidden)
        stages = []
        for stage in self.stages:
            blocks = []
            for block in stage:
                hidden, block = block(hidden, training)
                blocks.append(block)
            stages.append(tuple(blocks))
        logits = jnp.mean(hidden, axis=(1, 2)) @ self.head.T + self.head_bias
        return logits, ResNet(stem, tuple(stages), self.head, self.head_bias)


@partial(jax.jit, static_argnums=(1, 2, 3, 4, 5))
@double_precision
def draw_resnet(
    key: jax.Array, channels: int, classes: int, widths: tuple[int, ...], blocks: int, dtype: jnp.dtype
) -> ResNet[Unit]:
    """A network at its initialisation: convolutions with variance 2/fan-in, head 1/fan-in.

    Args:
        channels: of the images. widths: channels of each stage. blocks: in each stage.

    Raises: `InputError` without a stage or a block.
    """
    if not widths or min(widths) < 1 or blocks < 1:
        raise InputError(f"widths is {widths!r} with {blocks!r} blocks: give one stage and one block or more")
    count = 0

    def unit(inputs: int, outputs: int, size: int, stride: int) -> Unit:
        nonlocal count
        count += 1
        scale = jnp.sqrt(jnp.asarray(2.0 / (inputs * size * size), dtype))
        weight = scale * jax.random.normal(jax.random.fold_in(key, count), (outputs, inputs, size, size), dtype)
        one, zero = jnp.ones(outputs, dtype), jnp.zeros(outputs, dtype)
        return Unit(weight, one, zero, zero, one, stride)

    stem = unit(channels, widths[0], 3, 1)
    stages, before = [], widths[0]
    for number, width in enumerate(widths):
        stage = []
        for k in range(blocks):
            stride = 2 if number > 0 and k == 0 else 1
            shortcut = unit(before, width, 1, stride) if stride > 1 or before != width else None
            stage.append(Block(unit(before, width, 3, stride), unit(width, width, 3, 1), shortcut))
            before = width
        stages.append(tuple(stage))
    head = jax.random.normal(jax.random.fold_in(key, 0), (classes, before), dtype) / jnp.sqrt(
        jnp.asarray(before, dtype)
    )
    return ResNet(stem, tuple(stages), head, jnp.zeros(classes, dtype))


def trained_part(network: ResNet[Unit]) -> ResNet[Unit]:
    """A tree of booleans: True for what gradient steps move, False for running statistics."""

    def mark(node: Any) -> Any:
        return Unit(True, True, True, False, False, node.stride) if _is_unit(node) else True  # type: ignore[arg-type]

    return jax.tree.map(mark, network, is_leaf=_is_unit)


def folded(network: ResNet[Unit]) -> ResNet[Folded]:
    """The network in its trained form, every normalisation absorbed into the convolution before it."""

    def fold(unit: Unit) -> Folded:
        gain = unit.scale / jnp.sqrt(unit.variance + _EPSILON)
        return Folded(unit.weight * gain[:, None, None, None], unit.shift - unit.mean * gain, unit.stride)

    return jax.tree.map(lambda node: fold(node) if _is_unit(node) else node, network, is_leaf=_is_unit)
