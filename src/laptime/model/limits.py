"""What a device can do at most, as it was measured; what a step asks of it; and how near to the limit a lane comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing


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
    """The best rate that was reached, in floating-point operations or bytes a second, and the middle of all tries."""

    best_per_s: float
    median_per_s: float
    by: str


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
