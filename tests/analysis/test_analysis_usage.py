"""What a lane took, from readings whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from measured import CPU, changed, heat_of, plan_of, planned, windows_of
from timelines import CARD, channel, timeline

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.analysis.usage import (
    Power,
    Span,
    growth_per_s,
    mean_power,
    pooled_growth_per_s,
    slope_per_min,
    summarise_usage,
    trapezoid_mean,
    within,
)
from laptime.engine.run.instruments import make_series
from laptime.model.machine import Device
from laptime.model.process import Timeline
from laptime.model.quantities import Missing

OTHER = "GPU-2"
CUDA = Device("cuda:0", "cuda", "a card", usable=True)
BUSY = channel("heat", "busy_s", "s", "counter")
ALL_BUSY = channel("host", "busy_s", "s", "counter")
RESIDENT = channel("heat", "resident_bytes", "bytes")
HOT = channel("host", "temperature_c", "C")
PACKAGE = channel("package-0", "energy_j", "J", "counter")
CARD_BUSY = channel(CARD, "busy_percent", "%")
CARD_POWER = channel(CARD, "power_instant_mw", "mW")
CARD_METER = channel(CARD, "energy_mj", "mJ", "counter")
CARD_HOT = channel(CARD, "temperature_c", "C")
NO_METER = Missing("this card has no meter of energy")


def usage(line: Timeline, *devices: Device, step_ms: float = 100.0):
    """Return what a heat of five seconds took, with a lap of 50 s and 1,000 items a second."""
    heat = heat_of(step_ms, windows=windows_of(*[step_ms] * 5))
    heat = changed(heat, timeline=line)
    return summarise_usage([summarise_heat(heat)], devices or (CPU,), 2, 50.0, 1000.0)


def test_cores_and_others_are_shares_of_the_machine():
    """The heat takes a core and a half of two, others a quarter."""
    told = usage(timeline({BUSY: lambda t: 1.5 * t, ALL_BUSY: lambda t: 100 + 2.0 * t}))
    assert told.processor_percent == pytest.approx(75, abs=1)
    assert told.others_percent == pytest.approx(25, abs=2)


def test_others_have_all_cores_of_the_machine():
    """A container with two of 64: what runs next to it takes 32 of them, which is half of the machine."""
    shown = {
        BUSY: lambda t: 2.0 * t,
        ALL_BUSY: lambda t: 34.0 * t,
        channel("host", "cores_online", "cores"): lambda _: 64.0,
    }
    told = usage(timeline(shown))
    assert (told.processor_percent, told.others_percent) == (pytest.approx(100, abs=1), pytest.approx(50, abs=1))


def test_only_what_was_timed_counts():
    """Before and after its five seconds the heat imports and ends."""
    line = timeline({RESIDENT: lambda t: 8e9 if t > 5.1 else 1e9 * t, HOT: lambda t: 40 + t if t < 5.05 else 90})
    told = usage(line)
    assert told.memory_most_bytes == pytest.approx(5e9, rel=1e-3)
    assert told.temperature_most_c == pytest.approx(45, abs=0.5)
    assert isinstance(told.temperature_slope_c_per_min, Missing)  # five seconds are too short for it


def test_the_slope_of_whole_degrees():
    """Ten seconds are enough to see a degree a second, and less is not enough to tell one degree from many."""
    readings = tuple((time / 10, float(40 + time // 10)) for time in range(105))
    assert slope_per_min(readings) == pytest.approx(60, rel=0.05)
    assert isinstance(slope_per_min(readings[:20]), Missing)


def test_a_processors_meter_is_counted():
    """30 W over 50 s a lap; 1,000 items take a second."""
    told = usage(timeline({PACKAGE: lambda t: 7 + 30 * t, BUSY: lambda t: t}))
    assert (told.energy.how, told.energy.of) == ("counted", "the processor")
    assert told.energy.j_per_lap == pytest.approx(1500, rel=1e-3)
    assert told.energy.j_per_1000_items == pytest.approx(30, rel=1e-3)
    assert told.energy.items_per_j == pytest.approx(1000 / 30, rel=1e-3)
    assert told.energy.wh_per_lap == pytest.approx(1500 / 3600, rel=1e-3)


def test_a_cards_power_is_estimated_where_it_has_no_meter():
    """By the trapezoid of what was sampled."""
    line = timeline(
        {CARD_BUSY: lambda _: 90.0, CARD_POWER: lambda t: 300e3 + 40e3 * t, CARD_HOT: lambda _: 60.0},
        absent=((CARD_METER, NO_METER),),
    )
    told = usage(line, CUDA)
    assert told.energy.how == "estimated"
    assert told.energy.power_w == pytest.approx(400, rel=0.01)
    assert told.power_most_w == pytest.approx(500, rel=0.01)
    assert told.device_percent == pytest.approx(90)
    assert (told.temperature_of, told.temperature_most_c) == (CARD, 60)


def test_a_cards_meter_goes_before_its_power():
    line = timeline({CARD_METER: lambda t: 200e3 * t, CARD_POWER: lambda _: 900e3})
    told = usage(line, CUDA)
    assert told.energy.how == "counted"
    assert told.energy.power_w == pytest.approx(200, rel=1e-3)


def test_a_card_that_nobody_watches_has_no_energy_of_the_processors():
    """Nor its temperature: both would be taken for the card's."""
    line = timeline({PACKAGE: lambda t: 30 * t, HOT: lambda _: 50.0})
    told = usage(replace(line, absent=(("nvml", Missing("no driver")),)), CUDA)
    assert told.energy.of == "cuda:0"
    assert told.energy.how == Missing("nvml: no driver")
    assert told.temperature_most_c == Missing("nvml: no driver")


