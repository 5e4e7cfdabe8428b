"""The fake's other work: whole trainings, inference, and profiles from a fake profiler."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laptime.backends.base import StepwiseRunner
from laptime.backends.fake_script import FakeClock, Script, fail_if_told, is_this_heat
from laptime.backends.kernels import Activity, sum_device, sum_operators
from laptime.backends.xplane import XEvent, XLine, XPlane, chrome_trace
from laptime.errors import LaneError
from laptime.model.inference import AnswerReference, AnswerRun
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.profile import Observed, OperatorSum
from laptime.model.protocol import Predictions, Score
from laptime.model.ranks import CollectiveSum
from laptime.workloads import find_workload

HALF_LIFE_STEPS = 500.0
FIRST_LOSS = 2.3
COARSE = {"fp64": 0.0, "fp32": 5e-8, "tf32": 2e-4, "fp16": 2e-4, "bf16": 1e-3}
VALUES = (0.5, -0.25, 1.0, 2.0)
DEPTH = 4
SHARES = {"fake::convolution": 0.6, "fake::product": 0.3, "fake::update": 0.1}
MEMORY_BYTES = {"fake::convolution": 4_000_000.0, "fake::product": 1_000_000.0, "fake::update": 0.0}
RUNNING = 0.5  # share of the time in which a card runs a kernel: the host is too slow for it
NO_DEVICE = Missing("this lane computes on the processor")


class FakeLearner(StepwiseRunner):
    """Loss and wrong answers halve every 500 steps; a seed of N lowers every accuracy by N thousandths of it."""

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, items_per_step: int) -> None:
        self._script, self._order, self._clock, self._items_per_step = script, order, clock, items_per_step
        self._steps = self._since = self._taken = 0
        self._lap = 0
        self.evaluator = FakeEvaluator(script, order, clock, self._evaluate)

    def begin(self, steps_done: int, state: Any | None) -> None:
        fail_if_told(self._script, self._order, "set up")
        self._steps = steps_done
        if state is not None:
            self._lap, found = (int(each) for each in state["lap and steps"])
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
        self._script, self._clock, self._score = script, clock, score
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
        self._script, self._order, self._clock = script, order, clock
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
        values = tuple(value * (1 + stray) for value in VALUES)
        return AnswerRun(precision, values, math.hypot(*values), len(values) * min(batch, 1))


class FakeProfiler:
    by = "the fake profiler"

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        self._script, self._order, self._clock = script, order, clock
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
        ms, hidden_ms = self._script.exchange_ms[1], self._script.hidden_ms
        longer = self._steps() * self._script.profiler_cost * 1e6
        return CollectiveSum(ms * longer, max(0.0, ms - hidden_ms) * longer)

    def write_trace(self, path: Path) -> None:
        events = tuple(XEvent(each.name, each.start_ns, each.end_ns - each.start_ns) for each in self._activities())
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
        found, begins_ns = [], float(self._began_ns)
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
