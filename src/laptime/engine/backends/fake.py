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
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from laptime.engine.backends.base import NO_JUDGE, Exercise, MarkedRunner, StepwiseRunner
from laptime.engine.backends.fake_script import (
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
from laptime.engine.backends.xplane import Activity, XEvent, XLine, XPlane, chrome_trace, sum_device, sum_operators
from laptime.model.errors import LaneError
from laptime.model.hardware import StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.process import CollectiveSum
from laptime.model.protocol import AnswerReference, AnswerRun, Predictions, Score
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference
from laptime.model.symptoms import Observed, OperatorSum
from laptime.trainings.workloads import find_workload

FAKE_FEATURES = ("bf16", "tf32", "fp16", "compile", "graph", "channels_last", "fused", "malloc")
FAKE_ROUNDING = 5e-8
CHANCE_SEEDS = 1_000
MANY_BYTES = 1_000
FAKE_LABEL = "fake accelerator"
OUT_OF_ORDER = "cuda:1"

FIRST_LOSSES = 2  # steps whose losses are asked for before there is any window


class FakeRunner(MarkedRunner):
    ready_batches = 0

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, stages: Stages | None = None) -> None:
        self._script = script
        self._order = order
        self._clock = clock
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
        batch = order.lane.settings.batch or workload.batch
        count = max(1, len(order.lane.devices))
        is_weak = order.lane.settings.value_of("scaling") == "weak"
        self.items_per_step = batch * count if is_weak else batch
        self.steps_per_lap = workload.steps_per_lap // count if is_weak else workload.steps_per_lap
        self._stages = with_ranks(stages_of(script, shared_order(order, workload.batch), workload.batch), script, order)
        self._script = replace(script, step_ms=self._stages.step_ms)
        self._order = order
        self._clock = clock

    def prove(self, precision: str) -> ProofRun:
        fail_if_told(self._script, self._order, "proof")
        coarse = {"fp32": FAKE_ROUNDING, "tf32": 2e-4, "fp16": 2e-4, "bf16": 1e-3}[precision]
        self._clock.pass_ms(self._order.proof.steps * self._script.step_ms)
        chance = self._script.chance if self._order.seed < CHANCE_SEEDS else 0.0
        return self._run(precision, coarse + self._script.stray, self._script.jolt + chance)

    def reference(self) -> Reference:
        return Reference("", self._run("fp64", 0.0, 0.0), self._run("fp32", FAKE_ROUNDING, 0.0), 4, self.parameters)

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
        found = [Device("cpu", "cpu", "fake processor", usable=True, features=FAKE_FEATURES)]
        for name in dict.fromkeys(("cuda:0", OUT_OF_ORDER, *cards)):
            details = dict(cards.get(name, {}))
            works = details.pop("works", "no" if name == OUT_OF_ORDER else "yes")
            size_gb = details.pop("memory_gb", None)
            card = Device(name, "cuda", FAKE_LABEL, usable=False, reason="it is out of order", details=details)
            if works != "no":
                memory = Missing("not reported") if size_gb is None else round(1e9 * size_gb)
                card = replace(card, usable=True, reason=None, memory_bytes=memory, features=FAKE_FEATURES)
            found.append(card)
        return tuple(found)

    def build(self, order: HeatOrder) -> FakeTraining:
        script = script_for(order)
        fail_if_told(script, order, "build")
        self.clock.pass_ms(script.build_ms)
        return FakeTraining(script, order, self.clock)

    def judge(self, _order: HeatOrder, _batches: int | None = None) -> Missing:
        return NO_JUDGE

    def predict(self, order: HeatOrder) -> FakePredictor:
        script = script_for(order)
        fail_if_told(script, order, "build")
        self.clock.pass_ms(script.build_ms)
        return FakePredictor(script, order, self.clock)

    def exercises(self, device: Device) -> FakeExercises:
        return FakeExercises(device, self.clock)


def open_room(_framework: str = "fake") -> FakeBackend:
    return FakeBackend()


# The fake's other work: whole trainings, inference, and profiles from a fake profiler.