def test_each_of_several_cards_has_its_own_figures():
    """One card is full and busy, the other is nearly empty. The lane's energy is that of both."""
    shown = {
        CARD_BUSY: lambda _: 90.0,
        channel(CARD, "memory_used_bytes", "bytes"): lambda _: 30e9,
        CARD_HOT: lambda _: 80.0,
        CARD_POWER: lambda _: 300e3,
        channel(OTHER, "busy_percent", "%"): lambda _: 10.0,
        channel(OTHER, "memory_used_bytes", "bytes"): lambda _: 2e9,
        channel(OTHER, "temperature_c", "C"): lambda _: 40.0,
        channel(OTHER, "power_instant_mw", "mW"): lambda _: 100e3,
    }
    line = replace(timeline(shown), cards=(("cuda:1", OTHER), ("cuda:0", CARD)))
    told = usage(line, CUDA, Device("cuda:1", "cuda", "a card", usable=True))
    assert [(each.device, each.busy_percent, each.temperature_most_c) for each in told.cards] == [
        ("cuda:0", pytest.approx(90), pytest.approx(80)),
        ("cuda:1", pytest.approx(10), pytest.approx(40)),
    ]
    assert [each.memory_most_bytes for each in told.cards] == pytest.approx([30e9, 2e9], rel=1e-4)
    assert [each.power_w for each in told.cards] == pytest.approx([300, 100])
    assert (told.device_percent, told.energy.power_w) == (pytest.approx(50), pytest.approx(400))
    assert (told.temperature_of, told.temperature_most_c) == (CARD, pytest.approx(80))


def test_the_power_of_any_unit_is_told_in_watts():
    """AMD's driver reports microwatts, NVIDIA's milliwatts."""
    told = usage(timeline({channel(CARD, "power_average_uw", "uW"): lambda _: 250e6}), CUDA)
    assert (told.power_most_w, told.energy.power_w) == (pytest.approx(250), pytest.approx(250))


def test_short_times_tell_no_energy():
    """A meter is brought up to date ten times a second: two seconds are the least."""
    told = usage(timeline({PACKAGE: lambda t: 30 * t}), step_ms=20.0)
    assert told.energy.j_per_lap.missing == "0.9 s between its first and last reading, and energy needs 2 s"


def test_few_readings_tell_no_energy():
    told = usage(timeline({CARD_POWER: lambda _: 1e5}, hz=1.0), CUDA)
    assert "5 readings, and energy needs 10" in told.energy.how.missing


def test_what_nobody_shows_is_missing_with_its_reason():
    """And never 0."""
    line = timeline({BUSY: lambda t: t}, absent=((HOT, Missing("a virtual machine")),))
    told = usage(replace(line, absent=(("rapl", Missing("no powercap")),)))
    assert told.temperature_most_c == Missing("a virtual machine")
    assert told.energy.items_per_j == Missing("rapl: no powercap")
    assert told.device_percent == Missing("this lane computes on the processor")


