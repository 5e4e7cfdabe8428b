"""NVIDIA's cards as two sensors, through the real nvidia-ml-py on a machine that plays a script."""

from __future__ import annotations

import pytest
from scripted_cards import (
    FIRST,
    HANGS,
    INSTANCES,
    LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SECOND,
    UNKNOWN,
    cards,
    one,
    split,
    two,
)

FAST = "sensor = NvmlSensor()\nopened = sensor.open(os.getpid())\n"
SLOW = "sensor = SlowNvmlSensor()\nopened = sensor.open(os.getpid())\n"
READ = "tell([shown(opened, sensor.read()), absent(opened)])\nsensor.close()\n"


def test_a_card_shows_what_it_does(watch):
    """Every fast figure is under its own name, with none missing."""
    told, absent = watch(one(), FAST + READ)
    assert absent == {}
    assert told == {
        FIRST: {
            "busy_percent": 99,
            "memory_used_bytes": 10727000000,
            "temperature_c": 61,
            "power_instant_mw": 483310,
            "power_average_mw": 470925,
            "sm_clock_mhz": 1980,
            "clock_reasons": 4,
        }
    }


def test_a_card_shows_what_it_counts(watch):
    """Energy grows from reading to reading."""
    program = (
        SLOW + "tell([shown(opened, sensor.read()), absent(opened), [dict(kind=c.kind) for c in opened.channels]])"
    )
    told, absent, kinds = watch(one(), program)
    assert absent == {}
    assert told[FIRST] == {
        "energy_mj": 5001400,
        "sm_active_percent": 88.5,
        "memory_total_bytes": 150754820096,
        "foreign_processes": None,
        "foreign_memory_bytes": None,
        "sm_clock_most_mhz": 1980,
    }
    counters = [name for name, kind in zip(told[FIRST], kinds, strict=True) if kind == {"kind": "counter"}]
    assert counters == ["energy_mj"]


def test_each_card_is_shown_under_its_own_name(watch):
    """Figures of two cards stand apart, whatever their numbers."""
    script = two() | {(0, "Temperature", 0): "40", (1, "Temperature", 0): "80"}
    told, _ = watch(script, FAST + READ)
    assert {card: figures["temperature_c"] for card, figures in told.items()} == {FIRST: 40, SECOND: 80}


@pytest.mark.parametrize("name", [SECOND, SECOND.removeprefix("GPU-").upper(), "0000:5e:00", "00000000:5E:00.0"])
def test_a_card_is_chosen_by_uuid_or_by_bus(watch, name):
    """However the name is written, the one card is watched and the other left alone."""
    told, absent = watch(two(), f"sensor = NvmlSensor(({name!r},))\nopened = sensor.open(os.getpid())\n" + READ)
    assert (list(told), absent) == ([SECOND], {})


def test_a_card_that_is_named_and_not_there_is_said(watch):
    """The others are watched all the same."""
    told, absent = watch(two(), f"sensor = NvmlSensor(({FIRST!r}, '0000:99:00'))\nopened = sensor.open(1)\n" + READ)
    assert list(told) == [FIRST]
    assert absent["0000:99:00 busy_percent"] == f"no card 0000:99:00 is here; those that are: {FIRST}, {SECOND}"


def test_only_strange_cards_leave_nothing_to_watch(watch):
    program = "sensor = NvmlSensor(('0000:99:00',))\ntell(sensor.probe())"
    told = watch(one(), program)
    assert told == {"missing": f"0000:99:00: no card 0000:99:00 is here; those that are: {FIRST}"}


def test_instances_have_memory_and_activity_of_their_own(watch):
    """What only the whole card can report is at the whole card; use is what it does not report when it is split."""
    told, absent = watch(split(), FAST + READ)
    assert {name: told[name] for name in INSTANCES} == {
        INSTANCES[0]: {"memory_used_bytes": 1000000000},
        INSTANCES[1]: {"memory_used_bytes": 2000000000},
    }
    assert told[FIRST]["power_average_mw"] == 470925
    assert absent.keys() == {f"{FIRST} busy_percent"}
    told, absent = watch(split(), SLOW + READ)
    assert [told[name]["sm_active_percent"] for name in INSTANCES] == [10, 20]
    assert [told[name].get("energy_mj") for name in (FIRST, *INSTANCES)] == [5001400, None, None]


