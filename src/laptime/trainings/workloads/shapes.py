"""The output shape of each layer, the arrays that it learns, and what a step and a heat hold in memory. Shapes only: no
framework is needed.

Canonical layouts: a convolution's kernel is (height, width, in, out), and a dense layer's is (in, out). A dense layer
after Flatten has its inputs ordered by height, then width, then channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, cast

from laptime.model.errors import UsageError
from laptime.model.hardware import (
    COUNTED_KINDS,
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
    OperatorKind,
    Padding,
    Relu,
    Reshape,
    StepOperator,
    StepWork,
    SwapAxes,
    Transition,
)
from laptime.model.machine import DeviceKind
from laptime.model.precisions import PRECISIONS
from laptime.model.process import Settings
from laptime.model.workload import AT_WIDTH, FLOAT_BYTES, Adam, Workload, is_width

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
        if isinstance(layer, Flatten):
            before = shape
        elif isinstance(layer, Dense | Conv | SwapAxes | GlobalAveragePool):  # others keep the order of their inputs
            before = None
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
                yield Joined(channels + index * layer.growth)
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
# Of fewer channels ...
IMAGE_CHANNELS = 16  # ... the input is an image
NARROW_CHANNELS = 65  # ... the units are filled badly
MEDIUM_CHANNELS = 129  # ... they are half filled
CAST_BYTES = 6  # of a weight that is cast to two bytes in each step


class OperatorList:
    """Collects the operators of a step of `batch` items, whose values take `value_bytes` each."""

    def __init__(self, batch: int, value_bytes: int, *, first_needs_gradient: bool = False) -> None:
        self._batch = batch
        self._value_bytes = value_bytes
        self._weights = 0.0
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
    found = OperatorList(batch, PRECISIONS[precision].bytes)
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        values = math.prod(shape)
        results = math.prod(after)
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


# Of the largest operator's bytes: the layers of a built-in training, by which a forecast was fitted, list no smaller
# moves, such as those of a loss or of a bias.
SMALL_OPERATOR = 0.005
COUNTED_CONVOLUTION = "convolution"  # as laptime.attach.operators names all of them


def as_operators(counted: Mapping[tuple[str, float, float, tuple[int, ...]], int]) -> tuple[StepOperator, ...]:
    """Return the operators of a step that was counted as they were called, by how often each was.

    All moves that are small next to the largest operator are one.
    """
    found = [
        StepOperator(_kind_of(kind, shape), flops, moved, calls)
        for (kind, flops, moved, shape), calls in counted.items()
    ]
    least = SMALL_OPERATOR * max((operator.bytes for operator in found), default=0.0)
    small = [operator for operator in found if operator.kind == "move" and operator.bytes < least]
    folded = StepOperator("move", 0.0, sum(step_operator.calls * step_operator.bytes for step_operator in small))
    kept = [operator for operator in found if operator not in small]
    return (*kept, folded) if small else tuple(kept)


def _kind_of(kind: str, shape: Sequence[int]) -> OperatorKind:
    """Return the kind of a counted operator. The shape of a convolution is its stride, channels, groups and kernel."""
    if kind == COUNTED_CONVOLUTION:
        stride, channels, groups, *kernel = shape
        return "grouped" if groups > 1 else kind_of_convolution(kernel, stride, channels)
    if kind not in COUNTED_KINDS:
        raise ValueError(f"no such operator: {kind}")
    return cast("OperatorKind", kind)


def _weights_of(layer: Layer | Joined, shape: Shape) -> int:
    return sum(math.prod(spec.shape) for spec in weights_of(layer, shape))


# What one step of a workload has to compute and to move, from the shapes of its layers. No framework is needed.
#
# It counts the operations of products and convolutions (a multiplication and its addition are two), and the bytes that
# a step moves if each layer does all that it can in one pass. So both figures are lower bounds: what can be done within
# the layer before (rectifiers, dropout, reordering, DenseNet's joining) counts as 0.

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
    parts: list[_Part] = []
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        multiplications = 0
        if isinstance(layer, Conv):  # its padding counts like real input
            multiplications = math.prod(after) * layer.kernel**2 * shape[-1]
        elif isinstance(layer, Dense):
            multiplications = math.prod(after) * shape[-1]
        written = math.prod(after) if isinstance(layer, WRITES) else 0
        parts.append(_Part(multiplications, written, _weights_of(layer, shape)))
        shape = after
    first = next(part for part in parts if part.weights)
    flops = sum(2 * part.multiplications * (2 if part is first else 3) for part in parts) * batch
    passes = STATE_PASSES + (MOMENT_PASSES if isinstance(workload.optimizer, Adam) else 0)
    # Backward, a layer reads its weights to compute the gradient of its inputs. The first layer needs no such gradient.
    state = FLOAT_BYTES * sum(part.weights * (passes + (part is not first)) for part in parts)
    outputs = PRECISIONS[precision].bytes * OUTPUT_PASSES * batch * sum(part.outputs for part in parts)
    items = FLOAT_BYTES * BATCH_PASSES * batch * math.prod(workload.image_shape)
    return StepWork(float(flops), float(state + outputs + items), SHAPES_HOW)


# What a training step and a heat hold in memory, from the shapes of a workload's layers. No framework is needed.
#
# It follows a step as PyTorch computes it without a compiler. Forward, each layer makes its output and keeps what its
# gradient will need: a product its input, a rectifier its output, a pooling its input and the place of each value,
# dropout its factors, a batch norm its input. Backward, a layer needs the gradient of its output and makes that of its
# input; what it kept is then freed. Gradients of weights stay until the next step. At the end the optimizer updates one
# array after another.
#
# On a processor, oneDNN copies the input and the output of a convolution into an order of its own while it computes.
# And glibc returns a block of 32 MiB or more to the system when it is freed, but keeps smaller ones: what is held is
# the most of the large blocks, and the most of the small ones, even where these are of different moments.

INDEX_BYTES = 8
MASK_BYTES = {"cpu": FLOAT_BYTES}  # of dropout, a value; elsewhere a byte
RETURNED_BYTES = {"cpu": 32 << 20}  # a freed block of this size is returned to the system; elsewhere each block is
KEEPS_INPUT = (Conv, Dense, MaxPool, AveragePool, BatchNorm)
MAKES = (*KEEPS_INPUT, Dropout, GlobalAveragePool, Joined)  # all others return a view, or work in place
AVERAGES = 2  # that Adam keeps of a weight's gradient
UPDATE_COPIES = 2  # of an array while Adam updates it: a root, and the root divided
# Of the largest array while the proof measures how it moved: the movement, its product with the array, and that in
# float64.
PROOF_COPIES = 4
MADE_COPIES = 2  # of all items in memory, while they are joined
READY_BATCHES = {"threads": 20}  # of the authors' loader: ten, each twice while its images are joined


@dataclass(frozen=True, slots=True)
class _Op:
    """One operation, in bytes: what it makes, keeps besides, and needs only as it runs; and its weights."""

    makes: int
    keeps_input: bool = False
    keeps_output: bool = False
    keeps_more: int = 0
    copies: tuple[int, ...] = ()
    weights: int = 0


def count_step_memory(workload: Workload, batch: int, kind: DeviceKind) -> int:
    """Return the most bytes that a step in float32 holds, with weights, gradients and the optimizer's state."""
    ops = _ops_of(workload, batch, kind)
    items = batch * _item_bytes(workload)
    from_bytes = RETURNED_BYTES.get(kind, 0)
    large = _held_by_items([_with_blocks(op, from_bytes, None) for op in ops], _block(items, from_bytes, None))
    small = _held_by_items([_with_blocks(op, 0, from_bytes) for op in ops], _block(items, 0, from_bytes))
    # What weights, the optimizer's state and gradients take at each operation, forward and backward
    weights = [op.weights for op in ops]
    state = sum(weights) * (1 + _averages(workload))
    gradients = reversed(list(accumulate(reversed(weights))))
    lasting = [held for gradient in gradients for held in (state, state + gradient)]
    most = max(held + stays for held, stays in zip(large, lasting, strict=True))
    copies = UPDATE_COPIES * max(weights) if isinstance(workload.optimizer, Adam) else 0
    in_update = sum(weights) * (2 + _averages(workload)) + copies
    return max(most, in_update) + max(small)