def test_a_clock_of_its_own_tells_nothing():
    """A fake's heats have one."""
    line = replace(timeline({BUSY: lambda t: t}), clock=Missing("a virtual clock"))
    assert usage(line).processor_percent == Missing("a virtual clock")


def test_lanes_that_were_not_watched_have_no_usage():
    assert summarise_usage([summarise_heat(heat_of(10.0))], CPU, 2, 1.0, 1.0) is None


def test_a_counter_that_was_set_back_tells_nothing():
    assert pooled_growth_per_s([((0.0, 5.0), (1.0, 7.0), (2.0, 1.0))]) == Missing("the counter was set back meanwhile")
    assert pooled_growth_per_s([((0.0, 5.0), (2.0, 7.0))]) == 1.0
    assert isinstance(pooled_growth_per_s([((0.0, 5.0),)]), Missing)


def test_what_grew_while_another_heat_had_its_turn_does_not_count():
    """The meter runs on; in the pause from 2.05 to 7.05 s nobody reads it, and it belongs to another lane."""
    meter = channel("package-0", "energy_mj", "mJ", "counter")
    line = timeline({meter: lambda time_s: 1e4 * time_s + (0.0 if time_s < 5 else 1e6)})
    (track,) = line.tracks
    read = [place for place in range(101) if not 20 < place <= 70]
    shown = list(track.series[0].values())
    kept = make_series(meter, [shown[place] for place in read])
    apart = tuple(100_000 * (after - before) for before, after in pairwise(read))
    line = replace(
        line, tracks=(replace(track, apart_us=apart, series=(kept,)),), pauses_ns=((2_050_000_000, 7_050_000_000),)
    )
    assert growth_per_s(line, "package-0", "energy_mj", Span(0.0, 10.0)) == pytest.approx(1e4)
    assert mean_power(line, ["package-0"], Span(0.0, 10.0)) == Power(pytest.approx(10.0), "counted")


def test_readings_are_not_evenly_apart():
    """The mean is one over time, and not over readings."""
    assert trapezoid_mean([((0.0, 100.0), (1.0, 100.0), (1.1, 100.0), (1.2, 300.0), (3.2, 300.0))]) == pytest.approx(
        (1.1 * 100 + 0.1 * 200 + 2 * 300) / 3.2
    )


def test_a_span_without_readings_says_so():
    line = timeline({HOT: lambda _: 1.0}, seconds=1.0)
    assert within(line, "host", "temperature_c", Span(5.0, 7.0)) == Missing(
        "no reading fell into the 2.0 s that were timed"
    )
    assert isinstance(slope_per_min(((0.0, 1.0),)), Missing)


def test_a_card_that_nobody_watches_is_not_called_a_processor():
    """With `--sensors host`, or without the driver's library: the reason is that, for each of its figures."""
    line = replace(timeline({BUSY: lambda t: t}), absent=(("nvml", Missing("it was not asked for")),))
    told = usage(line, CUDA)
    figures = (told.device_percent, told.active_percent, told.device_memory_most_bytes, told.power_most_w)
    assert set(figures) == {Missing("nvml: it was not asked for")}
    assert usage(timeline({BUSY: lambda t: t})).device_percent == Missing("this lane computes on the processor")


@pytest.mark.parametrize(
    ("own", "seen_gb", "peak"),
    [(2 * 10**9, 5.0, 5.0), (9 * 10**9, 5.0, 9.0), (Missing("the process was gone"), 5.0, 5.0)],
)
def test_memory_is_the_larger_of_the_process_and_of_all_processes(own, seen_gb, peak):
    """The process has seen what fell between two readings, and the readings the processes of its loader."""
    line = timeline({RESIDENT: lambda _: seen_gb * 1e9})
    lane = planned()
    found = summarise_lane(
        plan_of(lane), lane, (summarise_heat(heat_of(100.0, timeline=line, peak_memory_bytes=own)),), None
    )
    assert found.peak_memory_bytes == pytest.approx(peak * 1e9, rel=1e-3)


def test_without_instruments_the_process_alone_tells_its_memory():
    lane = planned()
    found = summarise_lane(plan_of(lane), lane, (summarise_heat(heat_of(100.0, peak_memory_bytes=7)),), None)
    assert found.peak_memory_bytes == 7
