"""The operators of a training step, from the shapes of a network's layers. No framework is needed.

Forward, backward and update are operators of their own, as an eager framework launches them: a product three times
(output, gradient of its input, gradient of its weights), all others twice. Bytes are what an operator reads and writes
if nothing stays in a cache between two of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from laptime.model.forecasting import OperatorKind, StepOperator
from laptime.model.network import AveragePool, BatchNorm, Conv, Dense, Dropout, GlobalAveragePool, MaxPool, Relu
from laptime.model.workload import FLOAT_BYTES, Adam, Workload
from laptime.workloads.arithmetic import VALUE_BYTES
from laptime.workloads.shapes import Joined, Shape, expand, output_shape, weights_of

# Passes over its values that an operator makes, forward and backward.
PASSES = {"norm": (3, 5), "relu": (2, 3), "add": (3, 1), "pool": (1, 1), "join": (2, 2), "dropout": (2.25, 2.25)}
PASSES |= {"gelu": (2, 3), "softmax": (2, 3), "embedding": (2, 2)}
# Passes over the weights that an update makes: SGD reads gradient and weight, and writes the weight. A momentum, and
# each of Adam's two, are read and written.
UPDATE_PASSES = {"sgd": 3, "momentum": 5, "adam": 7, "none": 0}
OF_AN_IMAGE, NARROW, MEDIUM = 16, 65, 129  # channels: fewer are an image's, fill the units badly, and half well
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
        return "strided" if stride > 1 else "narrow" if channels < OF_AN_IMAGE else "pointwise"
    if channels < MEDIUM:
        return "narrow" if channels < NARROW else "medium"
    return "conv" if stride == 1 and set(kernel) == {3} else "direct"


def _weights_of(layer: Conv | Dense | BatchNorm, shape: Shape) -> int:
    return sum(math.prod(spec.shape) for spec in weights_of(layer, shape))