def count_kept(workload: Workload, batch: int, kind: DeviceKind) -> int:
    """Return the bytes that a step keeps from the forward pass for the backward pass, without the weights."""
    return batch * _item_bytes(workload) + sum(_kept_by(_ops_of(workload, batch, kind)))


def count_heat_memory(workload: Workload, settings: Settings, kind: DeviceKind) -> int:
    """Return the most bytes that a heat holds: as it makes its items, in the proof, and in a step.

    On a card, only the last two are in the card's memory.
    """
    batch = settings.batch or workload.batch
    item = _item_bytes(workload)
    on_host = kind == "cpu"
    kept = 0 if workload.reads_files or not on_host else max(batch, workload.items_made) * item
    ready = READY_BATCHES.get(workload.loader, 0) if on_host and settings.input == "published" else 0
    step = kept + ready * batch * item + count_step_memory(workload, batch, kind)
    # What the proof holds: its items, the weights as they were, and then a step or the measured movement
    weights = [op.weights for op in _ops_of(workload, 1, kind)]
    items = workload.proof.steps * workload.proof.batch * _item_bytes(workload)
    measured = sum(weights) * (2 + _averages(workload)) + PROOF_COPIES * max(weights)
    count_proof = items + sum(weights) + max(count_step_memory(workload, workload.proof.batch, kind), measured)
    return max(MADE_COPIES * kept, count_proof, step)


