"""The operators of a step and a device's peaks -> how long the step would take there, and what would bind it.

An operator takes its operations at the share of the peak that such operators reach, or its bytes at a share of the
bandwidth, whichever is longer, and a least time. The host launches operators one by one: a step takes about as long as
the longer of device and host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from laptime.model.hardware import (
    CONVOLUTIONS,
    Binds,
    Efficiencies,
    KnownDevice,
    OperatorKind,
    Range,
    Regime,
    StepOperator,
)
from laptime.model.precisions import NARROW, PRECISIONS
from laptime.model.quantities import Missing

NEW_NETWORK_SPREAD = 0.15  # of networks that the fit had not seen (bench/forecast_left_out.py)
UNKNOWN_SPREAD = math.log(3)  # of an operator that is counted by its bytes alone: it may take three times as long
UNKNOWN_HOST_SPREAD = 0.25  # of one core of a host that is not known, as those of the table differ
MEASURED_CORE_SPREAD = 0.1  # Python's time times the core's score varied by 8 % over eight races, quiet or not
SMOOTHNESS = 2.0  # the same of an operator's operations and its bytes
SHARPNESS = 4.0  # how suddenly the longer of device and host takes over
IN_EIGHTY = 1.2816  # standard deviations on each side that hold 80 % of a normal distribution


@dataclass(frozen=True, slots=True)
class StepForecast:
    """The time of a step on a device, without its loader: what the device and the host need, and what binds.

    `unknown_share` is the share of the device's time in operators whose operations nobody can count.
    """

    device_s: float
    host_s: float
    binds: Binds
    unknown_share: float = 0.0

    @property
    def step_s(self) -> float:
        if not self.host_s:
            return self.device_s
        return float((self.device_s**SHARPNESS + self.host_s**SHARPNESS) ** (1 / SHARPNESS))


def regime_of(device: KnownDevice, precision: str) -> tuple[Regime, float] | Missing:
    """Return which efficiencies count on a device, and the peak of its products, in operations a second.

    Where there are no units for a precision, float32 is what it computes in.
    """
    for other in PRECISIONS[precision].peaks:
        peak = device.peak_flops(other)
        if peak is not None:
            return ("matrix" if other in NARROW else "tf32" if other == "tf32" else "fp32"), peak
    return Missing(f"it has no units for {precision}")


def forecast_step(
    operators: Sequence[StepOperator], device: KnownDevice, precision: str, execution: str, known: Efficiencies
) -> StepForecast | Missing:
    """Return how long a step would take on a device, or why that is not known."""
    found = regime_of(device, precision)
    if isinstance(found, Missing):
        return found
    if device.bandwidth_gb_s is None:
        return Missing("its bandwidth is not known")
    regime, peak = found
    shares = known.products[regime]
    factor = known.architectures.get(architecture_of(device), {}).get(regime, 1.0)
    factor *= known.halved.get(regime, 1.0) if device.halved_sums else 1.0
    factor *= power_share(device, known.watts_per_tflop) ** known.power.get(regime, 0.0)
    is_doubled = device.doubled_fp32 and regime == "fp32"
    per_s = device.bandwidth_gb_s * 1e9 * known.memory[regime]
    least_s = known.least_us[regime] / 1e6
    move_s = known.least_us["move"] / 1e6
    products_s = memory_s = unknown_s = least = 0.0
    for operator in operators:
        moving_s = operator.calls * operator.bytes / per_s
        if not operator.flops:
            memory_s += moving_s
            least += operator.calls * move_s
            unknown_s += moving_s if operator.kind == "unknown" else 0.0
            continue
        if operator.kind not in shares:
            return Missing(f"no efficiency of {operator.kind} operators was measured on such a device")
        doubled = known.doubled[class_of(operator.kind)] if is_doubled else 1.0
        computing_s = operator.calls * operator.flops / (peak * shares[operator.kind] * factor * doubled)
        both_s = (computing_s**SMOOTHNESS + moving_s**SMOOTHNESS) ** (1 / SMOOTHNESS)
        products_s += both_s if computing_s >= moving_s else 0.0
        memory_s += both_s if moving_s > computing_s else 0.0
        least += operator.calls * least_s
    device_s = products_s + memory_s + least
    launch_s = known.host_us[execution] / 1e6 * times_as_long(known.core_score, device.core_score)
    host_s = sum(operator.calls for operator in operators) * launch_s
    parts: dict[Binds, float] = {"products": products_s, "memory": memory_s, "launches": least}
    binds: Binds = "launches" if host_s > device_s else max(parts, key=lambda name: parts[name])
    return StepForecast(device_s, host_s, binds, unknown_s / device_s)


def class_of(kind: OperatorKind) -> str:
    """Return of which class of products an operator is, by which a second path of float32 counts."""
    return "convolutions" if kind in CONVOLUTIONS else "products"


def power_share(device: KnownDevice, watts_per_tflop: Mapping[str, float]) -> float:
    """Return what a card may draw for its peak, as a share of what cards of its architecture may.

    One that may draw less clocks lower under load than its peak says.
    """
    usual = watts_per_tflop.get(architecture_of(device))
    if usual is None or not device.power_w or not device.fp32_tflops:
        return 1.0
    return device.power_w / device.fp32_tflops / usual


def times_as_long(here: float | None, there: float | None) -> float:
    """Return how many times as long one core takes there as here, by their scores; 1 if one of them is not known."""
    return here / there if here and there else 1.0


def with_python(found: StepForecast, python_s: float) -> StepForecast:
    """Return a step whose host also computes in Python between operators, for so long."""
    host_s = found.host_s + python_s
    own = python_s > found.host_s
    binds = found.binds if host_s <= found.device_s else "python" if own else "launches"
    return replace(found, host_s=host_s, binds=binds)


def architecture_of(device: KnownDevice) -> str:
    """Return under which name a device's factors are kept.

    Ampere has two, with other units. CDNA 1 and 2 both compute float32 on matrix units, twice as fast as their peak.
    """
    if device.architecture == "Ampere":
        return f"{device.architecture} {device.capability}"
    return "CDNA" if device.architecture == "CDNA2" else device.architecture


def seen_regime(device: KnownDevice, precision: str, known: Efficiencies) -> Regime | None:
    """Return the regime of a device if its architecture was measured in it."""
    found = regime_of(device, precision)
    if isinstance(found, Missing) or found[0] not in known.architectures.get(architecture_of(device), {}):
        return None
    return found[0]


def spread_of(device: KnownDevice, precision: str, known: Efficiencies) -> float:
    """Return the spread for a device: that of its regime, or that of unseen architectures."""
    return known.spread[seen_regime(device, precision, known) or "unseen"]


def range_of(middle: float, spread: float) -> Range:
    """Return a value with the ends between which 80 % of measured ones should be."""
    wide = math.exp(IN_EIGHTY * spread)
    return Range(middle, middle / wide, middle * wide)


# A step that was measured on one processor -> how long it would take on another one.
#
# The same framework does the same there, so what it reaches of the processor, operator by operator, need not be known.
# A processor is as fast as its large products are, for as many cores; more cores help less than they are more.

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
    peak = device.boosted_flops(precision)
    used = cores or device.host_cores or device.cores
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
