"""The fake sensor plays its script on the clock that it is given, and fails as the script says."""

from __future__ import annotations

import threading

import pytest
from trees import Clock, by_name, reasons

from fake_sensor import Failure, FakeSensor, Figure, SensorScript, make_script
from laptime.model.errors import SensorError
from laptime.model.quantities import Missing

RAMP = Figure("fake-0", "power_instant_mw", "mW", at_s=(1.0, 3.0, 4.0), shows=(100.0, 300.0, 0.0))


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize(("passed_s", "shown"), [(0.0, 100.0), (1.0, 100.0), (2.0, 200.0), (3.5, 150.0), (9.0, 0.0)])
def test_figures_run_straight_from_one_to_the_next(clock, passed_s, shown):
    """The first holds before it, the last after it; time runs from the opening."""
    sensor = FakeSensor(SensorScript(figures=(RAMP,)), clock)
    clock.forward(100)
    sensor.open(1)
    clock.forward(passed_s)
    assert sensor.read() == (shown,)


def test_unasked_it_is_a_card_that_grows_warm(clock):
    """Its meter counts what its power says."""
    sensor = FakeSensor(clock=clock)
    assert sensor.probe() is None
    opened = sensor.open(1)
    clock.forward(30)
    told = by_name(opened, sensor.read())
    assert told["fake-0", "temperature_c"] == 55.0
    assert told["fake-0", "energy_mj"] == pytest.approx(30 * told["fake-0", "power_instant_mw"])


@pytest.mark.parametrize(
    ("how", "raised", "said"),
    [("raise", SensorError, "planted: the fake card is lost"), ("break", RuntimeError, "planted failure")],
)
def test_it_fails_at_the_reading_that_it_is_told(clock, how, raised, said):
    """And not before."""
    sensor = FakeSensor(SensorScript(fail=Failure(how, 3), figures=(RAMP,)), clock)
    sensor.open(1)
    assert [sensor.read(), sensor.read()] == [(100.0,), (100.0,)]
    with pytest.raises(raised, match=said):
        sensor.read()


def test_it_can_fail_as_it_is_opened(clock):
    """Reading 0 is the opening."""
    with pytest.raises(SensorError):
        FakeSensor(SensorScript(fail=Failure("raise", 0)), clock).open(1)


def test_it_can_tell_nothing_for_once(clock):
    """As a card does that is busy with itself."""
    sensor = FakeSensor(SensorScript(fail=Failure("none", 2), figures=(RAMP,)), clock)
    sensor.open(1)
    assert [sensor.read() for _ in range(3)] == [(100.0,), (None,), (100.0,)]


def test_it_can_hang(clock):
    """A process that reads it then waits for ever."""
    sensor = FakeSensor(SensorScript(fail=Failure("hang", 1)), clock)
    sensor.open(1)
    reader = threading.Thread(target=sensor.read, daemon=True)
    reader.start()
    reader.join(0.1)
    assert reader.is_alive()


def test_it_can_be_missing_in_whole_or_in_part(clock):
    """A probe that says why, and a figure that is absent."""
    script = make_script(
        {
            "missing": "it is out of order",
            "period_s": 0.5,
            "figures": [
                {"device": "fake-0", "name": "busy_percent", "unit": "%", "shows": [5]},
                {"device": "fake-0", "name": "energy_mj", "unit": "mJ", "kind": "counter", "absent": "no meter"},
            ],
        }
    )
    sensor = FakeSensor(script, clock)
    assert (sensor.probe(), sensor.period_s) == (Missing("it is out of order"), 0.5)
    opened = sensor.open(1)
    assert sensor.read() == (5.0,)
    assert reasons(opened) == {("fake-0", "energy_mj"): "no meter"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"speed": 1}, "unknown key speed in \\[sensor\\]\nkeys: period_s, missing, fail, figures"),
        ({"fail": {"how": "raise", "when": 1}}, "unknown key when"),
        ({"fail": {"how": "explode"}}, "cannot be understood: Invalid enum value 'explode'"),
        ({"fail": 3}, "cannot be understood"),
        ({"figures": [{"device": "a", "name": "b", "unit": "c", "at_s": [0, 1]}]}, "times \\[0.0, 1.0\\] and shows"),
        ({"figures": [{"device": "a", "name": "b", "unit": "c", "at_s": [1, 0], "shows": [1, 2]}]}, "in order"),
    ],
)
def test_a_script_that_cannot_be_played_is_refused(given, said):
    """By the word that is wrong."""
    with pytest.raises(SensorError, match=said):
        make_script(given)
