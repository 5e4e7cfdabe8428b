"""A deterministic back end on a virtual clock, shipped so that you can try a race, a report or a script for free.

`LAPTIME_FAKE` switches it on: `1`, or a TOML file with one table per lane-name pattern. Later tables win:

    ["fake/cuda*"]
    step_ms = 10.0        # a step in steady state
    first_ms = 300.0      # the very first step
    spread = 0.02         # from heat to heat (log scale, seeded by the heat's number)
    warm = [2.0, 1.5]     # factors on the steps of the first windows, one per window
    stray = 0.0           # planted difference: relative error of every loss in the proof
    jolt = 0.0            # planted difference: relative error of the weights' movement
    chance = 0.0          # the same, but only for seeds below 1000: a second proof does not confirm it
    skill = 0.0           # of whole trainings: added to every accuracy
    evaluate_ms = 1000.0  # of whole trainings: time to evaluate all test items
    held = 1.0            # time of a step, in steps, once every item was seen and is held in memory
    call_share = 0.1      # of inference: time of a call, in steps ...
    item_share = 0.01     # ... and what each of its items adds
    profiler_cost = 1.25  # how many times as long a step takes while it is profiled
    loader_ms = 30.0      # the stages of a step. Each input keeps some (only: the loader, copy: the copy,
    copy_ms = 2.0         # cached: all but the loader, resident and one: the computing). If any is given,
    compute_ms = 8.0      # step_ms has no effect, and stages that are not given take no time
    overlap = false       # whether the stages run in parallel: a step then takes as long as the longest stage
    batch_share = 1.0     # how much of the computing grows with the batch: at 0 a step takes the same time for any
                          # batch, the default where no stages are given; loader and copy always grow with it
    gains = { "malloc=keep" = 2.0, "workers=4" = { loader = 3.5 } }   # by word of a lane or of its preset: how many
                          # times as fast the computing is, or the stages that a table names
    signs = { reads = 2.0, shapes = 3, sites = [{ where = "my.py:7", what = ".item()", per_step = 2.0 }] }
                          # what the step breakdown finds: fields of laptime.model.symptoms.StepSymptoms;
                          # times not given here are those of the stages, counts not given are 0
    item_mb = 5.0         # of a card: memory that each item of a batch takes, next to 1 GB whatever the batch
    ranks = [1.0, 1.2]    # of several processes: how many times as long each of them computes
    exchange_ms = [0.1, 20.0]   # of several processes: an exchange of next to nothing, and of all gradients
    hidden_ms = 5.0       # of several processes: how much of that a step hides
    fail = { how = "raise", phase = "timing", heat = 1 }   # raise, exit, kill, hang, nan, memory, print; of several
                          # processes, `rank = 1` fails in the proof. With `seconds`, a hang ends after so long: real
                          # seconds, not those of the virtual clock

    [cards]               # how the framework identifies the fake cards; two, or more if more are named
    "cuda:0" = { uuid = "GPU-1f...", bus = "0000:3b:00" }
    "cuda:1" = { works = "yes", memory_gb = 24 }   # it is out of order else; no memory is reported else

The limits of fake devices have their own table; a word instead of a rate makes that measurement fail in this way:

    [peaks]
    "cpu/fp32" = 5e11     # operations per second
    "cpu/copy" = 5e10     # bytes per second
    "cpu/fp16" = "raise"  # raise, memory, kill

A whole training has the phases "set up", "lap 1" (it fails at the second step), "evaluation 1", "checkpoint 1" and so
on; a test is an evaluation after the last lap. A heat has "build", "proof", "first step", "timing", "look ahead" and
"take apart"; in a scale, one of several processes has "profile". Inference has "build", "first call", "proof", "single
calls", "batch 64" and so on. A profile has "build", "first step", "profile" and "work".
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from laptime.backends.base import Exercise, MarkedRunner
from laptime.backends.fake_questions import FakeEvaluator, FakeLearner, FakePredictor, FakeProfiler
from laptime.backends.fake_script import (
    FakeClock,
    FakeExercises,
    FakeStepParts,
    Script,
    Stages,
    fail_if_told,
    is_this_heat,
    read_cards,
    script_for,
    shared_order,
    stages_of,
    with_ranks,
)
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.protocol import Score
from laptime.model.sample import ProofRun, Reference
from laptime.workloads import find_workload

FEATURES = ("bf16", "tf32", "fp16", "compile", "graph", "channels_last", "fused", "malloc")
ROUNDING = 5e-8
CHANCE_SEEDS = 1_000
MANY_BYTES = 1_000
LABEL, OUT_OF_ORDER = "fake accelerator", "cuda:1"

FIRST_LOSSES = 2  # steps whose losses are asked for before there is any window


class FakeRunner(MarkedRunner):
    ready_batches = 0

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, stages: Stages | None = None) -> None:
        self._script, self._order, self._clock = script, order, clock
        self._stages = stages or Stages(0.0, 0.0, script.step_ms)
        self._factor = math.exp(script.spread * random.Random(f"{order.number}/{order.lane.name}").gauss(0, 1))
        self._steps = 0
        self._windows = 0
        self._is_in_window = False
        self.holds = script.held != 1
        self.evaluator = FakeEvaluator(script, order, clock, self._look)

    def step(self) -> None:
        self._steps += 1
        if self._steps == 1:
            self._clock.pass_ms(self._script.first_ms)
            return
        warm = self._script.warm
        slow = warm[self._windows] if 0 <= self._windows < len(warm) else 1.0
        self._clock.pass_ms(self._script.step_ms * self._factor * slow)

    def fence(self) -> None:
        """Do nothing: no work is running, the virtual clock has already moved."""

    def mark(self) -> object:
        self._is_in_window = True
        return self._clock()

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        times = [mark for mark in marks if isinstance(mark, int)]
        return tuple(after - before for before, after in itertools.pairwise(times))

    def loss(self) -> float:
        if self._is_in_window and self._steps > FIRST_LOSSES:
            self._is_in_window = False
            self._windows += 1
            fail_if_told(self._script, self._order, "timing")
            if self._script.fail.get("how") == "nan" and is_this_heat(self._script, self._order):
                return math.nan
        return 2.3 * math.exp(-self._steps / 1000)

    def repeat(self) -> None:
        self._factor *= self._script.held

    def parts(self) -> FakeStepParts:
        return FakeStepParts(self._script, self._order, self._clock, self._stages, self._factor)

    def close(self) -> tuple[str, ...]:
        """Return no notes; nothing is held."""
        return ()

    def _look(self, items: int) -> Score:
        fail_if_told(self._script, self._order, "look ahead")
        return Score(items, 2.3, 0.1)


class FakeTraining:
    notes = ()
    data = None

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        workload = find_workload(order.subject.name)
        self.parameters = workload.parameters
        batch, count = order.lane.settings.batch or workload.batch, max(1, len(order.lane.devices))
        is_weak = order.lane.settings.value_of("scaling") == "weak"
        self.items_per_step = batch * count if is_weak else batch
        self.steps_per_lap = workload.steps_per_lap // count if is_weak else workload.steps_per_lap
        self._stages = with_ranks(stages_of(script, shared_order(order, workload.batch), workload.batch), script, order)
        self._script, self._order, self._clock = replace(script, step_ms=self._stages.step_ms), order, clock

    def prove(self, precision: str) -> ProofRun:
        fail_if_told(self._script, self._order, "proof")
        coarse = {"fp32": ROUNDING, "tf32": 2e-4, "fp16": 2e-4, "bf16": 1e-3}[precision]
        self._clock.pass_ms(self._order.proof.steps * self._script.step_ms)
        chance = self._script.chance if self._order.seed < CHANCE_SEEDS else 0.0
        return self._run(precision, coarse + self._script.stray, self._script.jolt + chance)

    def reference(self) -> Reference:
        return Reference("", self._run("fp64", 0.0, 0.0), self._run("fp32", ROUNDING, 0.0), 4, self.parameters)

    def start(self) -> FakeRunner:
        fail_if_told(self._script, self._order, "first step")
        return FakeRunner(self._script, self._order, self._clock, self._stages)

    def learn(self) -> FakeLearner:
        return FakeLearner(self._script, self._order, self._clock, self.items_per_step)

    def profiler(self, _scratch: Path) -> FakeProfiler:
        return FakeProfiler(self._script, self._order, self._clock)

    def work(self) -> StepWork:
        """Per weight and item, count 2 operations forward and 4 backward; each weight is read and written once."""
        fail_if_told(self._script, self._order, "work")
        return StepWork(6.0 * self.parameters * self.items_per_step, 8.0 * self.parameters, "reckoned from the weights")

    def exchange(self, size_bytes: int) -> Exercise:
        """Exchange next to nothing, or all gradients."""
        small, large = self._script.exchange_ms
        ms = large if size_bytes > MANY_BYTES else small
        return Exercise(lambda: self._clock.pass_ms(ms), lambda: None, float(size_bytes))

    def exchange_profiler(self) -> FakeProfiler:
        return FakeProfiler(self._script, self._order, self._clock)

    def device_memory_bytes(self) -> int | Missing:
        if self._script.item_mb is None or self._order.lane.device.kind == "cpu":
            return Missing("a fake device holds no memory")
        return round(1e9 + 1e6 * self._script.item_mb * self.items_per_step)

    def _run(self, precision: str, stray: float, jolt: float) -> ProofRun:
        losses = tuple(2.3 * 0.99**step * (1 + stray) for step in range(self._order.proof.steps))
        moves = tuple(length * (1 + jolt) for length in (0.5, 0.25, 0.125, 0.0625))
        return ProofRun(precision, losses, 10.0, -1e-8 * (1 + jolt), moves)


class FakeBackend:
    name = "fake"

    def __init__(self) -> None:
        self.clock = FakeClock()

    def warm_up(self) -> None:
        """Do nothing: there is nothing to import."""

    def versions(self) -> dict[str, str]:
        return {"fake": "1"}

    def devices(self) -> tuple[Device, ...]:
        cards = read_cards()
        names = dict.fromkeys(("cuda:0", OUT_OF_ORDER, *cards))
        processor = Device("cpu", "cpu", "fake processor", usable=True, features=FEATURES)
        return (processor, *(_card(name, dict(cards.get(name, {}))) for name in names))

    def build(self, order: HeatOrder) -> FakeTraining:
        script = script_for(order)
        fail_if_told(script, order, "build")
        self.clock.pass_ms(script.build_ms)
        return FakeTraining(script, order, self.clock)

    def predict(self, order: HeatOrder) -> FakePredictor:
        script = script_for(order)
        fail_if_told(script, order, "build")
        self.clock.pass_ms(script.build_ms)
        return FakePredictor(script, order, self.clock)

    def exercises(self, device: Device) -> FakeExercises:
        return FakeExercises(device, self.clock)


def _card(name: str, details: dict[str, Any]) -> Device:
    works = details.pop("works", "no" if name == OUT_OF_ORDER else "yes")
    size_gb = details.pop("memory_gb", None)
    memory = Missing("not reported") if size_gb is None else round(1e9 * size_gb)
    if works == "no":
        return Device(name, "cuda", LABEL, usable=False, reason="it is out of order", details=details)
    return Device(name, "cuda", LABEL, usable=True, memory_bytes=memory, features=FEATURES, details=details)


def open_room(_framework: str = "fake") -> FakeBackend:
    return FakeBackend()
