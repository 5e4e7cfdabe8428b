"""The output shape of each layer, and the arrays that it learns. Shapes only: no weights are drawn here.

Canonical layouts: a convolution's kernel is (height, width, in, out), and a dense layer's is (in, out). A dense layer
after Flatten has its inputs ordered by height, then width, then channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from laptime.model.network import (
    AveragePool,
    BatchNorm,
    Conv,
    Dense,
    DenseBlock,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Padding,
    Relu,
    Reshape,
    SwapAxes,
    Transition,
)
from laptime.model.workload import Workload

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeightSpec:
    """One trainable array. `flattened_from` is the (height, width, channel) shape behind a dense kernel's inputs."""

    shape: Shape
    start: Literal["glorot", "zeros", "ones"]
    kind: Literal["conv", "dense", "vector"]
    flattened_from: Shape | None = None


def list_weights(workload: Workload) -> list[WeightSpec]:
    """Return every trainable array of the network, in the order of the layers."""
    specs: list[WeightSpec] = []
    shape: Shape = workload.image_shape
    before: Shape | None = None
    for layer in expand(workload.layers, workload.image_shape[-1]):
        specs.extend(weights_of(layer, shape, before))
        before = shape if isinstance(layer, Flatten) else before if _keeps_order(layer) else None
        shape = output_shape(layer, shape)
    return specs


def count_parameters(workload: Workload) -> int:
    return sum(math.prod(spec.shape) for spec in list_weights(workload))


def expand(layers: tuple[Layer, ...], channels: int) -> Iterator[Layer | Joined]:
    """Expand DenseNet's blocks into the plain layers that hold their weights, for counting and drawing.

    The expansion is exact for weights and for the channels that each layer sees. The back end decides how a block
    joins its layers' outputs.
    """
    for layer in layers:
        if isinstance(layer, DenseBlock):
            for index in range(layer.layers):
                seen = channels + index * layer.growth
                yield Joined(seen)
                yield BatchNorm()
                yield Relu()
                yield Conv(layer.bottleneck * layer.growth, 1, bias=False)
                yield BatchNorm()
                yield Relu()
                yield Conv(layer.growth, 3, padding="same", bias=False)
            channels += layer.layers * layer.growth
            yield Joined(channels)
        elif isinstance(layer, Transition):
            channels //= 2
            yield BatchNorm()
            yield Relu()
            yield Conv(channels, 1, bias=False)
            yield AveragePool(2)
        else:
            channels = layer.filters if isinstance(layer, Conv) else channels
            yield layer


@dataclass(frozen=True, slots=True)
class Joined:
    """A marker in an expanded block: from here on the layers see this many channels."""

    channels: int


def output_shape(layer: Layer | Joined, shape: Shape) -> Shape:
    """Return a layer's output shape for an input of `shape`."""
    match layer:
        case Conv(filters=filters, kernel=kernel, padding=padding, stride=stride):
            sides = (_after(side, kernel, stride, padding) for side in shape[:2])
            return (*sides, filters)
        case MaxPool(size=size, stride=stride, padding=padding):
            return (*(_after(side, size, stride, padding) for side in shape[:2]), shape[-1])
        case AveragePool(size=size):
            return (shape[0] // size, shape[1] // size, shape[2])
        case GlobalAveragePool():
            return (shape[-1],)
        case Flatten():
            return (math.prod(shape),)
        case Dense(units=units):
            return (*shape[:-1], units)
        case Reshape(shape=wanted):
            return wanted
        case SwapAxes():
            return (*shape[:-2], shape[-1], shape[-2])
        case Joined(channels=channels):
            return (*shape[:2], channels)
        case DenseBlock(layers=count, growth=growth):
            return (*shape[:2], shape[2] + count * growth)
        case Transition():
            return (shape[0] // 2, shape[1] // 2, shape[2] // 2)
        case _:
            return shape


def _after(side: int, kernel: int, stride: int, padding: Padding) -> int:
    if padding == "same":
        return -(-side // stride)
    around = 0 if padding == "valid" else padding
    return (side + 2 * around - kernel) // stride + 1


def _keeps_order(layer: Layer | Joined) -> bool:
    """Whether a layer after Flatten keeps the order of its inputs."""
    return not isinstance(layer, Dense | Conv | SwapAxes | GlobalAveragePool)


def weights_of(layer: Layer | Joined, shape: Shape, before: Shape | None = None) -> list[WeightSpec]:
    """Return the arrays that a layer with an input of `shape` learns."""
    match layer:
        case Conv(filters=filters, kernel=kernel, bias=bias):
            kernels = WeightSpec((kernel, kernel, shape[-1], filters), "glorot", "conv")
            return [kernels, WeightSpec((filters,), "zeros", "vector")] if bias else [kernels]
        case Dense(units=units):
            kernels = WeightSpec((shape[-1], units), "glorot", "dense", before)
            return [kernels, WeightSpec((units,), "zeros", "vector")]
        case BatchNorm():
            return [WeightSpec((shape[-1],), "ones", "vector"), WeightSpec((shape[-1],), "zeros", "vector")]
        case _:
            return []
