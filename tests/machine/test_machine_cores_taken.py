"""How many cores other processes fill while laptime prepares a question, next to a real process that fills one."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from laptime.machine.look import LEAST_S, STAYS_S, CoresTaken


def test_a_core_that_another_process_fills_is_taken():
    """Not at once: what ran for a moment is no neighbour."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with CoresTaken(sleeper.pid) as taken:
            assert taken.count() == 0
            time.sleep(2 * LEAST_S)
            assert taken.count() >= 1
    finally:
        for process in (sleeper, neighbour):
            process.kill()
            process.wait()


@pytest.mark.skipif(os.cpu_count() == 1, reason="there is only one core to compute on, and nothing to leave to others")
def test_a_process_that_fills_a_core_for_a_while_takes_none(all_cores):
    """It ended while laptime prepared: a preset that left it a core would compute on one less to the end."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with CoresTaken(sleeper.pid) as taken:
        busy = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
        subprocess.run([sys.executable, "-c", busy], check=True)
        before, began_s = psutil.cpu_times(), time.monotonic()
        count, now = taken.count(), psutil.cpu_times()
    waited_s = time.monotonic() - began_s
    sleeper.kill()
    sleeper.wait()
    others = os.cpu_count() - (now.idle + now.iowait - before.idle - before.iowait) / waited_s
    if others > 0.5:
        pytest.skip(f"other processes took {others:.1f} cores meanwhile")
    assert count == 0
    assert waited_s < STAYS_S


@pytest.fixture
def all_cores():
    """Let this process use every core: the suite pins each of its processes to one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    yield
    os.sched_setaffinity(0, before)
