"""How a fake lane behaves: its script from `LAPTIME_FAKE`, its clock, its stages, planted failures, and peaks."""

from __future__ import annotations

import os
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec

from laptime.engine.backends.base import COPIED_ELSEWHERE, PRODUCT, Exercise, copy_work, product_work
from laptime.model.errors import LaneError
from laptime.model.hardware import COPY_EXERCISE
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.quantities import Missing
from laptime.model.symptoms import StepSymptoms

# The tables of LAPTIME_FAKE that describe no lane.
SENSOR_TABLE = "sensor"
PEAKS_TABLE = "peaks"
CARDS_TABLE = "cards"
STEP_MS = {"cpu": 100.0, "cuda:0": 10.0}
PRESET_FACTOR = {"as-written": 1.0, "best": 0.5, "fastest": 0.25}
FAKE_RATES: dict[str, float | str] = {
    "cpu/fp32": 5e11,
    "cpu/tf32": 5e11,
    "cpu/bf16": 2e12,
    "cpu/fp16": 2e12,
    "cpu/copy": 5e10,
    "cuda:0/fp32": 5e13,
    "cuda:0/tf32": 4e14,
    "cuda:0/bf16": 8e14,
    "cuda:0/fp16": 8e14,
    "cuda:0/copy": 3e12,
}
LEAST_MS = 0.01  # a step takes at least this, even if its stages take no time
HAS_LOADER = ("published", "fast", "only")
HAS_COPY = ("published", "fast", "cached", "copy")
QUIET_SYMPTOMS = StepSymptoms(
    0, reads=0.0, compiles=0, denormals=0.0, copied_bytes=0, copied_arrays=0.0, fault_ns=250.0
)
NOT_PARTED = Missing("this fake step is all in one: the script names no stages")


@dataclass(frozen=True, slots=True)
class Script:
    """How a fake lane behaves; laptime.engine.backends.fake describes the fields."""

    step_ms: float
    first_ms: float = 300.0
    build_ms: float = 200.0
    spread: float = 0.0
    warm: tuple[float, ...] = ()
    stray: float = 0.0
    jolt: float = 0.0
    chance: float = 0.0
    skill: float = 0.0
    evaluate_ms: float = 1_000.0
    held: float = 1.0
    call_share: float = 0.1
    item_share: float = 0.01
    profiler_cost: float = 1.25
    fail: dict[str, Any] = field(default_factory=dict)
    loader_ms: float | None = None
    copy_ms: float | None = None
    compute_ms: float | None = None
    overlap: bool = False
    batch_share: float | None = None
    gains: dict[str, Any] = field(default_factory=dict)
    signs: dict[str, Any] = field(default_factory=dict)
    item_mb: float | None = None
    ranks: tuple[float, ...] = ()
    exchange_ms: tuple[float, float] = (0.1, 20.0)
    hidden_ms: float = 0.0

    @property
    def has_stages(self) -> bool:
        return any(stage_ms is not None for stage_ms in (self.loader_ms, self.copy_ms, self.compute_ms))


class FakeClock:
    """A clock that moves only when told to. It starts at the machine's time, so that both can be mixed.

    Everything takes `pace` times as long as given.
    """

    def __init__(self) -> None:
        self._now_ns = time.perf_counter_ns()
        self.pace = 1.0

    def __call__(self) -> int:
        return self._now_ns

    def pass_ms(self, milliseconds: float) -> None:
        self._now_ns += round(milliseconds * 1e6 * self.pace)


def script_for(order: HeatOrder) -> Script:
    lane = order.lane
    script = Script(STEP_MS.get(lane.device.name, 50.0) * PRESET_FACTOR[lane.settings.preset])
    known = {field_.name for field_ in fields(Script)}
    for pattern, given in read_scripts().items():
        if pattern in {SENSOR_TABLE, PEAKS_TABLE, CARDS_TABLE}:
            continue
        if unknown := set(given) - known:
            raise LaneError(
                f"LAPTIME_FAKE: unknown key {', '.join(sorted(unknown))}", f"keys: {', '.join(sorted(known))}"
            )
        if fnmatch(lane.name, pattern):
            script = replace(script, **given)
    return script


