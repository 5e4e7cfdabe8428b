"""What one step of a workload has to compute and to move, from the shapes of its layers. No framework is needed.

It counts the operations of products and convolutions (a multiplication and its addition are two), and the bytes that
a step moves if each layer does all that it can in one pass. So both figures are lower bounds: what can be done within
the layer before (rectifiers, dropout, reordering, DenseNet's joining) counts as 0.
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
# Passes over a weight: read forward, gradient written and read, weight read and written. Adam's two moments: both
# read and written.
STATE_PASSES = 5
MOMENT_PASSES = 4
# Passes over an output: written forward, read backward, its gradient written and read.
OUTPUT_PASSES = 4
# The batch is read forward, and again for the gradient of the first layer's weights.
BATCH_PASSES = 2
HOW = (
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
    """Return a layer's multiplications per item. A convolution's padding counts like real input."""
    match layer:
        case Conv(kernel=kernel):
            return math.prod(after) * kernel**2 * shape[-1]
        case Dense():
            return math.prod(after) * shape[-1]
        case _:
            return 0
