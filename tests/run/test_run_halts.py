"""A heat that stood still for a while: the window is flagged and run again, and honest waits are not accused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from heat_orders import order_for

from laptime.analysis.heats import quiet_windows, summarise_heat
from laptime.engine.run.child import Child
from laptime.engine.run.instruments import flag_halts
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.model.plan import Pace, Subject
from laptime.model.quantities import Missing
from laptime.model.sample import Noise, Window

MS = 1_000_000
BURNING = str(Path(__file__).with_name("own_burning.py"))


def windows_of(*step_times_ms: list[float], own=1.0, disk=0.0, singly=True) -> list[Window]:
    """Make windows of these steps; in a step longer than 100 ms the heat ran on `own` cores, else on one."""
    windows, now_ns = [], 0
    for steps in step_times_ms:
        ns = tuple(round(step * MS) for step in steps)
        long_ns = sum(step for step in ns if step > 100 * MS)
        cores = (sum(ns) - long_ns + own * long_ns) / sum(ns)
        waited = disk * long_ns / sum(ns)
        noise = Noise(0.0, 0.5, 0.0, own_cores=cores, io_wait_cores=waited)
        windows.append(Window(now_ns, now_ns + sum(ns), len(ns), ns if singly else (), noise))
        now_ns += sum(ns)
    return windows


QUIET = [20.0] * 10
STALLED = [20.0] * 5 + [5000.0] + [20.0] * 4


@pytest.mark.parametrize(
    ("windows", "flags"),
    [
        (windows_of(QUIET, STALLED, QUIET, QUIET, own=0.0), {1: "nothing of it ran for 5.0 s"}),
        (windows_of(QUIET, STALLED, QUIET, QUIET, own=0.0, singly=False), {1: "nothing of it ran for 5.0 s"}),
        (windows_of(STALLED, own=0.0), {0: "nothing of it ran for 5.0 s"}),
        (windows_of(QUIET, STALLED, QUIET, QUIET, own=1.0), {}),
        (windows_of(QUIET, STALLED, QUIET, QUIET, own=0.0, disk=1.0), {}),
        (windows_of(QUIET, STALLED, QUIET, STALLED, own=0.0), {}),
        (windows_of(QUIET, [20.0] * 9 + [900.0], QUIET, own=0.0), {}),
        (windows_of([1.0] * 200, [1.0] * 199 + [150.0], [1.0] * 200, own=0.0), {}),
        (windows_of(QUIET, [600.0] * 10, QUIET, own=0.0), {}),
        (windows_of(QUIET, QUIET, QUIET), {}),
        ([], {}),
    ],
    ids=[
        "a lone gap",
        "steps that were not timed one by one",
        "the only window",
        "it computed meanwhile",
        "it waited for a disk",
        "it waits again and again",
        "a short pause of long steps",
        "a short pause of short steps",
        "many slow steps",
        "nothing at all",
        "no window",
    ],
)
def test_a_window_in_which_nothing_ran_is_flagged(windows, flags):
    """Only one step far longer than all others, with no processor time and no disk in it, says that it was halted."""
    found = flag_halts(windows)
    assert {place: window.flag for place, window in enumerate(found) if window.flag} == flags
    assert [place for place, window in enumerate(found) if window.noise.halted] == list(flags)


def test_without_the_processor_time_nobody_is_accused():
    windows = windows_of(QUIET, STALLED, QUIET, own=0.0)
    unknown = [replace(each, noise=replace(each.noise, own_cores=Missing("no /proc"))) for each in windows]
    assert flag_halts(unknown) == tuple(unknown)


def test_a_halted_window_never_counts_while_another_is_left():
    """A heat that is disturbed throughout keeps its windows, but not the one that stood still."""
    busy = [
        replace(each, flag="other processes took 1.00 cores") for each in windows_of(QUIET, STALLED, QUIET, own=0.0)
    ]
    assert [each.noise.halted is None for each in quiet_windows(flag_halts(busy))] == [True, True]


@pytest.mark.long
def test_a_heat_that_is_stopped_runs_the_window_again(tmp_path):
    """A signal stops the heat's processes for 1.5 s within a window of 20 ms steps, as a debugger or a user may."""
    ordered = order_for(tmp_path, framework="python")
    subject = Subject("burning", "", None, None, 50, None, "items", file=BURNING, function="stopped")
    order = replace(ordered, subject=subject, pace=Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.2))
    heat = HeatRunner(order, Limits(60.0, 60.0), 64, lambda _: None).run(Started(Child(order.lane.environment)), 0)
    assert heat.process.status == "ok", heat.process.dnf
    flags = [window.flag for window in heat.windows if window.noise.halted]
    assert flags == ["a signal stopped the process for a while"]
    assert summarise_heat(heat).step_ms < 100
