"""A whole training and answers, both watched: what is in the record, and what is said."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise

import pytest

from absent_sensor import ABSENT

pytestmark = pytest.mark.usefixtures("known_references")

KERAS = "keras-torch/cpu/best"
LANES = ("torch/cpu/best", *([KERAS] if find_spec("keras") else []))
FULL = ("train", "cifar-mlp", *LANES, "--laps", "2", "--steps-per-lap", "60", "--rate", "3.6")


@pytest.fixture(scope="module")
def trained(common_house, made_once):
    """Train the MLP in PyTorch, and in Keras where it is installed."""
    return made_once("watched", lambda _: common_house.done(*FULL, "--sensor-rate", "5", "--json", "-q").json)


@pytest.mark.long
def test_a_training_of_the_mlp_learns_and_is_tested(trained):
    """Proven, no validation, two laps in which the loss falls, a test on 10,000 images that is better than chance.

    In Keras as in PyTorch.
    """
    assert [lane["parity"]["status"] for lane in trained["lanes"]] == ["same"] * len(LANES)
    assert [run["process"]["lane"] for run in trained["answer"]["runs"]] == list(LANES)
    for run in trained["answer"]["runs"]:
        first, second = run["laps"]
        assert second["score"]["loss"] < first["score"]["loss"]
        assert (first["validation"], first["steps"], first["score"]["items"]) == (None, 60, 1_920)
        assert run["test"]["score"]["items"] == 10_000
        assert run["test"]["score"]["accuracy"] > 0.12
        assert run["first_step_ms"] / 1e3 < first["train_s"]


@pytest.mark.long
def test_a_training_has_a_time_line_with_marks(trained):
    """Of all that it did, on one clock with the readings around them; five a second, as was asked."""
    run = trained["answer"]["runs"][0]
    (part,) = run["watched"]
    names = [mark["name"] for mark in part["marks"]]
    assert names[:2] == ["import", "build"]
    assert names[-8:] == ["set up", "lap 1", "checkpoint 1", "lap 2", "checkpoint 2", "test", "census", "end"]
    times = [mark["at_ns"] for mark in part["marks"]]
    host = next(track for track in part["timeline"]["tracks"] if track["sensor"] == "host")
    assert part["timeline"]["clock"] is None
    assert all(before <= after for before, after in pairwise(times))
    assert host["first_ns"] < times[-1] < host["first_ns"] + 1000 * sum(host["apart_us"]) + 10**9
    assert 150_000 < sorted(host["apart_us"])[len(host["apart_us"]) // 2] < 250_000


@pytest.mark.long
def test_a_whole_training_says_what_it_took(trained):
    """Both cores are kept busy while it trains; where no meter is, the reason takes the energy's place."""
    usage = trained["lanes"][0]["usage"]
    assert 15 < usage["processor_percent"] <= 101
    assert 2e8 < usage["memory_most_bytes"] < 4e9
    whole = usage["energy"]["j_whole"]
    assert whole["missing"] if isinstance(whole, dict) else whole > 0
    assert trained["lanes"][0]["energy_j_per_lap"] == usage["energy"]["j_per_lap"]


@pytest.mark.long
def test_it_is_shown_below_the_training(common_house, trained):
    """With the money that the machine's time costs, from the start of the process to the end of the test."""
    page = common_house.done("show", trained["id"], "--details").out
    assert "while timed" in page
    assert "money for it" in page
    run = trained["answer"]["runs"][0]
    (row,) = [line for line in page.splitlines() if line.startswith("torch/cpu/best") and " %" in line]
    spent_s = run["test"]["seconds"] + sum(lap["train_s"] for lap in run["laps"])
    ready_s = sum(run["process"]["phases_s"][name] for name in ("start", "import", "build", "set up"))
    assert float(row.split()[-1]) == pytest.approx(3.6 * (spent_s + ready_s) / 3600, rel=0.01)


def test_a_fake_lane_is_watched_in_neither(house):
    """Its clock is its own."""
    for command, *words in (("train", "--laps", "1", "--steps-per-lap", "5"), ("infer", "--heats", "1")):
        record = house.done(command, "cifar-cnn", "fake/cpu", *words, "--json", "-q").json
        assert record["lanes"][0]["usage"] is None
        if record["question"] == "full":
            assert record["answer"]["runs"][0]["watched"] == []
        else:
            assert record["answer"]["lanes"][0]["heats"][0]["process"]["timeline"] is None


@pytest.mark.parametrize("command", ["train", "infer"])
def test_a_named_instrument_has_to_be_there_before_anything_is_trained(house, command):
    """And nothing is left on disk."""
    answer = house.done(command, "cifar-cnn", "fake/cpu", "--sensors", ABSENT, code=5)
    assert f"--sensors {ABSENT}" in answer.err
    assert "leave it out" in answer.err
    assert house.files() == []
