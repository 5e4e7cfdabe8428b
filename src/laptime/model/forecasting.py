"""How long a training would take on a device that is not here, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from laptime.model.hardware import KnownDevice
from laptime.model.missing import Missing

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
class Range:
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
