"""What a training step and a heat hold in memory, from the shapes of a workload's layers. No framework is needed.

It follows a step as PyTorch computes it without a compiler. Forward, each layer makes its output and keeps what its
gradient will need: a product its input, a rectifier its output, a pooling its input and the place of each value,
dropout its factors, a batch norm its input. Backward, a layer needs the gradient of its output and makes that of its
input; what it kept is then freed. Gradients of weights stay until the next step. At the end the optimizer updates one
array after another.

On a processor, oneDNN copies the input and the output of a convolution into an order of its own while it computes. And
glibc returns a block of 32 MiB or more to the system when it is freed, but keeps smaller ones: what is held is the most
of the large blocks, and the most of the small ones, even where these are of different moments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from laptime.errors import UsageError
from laptime.model.limits import (
    AveragePool,
    BatchNorm,
    Conv,
    Dense,
    DenseBlock,
    Dropout,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Relu,
    Reshape,
)
from laptime.model.machine import DeviceKind
from laptime.model.process import Settings
from laptime.model.workload import AT_WIDTH, FLOAT_BYTES, Adam, Workload, is_width
from laptime.workloads.shapes import Joined, Shape, count_parameters, expand, output_shape, weights_of

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
    most = max(held + weights for held, weights in zip(large, _held_by_weights(workload, ops), strict=True))
    return max(most, _held_by_update(workload, ops)) + max(small)


def count_kept(workload: Workload, batch: int, kind: DeviceKind) -> int:
    """Return the bytes that a step keeps from the forward pass for the backward pass, without the weights."""
    return batch * _item_bytes(workload) + sum(_kept_by(_ops_of(workload, batch, kind)))


def count_heat_memory(workload: Workload, settings: Settings, kind: DeviceKind) -> int:
    """Return the most bytes that a heat holds: as it makes its items, in the proof, and in a step.

    On a card, only the last two are in the card's memory.
    """
    batch, item = settings.batch or workload.batch, _item_bytes(workload)
    on_host = kind == "cpu"
    kept = 0 if workload.reads_files or not on_host else max(batch, workload.items_made) * item
    ready = READY_BATCHES.get(workload.loader, 0) if on_host and settings.input == "published" else 0
    step = kept + ready * batch * item + count_step_memory(workload, batch, kind)
    return max(MADE_COPIES * kept, _count_proof(workload, kind), step)


def _count_proof(workload: Workload, kind: DeviceKind) -> int:
    """Return what the proof holds: its items, the weights as they were, and then a step or the measured movement."""
    weights = [op.weights for op in _ops_of(workload, 1, kind)]
    items = workload.proof.steps * workload.proof.batch * _item_bytes(workload)
    measured = sum(weights) * (2 + _averages(workload)) + PROOF_COPIES * max(weights)
    return items + sum(weights) + max(count_step_memory(workload, workload.proof.batch, kind), measured)


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
    is_kept, read = True, 0  # the batch is kept in any case
    for op in ops:
        yield op.keeps_more + (op.makes if op.keeps_output else 0) + (read if op.keeps_input and not is_kept else 0)
        is_kept, read = op.keeps_output, op.makes


def _held_by_weights(workload: Workload, ops: Sequence[_Op]) -> list[int]:
    """Return what weights, the optimizer's state and gradients take at each operation, forward and backward."""
    weights = [op.weights for op in ops]
    state = sum(weights) * (1 + _averages(workload))
    gradients = reversed(list(accumulate(reversed(weights))))
    return [held for each in gradients for held in (state, state + each)]


def _held_by_update(workload: Workload, ops: Sequence[_Op]) -> int:
    weights = [op.weights for op in ops]
    copies = UPDATE_COPIES * max(weights) if isinstance(workload.optimizer, Adam) else 0
    return sum(weights) * (2 + _averages(workload)) + copies


def _ops_of(workload: Workload, batch: int, kind: DeviceKind) -> list[_Op]:
    ops: list[_Op] = []
    shape: Shape = workload.image_shape
    for layer in expand(workload.layers, shape[-1]):
        after = output_shape(layer, shape)
        if isinstance(layer, Relu):
            ops[-1] = replace(ops[-1], keeps_output=True)  # in place: what the layer before made is kept
        elif isinstance(layer, MAKES):
            ops.append(_op_of(layer, (batch, *shape), (batch, *after), kind))
            if isinstance(layer, Conv | Dense) and layer.activation == "relu":
                ops.append(_Op(ops[-1].makes, keeps_output=True))
        shape = after
    return ops


def _op_of(layer: Layer | Joined, shape: Shape, after: Shape, kind: DeviceKind) -> _Op:
    more = {MaxPool: INDEX_BYTES, Dropout: MASK_BYTES.get(kind, 1)}.get(type(layer), 0)
    return _Op(
        _bytes(after),
        keeps_input=isinstance(layer, KEEPS_INPUT),
        keeps_more=more * math.prod(after),
        copies=(_bytes(shape), _bytes(after)) if isinstance(layer, Conv) and kind == "cpu" else (),
        weights=sum(_bytes(spec.shape) for spec in weights_of(layer, shape[1:])),
    )


def _with_blocks(op: _Op, least: int, below: int | None) -> _Op:
    """Return the operation with those of its blocks alone that have such a size."""
    return replace(
        op,
        makes=_block(op.makes, least, below),
        keeps_more=_block(op.keeps_more, least, below),
        copies=tuple(_block(each, least, below) for each in op.copies),
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
