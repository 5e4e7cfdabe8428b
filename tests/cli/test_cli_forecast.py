"""A whole training as a plain race predicts it, and as it really runs: on the virtual clock both are exact."""

from __future__ import annotations

import pytest

LANES = ("fake/cpu", "fake/cpu/best")
READY = ("start", "import", "build", "set up")


@pytest.fixture(scope="module")
def race(shared_house):
    return shared_house.raced("cifar-cnn", *LANES)


@pytest.fixture(scope="module")
def whole(shared_house):
    return shared_house.run("train", "cifar-cnn", *LANES, "--json", "-q").json["answer"]["runs"]


def test_every_part_is_as_it_is_when_run(race, whole):
    """Ten laps of 500 steps, a validation on 1,000 items after each, a test on 10,000."""
    for lane, run in zip(race["lanes"], whole, strict=True):
        found, laps = lane["whole"], run["laps"]
        trained_s = sum(lap["train_s"] for lap in laps)
        assert found["laps"] == len(laps) == 10
        assert found["train_s"]["median"] == pytest.approx(trained_s - run["first_step_ms"] / 1e3)
        assert found["validation_s"] == pytest.approx(sum(lap["validation"]["seconds"] for lap in laps))
        assert found["test_s"] == pytest.approx(run["test"]["seconds"])


def test_the_sum_is_what_one_would_wait(race, whole):
    """But for starting a real process, which takes as long as it takes."""
    for lane, run in zip(race["lanes"], whole, strict=True):
        phases_s = sum(run["process"]["phases_s"].get(name, 0.0) for name in READY)
        looked_s = sum(lap["validation"]["seconds"] for lap in run["laps"]) + run["test"]["seconds"]
        really_s = phases_s + sum(lap["train_s"] for lap in run["laps"]) + looked_s
        assert lane["whole"]["whole_s"]["median"] == pytest.approx(really_s, abs=2.0)


def test_a_lane_looks_at_test_items_in_its_first_heat_only(race):
    looked = [result["heat"]["examination"] is not None for result in race["lanes"][0]["heats"]]
    assert looked == [True] + [False] * (len(looked) - 1)


def test_the_page_says_how_long_all_laps_would_take(house):
    answer = house.race("cifar-cnn", *LANES, "--heats", "2")
    assert "forecast of all 10 laps with validation and test: fake/cpu 8 min" in " ".join(answer.out.split())


@pytest.mark.long
def test_a_loader_that_holds_its_items_is_timed_on_held_ones(house):
    """The stated step is of all laps but the first; how much longer that takes is said, and kept."""
    house.script('["fake/cpu/best*"]\nheld = 0.8\n')
    answer = house.race("scenes-cnn", *LANES, "--heats", "2")
    said = " ".join(answer.out.split())
    assert "Until every one of the images was decoded once, a step takes longer: fake/cpu/best 1.25 times." in said
    plain, held = house.kept()["lanes"]
    assert (plain["step_ms"]["median"], held["step_ms"]["median"]) == pytest.approx((100.0, 40.0))
    assert [
        result["heat"]["fresh"]["ns"] / result["heat"]["fresh"]["steps"] for result in held["heats"]
    ] == pytest.approx([50e6] * 2)
    assert held["whole"]["fresh_factor"] == pytest.approx(1.25)
    assert plain["heats"][0]["heat"]["fresh"] is None


def test_a_lane_that_trains_nothing_has_no_forecast(house):
    record = house.raced("cifar-cnn", "fake/cpu/input=only", "--heats", "1")
    assert record["lanes"][0]["whole"] is None
    assert record["lanes"][0]["heats"][0]["heat"]["examination"] is None


def test_a_test_set_that_cannot_be_looked_at_costs_the_forecast_only(house):
    """The timing is kept, and the page says why there is no forecast."""
    house.script('["*"]\nfail = { how = "raise", phase = "look ahead" }\n')
    answer = house.race("cifar-cnn", "fake/cpu", "--heats", "1")
    said = " ".join(answer.out.split())
    assert answer.code == 0
    assert "no forecast of the whole training" in said
    assert "forecast of all" not in said