def _held_by_items(ops: Sequence[_Op], items: int) -> list[int]:
    """Return what the items of a batch make a step hold at each operation, forward and backward."""
    made = [items, *(op.makes for op in ops)]  # operation 3 reads what is at 3, and makes what is at 4
    kept = list(accumulate(_kept_by(ops), initial=items))
    first = next((number for number, op in enumerate(ops) if op.weights), 0)
    held = []
    for number, op in enumerate(ops):
        is_read_kept = number == 0 or ops[number - 1].keeps_output or op.keeps_input
        forward = (0 if is_read_kept else made[number]) + (0 if op.keeps_output else op.makes)
        backward = op.makes + (made[number] if number > first else 0) if number >= first else 0
        held += [kept[number + 1] + passes + sum(op.copies) for passes in (forward, backward)]
    return held


def _kept_by(ops: Sequence[_Op]) -> Iterator[int]:
    """Yield what each operation keeps for its gradient that none before it keeps."""
    is_kept = True  # the batch is, in any case
    read = 0
    for op in ops:
        yield op.keeps_more + (op.makes if op.keeps_output else 0) + (read if op.keeps_input and not is_kept else 0)
        is_kept = op.keeps_output
        read = op.makes


def _ops_of(workload: Workload, batch: int, kind: DeviceKind) -> list[_Op]:
    ops: list[_Op] = []
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        if isinstance(layer, Relu):
            ops[-1] = replace(ops[-1], keeps_output=True)  # in place: what the layer before made is kept
        elif isinstance(layer, MAKES):
            read = _bytes((batch, *shape))
            made = _bytes((batch, *after))
            more = {MaxPool: INDEX_BYTES, Dropout: MASK_BYTES.get(kind, 1)}.get(type(layer), 0)
            op = _Op(
                made,
                keeps_input=isinstance(layer, KEEPS_INPUT),
                keeps_more=more * batch * math.prod(after),
                copies=(read, made) if isinstance(layer, Conv) and kind == "cpu" else (),
                weights=FLOAT_BYTES * _weights_of(layer, shape),
            )
            ops.append(op)
            if isinstance(layer, Conv | Dense) and layer.activation == "relu":
                ops.append(_Op(made, keeps_output=True))
        shape = after
    return ops


def _with_blocks(op: _Op, least: int, below: int | None) -> _Op:
    """Return the operation with those of its blocks alone that have such a size."""
    return replace(
        op,
        makes=_block(op.makes, least, below),
        keeps_more=_block(op.keeps_more, least, below),
        copies=tuple(_block(copy, least, below) for copy in op.copies),
    )


def _block(size: int, least: int, below: int | None) -> int:
    return size if size >= least and (below is None or size < below) else 0


def _averages(workload: Workload) -> int:
    return AVERAGES if isinstance(workload.optimizer, Adam) else 0


def _item_bytes(workload: Workload) -> int:
    return _bytes(workload.image_shape)


def _bytes(shape: Shape) -> int:
    return FLOAT_BYTES * math.prod(shape)


# A built-in network at another width: filters and hidden units times a factor, all else as it is published.


def split_width(name: str) -> tuple[str, float]:
    """Return a workload's name without its width, and the width: 1 if there is none."""
    plain, at, width = name.partition(AT_WIDTH)
    if at and not is_width(width):
        raise UsageError(f"workload '{name}': '{width}' is no width", f"such as {plain}{AT_WIDTH}0.5")
    return plain, float(width) if at else 1.0


def scale_workload(workload: Workload, width: float) -> Workload:
    """Return the workload with its network at a width. No one has published results of it."""
    if width == 1:
        return workload
    layers: list[Layer] = []
    shape: Shape = workload.image_shape
    for layer in workload.layers:
        layers.append(_scaled(layer, shape, width))
        shape = output_shape(layers[-1], shape)
    scaled = replace(
        workload,
        name=f"{workload.name}{AT_WIDTH}{width:g}",
        layers=tuple(layers),
        published=replace(workload.published, claim="nothing of this width", results=()),
    )
    return replace(scaled, parameters=count_parameters(scaled))


def _scaled(layer: Layer, shape: Shape, width: float) -> Layer:
    """Return a layer at a width. A dense layer without an activation makes the outputs, and keeps its units."""
    match layer:
        case Conv(filters=filters):
            return replace(layer, filters=_times(filters, width))
        case Dense(units=units, activation="relu"):
            return replace(layer, units=_times(units, width))
        case DenseBlock(growth=growth):
            return replace(layer, growth=_times(growth, width))
        case Reshape(shape=wanted):
            return Reshape((*wanted[:-1], math.prod(shape) // math.prod(wanted[:-1])))
        case _:
            return layer


def _times(count: int, width: float) -> int:
    return max(1, round(count * width))
