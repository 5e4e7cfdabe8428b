"""A recording is played as if its instrument were there; a minute of an H200 among them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from laptime.machine.sensors.nvml.library import FAST, SLOW_QUESTIONS
from laptime.model.errors import SensorError
from laptime.model.process import Channel, Opened
from replay_sensor import ReplaySensor

RECORDINGS = Path(__file__).parents[1] / "recordings"
H200, H200_SLOW = RECORDINGS / "h200-nvml.json.gz", RECORDINGS / "h200-nvml-slow.json.gz"
S = 1_000_000_000
SMALL = {
    "form": 1,
    "about": "two channels",
    "name": "small",
    "period_s": 0.5,
    "channels": [
        {"device": "host", "name": "load", "unit": "", "kind": "gauge"},
        {"device": "host", "name": "spent_ns", "unit": "ns", "kind": "counter"},
    ],
    "absent": [[{"device": "host", "name": "fan_percent", "unit": "%"}, {"missing": "no fan"}]],
    "at_ns": [S, 2 * S],
    "figures": [[0.5, None], [10, 20]],
}


class Clock:
    """Does not move until it is moved."""

    def __init__(self) -> None:
        self.now_ns = 77 * S

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def small(tmp_path):
    """Keep the small recording, or one that differs from it, as a plain file."""

    def keep(**changes) -> Path:
        place = tmp_path / "small.json"
        place.write_text(json.dumps(SMALL | changes))
        return place

    return keep


def read_at(sensor: ReplaySensor, clock: Clock, spent_ns: int) -> dict[str, float | None]:
    """Return what is shown so long after the sensor was opened."""
    clock.now_ns += spent_ns
    reading = sensor.read()
    clock.now_ns -= spent_ns
    return {channel.name: figure for channel, figure in zip(opened_of(sensor).channels, reading, strict=True)}


def opened_of(sensor: ReplaySensor) -> Opened:
    assert sensor._playing is not None
    return Opened(sensor._playing.channels, sensor._playing.absent)


def open_on(path: Path, clock: Clock) -> ReplaySensor:
    sensor = ReplaySensor(path, clock)
    assert sensor.probe() is None
    assert sensor.open(1) == opened_of(sensor)
    return sensor


def test_what_was_shown_last_is_shown(small, clock):
    """Nothing before the first reading; from then on the latest, with its gaps."""
    sensor = open_on(small(), clock)
    times = (S - 1, S, 2 * S - 1, 2 * S, 2 * S + S // 2)
    assert [tuple(read_at(sensor, clock, spent).values()) for spent in times] == [
        (None, None),
        (0.5, 10),
        (0.5, 10),
        (None, 20),
        (None, 20),
    ]


def test_after_its_end_the_instrument_is_lost(small, clock):
    sensor = open_on(small(), clock)
    with pytest.raises(SensorError, match=r"the recording small\.json ended after 2\.0 s"):
        read_at(sensor, clock, 2 * S + S // 2 + 1)
    sensor.close()


def test_it_goes_by_the_name_and_pace_of_what_was_recorded(small, clock):
    sensor = open_on(small(), clock)
    assert (sensor.name, sensor.period_s) == ("small", 0.5)
    fan, why = opened_of(sensor).absent[0]
    assert (fan, why.missing) == (Channel("host", "fan_percent", "%"), "no fan")


def test_it_begins_anew_when_it_is_opened_again(small, clock):
    sensor = open_on(small(), clock)
    sensor.close()
    clock.now_ns += 100 * S
    sensor.open(1)
    assert read_at(sensor, clock, S)["load"] == 0.5


def test_by_itself_it_runs_by_the_monotonic_clock(small):
    sensor = ReplaySensor(small(at_ns=[0, 3600 * S]))
    sensor.open(1)
    assert sensor.read() == (0.5, 10)


def test_a_packed_recording_is_the_same(small, clock, tmp_path):
    packed = tmp_path / "small.json.gz"
    packed.write_bytes(gzip.compress(small().read_bytes()))
    assert read_at(open_on(packed, clock), clock, S) == {"load": 0.5, "spent_ns": 10}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"form": 2}, "it has form 2, and this laptime reads form 1"),
        ({"at_ns": [], "figures": [[], []]}, "it has no readings"),
        ({"at_ns": [2 * S, S]}, "its times do not grow"),
        ({"figures": [[1, 2]]}, "it has 2 channels and 1 series"),
        ({"figures": [[1, 2], [1]]}, "it has 2 times and a series of 1"),
        ({"channels": 3}, "Expected `array`, got `int` - at `$.channels`"),
    ],
)
def test_a_file_that_is_no_recording_says_why(small, changes, says):
    """Asked beforehand it is a reason, and when it is opened an error."""
    sensor = ReplaySensor(small(**changes))
    assert says in sensor.probe().missing
    with pytest.raises(SensorError, match=r"small\.json is not a recording"):
        sensor.open(1)


@pytest.mark.parametrize("data", [b"{", b"\x1f\x8b half", gzip.compress(b"{}" * 99, mtime=0)[:-9]])
def test_half_a_file_is_no_recording(tmp_path, data):
    (tmp_path / "half").write_bytes(data)
    assert "is not a recording of an instrument" in ReplaySensor(tmp_path / "half").probe().missing


def test_a_recording_that_is_not_there_is_said(tmp_path):
    assert "No such file or directory" in ReplaySensor(tmp_path / "nothing").probe().missing


def test_who_reads_before_opening_is_told(small):
    with pytest.raises(SensorError, match="open comes before read"):
        ReplaySensor(small()).read()


@pytest.mark.parametrize(("path", "questions"), [(H200, FAST), (H200_SLOW, SLOW_QUESTIONS)], ids=["fast", "slow"])
def test_the_h200_shows_what_the_sensors_ask_for(path, questions, clock):
    """A figure that is added to a sensor, or renamed, is missed here: make the recordings again."""
    opened = opened_of(open_on(path, clock))
    known = [*opened.channels, *(channel for channel, _ in opened.absent)]
    asked = {(figure.name, figure.unit, figure.kind) for question in questions for figure in question.shows}
    assert {(each.name, each.unit, each.kind) for each in known} == asked
    assert {each.device for each in known} == {"GPU-00000000-0000-0000-0000-000000000000"}


def test_the_h200_at_work_and_at_rest(clock):
    """Figures of the recording's own rows: at rest it idles at 78 W; at the end it works at 471 W on average."""
    sensor = open_on(H200, clock)
    rest, work = read_at(sensor, clock, 2000), read_at(sensor, clock, 59_950_000_000)
    assert rest == {
        "busy_percent": 0,
        "memory_used_bytes": 0,
        "temperature_c": 37,
        "power_instant_mw": 77476,
        "power_average_mw": 77946,
        "sm_clock_mhz": 345,
        "clock_reasons": 1,
    }
    assert (work["busy_percent"], work["temperature_c"]) == (99, 52)
    assert (work["power_average_mw"], work["sm_clock_mhz"], work["clock_reasons"]) == (470925, 1980, 0)
    assert work["memory_used_bytes"] == 10727784448


def test_the_h200s_energy_is_its_power_over_time(clock):
    """Counted over 59 s, and summed from the last second's mean power, which is half a second old: within 0.5 %."""
    slow, quick = open_on(H200_SLOW, clock), open_on(H200, clock)
    spent_mj = read_at(slow, clock, 59_100_000_000)["energy_mj"] - read_at(slow, clock, 2000)["energy_mj"]
    assert spent_mj == 13757214 - 5599920
    powers_mw = [read_at(quick, clock, tenth * S // 10 + 550_000_000)["power_average_mw"] for tenth in range(590)]
    assert sum(powers_mw) / 10 == pytest.approx(spent_mj, rel=0.005)


def test_the_h200_counts_what_its_units_do(clock):
    """In the last reading the units worked most of the time."""
    last = read_at(open_on(H200_SLOW, clock), clock, 59_100_000_000)
    assert round(last["sm_active_percent"], 1) == 82.8
