"""The output shape of each layer, and the arrays that it learns. Shapes only: no weights are drawn here.

Canonical layouts: a convolution's kernel is (height, width, in, out), and a dense layer's is (in, out). A dense layer
after Flatten has its inputs ordered by height, then width, then channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from laptime.model.hardware import OperatorKind, StepOperator
from laptime.model.limits import (
    AveragePool,
    BatchNorm,
    Conv,
    Dense,
    DenseBlock,
    Dropout,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Padding,
    Relu,
    Reshape,
    StepWork,
    SwapAxes,
    Transition,
)
from laptime.model.workload import FLOAT_BYTES, Adam, Workload

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


# The operators of a training step, from the shapes of a network's layers. No framework is needed.
#
# Forward, backward and update are operators of their own, as an eager framework launches them: a product three times
# (output, gradient of its input, gradient of its weights), all others twice. Bytes are what an operator reads and
# writes if nothing stays in a cache between two of them.

# Passes over its values that an operator makes, forward and backward.
PASSES = {"norm": (3, 5), "relu": (2, 3), "add": (3, 1), "pool": (1, 1), "join": (2, 2), "dropout": (2.25, 2.25)}
PASSES |= {"gelu": (2, 3), "softmax": (2, 3), "embedding": (2, 2)}
# Passes over the weights that an update makes: SGD reads gradient and weight, and writes the weight. A momentum, and
# each of Adam's two, are read and written.
UPDATE_PASSES = {"sgd": 3, "momentum": 5, "adam": 7, "none": 0}
IMAGE_CHANNELS, NARROW_CHANNELS, MEDIUM_CHANNELS = (
    16,
    65,
    129,
)  # channels: fewer are an image's, fill the units badly, and half well
CAST_BYTES = 6  # of a weight that is cast to two bytes in each step


class OperatorList:
    """Collects the operators of a step of `batch` items, whose values take `value_bytes` each."""

    def __init__(self, batch: int, value_bytes: int, *, first_needs_gradient: bool = False) -> None:
        self._batch, self._value_bytes, self._weights = batch, value_bytes, 0.0
        self._skips = not first_needs_gradient
        self.found: list[StepOperator] = []

    def product(
        self, kind: OperatorKind, multiplications: float, inputs: float, outputs: float, weights: float
    ) -> None:
        """Add a layer's products. Values are those of one item. The first layer needs no gradient of its input."""
        flops = 2 * multiplications * self._batch
        moved = self._value_bytes * (self._batch * (inputs + outputs) + weights)
        self.found += [StepOperator(kind, flops, moved)] * (2 if self._skips and weights else 3)
        self._skips = self._skips and not weights
        self._weights += weights

    def move(self, how: str, values: float, weights: float = 0.0) -> None:
        """Add what computes hardly anything: a rectifier, a norm, a pooling."""
        moved = self._value_bytes * self._batch * values
        self.found += [StepOperator("move", 0.0, passes * moved) for passes in PASSES[how]]
        self._weights += weights

    def update(self, how: str) -> None:
        """Add the optimizer's update; and the casts of weights where values take fewer bytes than these."""
        moved = UPDATE_PASSES[how] * FLOAT_BYTES * self._weights
        self.found += [StepOperator("update", 0.0, moved)] if moved else []
        if self._value_bytes < FLOAT_BYTES:
            self.found.append(StepOperator("update", 0.0, CAST_BYTES * self._weights))


def list_operators(workload: Workload, batch: int, precision: str = "fp32") -> tuple[StepOperator, ...]:
    """Return the operators of a step of a built-in training."""
    found = OperatorList(batch, VALUE_BYTES[precision])
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        values, results = math.prod(shape), math.prod(after)
        match layer:
            case Conv(kernel=kernel, stride=stride):
                multiplications = results * kernel**2 * shape[-1]
                kind = kind_of_convolution((kernel, kernel), stride, shape[-1])
                found.product(kind, multiplications, values, results, _weights_of(layer, shape))
            case Dense():
                found.product("product", results * shape[-1], values, results, _weights_of(layer, shape))
            case BatchNorm():
                found.move("norm", results, _weights_of(layer, shape))
            case MaxPool() | AveragePool() | GlobalAveragePool():
                found.move("pool", values + results)
            case Joined():
                found.move("join", results)
            case Dropout():
                found.move("dropout", results)
            case Relu():
                found.move("relu", results)
        if isinstance(layer, Conv | Dense) and layer.activation == "relu":
            found.move("relu", results)
        shape = after
    found.update("adam" if isinstance(workload.optimizer, Adam) else "sgd")
    return tuple(found.found)


