"""`laptime why` end to end on fake lanes: a cause that is planted is found, proven, and its remedies are measured."""

from __future__ import annotations

import json
import signal
import time

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

SLOW_LOADER = """
["fake/*"]
loader_ms = 90.0
copy_ms = 0.0
compute_ms = 10.0
spread = 0.01
[ "fake/*".gains ]
"workers=2" = { loader = 2.0 }
"""
NOTHING = """
["fake/*"]
loader_ms = 0.1
copy_ms = 0.0
compute_ms = 50.0
spread = 0.01
"""
ASK = ("fake/cpu", "--budget", "60s", "-q")


def verdicts(record):
    return {each["cause"]: each for each in record["answer"]["why"]["causes"]}


def words_of(text):
    return " ".join(text.split())


@pytest.fixture
def found(house):
    house.script(SLOW_LOADER)
    return house.done("why", "cifar-cnn", *ASK), house.kept()


def test_a_slow_loader_is_found_proven_and_mended(found, house):
    answer, record = found
    why = record["answer"]["why"]
    assert why["first"][0] == "input pipeline"
    assert verdicts(record)["input pipeline"]["standing"] == "proven"
    parts = {part["of"]: part["share"] for part in why["parts"]}
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["loader"] == pytest.approx(0.9, abs=0.03)
    assert parts["compute"] == pytest.approx(0.1, abs=0.02)
    ceilings = {each["stage"]: each for each in why["ceilings"]}
    assert ceilings["loader"]["binds"]
    assert ceilings["loader"]["items_per_s"] == pytest.approx(1111, rel=0.05)
    assert ceilings["compute"]["items_per_s"] == pytest.approx(10_000, rel=0.05)
    decoded = next(each for each in why["remedies"] if each["lane"] == "fake/cpu/input=cached")
    assert decoded["measured"]["low"] < 10 < decoded["measured"]["high"]
    assert decoded["predicted"] == pytest.approx(10, rel=0.2)
    assert "laptime.cached" in decoded["code"]
    assert decoded["recommended"]
    assert len(verdicts(record)) == 16
    assert record["lanes"][0]["name"] == "fake/cpu/as-written"
    assert record["question"] == "why"
    said = words_of(answer.out)
    assert "cifar-cnn on fake/cpu" in said
    assert "(proven)" in said
    assert house.done("show", "latest").out == answer.out
    (row,) = house.done("list", "--json").json
    assert row["question"] == "why"
    assert "input pipeline" in row["summary"] or "loader" in row["summary"]


@pytest.mark.long
def test_where_nothing_is_amiss_nothing_is_proven(house):
    house.script(NOTHING)
    record = house.done("why", "cifar-cnn", *ASK, "--json").json
    standings = {each["standing"] for each in record["answer"]["why"]["causes"]}
    assert "proven" not in standings
    assert record["answer"]["why"]["trusted"]


@pytest.mark.long
def test_an_experiment_that_fails_is_a_row_with_its_reason(house):
    """The answer is kept: what was asked about is the lane as it is."""
    house.script(SLOW_LOADER + '["fake/cpu/input=cached"]\nfail = { how = "memory", phase = "build" }\n')
    record = house.done("why", "cifar-cnn", "fake/cpu", "--budget", "10s", "-q", "--json").json
    failed = next(each for each in record["answer"]["why"]["remedies"] if each["lane"] == "fake/cpu/input=cached")
    assert failed["measured"] is None
    assert "out of memory" in failed["reason"]
    assert [lane["status"] for lane in record["lanes"] if lane["name"] == "fake/cpu/input=cached"] == ["dnf"]


def test_a_lane_that_does_not_finish_is_told_and_nothing_is_tried(house):
    house.script('["fake/cpu/as-written"]\nfail = { how = "kill", phase = "timing" }\n')
    answer = house.run("why", "cifar-cnn", *ASK)
    assert answer.code == 3
    record = house.kept()
    assert record["lanes"][0]["status"] == "dnf"
    assert record["answer"]["why"] is None
    assert "SIGKILL" in answer.out
    assert "not tested" not in answer.out


@pytest.mark.long
def test_noise_too_great_to_tell_is_said_so(house):
    house.script('["fake/*"]\nloader_ms = 40.0\ncompute_ms = 50.0\nspread = 0.8\n')
    answer = house.run("why", "cifar-cnn", "fake/cpu", "--budget", "20s", "-q")
    assert answer.code == 4
    assert not house.kept()["answer"]["why"]["trusted"]
    assert house.kept()["answer"]["why"]["distrust"] in words_of(answer.out)


def test_what_the_budget_has_no_room_for_is_named(house):
    house.script(SLOW_LOADER)
    record = house.done("why", "cifar-cnn", "fake/cpu", "--budget", "1s", "-q", "--json").json
    assert record["answer"]["why"]["missing"]
    assert verdicts(record)["input pipeline"]["standing"] != "proven"
    tried, whole = (1, 1 + len(record["answer"]["why"]["missing"]))
    assert (
        f"{tried} of {whole} experiments were tried: there was no time for the others."
        in record["answer"]["why"]["says"]
    )


@pytest.mark.long
def test_a_first_heat_is_no_measure_of_what_the_next_one_costs(house):
    """It proves the lane, looks ahead and takes steps apart: 7 of the 11 s that this one takes by its own clock."""
    house.script(SLOW_LOADER.replace("90.0", "450.0").replace("compute_ms = 10.0", "compute_ms = 50.0"))
    record = house.done("why", "cifar-cnn", "fake/cpu", "--budget", "16s", "-q", "--json").json
    first, *later = record["lanes"][0]["heats"]
    assert first["heat"]["process"]["phases_s"]["proof"] == pytest.approx(5.0, abs=0.5)
    assert later, "pairs of what seemed to gain had room in the budget"


def test_several_lanes_are_refused(house):
    answer = house.done("why", "cifar-cnn", "fake/cpu", "fake/cuda:0", code=2)
    assert "why looks at one lane" in answer.err


def test_a_lane_that_trains_nothing_is_refused(house):
    assert "trains nothing" in house.done("why", "cifar-cnn", "fake/cpu/input=only", code=2).err


@pytest.mark.long
def test_an_interrupt_keeps_what_is_finished(house):
    house.script(SLOW_LOADER + '["fake/cpu/input=cached"]\nfail = { how = "hang", phase = "timing" }\n')
    process = house.start("why", "cifar-cnn", "fake/cpu")
    house.read_until(process, "round 1")
    deadline = time.monotonic() + 30
    while not (house.files() and house.kept()["lanes"] and house.kept()["lanes"][0]["heats"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    record = json.loads(json.dumps(house.kept()))
    assert record["status"] == "interrupted"
    assert record["lanes"][0]["heats"]
