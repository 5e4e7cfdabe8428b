"""What a question takes at least is its first sentence, where a budget is too short for it."""

from __future__ import annotations

import re

import pytest

from long_cases import cases

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
