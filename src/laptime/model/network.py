"""Layers described without any framework; every back end builds the same network from the same list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["none", "relu"]
Padding = Literal["valid", "same"] | int


@dataclass(frozen=True, slots=True)
class Conv:
    filters: int
    kernel: int
    activation: Activation = "none"
    padding: Padding = "valid"
    stride: int = 1
    bias: bool = True


@dataclass(frozen=True, slots=True)
class MaxPool:
    size: int = 2
    stride: int = 2
    padding: int = 0


@dataclass(frozen=True, slots=True)
class AveragePool:
    size: int = 2


@dataclass(frozen=True, slots=True)
class GlobalAveragePool:
    """One number per channel: the mean over all places."""


@dataclass(frozen=True, slots=True)
class BatchNorm:
    epsilon: float = 1e-5
    momentum: float = 0.1


@dataclass(frozen=True, slots=True)
class Relu:
    """The rectifier as a separate layer."""


@dataclass(frozen=True, slots=True)
class Flatten:
    """All places and channels in one row, in the order height, width, channel."""


@dataclass(frozen=True, slots=True)
class Dense:
    units: int
    activation: Activation = "none"


@dataclass(frozen=True, slots=True)
class Dropout:
    rate: float


@dataclass(frozen=True, slots=True)
class Reshape:
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SwapAxes:
    """Exchange the last two axes."""


@dataclass(frozen=True, slots=True)
class DenseBlock:
    """DenseNet's block: each layer sees all earlier outputs (norm, relu, 1x1, norm, relu, 3x3)."""

    layers: int
    growth: int = 32
    bottleneck: int = 4


@dataclass(frozen=True, slots=True)
class Transition:
    """Between two blocks: norm, relu, 1x1 to half the channels, average pool 2."""


Layer = (
    Conv
    | MaxPool
    | AveragePool
    | GlobalAveragePool
    | BatchNorm
    | Relu
    | Flatten
    | Dense
    | Dropout
    | Reshape
    | SwapAxes
    | DenseBlock
    | Transition
)
