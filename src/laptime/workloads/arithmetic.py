"""What one step of a workload has to compute and to move, from the shapes of its layers; no framework is asked.

Counted are the operations of products and convolutions, a multiplication and its addition as two, and the bytes that
a step moves even if each layer did all that it can in one pass. So both are least figures: what is done within the
layer before (rectifiers, dropout, other orders of the same values, DenseNet's joining) counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from laptime.model.limits import StepWork
from laptime.model.network import AveragePool, BatchNorm, Conv, Dense, GlobalAveragePool, Layer, MaxPool
from laptime.model.workload import FLOAT_BYTES, Adam, Workload
from laptime.workloads.shapes import Joined, Shape, expand, output_shape, weights_of

VALUE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
WRITES = (Conv, Dense, MaxPool, AveragePool, GlobalAveragePool, BatchNorm)
# Of a weight: read forward, its gradient written and read, itself read and written; of Adam's two moments the same.
STATE_PASSES = 5
MOMENT_PASSES = 4
# Of an output: written forward, read backward, its gradient written and read.
OUTPUT_PASSES = 4
# The batch is read forward, and again for the gradient of the first layer's weights.
BATCH_PASSES = 2
HOW = (
    "from the layers' shapes: operations of products and convolutions, forward and backward; bytes of weights, "
    "gradients and optimizer state in float32, of outputs and their gradients in the lane's precision, of the batch"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """One layer: its multiplications and the values that it writes for an item, and the weights that it has."""

    multiplications: int
    outputs: int
    weights: int


def count_step(workload: Workload, batch: int, precision: str = "fp32") -> StepWork:
    """Give the work of one step on so many items, whose outputs are kept in this precision."""
    parts = list(_parts_of(workload))
    first = next(part for part in parts if part.weights)
    flops = sum(2 * part.multiplications * (2 if part is first else 3) for part in parts) * batch
    passes = STATE_PASSES + (MOMENT_PASSES if isinstance(workload.optimizer, Adam) else 0)
    # Backward, a layer reads its weights for the gradient of its inputs, which the first layer has no use for.
    state = FLOAT_BYTES * sum(part.weights * (passes + (part is not first)) for part in parts)
    outputs = VALUE_BYTES[precision] * OUTPUT_PASSES * batch * sum(part.outputs for part in parts)
    items = FLOAT_BYTES * BATCH_PASSES * batch * math.prod(workload.image_shape)
    return StepWork(float(flops), float(state + outputs + items), HOW)


def _parts_of(workload: Workload) -> Iterator[_Part]:
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        weights = sum(math.prod(spec.shape) for spec in weights_of(layer, shape))
        written = math.prod(after) if isinstance(layer, WRITES) else 0
        yield _Part(_multiplications(layer, shape, after), written, weights)
        shape = after


def _multiplications(layer: Layer | Joined, shape: Shape, after: Shape) -> int:
    """A convolution multiplies at each place of its output; what lies beyond an image's edge counts as if it did."""
    match layer:
        case Conv(kernel=kernel):
            return math.prod(after) * kernel**2 * shape[-1]
        case Dense():
            return math.prod(after) * shape[-1]
        case _:
            return 0
