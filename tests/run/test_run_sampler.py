"""Sensors are read side by side, at even times, and one that fails or hangs costs its own readings and no others."""

from __future__ import annotations

import time

import pytest

from fake_sensor import Failure, FakeSensor, Figure, SensorScript
from laptime.engine.run.instruments import Sampler, make_series, split_by_pace
from laptime.model.process import Channel
from laptime.model.quantities import Missing

GAUGE = Figure("fake-0", "power_instant_mw", "mW", at_s=(0.0, 10.0), shows=(100e3, 200e3))
METER = Figure("fake-0", "energy_mj", "mJ", "counter", at_s=(0.0, 10.0), shows=(0.0, 1e6))
DARK = Figure("fake-0", "temperature_c", "C", absent="it has no thermometer")


def fake(name: str = "fake", **script: object) -> FakeSensor:
    sensor = FakeSensor(SensorScript(figures=(GAUGE, METER, DARK), **script))
    sensor.name = name
    return sensor


def watch(*sensors, seconds: float = 0.32, hz: float = 50.0):
    """Read for so long, and give the time line."""
    sampler = Sampler(sensors, hz)
    sampler.begin(1)
    time.sleep(seconds)
    return sampler.end()


def test_readings_are_even_and_on_our_clock():
    """Fifty a second; the meter grows by what its script says."""
    before_ns = time.monotonic_ns()
    line = watch(fake())
    (track,) = line.tracks
    times = track.times_ns()
    assert before_ns < times[0] < times[-1] < time.monotonic_ns()
    assert 8 <= len(times) <= 17
    counted = list(track.find("fake-0", "energy_mj").values())
    per_s = (counted[-1] - counted[0]) / (times[-1] - times[0]) * 1e9
    assert per_s == pytest.approx(1e5, rel=0.1)
    assert line.why_not("fake-0", "temperature_c") == Missing("it has no thermometer")
    assert track.lost is None
    assert 0 < track.read_us < 10_000


def test_a_late_reading_does_not_make_the_next_late():
    """Times stay near whole multiples of the period after the first: if each late one moved the next, a fifth would."""
    (track,) = watch(fake(), seconds=0.8).tracks
    offsets = [(time_ns - track.times_ns()[0]) % 20_000_000 for time_ns in track.times_ns()]
    near = [min(each, 20_000_000 - each) < 2_000_000 for each in offsets]
    assert sum(near) > 0.4 * len(near)


def test_a_sensor_reads_no_oftener_than_makes_sense():
    """Its own period is longer than ours."""
    (track,) = watch(fake(period_s=0.1), seconds=0.35).tracks
    assert 3 <= len(track.times_ns()) <= 4


@pytest.mark.parametrize(
    ("how", "says"), [("raise", "planted: the fake card is lost"), ("break", "RuntimeError: planted failure")]
)
def test_a_sensor_that_fails_is_dropped_with_its_reason(how, says):
    """What it read before is kept; the other reads on; in the next heat it is not asked again."""
    sampler = Sampler([fake("broken", fail=Failure(how, 3)), fake("sound")], 50.0)
    sampler.begin(1)
    time.sleep(0.2)
    broken, sound = sampler.end().tracks
    assert (broken.sensor, broken.lost, len(broken.times_ns())) == ("broken", Missing(says), 2)
    assert (sound.lost, len(sound.times_ns()) > 3) == (None, True)
    sampler.begin(1)
    line = sampler.end()
    assert [track.sensor for track in line.tracks] == ["sound"]
    assert line.absent == (("broken", Missing(f"in a heat before: {says}")),)


def test_a_sensor_that_cannot_be_opened_is_absent():
    (track,) = watch(fake(fail=Failure("raise", 0))).tracks
    assert (track.lost, track.series) == (Missing("planted: the fake card is lost"), ())


def test_a_sensor_that_hangs_is_left_behind():
    """After a second; the other's readings are whole."""
    began_s = time.monotonic()
    stuck, sound = watch(fake("stuck", fail=Failure("hang", 4)), fake("sound")).tracks
    assert time.monotonic() - began_s < 20
    assert (stuck.lost, len(stuck.times_ns())) == (Missing("no answer for 1 s: it hangs"), 3)
    assert len(sound.times_ns()) > 8


def test_a_reading_that_tells_nothing_is_a_gap():
    """And what comes after it is right."""
    (track,) = watch(fake(fail=Failure("none", 3))).tracks
    values = list(track.find("fake-0", "energy_mj").values())
    assert values[2] is None
    assert values[3] > values[1]


def test_figures_are_kept_in_steps_of_their_unit():
    """A watt is kept to a tenth; what cannot be a number is a gap."""
    series = make_series(Channel("fake-0", "power_instant_mw", "mW"), [100_049.0, None, float("nan"), 99_950.0])
    assert series.changes == (1000, None, None, 0)
    assert list(series.values()) == [100_000.0, None, None, 100_000.0]


def test_figures_that_come_seldom_have_times_of_their_own():
    """A gap in nine readings of ten would be most of a record."""
    readings = [(1.0, None, None), (2.0, 5.0, None), (3.0, None, None), (4.0, None, None)]
    assert split_by_pace(3, readings) == ([0, 2], [1])
    assert split_by_pace(1, [(None,), (1.0,), (None,), (None,)]) == ([0], [])


def test_what_was_read_so_far_is_told_while_reading_goes_on():
    """For the journal of a training that takes hours; nobody is called lost for it."""
    sampler = Sampler([fake()], 100.0)
    sampler.begin(1)
    time.sleep(0.15)
    (early,) = sampler.so_far().tracks
    time.sleep(0.15)
    (late,) = sampler.end().tracks
    assert early.lost is late.lost is None
    assert 2 < len(early.times_ns()) < len(late.times_ns())
    assert late.times_ns()[: len(early.times_ns())] == early.times_ns()


def test_a_long_training_keeps_no_more_readings_than_it_may():
    """Where they are full, every second is left out, and half as many are taken: they lie evenly from first to last."""
    sampler = Sampler([fake()], 100.0, most=16)
    sampler.begin(1)
    time.sleep(0.8)
    (track,) = sampler.end().tracks
    times = track.times_ns()
    assert 8 <= len(times) <= 16
    assert times[-1] - times[0] > 0.5e9
    counted = list(track.find("fake-0", "energy_mj").values())
    assert (counted[-1] - counted[0]) / (times[-1] - times[0]) * 1e9 == pytest.approx(1e5, rel=0.1)
    assert max(track.apart_us) < 6 * min(track.apart_us)
