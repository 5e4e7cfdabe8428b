"""Starts a process that computes while the candidate is paused, and so only next to the base.

Met: a plant against laptime itself. A factor has two ends: who cannot be faster can slow the base. The process ends
with its parent, or after a minute.
Refused by: all descendants of a heat are paused with it, and what others computed in a turn is seen.
"""

import os
import subprocess
import sys

from shared import Losing, train

BURNER = """
import os, sys, time
parent, end_s = int(sys.argv[1]), time.monotonic() + 60
while time.monotonic() < end_s:
    try:
        state = open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        break
    if state in "tT":
        until_s = time.monotonic() + 0.05
        while time.monotonic() < until_s:
            pass
    else:
        time.sleep(0.01)
"""


def base():
    return train(Losing())


def cheat():
    """Start it twice removed, in a session of its own, so that it is no child of this process."""
    starter = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)"
    for _ in range(os.cpu_count() or 1):
        subprocess.run([sys.executable, "-c", starter, BURNER, str(os.getpid())], check=True, start_new_session=True)
    return train(Losing())


def honest():
    """Start a process, too, which ends at once."""
    subprocess.run([sys.executable, "-c", "print('a version')"], check=True, capture_output=True)
    return train(Losing())
