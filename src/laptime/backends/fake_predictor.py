"""A fake network that only answers: a call takes a share of a step, and each item a little more."""

from __future__ import annotations

import math
import random

from laptime.backends.fake_script import FakeClock, Script, fail_if_told
from laptime.model.inference import AnswerReference, AnswerRun
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.workloads import find_workload

COARSE = {"fp64": 0.0, "fp32": 5e-8, "tf32": 2e-4, "fp16": 2e-4, "bf16": 1e-3}
VALUES = (0.5, -0.25, 1.0, 2.0)
DEPTH = 4


class FakePredictor:
    """Calls of N items take `step_ms * (call_share + item_share * N)`, the very first one `first_ms`."""

    notes = ()

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock) -> None:
        self.parameters = find_workload(order.subject.name).parameters
        self._script, self._order, self._clock = script, order, clock
        self._factor = math.exp(script.spread * random.Random(f"{order.number}/{order.lane.name}").gauss(0, 1))
        self._batch = self._calls = 0

    def read_items(self, most: int) -> None:
        """There are no items: the virtual clock knows how long they take."""

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return wanted

    def keep_whole(self, why: str) -> bool:
        """Whatever was refused, it was not for the size of a batch."""
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
        """Nothing runs on: the virtual clock has already moved."""

    def let_go(self) -> None:
        """Nothing is held."""

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