def kind_of_convolution(kernel: Sequence[int], stride: int, channels: int) -> OperatorKind:
    """Return which efficiency a convolution has.

    One of 1x1 is a product, unless it skips values by its stride. Few channels cannot fill the units: that costs most
    up to 64, and less up to 128. Of more, only one of 3x3 without strides has an algorithm that multiplies less.
    """
    if max(kernel, default=1) == 1:
        return "strided" if stride > 1 else "narrow" if channels < IMAGE_CHANNELS else "pointwise"
    if channels < MEDIUM_CHANNELS:
        return "narrow" if channels < NARROW_CHANNELS else "medium"
    return "conv" if stride == 1 and set(kernel) == {3} else "direct"


def _weights_of(layer: Conv | Dense | BatchNorm, shape: Shape) -> int:
    return sum(math.prod(spec.shape) for spec in weights_of(layer, shape))


# What one step of a workload has to compute and to move, from the shapes of its layers. No framework is needed.
#
# It counts the operations of products and convolutions (a multiplication and its addition are two), and the bytes that
# a step moves if each layer does all that it can in one pass. So both figures are lower bounds: what can be done within
# the layer before (rectifiers, dropout, reordering, DenseNet's joining) counts as 0.

VALUE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
WRITES = (Conv, Dense, MaxPool, AveragePool, GlobalAveragePool, BatchNorm)
# Passes over a weight: read forward, gradient written and read, weight read and written. Adam's two moments: both
# read and written.
STATE_PASSES = 5
MOMENT_PASSES = 4
# Passes over an output: written forward, read backward, its gradient written and read.
OUTPUT_PASSES = 4
# The batch is read forward, and again for the gradient of the first layer's weights.
BATCH_PASSES = 2
SHAPES_HOW = (
    "from the layers' shapes: operations of products and convolutions, forward and backward; bytes of weights, "
    "gradients and optimizer state in float32, of outputs and their gradients in the lane's precision, of the batch"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """One layer: its multiplications per item, the values that it writes per item, and its weights."""

    multiplications: int
    outputs: int
    weights: int


def count_step(workload: Workload, batch: int, precision: str = "fp32") -> StepWork:
    """Return the work of one step on `batch` items. Outputs are kept in `precision`."""
    parts = list(_parts_of(workload))
    first = next(part for part in parts if part.weights)
    flops = sum(2 * part.multiplications * (2 if part is first else 3) for part in parts) * batch
    passes = STATE_PASSES + (MOMENT_PASSES if isinstance(workload.optimizer, Adam) else 0)
    # Backward, a layer reads its weights to compute the gradient of its inputs. The first layer needs no such gradient.
    state = FLOAT_BYTES * sum(part.weights * (passes + (part is not first)) for part in parts)
    outputs = VALUE_BYTES[precision] * OUTPUT_PASSES * batch * sum(part.outputs for part in parts)
    items = FLOAT_BYTES * BATCH_PASSES * batch * math.prod(workload.image_shape)
    return StepWork(float(flops), float(state + outputs + items), SHAPES_HOW)


def _parts_of(workload: Workload) -> Iterator[_Part]:
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        weights = sum(math.prod(spec.shape) for spec in weights_of(layer, shape))
        written = math.prod(after) if isinstance(layer, WRITES) else 0
        yield _Part(_multiplications(layer, shape, after), written, weights)
        shape = after


def _multiplications(layer: Layer | Joined, shape: Shape, after: Shape) -> int:
    """Return a layer's multiplications per item. A convolution's padding counts like real input."""
    match layer:
        case Conv(kernel=kernel):
            return math.prod(after) * kernel**2 * shape[-1]
        case Dense():
            return math.prod(after) * shape[-1]
        case _:
            return 0