HALF_LIFE_STEPS = 500.0
FIRST_LOSS = 2.3
COARSE = {"fp64": 0.0, "fp32": 5e-8, "tf32": 2e-4, "fp16": 2e-4, "bf16": 1e-3}
FAKE_VALUES = (0.5, -0.25, 1.0, 2.0)
DEPTH = 4
SHARES = {"fake::convolution": 0.6, "fake::product": 0.3, "fake::update": 0.1}
MEMORY_BYTES = {"fake::convolution": 4_000_000.0, "fake::product": 1_000_000.0, "fake::update": 0.0}
RUNNING = 0.5  # share of the time in which a card runs a kernel: the host is too slow for it
NO_DEVICE = Missing("this lane computes on the processor")


class FakeLearner(StepwiseRunner):
    """Loss and wrong answers halve every 500 steps; a seed of N lowers every accuracy by N thousandths of it."""

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, items_per_step: int) -> None:
        self._script = script
        self._order = order
        self._clock = clock
        self._items_per_step = items_per_step
        self._steps = self._since = self._taken = 0
        self._lap = 0
        self.evaluator = FakeEvaluator(script, order, clock, self._evaluate)

    def begin(self, steps_done: int, state: Any | None) -> None:
        fail_if_told(self._script, self._order, "set up")
        self._steps = steps_done
        if state is not None:
            self._lap, found = (int(number) for number in state["lap and steps"])
            if found != steps_done:
                raise LaneError(f"the state is of step {found}, expected {steps_done}")

    def step(self) -> None:
        self._taken += 1
        self._steps += 1
        if self._steps - self._since == 2:
            fail_if_told(self._script, self._order, f"lap {self._lap}")
        self._clock.pass_ms(self._script.first_ms if self._taken == 1 else self._script.step_ms)

    def fence(self) -> None:
        """Do nothing: no work is running, the virtual clock has already moved."""

    def reset_score(self) -> None:
        self._since = self._steps
        self._lap += 1

    def score(self) -> Score:
        """Return the score at the middle of the steps since the last reset."""
        middle = (self._since + self._steps) / 2
        score = self._score_at(middle, (self._steps - self._since) * self._items_per_step)
        lost = self._script.fail.get("how") == "nan" and is_this_heat(self._script, self._order)
        if lost and self._script.fail.get("phase") == f"lap {self._lap}":
            return Score(score.items, Missing("the loss became nan"), score.accuracy)
        return score

    def state(self) -> Any:
        fail_if_told(self._script, self._order, f"checkpoint {self._lap}")
        import numpy as np

        return {"lap and steps": np.array([self._lap, self._steps], np.int64)}

    def close(self) -> tuple[str, ...]:
        """Return no notes; nothing is held."""
        return ()

    def _evaluate(self, items: int) -> Score:
        fail_if_told(self._script, self._order, f"evaluation {self._lap}")
        return self._score_at(self._steps, items)

    def _score_at(self, step: float, items: int) -> Score:
        wrong = 0.5 ** (step / HALF_LIFE_STEPS)
        accuracy = (1 - 0.9 * wrong) * (1 - self._order.seed / 1_000) + self._script.skill
        return Score(items, FIRST_LOSS * wrong, accuracy)


class FakeEvaluator:
    """Evaluates the test items: `score` provides the result, and the clock moves by the time it takes."""

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, score: Callable[[int], Score]) -> None:
        self._script = script
        self._clock = clock
        self._score = score
        self._workload = find_workload(order.subject.name)

    def read(self, items: int) -> None:
        """Do nothing: there are no items."""

    def score(self, items: int) -> Score:
        counted = min(items, self._workload.test_items)
        made = self._score(counted)
        self._clock.pass_ms(self._script.evaluate_ms * counted / self._workload.test_items)
        return made

    def predict(self, items: int) -> Predictions:
        classes = self._workload.outputs[-1]
        truth = tuple((number % classes,) for number in range(items))
        return Predictions(tuple(((number * 2) % classes,) for number in range(items)), truth)


