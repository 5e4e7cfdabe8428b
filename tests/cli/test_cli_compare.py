"""`laptime compare`, and `laptime race --against`: what they print, refuse, and return."""

from __future__ import annotations

import json

import pytest

FAST = ("--heats", "3", "--quiet", "--json")
LANES = ("fake/cpu", "fake/cuda/best")
SPREAD = '["fake/*"]\nspread = 0.01\n'


def keep_again(house, record, identity, change):
    """Keep a record once more, with another id and a change."""
    again = json.loads(json.dumps(record))
    change(again)
    again["id"] = identity
    (house.home / "records" / f"{identity}.json").write_text(json.dumps(again))
    return identity


def slow_the_card(record):
    record["ask"]["label"] = "topic"
    for heat in record["lanes"][1]["heats"]:
        heat["step_ms"] *= 1.2


def rename(record):
    record["ask"]["label"], record["workload"]["name"] = None, "mine"


@pytest.fixture(scope="module")
def kept(shared_house):
    """A race as it was, the same where the card is slower, and one of another workload."""
    house = shared_house
    house.script(SPREAD)
    before = house.done("race", "cifar-cnn", *LANES, "--label", "main", *FAST).json
    house.fake = "1"
    house.ids = {
        "before": before["id"],
        "after": keep_again(house, before, "r-2026-11-24-aaaa", slow_the_card),
        "other": keep_again(house, before, "r-2026-11-24-bbbb", rename),
    }
    return house


def compared(house, *words, code=0):
    return house.done("compare", *words, "--json", code=code).json


def test_each_lane_has_a_ratio_and_a_verdict(kept):
    found = compared(kept, "@main", "@topic")
    assert [(each["lane"], each["verdict"]) for each in found["lanes"]] == [
        ("fake/cpu/as-written", "not distinguishable"),
        ("fake/cuda:0/best", "slower"),
    ]
    card = found["lanes"][1]
    assert card["ratio"] == pytest.approx(5 / 6, rel=0.02)
    assert card["low"] < card["ratio"] < card["high"]
    assert (found["before"]["label"], found["after"]["label"]) == ("main", "topic")
    assert found["differences"] == []


def test_the_page_answers_first_and_says_how_it_was_measured(kept):
    out = kept.done("compare", "@main", kept.ids["after"]).out
    assert "fake/cuda:0/best in @topic" in out.split("\n\n")[0]
    assert "x slower than @main" in " ".join(out.split())
    assert "measured one after the other" in out
    assert f"laptime race --against {kept.ids['before']}" in " ".join(out.split())


@pytest.mark.parametrize(("share", "code", "state"), [("5%", 1, "FAILED"), ("30%", 0, "passed")])
def test_a_threshold_decides_the_exit_code(kept, share, code, state):
    answer = kept.done("compare", "@main", "@topic", "--fail-above", share, code=code)
    assert answer.out.startswith(f"Gate {state}: ")


def test_a_faster_lane_never_fails(kept):
    kept.done("compare", "@topic", "@main", "--fail-above", "0%")


def test_a_file_is_compared_as_well(kept):
    file = kept.home / "records" / f"{kept.ids['before']}.json"
    assert len(compared(kept, str(file), kept.ids["after"])["lanes"]) == 2


def test_a_summary_in_markdown_is_a_table(kept):
    lines = kept.done("compare", "@main", "@topic", "--md", "--fail-above", "5%", code=1).out.splitlines()
    assert lines[0].startswith("### laptime: `@topic (r-")
    assert lines[2].startswith("**Gate FAILED: slower by more than 5 %: fake/cuda:0/best")
    rows = [line for line in lines if line.startswith("| `")]
    assert [row.count(" | ") for row in rows] == [4, 4]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("@main", "@main"), "is the same record twice"),
        (("@main",), "a comparison needs two"),
        (("@main", "other"), "trained cifar-cnn, and"),
        (("@main", "@nothing"), "no record has the label 'nothing'"),
        (("@main", "@topic", "--md", "--json"), "are two forms of one answer"),
        (("@main", "@topic", "--fail-above", "5"), "did you mean 5%?"),
    ],
)
def test_what_cannot_be_compared_is_refused(kept, words, says):
    assert says in kept.done("compare", *(kept.ids.get(word, word) for word in words), code=2).err


@pytest.mark.long
def test_a_race_runs_again_as_it_was(kept):
    """Its lanes by their full names, and its options; stdout has the record, stderr the comparison. It is slower."""
    kept.script('["fake/cuda*"]\nstep_ms = 12.0\n')
    words = ("--quiet", "--json", "--label", "again", "--fail-above", "5%")
    answer = kept.done("race", "--against", "@main", *words, code=1)
    kept.fake = "1"
    before = kept.done("show", "@main", "--json").json
    lanes = ["fake/cpu/as-written", "fake/cuda:0/best"]
    assert answer.json["ask"] == {**before["ask"], "label": "again", "lanes": lanes}
    said = " ".join(answer.err.split())
    assert "Gate FAILED: slower by more than 5 %: fake/cuda:0/best (by at least " in said
    assert f"@main ({kept.ids['before']})" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("cifar-cnn", "--against", "@main"), "WHAT and LANE would change it"),
        (("--against", "@main", "--heats", "9"), "--heats would change it"),
        (("--against", "@main", "--budget", "9s", "--seed", "1"), "would change it"),
        (("--against", "@nothing"), "no record has the label"),
        (("cifar-cnn", "fake/cpu", "--fail-above", "5%"), "compares two trainings, and one is named"),
    ],
)
def test_what_cannot_run_again_is_refused(kept, words, says):
    before = kept.files()
    assert says in kept.done("race", *words, code=2).err
    assert before == kept.files()


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "words", "measured"),
    [("train", ("--laps", "1", "--seeds", "2"), "trainings"), ("infer", ("--heats", "2"), "heats")],
)
def test_whole_trainings_and_inference_are_compared_and_not_raced_again(kept, question, words, measured):
    one = kept.done(question, "cifar-mlp", "fake/cpu", *words, "--quiet", "--json").json
    other = keep_again(kept, one, f"r-2026-11-25-{len(question)}000", lambda each: each["ask"].update(label=None))
    (lane,) = compared(kept, one["id"], other)["lanes"]
    assert (lane["measured"], lane["counts"], lane["verdict"]) == (measured, [2, 2], "not distinguishable")
    err = kept.done("race", "--against", one["id"], code=2).err
    assert f"is no race, and --against runs a race again\n  run laptime {question} cifar-mlp again" in err
    assert "is a race" in kept.done("compare", "@main", one["id"], code=2).err
