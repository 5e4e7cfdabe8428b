"""The measured limits of a device, the work of a step, and how close a lane comes to the limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.hardware import StepOperator
from laptime.model.machine import Device, Processor, normal_bus, plain_uuid
from laptime.model.missing import Missing

COPY_EXERCISE = "copy"
PRODUCT_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
NOT_MEASURED = Missing("what this device can do at most was not measured: laptime devices --measure")
FAKE = "fake"


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of one step: `flops` are the multiplications and additions in products, `bytes` are read and written.

    `how` says in words how the two were counted. `operators` are those of an eager step, where they were listed.
    `varies` is by how much the operations of two steps differed, as a share: the batches of some have other shapes.
    `python_s` is how long Python computed between operators of a step, where that is more than usual, and `core_score`
    how fast one core was meanwhile. `items` is how many items the counted step had.
    """

    flops: float
    bytes: float
    how: str
    operators: tuple[StepOperator, ...] = ()
    varies: float = 0.0
    python_s: float = 0.0
    core_score: float | None = None
    items: int | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """The best rate reached, in floating-point operations or bytes per second, and the median of all windows.

    `by` is the framework that reached it, with its version; `of` is what was run: a matrix product, a copy.
    """

    best_per_s: float
    median_per_s: float
    by: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """The measured limits of one device: a copy within its memory ("copy"), and matrix products by precision.

    `device` identifies the device (a card's UUID, or the processor's name and cores); `driver` is the card's. `absent`
    holds what could not be measured.
    """

    device: str
    label: str
    driver: str
    measured: str
    peaks: dict[str, Peak] = field(default_factory=dict)
    absent: dict[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """The key under which a device's peaks are kept and found; an unknown driver matches any driver."""

    device: str
    label: str
    driver: str = ""


@dataclass(frozen=True, slots=True)
class PeakOrder:
    """What a child measures of one device: products of matrices with `rows` rows in these precisions, and a copy.

    These sizes are tried first. Where they take too long or do not fit in memory, smaller ones are used.
    """

    framework: str
    device: Device
    precisions: tuple[str, ...]
    rows: int
    copied_bytes: int

    @property
    def limits(self) -> tuple[str, ...]:
        return (*self.precisions, COPY_EXERCISE)


@dataclass(frozen=True, slots=True)
class Roofline:
    """How close a lane's step comes to the limits of its device.

    `share` is that of the limit which binds: the time that the step's products or its bytes would take at the measured
    peaks, whichever is longer, divided by the step's time.
    """

    precision: str
    work: StepWork
    flops_per_s: float
    bytes_per_s: float
    product_share: float
    copy_share: float
    binds: Literal["products", "memory"]
    share: float
    peaks: DevicePeaks


def key_of(device: Device, framework: str, processor: Processor) -> DeviceKey:
    """Return the key of a framework's device, the same in every framework; a card's number identifies nothing."""
    if framework == FAKE:
        return DeviceKey(f"{FAKE} {device.name}", device.label)
    if device.kind == "cpu":
        cores = f"{processor.cores_usable} core{'s' * (processor.cores_usable != 1)}"
        return DeviceKey(f"{processor.name}, {cores}", f"{processor.name} ({cores})")
    told = device.details
    named = plain_uuid(told.get("uuid", "")) or normal_bus(told.get("bus", "")) or f"{device.label} {device.name}"
    return DeviceKey(named, device.label, told.get("driver", ""))


# Layers described without any framework; every back end builds the same network from the same list.

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
