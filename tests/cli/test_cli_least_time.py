"""What a question takes at least is its first sentence, where a budget is too short for it."""

from __future__ import annotations

import re

import pytest

from long_cases import cases

SLOW = """
import time

import numpy as np

import laptime


def step(state, batch):
    time.sleep(0.6)
    return state - 1e-3 * batch.T @ (batch @ state - 1.0), float(((batch @ state - 1.0) ** 2).mean())


def training():
    rows = np.random.default_rng(0).normal(size=(64, 8))
    return laptime.Training(step=step, state=np.zeros(8), data=[rows] * 10, steps_per_lap=10)
"""

pytestmark = pytest.mark.usefixtures("known_references")
SAYS = (
    r"warning: --budget 1s is too short {} \(start-up \d+ s \+ \d rounds of \d+ s\)\. "
    r"This takes at least about \d+ s\. "
)


@pytest.mark.parametrize(
    ("words", "aim"),
    cases(
        (("why", "cifar-cnn", "fake/cpu"), "to test a fix"),
        (("tune", "cifar-cnn", "fake/cpu"), "to confirm settings"),
        long=[(("race", "cifar-cnn", "fake/cpu", "fake/cpu/best"), "for a 95 % interval")],
    ),
)
def test_it_is_said_before_it_begins(house, words, aim):
    answer = house.run(*words, "--budget", "1s")
    said = re.sub(r"\n(?! )", "\n\n", answer.err).split("\n\n")[0]
    assert re.match(SAYS.format(aim), " ".join(said.split())), answer.err


@pytest.mark.parametrize(
    "words", [("why", "cifar-cnn", "fake/cpu"), ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best")]
)
def test_nothing_is_said_where_it_has_room(house, words):
    assert "warning" not in house.run(*words, "--budget", "60s").err


@pytest.mark.long
@pytest.mark.framework
def test_a_training_with_long_steps_says_at_once_what_it_takes(torch_house):
    """By the work of its steps: neither its images nor its reference are made by then."""
    with torch_house.start("race", "pets-densenet", "torch/cpu", "torch/cpu/best", "--budget", "90s") as process:
        said = process.stderr.readline()
        process.terminate()
        rest = process.stderr.read()
    assert "computing" not in said
    told = re.search(r"at least about (\d+) s. Use --budget (\d+)m", " ".join((said + rest).split()))
    assert said.startswith("warning: --budget 90s is too short")
    assert 90 < int(told[1]) < 60 * int(told[2])


@pytest.mark.long
def test_a_training_of_your_own_says_it_once_its_reference_has_shown_how_long_a_step_takes(house):
    """Nobody knows before what a step of it takes. It has to be said before the first round."""
    (house.folder / "slow.py").write_text(SLOW)
    words = ("slow.py:training", "python/cpu", "python/cpu/threads=1", "--budget", "20s")
    with house.start("race", *words) as process:
        first, said = process.stderr.readline(), process.stderr.readline()
        process.terminate()
        process.stderr.read()
    if first.startswith("warning"):  # where others take all cores, laptime waits for them, and is late already
        first, said = said, first
    assert first.startswith("computing the float64 reference")
    assert said.startswith("warning: --budget 20s is too short for a 95 % interval")
    told = re.search(r"at least about (\d+) s. Use --budget (\d+)s", said)
    assert 8 < int(told[1]) < int(told[2])