def test_a_card_without_an_energy_counter_says_so(watch):
    told, absent = watch(one() | {(0, "Energy", 0): NOT_SUPPORTED}, SLOW + READ)
    assert "energy_mj" not in told[FIRST]
    assert absent[f"{FIRST} energy_mj"] == "this card does not tell (NVML: Not Supported)"


def test_what_may_not_be_asked_is_said(watch):
    told, absent = watch(one() | {(0, "Gpm", 0): NO_PERMISSION}, SLOW + READ)
    assert absent[f"{FIRST} sm_active_percent"] == "this user may not ask (NVML: Insufficient Permissions)"
    assert told[FIRST]["energy_mj"] == 5001400


def test_a_card_that_may_not_be_asked_at_all_does_not_hide_the_other(watch):
    script = two() | {(-1, "Handle", 0): NO_PERMISSION, (-1, "Handle", 1): "1"}
    told, absent = watch(script, FAST + READ)
    assert list(told) == [SECOND]
    assert absent["NVML's card 0 temperature_c"] == "this user may not ask (NVML: Insufficient Permissions)"


@pytest.mark.parametrize(
    ("capability", "told"),
    [
        ("9,0", {"power_instant_mw": 483310, "power_average_mw": 111}),
        ("8,6", {"power_instant_mw": 483310, "power_average_mw": 111}),
        ("8,0", {"power_instant_mw": 111, "power_average_mw": 470925}),
        ("7,5", {"power_instant_mw": 111, "power_average_mw": 470925}),
    ],
)
def test_the_same_call_is_the_moments_power_on_old_chips_and_a_mean_on_new_ones(watch, capability, told):
    """The name says which; the other one comes from its field."""
    script = one() | {(0, "Capability", 0): capability, (0, "PowerUsage", 0): "111"}
    shown, _ = watch(script, FAST + READ)
    assert {name: figure for name, figure in shown[FIRST].items() if name.startswith("power")} == told


def test_an_old_chip_has_no_mean_power(watch):
    """One figure is not given out for the other."""
    script = one() | {(0, "Capability", 0): "7,0", (0, "Field", 185): NOT_SUPPORTED}
    told, absent = watch(script, FAST + READ)
    assert told[FIRST]["power_instant_mw"] == 470925
    assert list(absent) == [f"{FIRST} power_average_mw"]


def test_a_card_before_hopper_has_no_counters_of_activity(watch):
    """It has that reason, and all else is read."""
    told, absent = watch(one() | {(0, "Gpm", 0): "0"}, SLOW + READ)
    assert absent == {f"{FIRST} sm_active_percent": "cards before Hopper have no such counters (NVML's GPM)"}
    assert told[FIRST]["energy_mj"] == 5001400


def test_an_older_driver_is_asked_by_older_names(watch):
    """Reasons and memory come by the former functions where the newer ones are not there."""
    script = one() | {
        (0, "Reasons", 0): "!13",
        (0, "FormerReasons", 0): "32",
        (0, "NewMemory", 0): "!13",
        (0, "Memory", 0): "8000,3000",
    }
    told, absent = watch(script, FAST + READ)
    assert (told[FIRST]["clock_reasons"], told[FIRST]["memory_used_bytes"], absent) == (32, 3000, {})


def test_a_figure_that_fails_in_the_middle_is_none_that_time(watch):
    """The reading before and the one after stand, and so do the other figures."""
    script = one() | {(0, "Temperature", 0): f"50 50 51 {UNKNOWN} 53"}
    told = watch(script, FAST + "tell([shown(opened, sensor.read()) for _ in range(3)])")
    assert [each[FIRST]["temperature_c"] for each in told] == [51, None, 53]
    assert [each[FIRST]["busy_percent"] for each in told] == [99, 99, 99]


