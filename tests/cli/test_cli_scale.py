"""`laptime scale` end to end on fake cards, whose ranks are real processes: what is planted is named and measured."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

CARDS = """
[cards]
"cuda:1" = { works = "yes" }
"cuda:2" = { works = "yes" }
"cuda:3" = { works = "yes" }
"""
EXCHANGE = """
["fake/*"]
compute_ms = 50.0
spread = 0.002
exchange_ms = [0.2, 24.0]
hidden_ms = 6.0
["fake/4xcuda*"]
ranks = [1.0, 1.02, 1.0, 1.0]
exchange_ms = [0.6, 36.2]
"""
SLOW_RANK = """
["fake/*"]
compute_ms = 50.0
spread = 0.002
exchange_ms = [0.1, 5.0]
hidden_ms = 4.0
ranks = [1.0, 1.2]
"""
SLOW_LOADERS = """
["fake/*"]
loader_ms = 10.0
compute_ms = 50.0
spread = 0.002
exchange_ms = [0.1, 5.0]
hidden_ms = 4.0
["fake/2xcuda*"]
loader_ms = 40.0
"""


def words_of(text):
    return " ".join(text.split())


def scaled(house, script, *words, cards=CARDS):
    house.script(script + cards)
    return house.done("scale", "cifar-mlp", "fake/cuda", *words, "--heats", "3", "-q"), house.kept()


def shares(record, curve=0):
    return {
        each["of"]: each["share"]["value"] for each in record["answer"]["scaling"]["curves"][curve]["lost"]["parts"]
    }


def test_a_planted_exchange_is_named_first_and_more_cards_are_predicted(house):
    answer, record = scaled(house, EXCHANGE)
    page = words_of(answer.out)
    assert "four cards give 2.4" in page
    assert "of a step is an exchange of gradients that nothing hides" in page
    curve = record["answer"]["scaling"]["curves"][0]
    assert [each["devices"] for each in curve["points"]] == [1, 2, 4]
    assert curve["points"][1]["speedup"]["value"] == pytest.approx(2 * 50 / 68, rel=0.02)
    assert curve["points"][2]["speedup"]["value"] == pytest.approx(4 * 50 / (51 + 30.2), rel=0.02)
    found = shares(record)
    assert sum(found.values()) == pytest.approx(1)
    assert found["exchange"] == pytest.approx(30.2 / 81.2, rel=0.05)
    assert curve["lost"]["first"] == "exchange"
    assert curve["profiled"]["by"] == "the fake profiler"
    assert curve["profiled"]["exposed"]["value"] == pytest.approx(30.2 / 81.2, rel=0.02)
    assert curve["profiled"]["in_progress"]["value"] == pytest.approx(36.2 / 81.2, rel=0.02)
    reports = {lane["name"]: lane["heats"][0]["heat"]["ranks"] for lane in record["lanes"]}
    assert [each["collectives"] is not None for each in reports["fake/4xcuda/weak"]] == [True, False, False, False]
    unseen = reports["fake/4xcuda/weak+sync=none"][0]["absent"]["collectives"]["missing"]
    assert unseen.startswith("only laptime scale profiles it, in the first rank of lanes that exchange")
    assert curve["link"]["latency_us"] == pytest.approx(100, rel=0.02)
    assert curve["held_out"]["predicted"] == pytest.approx(curve["held_out"]["measured"], rel=0.05)
    assert [each["devices"] for each in curve["beyond"]] == [8, 16, 32]
    assert all(each["speedup"]["low"] < each["speedup"]["value"] < each["speedup"]["high"] for each in curve["beyond"])
    assert "Predicted for more cards on such links: 8:" in page
    ranks = record["answer"]["scaling"]["ranks"]
    assert [each["device"] for each in ranks] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert all(each["memory_bytes"] > 1e6 and each["first_step_ms"] > 0 for each in ranks)
    same = {lane["name"]: lane["parity"]["status"] for lane in record["lanes"]}
    assert same == {
        "fake/cuda:0/as-written": "same",
        "fake/2xcuda/weak": "same",
        "fake/4xcuda/weak": "same",
        "fake/4xcuda/weak+sync=none": "unproven",
    }
    _shown_everywhere(house, record)


def _shown_everywhere(house, record):
    """The details, the list and the report say the same."""
    details = words_of(house.done("show", "latest", "--details").out)
    for words in (
        "a step on all of them",
        "predicted speed-up",
        "By the profiler, 37 %",
        "Checked: without 4 devices",
        "rank device host",
    ):
        assert words in details
    assert "4 devices 2.4" in words_of(house.done("list").out)
    house.done("report", "latest", "-o", "scale.md")
    assert "What more devices bring" in (house.folder / "scale.md").read_text(encoding="utf-8")
    assert json.loads(house.done("show", "latest", "--json").out)["answer"] == record["answer"]


@pytest.mark.long
def test_a_slow_rank_is_named_with_its_device(house):
    answer, record = scaled(house, SLOW_RANK, "--devices", "1,2")
    assert "rank 1 (cuda:1) takes 20 % longer than the others" in words_of(answer.out)
    lost = record["answer"]["scaling"]["curves"][0]["lost"]
    assert (lost["first"], lost["straggler"]["rank"]) == ("straggler", 1)
    assert lost["straggler"]["slower"] == pytest.approx(0.2, abs=0.01)
    assert shares(record)["straggler"] == pytest.approx(10 / 61, rel=0.1)
    assert "none could be held out" in record["answer"]["scaling"]["curves"][0]["absent"]["held_out"]["missing"]


@pytest.mark.long
def test_loaders_that_fall_behind_are_named(house):
    """The built-in training of files has lanes on ready batches."""
    house.script(SLOW_LOADERS + CARDS)
    answer = house.done("scale", "plates-cnn", "fake/cuda", "--devices", "2", "--heats", "3", "-q")
    assert "wait for loaders, which do not keep up with 2" in words_of(answer.out)
    assert shares(house.kept())["loader"] == pytest.approx(30 / 91, rel=0.1)


def test_strong_and_weak_are_two_curves_of_one_race(house):
    answer, record = scaled(house, EXCHANGE, "--both", "--devices", "1,2")
    curves = record["answer"]["scaling"]["curves"]
    assert [each["mode"] for each in curves] == ["weak", "strong"]
    assert curves[1]["points"][1]["items_per_step"] == 32
    assert curves[0]["points"][1]["items_per_step"] == 64
    assert curves[1]["points"][1]["speedup"]["value"] == pytest.approx(50 / (25 + 18), rel=0.02)
    assert "the batch as written shared out" in words_of(answer.out)


def test_a_rank_that_ends_without_a_word_ends_its_heat_alone(house):
    house.script(EXCHANGE + CARDS + '["fake/2xcuda/weak"]\nfail = { how = "exit", phase = "proof", rank = 1 }\n')
    answer = house.done("scale", "cifar-mlp", "fake/cuda", "--devices", "1,2", "--heats", "1", "-q", code=3)
    assert "rank 1: its process ended on its own, with exit code 7" in words_of(answer.out)
    assert "one card" in answer.out


def test_without_the_experiment_the_profilers_share_is_named(house):
    fails = '["fake/*sync=none"]\nfail = { how = "raise", phase = "timing" }\n'
    house.script(EXCHANGE + CARDS + fails)
    answer = house.done("scale", "cifar-mlp", "fake/cuda", "--devices", "1,2", "--heats", "1", "-q", code=3)
    assert "by the profiler, 26 % of a step is an exchange of gradients that nothing hides" in words_of(answer.out)
    absent = house.kept()["answer"]["scaling"]["curves"][0]["absent"]
    assert absent["lost"]["missing"] == "no round finished without the exchange"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fake/cuda", "--devices", "8"), "--devices 8: fake can use 4 cuda devices here"),
        (("fake/cuda", "--weak", "--both"), "--weak and --both say how the batch grows, and only one can"),
        (("fake/2xcuda",), "2xcuda names devices itself"),
        (("fake/cuda", "--every"), "--every races all"),
    ],
)
def test_what_cannot_be_is_refused_in_words(house, words, says):
    house.script(EXCHANGE + CARDS)
    assert says in words_of(house.done("scale", "cifar-mlp", *words, code=2).err)


@pytest.mark.parametrize("command", ["train", "infer", "why"])
def test_questions_about_one_device_refuse_several(house, command):
    house.script(EXCHANGE + CARDS)
    refused = house.done(command, "cifar-mlp", "fake/2xcuda", code=2)
    assert f"laptime {command}: fake/2xcuda/as-written is on several devices" in words_of(refused.err)
