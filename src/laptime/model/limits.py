"""What a device can do at most, as it was measured; what a step asks of it; and how near to the limit a lane comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.card import normal_bus, plain_uuid
from laptime.model.machine import Device, Processor
from laptime.model.missing import Missing

COPY = "copy"
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
NOT_MEASURED = Missing("what this device can do at most was not measured: laptime devices --measure")
FAKE = "fake"


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one step has to compute and to move: multiplications and additions of products, bytes read and written.

    `how` says in words how the two were counted.
    """

    flops: float
    bytes: float
    how: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The best rate that was reached, in floating-point operations or bytes a second, and the middle of all windows.

    `by` is the framework that reached it, with its version, `of` what it was: a product of matrices, a copy.
    """

    best_per_s: float
    median_per_s: float
    by: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """The measured limits of one device: a copy within its memory ("copy"), and products by their precision.

    `device` tells devices apart (a card's UUID, or the processor's name and cores), `driver` is the card's.
    What could not be measured is in `absent`.
    """

    device: str
    label: str
    driver: str
    measured: str
    peaks: dict[str, Peak] = field(default_factory=dict)
    absent: dict[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """By what a device's peaks are kept and found again; no driver told is no other driver."""

    device: str
    label: str
    driver: str = ""


@dataclass(frozen=True, slots=True)
class PeakOrder:
    """What a child measures of one device: products in these precisions, of matrices with so many rows, and a copy.

    Sizes are those that are tried first; where they take too long, or have no room, smaller ones are taken.
    """

    framework: str
    device: Device
    precisions: tuple[str, ...]
    rows: int
    copied_bytes: int

    @property
    def limits(self) -> tuple[str, ...]:
        return (*self.precisions, COPY)


@dataclass(frozen=True, slots=True)
class Roofline:
    """How near a lane's step comes to what its device can do.

    `share` is that of the limit which binds: the time that the step's products or its bytes would take at the
    measured peaks, whichever is longer, over the time that it took.
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
    """Tell which device a framework means, so that what one measured stands for all; a card's number says nothing."""
    if framework == FAKE:
        return DeviceKey(f"{FAKE} {device.name}", device.label)
    if device.kind == "cpu":
        cores = f"{processor.cores_usable} core{'s' * (processor.cores_usable != 1)}"
        return DeviceKey(f"{processor.name}, {cores}", f"{processor.name} ({cores})")
    told = device.details
    named = plain_uuid(told.get("uuid", "")) or normal_bus(told.get("bus", "")) or f"{device.label} {device.name}"
    return DeviceKey(named, device.label, told.get("driver", ""))
