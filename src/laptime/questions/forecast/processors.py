"""A step that was measured on one processor -> how long it would take on another one.

The same framework does the same there, so what it reaches of the processor, operator by operator, need not be known. A
processor is as fast as its large products are, for as many cores; more cores help less than they are more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laptime.model.hardware import KnownDevice
from laptime.model.missing import Missing

# All from bench/forecast_processors.py: steps of one training on several processors.
REACHED = 0.8  # share of a processor's peak that its large products reach
CORES = 0.63  # twice the cores are this power of two times as fast: 1.55
SPREAD, SPREAD_OF_CORES = 0.15, 0.1  # with as many cores; and for each power of e that they are more or fewer
SPREAD_OF_BUILDS = 0.3  # not measured: between x86 and ARM, whose builds of a framework share little
ARM_VECTORS = {"NEON", "SVE"}
NO_PEAK = Missing("the peak of its products is not known")


@dataclass(frozen=True, slots=True)
class ProcessorRate:
    """What the cores of a processor do together in large products, and how many, of those that a process may use."""

    flops_per_s: float
    cores: float
    is_arm: bool = False


def rate_of(device: KnownDevice, precision: str, cores: int | None = None) -> ProcessorRate | Missing:
    """Return what large products reach on a known processor, with the cores of its usual host or as many as given.

    Those of an instance in a cloud are threads, of which most processors have two a core.
    """
    peak, used = device.boosted_flops(precision), cores or device.host_cores or device.cores
    whole = device.cores if cores is None and used == device.cores else device.threads
    if peak is None or not used or not whole:
        return NO_PEAK
    return ProcessorRate(REACHED * peak * min(1.0, used / whole), used, device.vector in ARM_VECTORS)


def times_as_slow(there: ProcessorRate, here: ProcessorRate) -> float:
    """Return how many times as long a step takes there as here."""
    return float(here.flops_per_s / there.flops_per_s * (there.cores / here.cores) ** (1 - CORES))


def spread_between(there: ProcessorRate, here: ProcessorRate) -> float:
    """Return the spread of that."""
    builds = SPREAD_OF_BUILDS if there.is_arm != here.is_arm else 0.0
    return math.hypot(SPREAD, SPREAD_OF_CORES * math.log(there.cores / here.cores), builds)
