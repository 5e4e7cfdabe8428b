"""A whole training predicted from its parts: figures that can be added up by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import heat_of, plan_of, planned

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.model.ask import DataSource
from laptime.model.protocol import Protocol
from laptime.model.quantities import Missing
from laptime.model.sample import Examination, FreshSteps

LOOKED = Examination(items=100, ns=200_000_000, first_ns=30_000_000, read_ns=50_000_000)
READY_S = 0.5 + 1.0 + 0.25 + 0.3  # start, import, build, first step: the nine seconds of the proof are not in it
LAP_S = 500 * 0.010


def forecast(protocol, *heats, **settings):
    lane = planned(**settings)
    results = tuple(map(summarise_heat, heats or (heat_of(10.0, examination=LOOKED),)))
    return summarise_lane(plan_of(lane), lane, results, None, protocol).whole


def test_laps_alone_are_their_steps_and_the_way_to_the_first():
    """The first step is in the way there, and not counted again."""
    found = forecast(Protocol(laps=3, steps_per_lap=500))
    assert found.ready_s == pytest.approx(READY_S)
    assert found.train_s.median == pytest.approx(3 * LAP_S - 0.010)
    assert found.whole_s.median == pytest.approx(READY_S + 3 * LAP_S - 0.010)
    assert (found.laps, found.steps_per_lap, found.validation_s, found.test_s) == (3, 500, 0.0, 0.0)


def test_validation_comes_after_each_lap_and_the_test_once():
    """2 ms an item; items are read once (as many as the larger of the two wants), and the first look is slower."""
    found = forecast(Protocol(laps=3, steps_per_lap=500, validation_items=1_000, evaluation_items=4_000))
    assert found.validation_s == pytest.approx(3 * 2.0 + 0.030 + 4_000 * 0.0005)
    assert found.test_s == pytest.approx(8.0)
    parts = found.ready_s + found.train_s.median + found.validation_s + found.test_s
    assert found.whole_s.median == pytest.approx(parts)


def test_a_test_alone_pays_for_reading():
    found = forecast(Protocol(laps=3, steps_per_lap=500, evaluation_items=1_000))
    assert found.validation_s == 0
    assert found.test_s == pytest.approx(2.0 + 0.030 + 0.5)


def test_the_interval_of_the_step_is_carried_to_the_whole():
    heats = [heat_of(step_ms, number, examination=LOOKED) for number, step_ms in enumerate((9.9, 10.0, 10.1))]
    found = forecast(Protocol(laps=3, steps_per_lap=500), *heats)
    assert found.whole_s.high - found.whole_s.low == pytest.approx(found.train_s.high - found.train_s.low)
    assert found.whole_s.low < found.whole_s.median < found.whole_s.high


def test_one_heat_gives_a_forecast_without_an_interval():
    found = forecast(Protocol(laps=3, steps_per_lap=500))
    assert isinstance(found.whole_s.low, Missing)


def test_another_batch_takes_as_many_steps_as_see_the_same_items():
    assert forecast(Protocol(laps=2, steps_per_lap=500), batch=200).steps_per_lap == 250


@pytest.mark.parametrize(
    ("fresh_ms", "first_lap_s"),
    [(12.0, 10 * 0.012 + 989 * 0.010), (8.0, 999 * 0.010)],
    ids=["decoding costs", "decoding was faster, which is noise"],
)
def test_while_items_are_new_a_step_takes_longer(fresh_ms, first_lap_s):
    """1,000 items in steps of 100 are ten steps in which each is decoded; then all are held."""
    lane = planned()
    data = DataSource("d", "plates", True, 1_000, 100, (), "")
    heats = (summarise_heat(heat_of(10.0, fresh=FreshSteps(5, round(5 * fresh_ms * 1e6)))),)
    plan = replace(plan_of(lane), data=data)
    found = summarise_lane(plan, lane, heats, None, Protocol(laps=2, steps_per_lap=500)).whole
    assert found.train_s.median == pytest.approx(first_lap_s)


@pytest.mark.parametrize(
    ("heats", "settings", "protocol"),
    [
        ((), {}, None),
        ((), {"input": "only"}, Protocol(laps=1, steps_per_lap=500)),
        ((heat_of(10.0),), {}, Protocol(laps=1, steps_per_lap=500, validation_items=10)),
    ],
    ids=["no protocol", "nothing is trained", "nobody looked at the test items"],
)
def test_nothing_is_foretold_of_what_is_not_known(heats, settings, protocol):
    assert forecast(protocol, *heats, **settings) is None
