"""A real training that stops moving is ended with all that it started, and what it measured is kept."""

from __future__ import annotations

import time

import pytest

# The loss sleeps, so that steps take 10 ms; from the 30th on it sleeps for good. The data bring a helper process.
MINE = """\
import subprocess
import time

import torch

import laptime

calls = 0


class Batches:
    def __init__(self):
        self.helper = subprocess.Popen(["sleep", "600"])

    def __iter__(self):
        return iter([(torch.ones(4, 8), torch.zeros(4, dtype=torch.long))] * 8)


def loss(outputs, targets):
    global calls
    calls += 1
    time.sleep(600 if calls > 30 else 0.01)
    return torch.nn.functional.cross_entropy(outputs, targets)


def training():
    model = torch.nn.Linear(8, 2)
    return laptime.Training(model, loss, lambda parameters: torch.optim.SGD(parameters, lr=0.1), Batches())
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
    answer = house.race("mine.py:training", "torch/cpu", "--heats", "1", "--budget", "5s", "--watchdog", "1s")
    assert answer.code == 3
    assert time.monotonic() - began_s < 40
    (lane,) = house.kept()["lanes"]
    (heat,) = lane["heats"]
    assert (heat["dnf"]["phase"], heat["dnf"]["signal"]) == ("timing", None)
    assert heat["dnf"]["reason"].startswith("hung: no word for ")
    assert heat["windows"]
    assert "torch/cpu did not finish, in timing: hung: no word for " in " ".join(answer.out.split())
    assert house.processes() == []
