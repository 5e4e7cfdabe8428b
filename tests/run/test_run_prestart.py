"""Children that are started before their turn are warm when it comes, and never outlive the race."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace

import psutil
import pytest
from heat_orders import order_for

from laptime.engine import wire
from laptime.engine.run.runner import HeatRunner, Limits
from laptime.engine.run.turns import Prestarter
from long_cases import cases


def lanes_of(folder, *names, framework="fake"):
    """Return lanes of these names, whose children are this test's own."""
    lane = order_for(folder, framework=framework).lane
    return [replace(lane, name=name) for name in names]


def started_here():
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # one of another test may end now
            found += [each] if "laptime.engine.heat" in each.cmdline() else []
    return found


def heat_of(lane, folder, started):
    """Run one heat with a child that was started ahead."""
    return HeatRunner(replace(order_for(folder), lane=lane), Limits(20.0, 1.0), 2, lambda _: None).run(started, 0)


def test_a_child_that_waited_runs_its_heat_like_any_other(tmp_path, house):
    """Its wait is a phase of its own, which is no part of its start-up."""
    [lane] = lanes_of(tmp_path, "one")
    with Prestarter(2, 20.0) as ahead:
        ahead.line_up([lane])
        started = ahead.take(lane)
        assert isinstance(started.heard[-1], wire.Warmed)
        time.sleep(0.3)
        heat = heat_of(lane, tmp_path, started)
    assert (heat.process.status, heat.first_step_ns) == ("ok", 300_000_000)
    assert list(heat.process.phases_s) == ["start", "import", "held", "build", "proof", "first step", "timing"]
    assert heat.process.phases_s["held"] >= 0.3 > heat.process.phases_s["import"]
    assert house.is_empty_within(10)


@pytest.mark.long
@pytest.mark.parametrize(("cores", "at_once"), cases((1, 1), (5, 2), long=[(2, 1), (64, 3)]))
def test_as_many_start_at_once_as_have_two_cores_each(tmp_path, cores, at_once):
    """Who imports on a core that another needs would seem to start more slowly than it does."""
    lanes = lanes_of(tmp_path, "one", "two", "three")
    with Prestarter(cores, 20.0) as ahead:
        ahead.line_up(lanes)
        first = ahead.take(lanes[0])
        assert len(started_here()) == at_once
        assert heat_of(lanes[0], tmp_path, first).process.status == "ok"
        for lane in lanes[1:]:
            assert heat_of(lane, tmp_path, ahead.take(lane)).process.status == "ok"


@pytest.mark.parametrize("cores", [2, 8])
def test_who_is_passed_over_waits_for_nothing(tmp_path, cores):
    """Started by then or not: those behind it have their turn, and no process is left of it."""
    lanes = lanes_of(tmp_path, "one", "two", "three")
    with Prestarter(cores, 20.0) as ahead:
        ahead.line_up(lanes)
        assert heat_of(lanes[0], tmp_path, ahead.take(lanes[0])).process.status == "ok"
        ahead.pass_over(lanes[1])
        assert heat_of(lanes[2], tmp_path, ahead.take(lanes[2])).process.status == "ok"
        assert not started_here()


def test_who_is_not_taken_is_ended(tmp_path, house):
    """A race that ends early, by Ctrl-C or by an error, leaves nobody waiting."""
    lanes = lanes_of(tmp_path, "one", "two", "three")

    def race():
        with Prestarter(8, 20.0) as ahead:
            ahead.line_up(lanes)
            heat_of(lanes[0], tmp_path, ahead.take(lanes[0]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        race()
    assert not started_here()
    assert house.is_empty_within(10)


def test_a_framework_that_cannot_be_imported_is_its_own_lanes_end(tmp_path):
    """The others next to it are warm."""
    lanes = [*lanes_of(tmp_path, "bad", framework="nonsense"), *lanes_of(tmp_path, "good")]
    with Prestarter(4, 20.0) as ahead:
        ahead.line_up(lanes)
        bad, good = (heat_of(lane, tmp_path, ahead.take(lane)) for lane in lanes)
    assert (bad.process.dnf.phase, good.process.status) == ("import", "ok")
    assert bad.process.dnf.reason.startswith("no back end for 'nonsense'")


def test_a_child_that_is_killed_while_it_waits_did_not_finish(tmp_path):
    """The system may run out of memory at any time."""
    [lane] = lanes_of(tmp_path, "one")
    with Prestarter(2, 20.0) as ahead:
        ahead.line_up([lane])
        started = ahead.take(lane)
        os.kill(started.heard[0].pid, signal.SIGKILL)
        heat = heat_of(lane, tmp_path, started)
    assert (heat.process.status, heat.process.dnf.phase, heat.process.dnf.signal) == ("dnf", "held", "SIGKILL")


def test_a_child_that_says_nothing_is_given_up(tmp_path, house):
    """No process can start within a thousandth of a second; it is not waited for twice."""
    [lane] = lanes_of(tmp_path, "one")
    with Prestarter(2, 0.001) as ahead:
        ahead.line_up([lane])
        heat = heat_of(lane, tmp_path, ahead.take(lane))
    assert heat.process.dnf.reason == "no message for 0.001 s; stopped"
    assert house.is_empty_within(10)
