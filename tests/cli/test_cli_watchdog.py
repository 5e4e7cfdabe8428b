"""A real training, with a helper that its data started, that stops moving or whose parent is killed: all of it ends."""

from __future__ import annotations

import time

import pytest

# The step sleeps for 10 ms; from the 30th on it sleeps for good. The data bring a helper process.
MINE = """\
import subprocess
import time

import numpy as np

import laptime

calls = 0


class Batches:
    def __init__(self):
        self.helper = subprocess.Popen(["sleep", "600"])

    def __iter__(self):
        return iter([np.ones((4, 8), np.float32)] * 8)


def step(weights, rows):
    global calls
    calls += 1
    time.sleep(600 if calls > 30 else 0.01)
    slope = weights - rows.mean(0)
    return weights - np.float32(0.1) * slope, (slope**2).mean()


def training():
    return laptime.Training(step=step, state=np.full(8, 2, np.float32), data=Batches())
"""


@pytest.fixture
def tidy_house(house):
    """A helper that was left behind would sleep on for ten minutes."""
    yield house
    for process in house.processes():
        process.kill()


def test_the_watchdog_ends_a_heat_and_its_whole_group(tidy_house):
    """No step for the larger of a second and 20 medians is a hang: the lane did not finish, its helper is gone too."""
    house = tidy_house
    (house.folder / "mine.py").write_text(MINE)
    began_s = time.monotonic()
    answer = house.race("mine.py:training", "python/cpu", "--heats", "1", "--budget", "5s", "--watchdog", "1s")
    assert answer.code == 3
    assert time.monotonic() - began_s < 40
    (lane,) = house.kept()["lanes"]
    (result,) = lane["heats"]
    assert (result["heat"]["process"]["dnf"]["phase"], result["heat"]["process"]["dnf"]["signal"]) == ("timing", None)
    assert result["heat"]["process"]["dnf"]["reason"].startswith("no message for ")
    assert result["heat"]["windows"]
    assert "python/cpu did not finish, in timing: no message for " in " ".join(answer.out.split())
    assert house.processes() == []


@pytest.mark.long
def test_what_a_child_started_does_not_outlive_a_killed_parent(tidy_house):
    """Kill -9 of the parent ends the child's whole group, loaders included."""
    house = tidy_house
    (house.folder / "mine.py").write_text(MINE)
    process = house.start("race", "mine.py:training", "python/cpu", "--heats", "1")
    house.read_until(process, "round 1 of 1")
    deadline = time.monotonic() + 30
    while not any(each.name() == "sleep" for each in house.processes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    house.finish(process)
    assert house.is_empty_within(10)
