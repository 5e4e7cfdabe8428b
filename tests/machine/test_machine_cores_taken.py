"""How many cores other processes fill while laptime prepares a question, next to a real process that fills one."""

from __future__ import annotations

import subprocess
import sys
import time

from laptime.machine.look import LEAST_S, CoresTaken


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
