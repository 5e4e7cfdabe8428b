"""The steps that a heat takes under a profiler for the exchange: how many, and what a failing profiler leaves."""

from __future__ import annotations

import pytest

from laptime.engine.heat.rank import watch_collectives
from laptime.model.process import CollectiveSum
from laptime.model.quantities import Missing


class Steps:
    """A training whose steps take a fixed time on its own clock."""

    stride, outside_ns, ready_batches, holds = 1, 0, 0, False

    def __init__(self, step_ns):
        self.step_ns, self.now_ns, self.taken = step_ns, 0, []

    def clock(self):
        return self.now_ns

    def run(self, steps):
        self.taken.append(steps)
        self.now_ns += steps * self.step_ns

    def fence(self):
        pass


class Profiler:
    by = "a profiler"

    def __init__(self, steps, fails=""):
        self._steps, self._fails = steps, fails

    def start(self):
        self._fail("start")

    def stop(self):
        self._fail("stop")

    def collectives(self):
        self._fail("collectives")
        last = self._steps.taken[-1]
        return CollectiveSum(last * 30.0, last * 20.0)

    def _fail(self, where):
        if self._fails == where:
            raise RuntimeError("planted")


@pytest.mark.parametrize(("step_ms", "taken"), [(1, [1, 8]), (100, [1, 4]), (300, [1, 1]), (5_000, [1])])
def test_about_ten_steps_or_half_a_second_are_profiled(step_ms, taken):
    steps = Steps(step_ms * 1_000_000)
    found = watch_collectives(steps.clock, steps, Profiler(steps))
    assert steps.taken == taken
    assert (found.by, found.steps, found.step_ns) == ("a profiler", taken[-1], step_ms * 1e6)
    assert (found.in_progress_ns, found.exposed_ns) == (30.0, 20.0)


@pytest.mark.parametrize("where", ["start", "stop", "collectives"])
def test_a_profiler_that_fails_is_a_missing_figure(where):
    steps = Steps(1_000_000)
    found = watch_collectives(steps.clock, steps, Profiler(steps, where))
    assert found == Missing("profiling ended in RuntimeError: planted")


def test_without_a_profiler_no_step_is_taken():
    steps = Steps(1_000_000)
    assert watch_collectives(steps.clock, steps, Missing("compiled")) == Missing("compiled")
    assert steps.taken == []