def read_cards() -> dict[str, dict[str, Any]]:
    """Return how drivers know the fake cards, where the script has a table for it."""
    given: dict[str, dict[str, Any]] = read_scripts().get(CARDS_TABLE, {})
    return given


def read_scripts() -> dict[str, Any]:
    place = os.environ.get("LAPTIME_FAKE", "1")
    if place == "1":
        return {}
    try:
        return tomllib.loads(Path(place).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LaneError(f"LAPTIME_FAKE={place} cannot be read: {error}", "give 1, or a TOML file") from None


def is_this_heat(script: Script, order: HeatOrder) -> bool:
    rank = order.place.rank if order.place is not None else 0
    is_named = script.fail.get("heat", order.number) == order.number and script.fail.get("rank", rank) == rank
    return order.number >= 0 and is_named


def fail_if_told(script: Script, order: HeatOrder, phase: str) -> None:
    """Fail in this phase if the script plans it, in one of the ways in which real back ends fail."""
    if script.fail.get("phase", "timing") != phase or not is_this_heat(script, order):
        return
    match script.fail.get("how"):
        case "raise":
            raise RuntimeError("planted failure")
        case "memory":
            raise MemoryError("planted: 64 GiB asked, 24 GiB there")
        case "exit":
            print("planted exit", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(script.fail.get("seconds", 1e6))
        case "print":
            print("a framework that chats\n" * 3, flush=True)  # noqa: T201


class FakeExercises:
    by = "fake 1"
    products = (PRODUCT,)
    copies = (COPIED_ELSEWHERE,)
    free_bytes: int | Missing = Missing("a fake device holds no memory")

    def __init__(self, device: Device, clock: FakeClock) -> None:
        self._device = device.name
        self._clock = clock
        self._rates = {**FAKE_RATES, **read_scripts().get(PEAKS_TABLE, {})}

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is only one
        return self._at_rate(precision, product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        return self._at_rate(COPY_EXERCISE, copy_work(size_bytes))

    def _at_rate(self, limit: str, work: float) -> Exercise:
        alike = f"{self._device.partition(':')[0]}:0/{limit}"  # further cards are like the first
        rate = self._rates.get(f"{self._device}/{limit}") or self._rates[alike]
        once = _fail(rate) if isinstance(rate, str) else lambda: self._clock.pass_ms(1e3 * work / rate)
        return Exercise(once, lambda: None, work)


def _fail(how: str) -> Callable[[], None]:
    def once() -> None:
        if how == "memory":
            raise MemoryError("planted: 64 GiB asked, 24 GiB there")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("planted failure")

    return once


@dataclass(frozen=True, slots=True)
class Stages:
    """The parts of a step in milliseconds; `overlaps` means that they run in parallel."""

    loader: float
    copy: float
    compute: float
    overlaps: bool = False

    @property
    def step_ms(self) -> float:
        parts = (self.loader, self.copy, self.compute)
        return max(LEAST_MS, max(parts) if self.overlaps else sum(parts))

    @property
    def wait_ms(self) -> float:
        """Return the wait for the loader; where the stages overlap, it works during the other stages."""
        return max(0.0, self.loader - self.copy - self.compute) if self.overlaps else self.loader


def stages_of(script: Script, order: HeatOrder, published_batch: int) -> Stages:
    """Return the stages that the lane's input keeps, changed by its batch size and its gains."""
    settings = order.lane.settings
    times = ((settings.batch or published_batch) * (settings.joined or 1)) / published_batch
    if not script.has_stages:
        share = script.batch_share or 0.0
        return _gained(Stages(0.0, 0.0, script.step_ms * (1 - share + share * times)), script, order)
    share = 1.0 if script.batch_share is None else script.batch_share
    whole = Stages(
        (script.loader_ms or 0.0) * times,
        (script.copy_ms or 0.0) * times,
        (script.compute_ms or 0.0) * (1 - share + share * times),
        script.overlap,
    )
    kind = settings.input
    left = replace(
        whole,
        loader=whole.loader if kind in HAS_LOADER else 0.0,
        copy=whole.copy if kind in HAS_COPY else 0.0,
        compute=0.0 if kind in {"copy", "only"} else whole.compute,
    )
    return _gained(left, script, order)


def shared_order(order: HeatOrder, published_batch: int) -> HeatOrder:
    """Return the order with the batch that one of its devices has."""
    lane = order.lane
    if not lane.devices or lane.settings.value_of("scaling") == "weak":
        return order
    batch = (lane.settings.batch or published_batch) // len(lane.devices)
    return replace(order, lane=replace(lane, settings=replace(lane.settings, batch=batch)))


def with_ranks(stages: Stages, script: Script, order: HeatOrder) -> Stages:
    """Return the stages of one rank: its own, or those of the slowest rank and what is not hidden of the exchange."""
    if order.place is None:
        return stages
    factors = dict(enumerate(script.ranks[: order.place.of]))
    if order.lane.settings.value_of("sync") == "none":
        return replace(stages, compute=stages.compute * factors.get(order.place.rank, 1.0))
    exposed = max(0.0, script.exchange_ms[1] - script.hidden_ms) if order.place.of > 1 else 0.0
    return replace(stages, compute=stages.compute * max([1.0, *factors.values()]) + exposed)


def setting_words(order: HeatOrder) -> set[str]:
    """Return all words that could describe a lane's settings, including those that its preset sets."""
    settings = order.lane.settings
    named = set(order.lane.name.split("/")[-1].split("+"))
    plain = {settings.precision, settings.execution, settings.layout, settings.optimizer}
    keyed = ("threads", "malloc", "input", "workers", "batch", "denormals", "reads")
    return named | plain | {f"{key}={getattr(settings, key)}" for key in keyed}


def _gained(stages: Stages, script: Script, order: HeatOrder) -> Stages:
    """Divide the stages by the gains of the lane's words: a number is a gain in computing, a table names the stages."""
    words = setting_words(order)
    known = {"loader", "copy", "compute"}
    for word, gain in script.gains.items():
        if word not in words:
            continue
        by_stage = gain if isinstance(gain, dict) else {"compute": gain}
        if unknown := set(by_stage) - known:
            raise LaneError(
                f"LAPTIME_FAKE: gains of {word} name the stage {', '.join(sorted(unknown))}",
                f"stages: {', '.join(sorted(known))}",
            )
        stages = replace(stages, **{stage: getattr(stages, stage) / factor for stage, factor in by_stage.items()})
    return stages


def symptoms_of(script: Script) -> StepSymptoms:
    """Return the symptoms that the script names; the others are those of a step without problems."""
    if unknown := set(script.signs) - {field_.name for field_ in fields(StepSymptoms)}:
        raise LaneError(f"LAPTIME_FAKE: signs has no {', '.join(sorted(unknown))}",
                        f"it has: {', '.join(field_.name for field_ in fields(StepSymptoms))}")  # fmt: skip
    quiet: dict[str, Any] = msgspec.to_builtins(QUIET_SYMPTOMS)
    try:
        return msgspec.convert({**quiet, **script.signs}, StepSymptoms)
    except msgspec.ValidationError as error:
        raise LaneError(f"LAPTIME_FAKE: signs cannot be read: {error}", "such as { reads = 2.0, shapes = 3 }") from None


class FakeStepParts:
    """A fake step in its parts; each part moves the virtual clock."""

    stride = 1

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, stages: Stages, factor: float) -> None:
        self._script = script
        self._order = order
        self._clock = clock
        self._stages = stages
        self._factor = factor

    def fetch(self) -> None:
        fail_if_told(self._script, self._order, "take apart")
        self._clock.pass_ms(self._stages.wait_ms * self._factor)

    def move(self, _batch: Any) -> None:
        self._clock.pass_ms(self._stages.copy * self._factor)

    def compute(self, _batch: Any) -> None:
        self._clock.pass_ms(self._stages.compute * self._factor)

    def describe(self, _batch: Any) -> Hashable:
        return (self._order.lane.settings.batch,)

    def look(self, _steps: int, _timed: int) -> StepSymptoms:
        symptoms = symptoms_of(self._script)
        if self._script.has_stages:
            return symptoms
        times = ("wait_ns", "copy_ns", "compute_ns")
        absent: dict[str, Any] = {name: NOT_PARTED for name in times if name not in self._script.signs}
        return replace(symptoms, **absent)
