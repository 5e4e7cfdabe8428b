"""`laptime compare`, and `laptime race --against`: what they print, refuse, and return."""

from __future__ import annotations

import pytest

FAST = ("--heats", "3", "--quiet", "--json")
LANES = ("fake/cpu", "fake/cuda/best")
SLOWER = '["fake/cpu"]\nstep_ms = 100.0\nspread = 0.01\n["fake/cuda*"]\nstep_ms = 6.0\nspread = 0.01\n'


@pytest.fixture(scope="module")
def kept(shared_house):
    """A race as it was, one in which the card is slower, and one of another workload."""
    house = shared_house
    house.ids = {"before": house.done("race", "cifar-cnn", *LANES, "--label", "main", *FAST).json["id"]}
    house.script(SLOWER)
    house.ids["after"] = house.done("race", "cifar-cnn", *LANES, "--label", "topic", *FAST).json["id"]
    house.fake = "1"
    house.ids["other"] = house.done("race", "cifar-mlp", "fake/cpu", *FAST).json["id"]
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


def test_a_race_runs_again_as_it_was(kept):
    """Its lanes by their full names, its options, and no label; then the comparison."""
    answer = kept.done("race", "--against", "@main", "--quiet", "--fail-above", "5%")
    page, _, below = answer.out.partition("Gate passed: ")
    assert "20.0x as fast as fake/cpu" in page
    assert f"@main ({kept.ids['before']})" in " ".join(below.split())
    identity = below.split(" is not")[0].split()[-1]
    again, before = (kept.done("show", name, "--json").json for name in (identity, "@main"))
    assert again["ask"] == {
        **before["ask"], "label": None, "lanes": ["fake/cpu/as-written", "fake/cuda:0/best"]
    }  # fmt: skip


def test_json_of_a_race_that_runs_again_is_its_record(kept):
    answer = kept.done("race", "--against", "@main", "--quiet", "--json", "--label", "again")
    assert answer.json["ask"]["label"] == "again"
    assert "is not distinguishable from @main" in " ".join(answer.err.split())


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


def test_whole_trainings_and_inference_are_compared_and_not_raced_again(kept):
    for question, measured in (("train", "trainings"), ("infer", "heats")):
        words = ("--laps", "2", "--seeds", "2") if question == "train" else ("--heats", "2")
        ids = [kept.done(question, "cifar-mlp", "fake/cpu", *words, "--quiet", "--json").json["id"] for _ in range(2)]
        (lane,) = compared(kept, *ids)["lanes"]
        assert (lane["measured"], lane["counts"], lane["verdict"]) == (measured, [2, 2], "not distinguishable")
        err = kept.done("race", "--against", ids[0], code=2).err
        assert f"is no race, and --against runs a race again\n  run laptime {question} cifar-mlp again" in err
        assert "is a race" in kept.done("compare", "@main", ids[0], code=2).err
