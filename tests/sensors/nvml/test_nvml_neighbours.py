"""Whose processes are on a card: real ones, of the heat's tree and of others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from scripted_cards import FIRST, NO_PERMISSION, NOT_SUPPORTED, one

GIB = 1 << 30
NOBODY = "0"
SLEEP = "import time; time.sleep(60)"
PARENT = (
    "import subprocess, sys, time\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}])\n"
    "print(child.pid, flush=True)\n"
)
STAYS = PARENT + "time.sleep(60)\n"
GOES = "import os, subprocess, sys\nif os.fork() == 0:\n" + "\n".join(f"    {line}" for line in STAYS.splitlines())


@pytest.fixture
def start():
    """Start programs in sessions of their own, and end them with all they started."""
    running = []

    def start_one(program: str) -> subprocess.Popen:
        command = [sys.executable, "-c", program]
        running.append(subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start_one
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def neighbours(watch, heat: int, computing: str, drawing: str = NOT_SUPPORTED, memory: str = f"{80 * GIB},{9 * GIB}"):
    """Return what one reading says of the others on a card."""
    script = one() | {(0, "Computing", 0): computing, (0, "Drawing", 0): drawing, (0, "NewMemory", 0): memory}
    program = f"sensor = SlowNvmlSensor()\nopened = sensor.open({heat})\ntell(shown(opened, sensor.read()))"
    told = watch(script, program)[FIRST]
    return told["foreign_processes"], told.get("foreign_memory_bytes")


def test_the_heat_and_its_children_are_no_neighbours(watch, start):
    """A process started by the heat's counts as its own; one next to it does not."""
    heat, other = start(STAYS), start(SLEEP)
    child = int(heat.stdout.readline())
    computing = f"{heat.pid},{2 * GIB},{child},{GIB},{other.pid},{3 * GIB}"
    assert neighbours(watch, heat.pid, computing) == (1, 3 * GIB)
    assert neighbours(watch, heat.pid, f"{heat.pid},{2 * GIB}") == (0, 0)


def test_other_heats_of_the_same_race_are_no_neighbours(watch, start):
    """They were started by the same process, and wait while this one is timed; their starter may be a notebook."""
    script = one() | {
        (0, "Computing", 0): f"SIBLING,{2 * GIB},STARTER,{GIB}",
        (0, "Drawing", 0): NOT_SUPPORTED,
        (0, "NewMemory", 0): f"{80 * GIB},{9 * GIB}",
    }
    program = f"""
import os, subprocess, sys
from pathlib import Path
sibling = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
place = Path(os.environ["LAPTIME_TEST_NVML"])
place.write_text(place.read_text().replace("SIBLING", str(sibling.pid)).replace("STARTER", str(os.getpid())))
sensor = SlowNvmlSensor()
tell(shown(sensor.open({start(SLEEP).pid}), sensor.read()))
sibling.kill()
sibling.wait()
"""
    told = watch(script, program)[FIRST]
    assert (told["foreign_processes"], told["foreign_memory_bytes"]) == (1, GIB)


def test_what_outlived_its_parent_is_still_the_heats(watch, start):
    """A loader whose parent died belongs to the session that the heat led."""
    heat = start(GOES)
    orphan = int(heat.stdout.readline())
    heat.wait()
    assert neighbours(watch, heat.pid, f"{orphan},{GIB}") == (0, 0)


def test_a_process_that_computes_and_draws_is_one(watch, start):
    both = f"{start(SLEEP).pid},{GIB}"
    assert neighbours(watch, start(SLEEP).pid, both, drawing=both) == (1, GIB)


def test_memory_that_is_not_told_is_not_zero(watch, start):
    assert neighbours(watch, start(SLEEP).pid, f"{start(SLEEP).pid},-1") == (1, None)


EMPTY, IN_USE = f"{80 * GIB},{3 << 20}", f"{80 * GIB},{9 * GIB}"


def test_an_empty_list_is_believed_on_an_empty_card(watch):
    assert neighbours(watch, os.getpid(), NOBODY, memory=EMPTY) == (0, 0)


def test_an_empty_list_is_not_believed_once_memory_is_in_use(watch):
    """In some containers the list is empty, whichever process computes there."""
    script = one() | {(0, "Computing", 0): NOBODY, (0, "NewMemory", 0): EMPTY}
    program = "sensor = SlowNvmlSensor()\nopened = sensor.open(1)\nlater()\ntell(shown(opened, sensor.read()))"
    told = watch(script, program, then={(0, "NewMemory", 0): IN_USE})[FIRST]
    assert (told["foreign_processes"], told["foreign_memory_bytes"]) == (None, None)


def test_a_list_that_is_hidden_from_the_start_is_absent(watch):
    script = one() | {(0, "Computing", 0): NOBODY, (0, "NewMemory", 0): IN_USE}
    told = watch(script, "tell(absent(SlowNvmlSensor().open(1)))")
    why = "the card's memory is in use, yet its list of processes is empty, as it can be in a container"
    assert why == told[f"{FIRST} foreign_processes"]


def test_a_process_that_is_not_here_may_be_anybodys(watch, start):
    """It ended a moment ago, or its number is that of another container."""
    gone = start("pass")
    gone.wait()
    assert neighbours(watch, os.getpid(), f"{gone.pid},{GIB}") == (None, None)


def test_a_list_that_may_not_be_seen_is_absent(watch):
    script = one() | {(0, "Computing", 0): NO_PERMISSION}
    why = "this user may not ask (NVML: Insufficient Permissions)"
    assert why == watch(script, "tell(absent(SlowNvmlSensor().open(1)))")[f"{FIRST} foreign_processes"]