def test_a_lost_card_leaves_the_other_in_peace(watch):
    """From one reading to the next its channels are None, and stay so; why is said once a card."""
    program = FAST + (
        "before = shown(opened, sensor.read())\nlater()\n"
        "after = [shown(opened, sensor.read()) for _ in range(2)]\ntell([before, after, sensor.lost])\nsensor.close()"
    )
    before, after, lost = watch(two(), program, then={(0, "Everything", 0): LOST})
    assert None not in before[FIRST].values()
    for each in after:
        assert set(each[FIRST].values()) == {None}
        assert each[SECOND] == before[SECOND]
    assert lost == [[FIRST, {"missing": "the card was lost (NVML: GPU is lost)"}]]


@pytest.mark.parametrize("sensor", [FAST, SLOW])
def test_when_all_cards_are_lost_the_reading_ends(watch, sensor):
    """A reader gets an error, and can close after it."""
    program = sensor + (
        "sensor.read()\nlater()\n"
        "try:\n    sensor.read()\nexcept SensorError as error:\n    tell(error.says)\nsensor.close()"
    )
    says = watch(two(), program, then={("*", "Everything", 0): LOST})
    reason = "the card was lost (NVML: GPU is lost)"
    assert says == f"{FIRST}: {reason}; {SECOND}: {reason}"


def test_a_call_that_hangs_leaves_other_threads_alone(watch):
    """A thread that reads is stuck; Python goes on, and so does the sensor that asks for something else."""
    program = (
        "import threading\n"
        "slow = SlowNvmlSensor()\nslow.open(os.getpid())\n"
        + FAST
        + "later()\nstuck = threading.Thread(target=slow.read, daemon=True)\nstuck.start()\nstuck.join(0.3)\n"
        "tell([stuck.is_alive(), shown(opened, sensor.read())])\nsensor.close()\n"
    )
    is_stuck, told = watch(one(), program, then={(0, "Energy", 0): HANGS})
    assert is_stuck
    assert told[FIRST]["temperature_c"] == 61


def test_64_cards_are_watched(watch):
    """All are shown, and a reading may not take up the time until the next."""
    script = cards(
        *((f"GPU-{number:08x}-0000-0000-0000-000000000000", f"{number:04x}:01:00.0") for number in range(64))
    )
    told = watch(script, FAST + "tell([len(shown(opened, sensor.read())), len(opened.channels), sensor.period_s])")
    assert told[:2] == [64, 64 * 7]
    assert told[2] >= 0.1


def test_a_slow_card_is_asked_less_often(watch):
    """The time between two readings is ten times that of one, where this is more than the usual."""
    program = "import time\nclass Slow(NvmlSensor):\n    period_s = 1e-9\nsensor = Slow()\nopened = sensor.open(1)\n"
    program += "began = time.perf_counter()\nsensor.read()\ntell([sensor.period_s, time.perf_counter() - began])"
    period_s, reading_s = watch(two(), program)
    assert 2 * reading_s < period_s < 1000 * reading_s


def test_two_sensors_share_one_session(watch):
    """The one that closes first does not shut the library under the other."""
    program = FAST + "slow = SlowNvmlSensor()\nslow.open(os.getpid())\nslow.close()\n" + READ
    told, _ = watch(one(), program)
    assert told[FIRST]["busy_percent"] == 99


def test_a_sensor_can_be_opened_again(watch):
    program = SLOW + "sensor.read()\nsensor.close()\nopened = sensor.open(os.getpid())\n" + READ
    told, _ = watch(one(), program)
    assert told[FIRST]["sm_active_percent"] == 88.5


def test_a_card_that_came_back_is_watched_again(watch):
    """What was lost while one heat ran is looked for again before the next."""
    program = FAST + (
        "later()\nsensor.read()\nlost = sensor.lost\nsensor.close()\n"
        "os.remove(os.environ['LAPTIME_TEST_NVML'] + '.then')\nopened = sensor.open(os.getpid())\n"
        "tell([lost, sensor.lost, shown(opened, sensor.read())])\nsensor.close()"
    )
    lost, after, told = watch(two(), program, then={(0, "Everything", 0): LOST})
    assert ([card for card, _ in lost], after) == ([FIRST], [])
    assert told[FIRST]["temperature_c"] == 61
