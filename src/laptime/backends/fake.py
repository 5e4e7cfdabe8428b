"""A deterministic back end on a virtual clock, shipped so that anybody can try a race, a report or a script for free.

`LAPTIME_FAKE` switches it on: `1`, or a TOML file with one table a lane-name pattern, later ones winning:

    ["fake/cuda*"]
    step_ms = 10.0        # a steady step
    first_ms = 300.0      # the first step of all
    spread = 0.02         # from heat to heat (log scale, seeded by the heat's number)
    warm = [2.0, 1.5]     # factors on the steps of the first windows, one a window
    stray = 0.0           # planted difference: relative error of every loss in the proof
    jolt = 0.0            # planted difference: relative error of the weights' movement
    fail = { how = "raise", phase = "timing", heat = 1 }   # raise, exit, kill, hang, nan, memory, print
"""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from laptime.errors import LaneError
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference
from laptime.workloads import find_workload

FEATURES = ("bf16", "tf32", "fp16", "compile", "graph", "channels_last", "fused", "malloc")
STEP_MS = {"cpu": 100.0, "cuda:0": 10.0}
PRESET_FACTOR = {"as-written": 1.0, "best": 0.5, "fastest": 0.25}
ROUNDING = 5e-8


@dataclass(frozen=True, slots=True)
class Script:
    """How a fake lane behaves."""

    step_ms: float
    first_ms: float = 300.0
    build_ms: float = 200.0
    spread: float = 0.0
    warm: tuple[float, ...] = ()
    stray: float = 0.0
    jolt: float = 0.0
    fail: dict[str, Any] = field(default_factory=dict)


class FakeClock:
    """A clock that moves only when told to. It starts at the machine's own time, so that both can be mixed."""

    def __init__(self) -> None:
        self._now_ns = time.perf_counter_ns()

    def __call__(self) -> int:
        return self._now_ns

    def pass_ms(self, milliseconds: float) -> None:
        self._now_ns += round(milliseconds * 1e6)


class FakeRunner:
    ready_batches = 0

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        self._script, self._order, self._clock = script, order, clock
        self._factor = math.exp(script.spread * random.Random(f"{order.number}/{order.lane.name}").gauss(0, 1))
        self._steps = 0
        self._windows = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps == 1:
            self._clock.pass_ms(self._script.first_ms)
            return
        warm = self._script.warm
        slow = warm[self._windows] if 0 <= self._windows < len(warm) else 1.0
        self._clock.pass_ms(self._script.step_ms * self._factor * slow)

    def fence(self) -> None:
        """Nothing runs on: the virtual clock has already moved."""

    def mark(self) -> object:
        return self._clock()

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        times = [mark for mark in marks if isinstance(mark, int)]
        return tuple(after - before for before, after in itertools.pairwise(times))

    def loss(self) -> float:
        self._windows += 1
        _fail_if_told(self._script, self._order, "timing")
        if self._script.fail.get("how") == "nan" and _is_this_heat(self._script, self._order):
            return math.nan
        return 2.3 * math.exp(-self._steps / 1000)

    def close(self) -> None:
        """Nothing is held."""


class FakeTraining:
    notes = ()

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        workload = find_workload(order.subject.name)
        self.parameters = workload.parameters
        self.items_per_step = order.lane.settings.batch or workload.batch
        self.steps_per_lap = workload.steps_per_lap
        self._script, self._order, self._clock = script, order, clock

    def prove(self, precision: str) -> ProofRun:
        _fail_if_told(self._script, self._order, "proof")
        coarse = {"fp32": ROUNDING, "tf32": 2e-4, "fp16": 2e-4, "bf16": 1e-3}[precision]
        self._clock.pass_ms(self._order.proof.steps * self._script.step_ms)
        return self._run(precision, coarse + self._script.stray, self._script.jolt)

    def reference(self) -> Reference:
        return Reference("", self._run("fp64", 0.0, 0.0), self._run("fp32", ROUNDING, 0.0), 4, self.parameters)

    def start(self) -> FakeRunner:
        _fail_if_told(self._script, self._order, "first step")
        return FakeRunner(self._script, self._order, self._clock)

    def device_memory_bytes(self) -> int | Missing:
        return Missing("a fake device holds no memory")

    def _run(self, precision: str, stray: float, jolt: float) -> ProofRun:
        losses = tuple(2.3 * 0.99**step * (1 + stray) for step in range(self._order.proof.steps))
        moves = tuple(length * (1 + jolt) for length in (0.5, 0.25, 0.125, 0.0625))
        return ProofRun(precision, losses, 10.0, -1e-8 * (1 + jolt), moves)


class FakeBackend:
    name = "fake"

    def __init__(self) -> None:
        self.clock = FakeClock()

    def versions(self) -> dict[str, str]:
        return {"fake": "1"}

    def devices(self) -> tuple[Device, ...]:
        return (
            Device("cpu", "cpu", "fake processor", usable=True, features=FEATURES),
            Device("cuda:0", "cuda", "fake accelerator", usable=True, features=FEATURES),
            Device("cuda:1", "cuda", "fake accelerator", usable=False, reason="it is out of order"),
        )

    def build(self, order: HeatOrder) -> FakeTraining:
        script = _script_for(order)
        _fail_if_told(script, order, "build")
        self.clock.pass_ms(script.build_ms)
        return FakeTraining(script, order, self.clock)


def open_room() -> FakeBackend:
    return FakeBackend()


def _script_for(order: HeatOrder) -> Script:
    lane = order.lane
    script = Script(STEP_MS.get(lane.device.name, 50.0) * PRESET_FACTOR[lane.settings.preset])
    known = {each.name for each in fields(Script)}
    for pattern, given in _read_scripts().items():
        if unknown := set(given) - known:
            raise LaneError(
                f"LAPTIME_FAKE: unknown key {', '.join(sorted(unknown))}", f"keys: {', '.join(sorted(known))}"
            )
        if fnmatch(lane.name, pattern):
            script = replace(script, **given)
    return script


def _read_scripts() -> dict[str, Any]:
    place = os.environ.get("LAPTIME_FAKE", "1")
    if place == "1":
        return {}
    try:
        return tomllib.loads(Path(place).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LaneError(f"LAPTIME_FAKE={place} cannot be read: {error}", "give 1, or a TOML file") from None


def _is_this_heat(script: Script, order: HeatOrder) -> bool:
    return order.number >= 0 and script.fail.get("heat", order.number) == order.number


def _fail_if_told(script: Script, order: HeatOrder, phase: str) -> None:
    """Fail in one of the ways in which real back ends fail."""
    if script.fail.get("phase", "timing") != phase or not _is_this_heat(script, order):
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
            time.sleep(1e6)
        case "print":
            print("a framework that chats\n" * 3, flush=True)  # noqa: T201
