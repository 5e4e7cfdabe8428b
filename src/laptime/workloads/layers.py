"""A workload's layers as a table, in neutral words: what each layer is, its output shape and its parameters."""

from __future__ import annotations

import itertools
from dataclasses import replace

from laptime.model.network import (
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
    Relu,
    Reshape,
    SwapAxes,
    Transition,
)
from laptime.model.workload import LayerRow, Workload
from laptime.workloads.shapes import Shape, count_parameters, output_shape


def list_layers(workload: Workload) -> tuple[LayerRow, ...]:
    """Return a row for each layer as the authors would list it. A dense block of DenseNet is one row."""
    rows: list[LayerRow] = []
    shape: Shape = workload.image_shape
    for layer, parameters in zip(workload.layers, _count_each(workload), strict=True):
        shape = output_shape(layer, shape)
        rows.append(LayerRow(_words(layer, shape), shape, parameters))
    return tuple(rows)


def _count_each(workload: Workload) -> list[int]:
    """Return the parameters that each layer adds to the network. The rows sum up to the whole."""
    ends = range(len(workload.layers) + 1)
    counts = [count_parameters(replace(workload, layers=workload.layers[:end])) for end in ends]
    return [after - before for before, after in itertools.pairwise(counts)]


def _words(layer: Layer, shape: Shape) -> str:
    """Describe a layer by its name and what is not a default. `shape` is its output shape."""
    match layer:
        case Conv():
            return _conv_words(layer)
        case Dense(units=units, activation=activation):
            return f"dense {units}{_activation(activation)}"
        case MaxPool(size=size, stride=stride, padding=padding):
            apart = f" stride {stride}" if stride != size else ""
            return f"max pool {size}x{size}{apart}{f' padding {padding}' if padding else ''}"
        case AveragePool(size=size):
            return f"average pool {size}x{size}"
        case Dropout(rate=rate):
            return f"dropout {rate:g}"
        case DenseBlock(layers=layers, growth=growth, bottleneck=bottleneck):
            inner = f"batch norm, relu, conv {bottleneck * growth} 1x1, batch norm, relu, conv {growth} 3x3 same"
            return f"dense block: {layers} x ({inner}), no bias"
        case Transition():
            return f"transition: batch norm, relu, conv {shape[-1]} 1x1 no bias, average pool 2x2"
        case GlobalAveragePool() | BatchNorm() | Relu() | Flatten() | Reshape() | SwapAxes():
            return PLAIN[type(layer)]


PLAIN: dict[type[Layer], str] = {
    GlobalAveragePool: "global average pool",
    BatchNorm: "batch norm",
    Relu: "relu",
    Flatten: "flatten",
    Reshape: "reshape",
    SwapAxes: "swap axes",
}


def _conv_words(layer: Conv) -> str:
    padding = {"valid": "", "same": " same"}.get(str(layer.padding), f" padding {layer.padding}")
    stride = f" stride {layer.stride}" if layer.stride != 1 else ""
    bias = "" if layer.bias else " no bias"
    return f"conv {layer.filters} {layer.kernel}x{layer.kernel}{stride}{padding}{bias}{_activation(layer.activation)}"


def _activation(name: str) -> str:
    return "" if name == "none" else f" {name}"
