"""Whole trainings in PyTorch, tiny ones, by the command that users type; one of them killed and resumed."""

from __future__ import annotations

import signal

import pytest

# Quick, since each ends with a test on 10,000 images; one thread, since others may be at work on this machine.
# The lane as written is taken up again in tests/contracts.
TINY = ("race", "cifar-cnn", "torch/cpu/fastest+threads=1", "--full", "--laps", "3", "--steps-per-lap", "5")


def curve(record):
    """Give all that a curve is made of, to the last digit, without the machine's own times."""
    (run,) = record["full"]["runs"]
    laps = [(lap["number"], lap["steps"], lap["score"], lap["validation"]["score"]) for lap in run["laps"]]
    return laps, run["test"]["score"], run["predictions"]


@pytest.fixture(scope="module")
def unbroken(torch_house):
    """Train once without a break, in another house."""
    return curve(torch_house.run(*TINY, "--json", "-q").json)


def test_a_training_killed_in_its_second_lap_gives_the_unbroken_curve(house, torch_house, unbroken):
    """Kill -9 of the command ends the process that trains, too; resumed, every figure is the same to the last digit."""
    house.cache, house.longest_s = torch_house.cache, torch_house.longest_s
    process = house.start(*TINY)
    house.read_until(process, "lap 1 of 3")
    process.kill()
    assert house.finish(process).code == -signal.SIGKILL
    assert house.is_empty_within(2)
    (run,) = house.kept()["full"]["runs"]
    assert len(run["laps"]) < 3
    answer = house.run("resume", "latest", "--json", "-q")
    assert answer.code == 0
    assert curve(answer.json) == unbroken
    assert answer.json["full"]["runs"][0]["processes"] == 2


def test_a_training_of_the_mlp_learns_and_is_tested(torch_house):
    """Proven, no validation, two laps in which the loss falls, a test on 10,000 images that is better than chance."""
    words = ("race", "cifar-mlp", "torch/cpu/best+threads=1", "--full", "--laps", "2", "--steps-per-lap", "8")
    record = torch_house.run(*words, "--json", "-q").json
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same"]
    (run,) = record["full"]["runs"]
    first, second = run["laps"]
    assert second["score"]["loss"] < first["score"]["loss"]
    assert (first["validation"], first["steps"], first["score"]["items"]) == (None, 8, 256)
    assert run["test"]["score"]["items"] == 10_000
    assert run["test"]["score"]["accuracy"] > 0.12
    assert run["first_step_ms"] / 1e3 < first["train_s"]
