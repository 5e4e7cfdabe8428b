"""`--dry-run`: what the command with the same arguments would run, for each kind of question."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("race",), ("heats: 3 to 8 of each lane, in turns, until every ratio is well within 5 %", "budget: 1 min")),
        (("race", "--alone"), ("heats: 3 to 5 of each lane, one after another (--alone asks for it), until",)),
        (
            ("train",),
            (
                "each lane: 10 laps of 500 steps, a checkpoint after each",
                "validation after each lap: the first 1,000 test images",
                "a test at the end: 10,000 images",
                "order: one lane after another",
            ),
        ),
        (("train", "--laps", "1", "--seeds", "3", "--seed", "7"), ("each lane: 1 lap of 500", "seeds: 3, from 7 on")),
        (("train", "--lr", "1e-3,1e-4"), ("fake/cpu/lr=0.001", "fake/cpu/best+lr=0.0001")),
        (("infer",), ("heats: 3 of each lane", "then batches of 1, 8, 64, 256", "against float64")),
    ],
    ids=["race", "alone", "full", "seeds", "grid", "infer"],
)
def test_a_plan_says_what_each_lane_would_do(house, words, says):
    command, *options = words
    answer = house.done(command, "cifar-cnn", "fake/cpu", "fake/cpu/best", *options, "--dry-run")
    said = " ".join(answer.out.split())
    for sentence in says:
        assert sentence in said
    assert not house.files()


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (
            "race",
            {
                "ask",
                "subject",
                "lanes",
                "proof",
                "pace",
                "notes",
                "data",
                "sets",
                "kept_batches",
                "alone",
                "others",
                "nodes",
            },
        ),
        ("train", {"plan", "protocol", "order"}),
        ("infer", {"plan", "pace"}),
    ],
)
def test_a_plan_is_json_too(house, command, keys):
    assert house.done(command, "cifar-cnn", "fake/cpu", "--dry-run", "--json").json.keys() == keys


def test_a_plan_refuses_what_a_race_refuses(house):
    assert "No such option '--lr'" in house.done("race", "cifar-cnn", "fake/cpu", "--lr", "1", "--dry-run", code=2).err
