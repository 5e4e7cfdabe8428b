"""Processor time of everybody and of one process tree, seen on real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from laptime.sensors.noise import NoiseReader

BUSY = "while True: pass"
BUSY_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
BUSY_PAST = (
    "import subprocess, sys, time\n"
    "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass'])\n"
    "print('done', flush=True)\n"
    "time.sleep(60)\n"
)
SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def start():
    """Start Python programs that are ended, with all they started, when the test is over."""
    running = []

    def start_one(program: str, **options) -> subprocess.Popen:
        running.append(subprocess.Popen([sys.executable, "-c", program], start_new_session=True, **options))
        return running[-1]

    yield start_one
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def spent(sensor, seconds=0.6):
    """Give what everybody and the tree took in this time."""
    before = sensor.read()
    time.sleep(seconds)
    after = sensor.read()
    return after.busy_s - before.busy_s, after.tree_s - before.tree_s, (after.at_ns - before.at_ns) / 1e9


def open_on(process) -> NoiseReader:
    sensor = NoiseReader()
    assert sensor.probe() is None
    sensor.open(process.pid)
    time.sleep(0.2)  # interpreters start with a burst of their own
    return sensor


def test_another_process_is_not_taken_for_the_tree(start):
    """A busy process beside the tree counts for everybody, and not for the tree."""
    sensor = open_on(start(SLEEP))
    start(BUSY)
    busy_s, tree_s, wall_s = spent(sensor)
    assert busy_s > 0.3 * wall_s
    assert tree_s <= 0.05


@pytest.mark.parametrize("program", [BUSY, BUSY_CHILD], ids=["itself", "its child"])
def test_the_work_of_a_tree_is_its_own(start, program):
    """The process and what it started both count for the tree, and no more than everybody took."""
    sensor = open_on(start(program))
    busy_s, tree_s, wall_s = spent(sensor)
    assert tree_s > 0.3 * wall_s
    assert tree_s <= busy_s + 0.05


def test_a_child_that_has_ended_is_not_forgotten(start):
    """Its time is still the tree's, as everybody's count still holds it."""
    process = start(BUSY_PAST, stdout=subprocess.PIPE, text=True)
    sensor = open_on(process)
    assert process.stdout.readline() == "done\n"
    assert sensor.read().tree_s >= 0.28


def test_a_process_that_is_gone_takes_nothing(start):
    """A heat that ended is no error for the sensor."""
    process = start("pass")
    sensor = open_on(process)
    process.wait()
    assert sensor.read().tree_s == 0.0
    sensor.close()


def test_readings_are_of_the_monotonic_clock():
    """So that the span between two of them is what a window lasted."""
    before_ns = time.monotonic_ns()
    reading = NoiseReader().read()
    assert before_ns <= reading.at_ns <= time.monotonic_ns()
    assert reading.load_1m >= 0
