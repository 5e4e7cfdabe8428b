"""What counts as a disturbance of a window, and what cannot be told."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from laptime.model.missing import Missing
from laptime.model.sample import Noise
from laptime.run.instruments import Instruments

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
    ],
)
def test_a_disturbed_window_is_named(cores, noise, flag):
    """A quarter of a core or a tenth of all is too much company, a fiftieth of the window too long a hold."""
    assert flag == Instruments(cores).judge(noise, SECOND_NS)


def test_a_window_that_is_shorter_than_the_kernels_ticks_says_so():
    """Counting in steps of 10 ms says nothing of 1 ms."""
    instruments = Instruments(2)
    instruments.open(1)
    noise = instruments.close_window()
    assert isinstance(noise.other_cores, Missing)
    assert "too short for the kernel's ticks" in noise.other_cores.missing


def test_before_it_is_opened_there_is_nothing_to_compare_with():
    """The first reading has no reading before it."""
    assert Instruments(2).close_window().other_cores == Missing("no reading before the window")


def test_what_other_processes_take_is_seen():
    """A busy process beside a sleeping child takes most of a core, and the window is flagged."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        instruments = Instruments(2)
        instruments.open(sleeper.pid)
        time.sleep(0.6)
        noise = instruments.close_window()
    finally:
        for process in (busy, sleeper):
            process.kill()
            process.wait()
    assert noise.other_cores > 0.3
    assert "other processes took" in instruments.judge(noise, 600_000_000)
