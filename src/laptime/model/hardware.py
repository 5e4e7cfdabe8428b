"""Devices that need not be here: what their makers say of them, and what an hour of one costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from laptime.model.interval import IntervalFigure
from laptime.model.machine import DeviceKind
from laptime.model.missing import Missing


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """One device: the dense peaks of its arithmetic, its memory, its power, the host that it usually has, a price.

    A peak that is None is one that the device has no units for. Of a processor, peaks, cores and bandwidth are those of
    one socket; `host_cores` are the virtual cores of the instance that the price is for. `halved_sums` is set where the
    matrix units add up in float32 at half of their rate, as the peaks here say, and `doubled_fp32` where the peak of
    float32 counts a second path that convolutions rarely fill. `core_score` is how fast one core of its host is, or of
    the processor: the score of Geekbench 6's compiler on one core.
    """

    name: str
    short: str
    kind: DeviceKind
    architecture: str
    aliases: tuple[str, ...] = ()
    capability: str | None = None
    released: str | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    halved_sums: bool = False
    doubled_fp32: bool = False
    bandwidth_gb_s: float | None = None
    memory_gb: float | None = None
    power_w: float | None = None
    cores: int | None = None
    threads: int | None = None
    base_ghz: float | None = None
    boost_ghz: float | None = None
    vector: str | None = None
    fp32_flops_per_cycle_per_core: int | None = None
    host_cores: int | None = None
    host: str | None = None
    core_score: float | None = None
    price_per_hour: float | None = None
    price_provider: str | None = None
    price_date: str | None = None
    price_note: str | None = None
    sources: tuple[str, ...] = ()

    def peak_flops(self, precision: str) -> float | None:
        """Return the operations a second of products in a precision, or None if it has no units for it."""
        tflops: float | None = getattr(self, f"{precision}_tflops")
        return None if tflops is None else tflops * 1e12

    def boosted_flops(self, precision: str) -> float | None:
        """Return that peak at the clock that a processor may boost to; its peaks are those at the base clock."""
        peak = self.peak_flops(precision)
        faster = self.boost_ghz / self.base_ghz if self.boost_ghz and self.base_ghz else 1.0
        return None if peak is None else faster * peak


# How long a training would take on a device that is not here, and what it would cost.

OperatorKind = Literal[
    "conv", "medium", "narrow", "direct", "pointwise", "strided", "grouped",
    "product", "attention", "move", "update", "unknown",
]  # fmt: skip
CONVOLUTIONS = frozenset({"conv", "medium", "narrow", "direct", "pointwise", "strided", "grouped"})
Regime = Literal["fp32", "tf32", "matrix"]
Binds = Literal["products", "memory", "launches", "loader", "processor", "python"]


@dataclass(frozen=True, slots=True)
class StepOperator:
    """One operator of a training step: its kind, its operations, and the bytes that it reads and writes.

    `calls` is how many such operators a step has. Of an "unknown" one, the operations cannot be counted.
    """

    kind: OperatorKind
    flops: float
    bytes: float
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """What share of their peaks devices reach, fitted on measured steps (bench/forecast_devices.py).

    `products` has the share of the peak by regime and kind of operator, `memory` that of the bandwidth by regime,
    `least_us` what a product takes at least by regime, and a move. `host_us` is what a host whose cores have the
    `core_score` takes to launch an operator, by execution. `architectures` are factors on products, by architecture and
    regime, and `halved` those of cards whose units add up in float32 at half of their rate: that costs less than half.
    `doubled` is the factor where the peak counts a second float32 path. `spread` is the standard deviation of the
    logarithm of what was off on devices that the fit had not seen.
    """

    products: Mapping[str, Mapping[str, float]]
    memory: Mapping[str, float]
    least_us: Mapping[str, float]
    host_us: Mapping[str, float]
    core_score: float
    architectures: Mapping[str, Mapping[str, float]]
    halved: Mapping[str, float]
    doubled: Mapping[str, float]
    spread: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Range(IntervalFigure):
    """A prediction with the ends between which 80 % of measured values should be."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DeviceForecast:
    """What is predicted for one device: its step, lap and whole training, what binds, and what that takes.

    `busy_share` is the share of a step in which the device computes. `energy_wh` is at most: the device's board power,
    all the time. `factor` is how many times as fast as the measured lane it would be.
    """

    device: KnownDevice
    step_ms: Range
    binds: Binds
    busy_share: float
    items_per_s: float
    lap_s: Range
    whole_s: Range
    memory_bytes: int | Missing
    fits: bool
    energy_wh: float | Missing
    cost: float | Missing
    factor: Range
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareForecast:
    """The whole answer: a training with the settings of a measured lane, on devices that are known.

    `measured_ms` is the lane's own step on the `machine` that was measured, and `loader_items_per_s` what its loader
    makes alone on one core. `refused` are devices without a prediction, with the reason. `per` names what `lap_s` is
    of: a lap, or a number of steps where a lap has no known length. `whole_here_s` is the whole training on the
    measured lane, and `cost_here` what that costs, where the price of an hour of that machine was given. `distrust` is
    why the measured step cannot be relied on, and with it no row can.
    """

    what: str
    lane: str
    record: str
    machine: str
    measured_ms: float
    laps: int
    rows: tuple[DeviceForecast, ...]
    refused: Mapping[str, str]
    loader_items_per_s: float | Missing
    per: str
    whole_here_s: float
    cost_here: float | Missing
    notes: tuple[str, ...] = ()
    distrust: str | None = None


@dataclass(frozen=True, slots=True)
class CardFactor:
    """How many times as fast as a measured lane a card would be, and what would bind there."""

    card: str
    factor: Range
    binds: Binds


@dataclass(frozen=True, slots=True)
class PredictedCards:
    """What common cards would bring a lane, predicted at the end of a race on a machine without one.

    `loader_is_known` is false where the training has a loader that was not timed alone: it may bind any card.
    """

    lane: str
    rows: tuple[CardFactor, ...]
    loader_is_known: bool


@dataclass(frozen=True, slots=True)
class CheckedForecast:
    """A prediction next to what was measured. `source` is where that was: published, or the id of a record.

    `software` is how many times as slow the cards of a published experiment all were; the prediction has it in it.
    `share` is set where a device is of a kind that no model here knows: what its cards reached of their peaks.
    """

    what: str
    device: str
    source: str
    measured_ms: float
    predicted_ms: Range
    software: float = 1.0
    share: float | None = None

    @property
    def off(self) -> float:
        return self.predicted_ms.middle / self.measured_ms - 1

    @property
    def is_within(self) -> bool:
        return self.predicted_ms.low <= self.measured_ms <= self.predicted_ms.high
