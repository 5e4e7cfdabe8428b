"""What counts as a disturbance of a window, and what cannot be told."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from laptime.engine.run.instruments import STOPPED_BY_SIGNAL, Instruments
from laptime.machine.sensors.host.sensor import NoiseReading
from laptime.model.quantities import Missing
from laptime.model.sample import Noise

SECOND_NS = 1_000_000_000
QUIET = Missing("not asked here")


@pytest.mark.parametrize(
    ("cores", "noise", "flag"),
    [
        (2, Noise(0.25, 1.0, 0.0), None),
        (2, Noise(0.26, 1.0, 0.0), "other processes took 0.26 cores"),
        (64, Noise(6.4, 1.0, 0.0), None),
        (64, Noise(6.5, 1.0, 0.0), "other processes took 6.50 cores"),
        (2, Noise(QUIET, QUIET, QUIET), None),
        (2, Noise(0.0, 9.0, 20.0), None),
        (2, Noise(0.0, 0.0, 21.0), "the container's quota held it back for 21 ms"),
        (2, Noise(QUIET, QUIET, 500.0), "the container's quota held it back for 500 ms"),
        (2, Noise(1.5, 0.0, 500.0), "other processes took 1.50 cores"),
        (4, Noise(0.1, 30.0, 0.0, waited_cores=0.3), None),
        (4, Noise(0.1, 30.0, 0.0, waited_cores=0.6), "other containers held 0.60 cores that its threads waited for"),
        (4, Noise(9.0, 0.0, 0.0, halted="stopped"), "stopped"),
    ],
)
def test_a_disturbed_window_is_named(cores, noise, flag):
    """A quarter of a core or a tenth of all is too much company, a fiftieth of the window too long a hold."""
    assert flag == Instruments(cores).judge(noise, SECOND_NS)


def test_a_window_that_is_shorter_than_the_kernels_ticks_says_so():
    """Counting in steps of 10 ms says nothing of 1 ms."""
    instruments = Instruments(2)
    instruments.open(1, lambda: False)
    noise = instruments.close_window()
    assert isinstance(noise.other_cores, Missing)
    assert "too short for the kernel's ticks" in noise.other_cores.missing


def test_before_it_is_opened_there_is_nothing_to_compare_with():
    """The first reading has no reading before it."""
    assert Instruments(2).close_window().other_cores == Missing("no reading before the window")


def test_what_other_processes_take_is_seen():
    """A busy process next to a sleeping child takes most of a core, and the window is flagged."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        instruments = Instruments(2)
        instruments.open(sleeper.pid, lambda: False)
        time.sleep(0.6)
        noise = instruments.close_window()
    finally:
        for process in (busy, sleeper):
            process.kill()
            process.wait()
    assert noise.other_cores > 0.3
    assert "other processes took" in instruments.judge(noise, 600_000_000)


def reading(at_s, **told):
    """Return a reading of counters that are zero except for what is named."""
    counters = ("busy_s", "tree_s", "cores_busy_s", "io_wait_s", "waited_s", "throttled_ms", "load_1m", "asleep_s")
    return NoiseReading(round(at_s * 1e9), **{**dict.fromkeys(counters, 0.0), **told})


def test_a_stop_is_seen_where_nothing_can_be_read():
    """A signal is heard of without any reader."""
    reader = Shown()
    reader.probe = lambda: Missing("no processor times here")
    instruments = Instruments(2, reader)
    stops = iter([False, True, False])
    instruments.open(1, lambda: next(stops))
    stopped, quiet = instruments.close_window(), instruments.close_window()
    assert instruments.judge(stopped, SECOND_NS) == STOPPED_BY_SIGNAL
    assert instruments.judge(quiet, SECOND_NS) is None


class Shown:
    """A reader that shows some readings, one after another."""

    def __init__(self, *readings):
        self._readings = iter(readings)
        self.read = lambda: next(self._readings)

    def probe(self):
        return None

    def open(self, _pid):
        """Nothing is watched."""


@pytest.mark.parametrize(
    ("after", "flag"),
    [
        ({"busy_s": 3.2, "tree_s": 3.0, "cores_busy_s": 33.0, "waited_s": 0.1}, None),
        ({"busy_s": 3.9, "tree_s": 3.0, "cores_busy_s": 3.9, "waited_s": 0.9}, "other processes took 0.90 cores"),
        ({"busy_s": 3.0, "tree_s": 3.0, "cores_busy_s": 3.1, "waited_s": 5.0}, None),
        (
            {"busy_s": 3.0, "tree_s": 3.0, "cores_busy_s": 33.0, "waited_s": 2.0},
            "other containers held 2.00 cores that its threads waited for",
        ),
        ({"tree_s": Missing("gone"), "busy_s": 4.0}, None),
        ({"asleep_s": 5.0}, "the computer slept for 5.0 s"),
    ],
    ids=[
        "a busy host around a pod",
        "another process under the same quota",
        "threads that wait for each other",
        "threads that wait for others",
        "a tree that cannot be read",
        "a suspended computer",
    ],
)
def test_what_is_taken_from_our_cores_is_what_disturbs(after, flag):
    """A pod of 4 of 64 cores by quota, whose host is busy, is quiet as long as its threads get their cores."""
    instruments = Instruments(4, Shown(reading(1.0), reading(2.0, **after)))
    instruments.open(1, lambda: False)
    assert instruments.judge(instruments.close_window(), SECOND_NS) == flag
