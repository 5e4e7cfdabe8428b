"""A built-in network at another width: filters and hidden units times a factor, all else as it is published."""

from __future__ import annotations

import math
from dataclasses import replace

from laptime.errors import UsageError
from laptime.model.network import Conv, Dense, DenseBlock, Layer, Reshape
from laptime.model.workload import AT_WIDTH, Workload, is_width
from laptime.workloads.shapes import Shape, count_parameters, output_shape


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
