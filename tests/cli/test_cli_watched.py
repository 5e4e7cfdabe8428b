"""A whole training, broken and resumed, and answers, both watched: what is in the record, and what is said."""

from __future__ import annotations

import signal
from itertools import pairwise

import pytest

FULL = ("race", "cifar-mlp", "torch/cpu/best", "--full", "--laps", "2", "--steps-per-lap", "60", "--rate", "3.6")
INFER = ("race", "cifar-mlp", "torch/cpu/best", "--infer", "--heats", "1", "--budget", "6s", "--sensor-rate", "20")


@pytest.fixture(scope="module")
def trained(torch_house):
    """Break a training off after its first lap, and resume it."""
    process = torch_house.start(*FULL, "--sensor-rate", "5")
    torch_house.read_until(process, "lap 1 of 2")
    process.send_signal(signal.SIGINT)
    torch_house.finish(process)
    return torch_house.done("resume", "latest", "--json", "-q").json


def test_a_resumed_training_has_a_time_line_a_process(trained):
    """Each with the marks of what it did, and readings around them on one clock."""
    (run,) = trained["full"]["runs"]
    first, second = run["watched"]
    names = [[mark["name"] for mark in part["marks"]] for part in (first, second)]
    assert names[0][:2] == ["import", "build"]
    assert "lap 1" in names[0]
    assert names[1][-2:] == ["test", "end"]
    assert "resume" in names[1]
    for part in (first, second):
        times = [mark["at_ns"] for mark in part["marks"]]
        host = next(track for track in part["timeline"]["tracks"] if track["sensor"] == "host")
        assert part["timeline"]["clock"] is None
        assert all(before <= after for before, after in pairwise(times))
        assert host["first_ns"] < times[-1] < host["first_ns"] + 1000 * sum(host["apart_us"]) + 10**9
    middle_us = sorted(host["apart_us"])[len(host["apart_us"]) // 2]
    assert 150_000 < middle_us < 250_000, "five a second, as the training was asked for, in the resumed part too"


def test_a_whole_training_says_what_it_took(trained):
    """Both cores are kept busy while it trains; where no meter is, the reason stands in the energy's place."""
    usage = trained["lanes"][0]["usage"]
    assert 40 < usage["processor_percent"] <= 101
    assert 2e8 < usage["memory_most_bytes"] < 4e9
    whole = usage["energy"]["j_whole"]
    assert whole["missing"] if isinstance(whole, dict) else whole > 0
    assert trained["lanes"][0]["energy_j_per_lap"] == usage["energy"]["j_per_lap"]


def test_it_is_shown_below_the_training(torch_house, trained):
    """With the money that the machine's time costs, from the start of the process to the end of the test."""
    page = torch_house.done("show", trained["id"]).out
    assert "while timed" in page
    assert "money for it" in page
    (run,) = trained["full"]["runs"]
    (row,) = [line for line in page.splitlines() if line.startswith("torch/cpu/best") and " %" in line]
    spent_s = run["test"]["seconds"] + sum(lap["train_s"] for lap in run["laps"])
    ready_s = sum(run["phases_s"][name] for name in ("start", "import", "build", "set up"))
    assert float(row.split()[-1]) == pytest.approx(3.6 * (spent_s + ready_s) / 3600, rel=0.01)


def test_answers_say_what_they_took(torch_house):
    """Single calls and each batch size by themselves; the page shows the first and the quickest."""
    record = torch_house.done(*INFER, "--json", "-q").json
    (lane,) = record["infer"]["lanes"]
    (heat,) = lane["heats"]
    assert [each["batch"] for each in lane["usages"]] == [None, 1, 8, 64, 256]
    assert heat["timeline"]["clock"] is None
    assert [mark["name"] for mark in heat["marks"]][-1] == "end"
    busy = {each["batch"]: each["usage"]["processor_percent"] for each in lane["usages"]}
    assert 30 < busy[256] <= 101
    assert record["lanes"][0]["usage"] == lane["usages"][0]["usage"]
    page = torch_house.done("show", record["id"]).out
    assert "torch/cpu/best, single calls" in page


def test_a_fake_lane_is_watched_in_neither(house):
    """Its clock is its own."""
    for words in (("--full", "--laps", "1", "--steps-per-lap", "5"), ("--infer", "--heats", "1")):
        record = house.done("race", "cifar-cnn", "fake/cpu", *words, "--json", "-q").json
        assert record["lanes"][0]["usage"] is None
        if record["full"]:
            assert record["full"]["runs"][0]["watched"] == []
        else:
            assert record["infer"]["lanes"][0]["heats"][0]["timeline"] is None


@pytest.mark.parametrize("question", ["--full", "--infer"])
def test_a_named_instrument_has_to_be_there_before_anything_is_trained(house, question):
    """RAPL, NVML, AMD or Apple: at least one is not on this machine, and nothing is left on disk."""
    answers = [
        house.run("race", "cifar-cnn", "fake/cpu", question, "--sensors", name)
        for name in ("rapl", "nvml", "amd", "apple")
    ]
    lacking = [answer for answer in answers if answer.code == 5]
    assert lacking
    assert all("leave it out" in answer.err for answer in lacking)
    assert len(house.files()) == len(answers) - len(lacking)
