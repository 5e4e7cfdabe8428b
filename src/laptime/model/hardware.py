"""What devices can do: as their makers say, as it was measured here, what an hour costs, and how close a lane comes to
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from laptime.model.machine import Device, DeviceKind, Processor, normal_bus, plain_uuid
from laptime.model.quantities import IntervalFigure, Missing


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
    "product", "attention", "flash", "move", "update", "unknown",
]  # fmt: skip
COUNTED_KINDS = frozenset(
    {"product", "attention", "flash", "move", "update", "unknown"}
)  # as their operators are called
CONVOLUTIONS = frozenset({"conv", "medium", "narrow", "direct", "pointwise", "strided", "grouped"})
Regime = Literal["fp32", "tf32", "matrix"]
Binds = Literal["products", "memory", "launches", "loader", "processor", "python"]
Launching = Literal["eager", "graph"]  # operators one by one, or whole steps
Fits = Literal["fits", "may not fit", "does not fit"]


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
    `doubled` is the factor of convolutions and of other products where the peak counts a second float32 path. `power`
    is by which power of what a card may draw for its peak, next to `watts_per_tflop` of its architecture, its products
    are slower. `spread` is the standard deviation of the logarithm of what was off on devices that the fit had not
    seen. `cards` are the devices that it has seen, by regime.
    """

    products: Mapping[str, Mapping[str, float]]
    memory: Mapping[str, float]
    least_us: Mapping[str, float]
    host_us: Mapping[str, float]
    core_score: float
    architectures: Mapping[str, Mapping[str, float]]
    halved: Mapping[str, float]
    doubled: Mapping[str, float]
    power: Mapping[str, float]
    watts_per_tflop: Mapping[str, float]
    spread: Mapping[str, float]
    cards: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range(IntervalFigure):
    """A prediction with the ends between which 80 % of measured values should be."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DeviceForecast:
    """What is predicted for one device: its step, lap and whole training, what binds, and what that takes.

    `loader_ms` is how long the loader would take there for the batch of a step, and `busy_share` the share of a step in
    which the device computes. `energy_wh` is at most: the device's board power, all the time. `factor` is how many
    times as fast as the measured lane it would be. `memory_bytes` is what a driver would show to be in use; of a
    processor, what the process held; None where neither is known.
    """

    device: KnownDevice
    step_ms: Range
    binds: Binds
    loader_ms: float | Missing
    busy_share: float
    items_per_s: float
    lap_s: Range
    whole_s: Range
    memory_bytes: Range | None
    fits: Fits
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
    why the measured step cannot be relied on, and with it no row can. `held` is what a step holds of a card at its
    fullest moment, part by part, where that is known. With `loader_is_known`, the loader was timed, or there is none.
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
    held: HeldMemory | None = None
    loader_is_known: bool = True


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


# The measured limits of a device, the work of a step, and how close a lane comes to the limit.

COPY_EXERCISE = "copy"
NOT_MEASURED = Missing("what this device can do at most was not measured: laptime devices --measure")
FAKE = "fake"


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """What a step holds at one moment, as a card's allocator rounds it up.

    `moments_bytes` are what the optimizer keeps of a weight, `others_bytes` were there before: buffers, or data.
    `made_bytes` are all else that the step makes: activations in its passes, copies in its update.
    """

    weights_bytes: int
    moments_bytes: int
    gradients_bytes: int
    others_bytes: int
    made_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.moments_bytes + self.gradients_bytes + self.others_bytes + self.made_bytes


@dataclass(frozen=True, slots=True)
class StepMemory:
    """What a step holds at its fullest moments: of its passes forward and backward, and of its optimizer's update.

    `narrow` is of passes whose products compute in 16 bits by autocast: what they read and make has half of the bytes.

    An allocator keeps `kept_bytes` more than that, in blocks that nothing fits into and that it does not give back.
    """

    passes: HeldMemory
    update: HeldMemory
    narrow: HeldMemory
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class ScriptLoading:
    """How long a step of a script waited for its data loader, on average, and how many processes that works in.

    Without `workers` the step itself makes the batch, and computes nothing meanwhile.
    """

    wait_s: float
    workers: int


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of one step: `flops` are the multiplications and additions in products, `bytes` are read and written.

    `how` says in words how the two were counted. `operators` are those of an eager step, where they were listed.
    `varies` is by how much the operations of two steps differed, as a share: the batches of some have other shapes.
    `python_s` is how long Python computed between operators of a step, where that is more than usual, and `core_score`
    how fast one core was meanwhile. `items` is how many items the counted step had. `value_bytes` are those of a value
    in most products. `memory` is what it holds of a card, where that was followed. `loading` is of a script's loader.
    """

    flops: float
    bytes: float
    how: str
    operators: tuple[StepOperator, ...] = ()
    varies: float = 0.0
    python_s: float = 0.0
    core_score: float | None = None
    items: int | None = None
    value_bytes: int = 4
    memory: StepMemory | None = None
    loading: ScriptLoading | None = None


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

    These sizes are tried first. Where they take too long or do not fit in memory, smaller ones are used. Nothing is
    copied where `copied_bytes` are 0.
    """

    framework: str
    device: Device
    precisions: tuple[str, ...]
    rows: int
    copied_bytes: int

    @property
    def limits(self) -> tuple[str, ...]:
        return (*self.precisions, COPY_EXERCISE) if self.copied_bytes else self.precisions


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
    details = device.details
    named = plain_uuid(details.get("uuid", "")) or normal_bus(details.get("bus", "")) or f"{device.label} {device.name}"
    return DeviceKey(named, device.label, details.get("driver", ""))


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