class FakePredictor:
    """A call of N items takes `step_ms * (call_share + item_share * N)`, the very first one `first_ms`."""

    notes = ()

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        self.parameters = find_workload(order.subject.name).parameters
        self._script = script
        self._order = order
        self._clock = clock
        self._factor = math.exp(script.spread * random.Random(f"{order.number}/{order.lane.name}").gauss(0, 1))
        self._batch = self._calls = 0

    def read_items(self, most: int) -> None:
        """Do nothing: there are no items."""

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return wanted

    def keep_whole(self, why: str) -> bool:
        """Return False: a fake network refuses no batch for its size."""
        return not why

    def take(self, batch: int) -> None:
        self._batch = batch
        if self._calls:
            fail_if_told(self._script, self._order, f"batch {batch}")

    def call(self) -> None:
        self._calls += 1
        if self._calls == 1:
            fail_if_told(self._script, self._order, "first call")
            self._clock.pass_ms(self._script.first_ms)
            return
        if self._calls == 2:
            fail_if_told(self._script, self._order, "single calls")
        steps = self._script.call_share + self._script.item_share * self._batch
        self._clock.pass_ms(self._script.step_ms * self._factor * steps)

    def fence(self) -> None:
        """Do nothing: no work is running, the virtual clock has already moved."""

    def let_go(self) -> None:
        """Do nothing: nothing is held."""

    def prove(self, precision: str, batch: int) -> AnswerRun:
        fail_if_told(self._script, self._order, "proof")
        return self._answer(precision, COARSE[precision] + self._script.stray, batch)

    def reference(self) -> AnswerReference:
        return AnswerReference(self._answer("fp64", 0.0, 1), self._answer("fp32", COARSE["fp32"], 1), DEPTH)

    def device_memory_bytes(self) -> int | Missing:
        return Missing("a fake device holds no memory")

    def _answer(self, precision: str, stray: float, batch: int) -> AnswerRun:
        values = tuple(value * (1 + stray) for value in FAKE_VALUES)
        return AnswerRun(precision, values, math.hypot(*values), len(values) * min(batch, 1))


class FakeProfiler:
    by = "the fake profiler"

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        self._script = script
        self._order = order
        self._clock = clock
        self._began_ns = self._ended_ns = 0

    def start(self) -> None:
        fail_if_told(self._script, self._order, "profile")
        self._began_ns = self._clock()
        self._clock.pace = self._script.profiler_cost

    def stop(self) -> None:
        self._ended_ns = self._clock()
        self._clock.pace = 1.0

    def read(self) -> Observed:
        if self._order.lane.device.kind == "cpu":
            return Observed(tuple(self._host_operators()), NO_DEVICE)
        ran = self._activities()
        return Observed((*self._host_operators(), *sum_operators(ran, self._memory())), sum_device(ran))

    def collectives(self) -> CollectiveSum:
        """Return the planted exchange of all gradients, and what is not hidden of it."""
        ms = self._script.exchange_ms[1]
        longer = self._steps() * self._script.profiler_cost * 1e6
        return CollectiveSum(ms * longer, max(0.0, ms - self._script.hidden_ms) * longer)

    def write_trace(self, path: Path) -> None:
        events = tuple(
            XEvent(activity.name, activity.start_ns, activity.end_ns - activity.start_ns)
            for activity in self._activities()
        )
        path.write_text(json.dumps(chrome_trace((XPlane("fake", (XLine("steps", events),)),))), encoding="utf-8")

    def _host_operators(self) -> list[OperatorSum]:
        spent_ns = self._ended_ns - self._began_ns
        on_card = self._order.lane.device.kind != "cpu"
        return [
            OperatorSum(name, "processor", self._steps(), share * spent_ns, 0.0 if on_card else self._memory()[name])
            for name, share in SHARES.items()
        ]

    def _activities(self) -> list[Activity]:
        """Return a kernel for each operator in each step, one after another with pauses between them."""
        found: list[Activity] = []
        begins_ns = float(self._began_ns)
        for _ in range(self._steps()):
            for name, share in SHARES.items():
                takes_ns = share * (self._ended_ns - self._began_ns) / self._steps()
                found.append(Activity(f"kernel of {name}", begins_ns, begins_ns + takes_ns * RUNNING, name))
                begins_ns += takes_ns
        return found

    def _steps(self) -> int:
        """Return how many steps ran, computed from the clock."""
        step_ms = self._script.step_ms * self._script.profiler_cost
        return max(1, round((self._ended_ns - self._began_ns) / 1e6 / step_ms))

    def _memory(self) -> dict[str, float]:
        return {name: taken * self._steps() for name, taken in MEMORY_BYTES.items()}
