"""A fake lane under a fake profiler: three operators that share the step, and on a card a kernel for each."""

from __future__ import annotations

import json
from pathlib import Path

from laptime.backends.fake_script import FakeClock, Script, fail_if_told
from laptime.backends.kernels import Activity, sum_device, sum_operators
from laptime.backends.xplane import Event, Line, Plane, chrome_trace
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.profile import Observed, OperatorSum

SHARES = {"fake::convolution": 0.6, "fake::product": 0.3, "fake::update": 0.1}
MEMORY_BYTES = {"fake::convolution": 4_000_000.0, "fake::product": 1_000_000.0, "fake::update": 0.0}
RUNNING = 0.5  # of a card's time a kernel runs: the host is too slow for it
NO_DEVICE = Missing("this lane computes on the processor")


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

    def write_trace(self, path: Path) -> None:
        events = tuple(Event(each.name, each.start_ns, each.end_ns - each.start_ns) for each in self._activities())
        path.write_text(json.dumps(chrome_trace((Plane("fake", (Line("steps", events),)),))), encoding="utf-8")

    def _host_operators(self) -> list[OperatorSum]:
        spent_ns = self._ended_ns - self._began_ns
        on_card = self._order.lane.device.kind != "cpu"
        return [
            OperatorSum(name, "processor", self._steps(), share * spent_ns, 0.0 if on_card else self._memory()[name])
            for name, share in SHARES.items()
        ]

    def _activities(self) -> list[Activity]:
        """Give a kernel for each operator in each step, one after another with pauses between."""
        found, begins_ns = [], float(self._began_ns)
        for _ in range(self._steps()):
            for name, share in SHARES.items():
                takes_ns = share * (self._ended_ns - self._began_ns) / self._steps()
                found.append(Activity(f"kernel of {name}", begins_ns, begins_ns + takes_ns * RUNNING, name))
                begins_ns += takes_ns
        return found

    def _steps(self) -> int:
        """Reckon how many steps went by: the clock tells."""
        step_ms = self._script.step_ms * self._script.profiler_cost
        return max(1, round((self._ended_ns - self._began_ns) / 1e6 / step_ms))

    def _memory(self) -> dict[str, float]:
        return {name: taken * self._steps() for name, taken in MEMORY_BYTES.items()}
