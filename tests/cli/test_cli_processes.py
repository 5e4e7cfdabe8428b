"""What a training of your own may do to processes: leave some behind, print without end, race again."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

SECONDS = f"600.{os.getpid()}"  # by which daemons of this test process are known
SHORT = ("--heats", "1", "--budget", "2s")
DAEMON_AND_CHATTER = f"""\
import os, subprocess
import numpy as np
import laptime

# A daemon: another parent, a session of its own, an empty environment.
subprocess.run(["sh", "-c", "setsid sleep {SECONDS} &"], env=dict(PATH=os.environ["PATH"]), check=True)
LINE = "x" * 1_000_000

def step(state, batch):
    print(LINE)
    return state + 0.001 * batch, float((state ** 2).sum())

def training():
    return laptime.Training(step=step, state=np.ones(8, np.float32), data=[np.ones(8, np.float32)] * 8)
"""


def daemons():
    return [each for each in psutil.process_iter() if SECONDS in _words(each)]


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.long
def test_daemons_and_endless_output_leave_nothing_behind(house):
    """No process, and no byte on the disk but the record: what a child prints is kept in memory, 4 kB of it."""
    (house.folder / "mine.py").write_text(DAEMON_AND_CHATTER)
    scratch = house.folder / "scratch"
    scratch.mkdir()
    try:
        record = house.raced("mine.py:training", "python/cpu", *SHORT, env={"TMPDIR": str(scratch)})
        assert record["exit code"] == 0
        assert daemons() == []
    finally:
        for each in daemons():
            each.kill()
    assert list(scratch.iterdir()) == []


@pytest.mark.long
def test_a_killed_parent_leaves_no_daemon(house):
    """The guardian notices that the parent is gone."""
    (house.folder / "mine.py").write_text(DAEMON_AND_CHATTER)
    process = house.start("race", "mine.py:training", "python/cpu", "--heats", "1", "--budget", "60s")
    house.read_until(process, "round 1 of 1")
    process.kill()
    house.finish(process)
    deadline = time.monotonic() + 5
    while daemons() and time.monotonic() < deadline:
        time.sleep(0.05)
    left = daemons()
    for each in left:
        each.kill()
    assert left == []


TWO_ALIKE = """\
import numpy as np
import laptime

def step(state, batch):
    return state + 0.001 * batch, float((state ** 2).sum())

def training():
    return laptime.Training(step=step, state=np.ones(8, np.float32), data=[np.ones(8, np.float32)] * 8)

again = training
"""


def test_a_race_leaves_nothing_in_the_folder_of_temporary_files(house):
    """A turn that a lane showed to be taken again stayed there: up to 1 GiB a heat."""
    (house.folder / "mine.py").write_text(TWO_ALIKE)
    scratch = house.folder / "scratch"
    scratch.mkdir()
    words = ("mine.py:training", "mine.py:again", "python/cpu", *SHORT)
    record = house.raced(*words, env={"TMPDIR": str(scratch), "LAPTIME_FAKE": ""})
    assert record["lanes"][0]["heats"][0]["heat"]["process"]["phases_s"]["replay"] > 0
    assert list(scratch.iterdir()) == []


UNGUARDED = """\
import numpy as np
import laptime

def step(state, batch):
    return state + 0.001 * batch, float((state ** 2).sum())

def training():
    return laptime.Training(step=step, state=np.ones(8, np.float32), data=[np.ones(8, np.float32)] * 8)

result = laptime.race(training, "python/cpu", heats=1, budget="2s")
print(result.lanes[0].status, result.lanes[0].reason)
"""


def test_a_race_without_a_main_guard_is_refused_in_its_heat(house):
    """Each heat imports the file that called the race, and would race again: it says what is to be added."""
    place = house.folder / "mine.py"
    place.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, str(place)],
        env=house.environment(LAPTIME_FAKE=""),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    *_, says, hint = done.stderr.splitlines()
    assert says.startswith(
        "laptime.model.errors.TrainingError: mine.py raised UsageError on import: laptime was called within"
    )
    assert hint.startswith('Add the line `if __name__ == "__main__":` above the call')
    assert house.is_empty_within(10)


@pytest.mark.long
def test_commands_whose_standard_streams_are_closed_work(house):
    """`laptime race <&- >&- 2>&-`, as some services start it."""

    def close_all():
        for number in range(3):
            os.close(number)

    command = [sys.executable, "-m", "laptime", "race", "cifar-cnn", "fake/cpu", "--heats", "1"]
    process = subprocess.Popen(command, env=house.environment(), preexec_fn=close_all)  # noqa: PLW1509
    assert process.wait(60) == 0
    assert [lane["status"] for lane in house.kept()["lanes"]] == ["ok"]
