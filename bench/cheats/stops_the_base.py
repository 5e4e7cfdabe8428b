"""Starts a process that stops the base's process again and again, for a moment each.

Met: a plant against laptime itself. Any process of a user may send signals to all others of that user. It sends them to
processes of the same verdict alone, and ends with its parent, or after a minute.
Refused by: Landlock, under which no signal leaves the candidate's own processes (Linux 6.12), and turns in which a heat
was stopped.
"""

import os
import subprocess
import sys

from shared import Losing, train

STOPPER = """
import os, signal, sys, time
from pathlib import Path

own, end_s = int(sys.argv[1]), time.monotonic() + 60

def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

def ancestors(pid):
    found = []
    while pid > 1:
        found.append(pid)
        pid = parent_of(pid)
    return found

def is_laptime(pid):
    return b"laptime\\0verdict" in Path(f"/proc/{pid}/cmdline").read_bytes()

judge = next((pid for pid in ancestors(own) if is_laptime(pid)), None)
while judge is not None and Path(f"/proc/{own}").exists() and time.monotonic() < end_s:
    for each in filter(str.isdecimal, os.listdir("/proc")):
        try:
            is_heat = b"laptime.engine.heat" in Path(f"/proc/{each}/cmdline").read_bytes()
            if int(each) != own and is_heat and judge in ancestors(int(each)) and state_of(each) == "R":
                os.kill(int(each), signal.SIGSTOP)
                time.sleep(0.004)
                os.kill(int(each), signal.SIGCONT)
        except (OSError, ValueError, IndexError):
            pass
    time.sleep(0.004)
"""


def base():
    return train(Losing())


def cheat():
    starter = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)"
    subprocess.run([sys.executable, "-c", starter, STOPPER, str(os.getpid())], check=True)
    return train(Losing())


def honest():
    """Send a signal to a child of its own, and to no other process."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child.terminate()
    child.wait()
    return train(Losing())
