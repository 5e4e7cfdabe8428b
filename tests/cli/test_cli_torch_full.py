"""Whole trainings in PyTorch, tiny ones, by the command that users type; one of them killed and resumed."""

from __future__ import annotations

import signal

import pytest

# One thread, since others may be at work on this machine; in bf16 a processor that has none takes twice as long.
# The lane as written is taken up again in tests/contracts.
TINY = ("train", "cifar-cnn", "torch/cpu/best+threads=1", "--laps", "2", "--steps-per-lap", "5")


def curve(record):
    """Return all that a curve is made of, to the last digit, without the machine's own times."""
    (run,) = record["answer"]["runs"]
    laps = [(lap["number"], lap["steps"], lap["score"], lap["validation"]["score"]) for lap in run["laps"]]
    return laps, run["test"]["score"], run["predictions"]


@pytest.fixture(scope="module")
def unbroken(torch_house):
    """Train once without a break, in another house."""
    return curve(torch_house.run(*TINY, "--json", "-q").json)


@pytest.mark.long
def test_a_training_killed_in_its_second_lap_gives_the_unbroken_curve(house, torch_house, unbroken):
    """Kill -9 of the command ends the process that trains, too; resumed, every figure is the same to the last digit."""
    house.fake, house.cache, house.longest_s = "", torch_house.cache, torch_house.longest_s
    process = house.start(*TINY)
    house.read_until(process, "lap 1 of 2:")  # its end, and no sign of life within it
    process.kill()
    assert house.finish(process).code == -signal.SIGKILL
    assert house.is_empty_within(10)
    (run,) = house.kept()["answer"]["runs"]
    assert len(run["laps"]) < 2
    answer = house.run("resume", "latest", "--json", "-q", starts="torch")
    assert answer.code == 0
    assert curve(answer.json) == unbroken
    assert answer.json["answer"]["runs"][0]["processes"] == 2
