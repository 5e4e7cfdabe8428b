"""Each rule finds what it is for, says why and what to do, and keeps silent over quiet lanes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measured import CPU, heat_of, plan_of, planned, windows_of
from timelines import CARD, channel, timeline

import laptime
from laptime.analysis.diagnosis.findings import find_findings
from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.model.machine import Device, Machine, Processor
from laptime.model.quantities import Missing
from laptime.model.sample import SENSORS

HOUSE = Path(laptime.__file__).parent
CUDA = Device("cuda:0", "cuda", "a card", usable=True)
MACHINE = Machine(
    Processor("a processor", "x86_64", 4, 4, 4.0), 16_000_000_000, 8_000_000_000, "Linux 6.1", "3.11.7", None
)


def judge(shown, device=CPU, machine=MACHINE, **settings):
    """Judge a lane of one heat of five seconds, with steps of 100 ms."""
    heat = heat_of(100.0, windows=windows_of(*[100.0] * 5), timeline=timeline(shown))
    lane = replace(planned(**settings), device=device)
    return find_findings([summarise_lane(plan_of(lane), lane, (summarise_heat(heat),), None, cores=4)], machine)


def counter(device, name, unit=""):
    return channel(device, name, unit, "counter")


CASES = {
    "card not used": (
        CUDA,
        {channel(CARD, "busy_percent", "%"): lambda _: 0.0},
        "its card was idle in all 50 readings",
    ),
    "card shared": (
        CUDA,
        {
            channel(CARD, "foreign_processes", ""): lambda _: 2.0,
            channel(CARD, "foreign_memory_bytes", "bytes"): lambda _: 3e9,
        },
        "2 other processes were on its card, holding 3.0 GB",
    ),
    "card held back": (
        CUDA,
        {channel(CARD, "clock_reasons", "bits"): lambda t: 0x20 if t > 2.5 else 0},
        "the driver lowered its clocks in 50 % of readings: too hot",
    ),
    "card memory full": (
        CUDA,
        {
            channel(CARD, "memory_used_bytes", "bytes"): lambda _: 78e9,
            channel(CARD, "memory_total_bytes", "bytes"): lambda _: 80e9,
        },
        "78.0 of the card's 80.0 GB were in use",
    ),
    "clocks drifting": (
        CUDA,
        {channel(CARD, "sm_clock_mhz", "MHz"): lambda t: 1980 - 60 * t},
        "the card's clock changed by -11 % within a heat",
    ),
    "processor limited": (
        CPU,
        {counter("host", "cgroup_throttled_s", "s"): lambda t: 0.2 * t},
        "the container's quota of 4 cores held it back for 20 % of the time",
    ),
    "memory full": (
        CPU,
        {channel("host", "cgroup_memory_bytes", "bytes"): lambda _: 7.9e9},
        "7.9 of the 8.0 GB that the container may use were in use",
    ),
    "swap in use": (
        CPU,
        {
            channel("host", "swap_used_bytes", "bytes"): lambda _: 2e9,
            counter("heat", "major_faults"): lambda t: 50 * t,
        },
        "2.0 GB lie in swap, and 50 pages a second came from a disk",
    ),
    "page faults": (
        CPU,
        {counter("heat", "minor_faults"): lambda t: 500_000 * t},
        "50,000 page faults a step, 205 MB fetched again",
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_what_it_is_for(rule):
    """With evidence, and advice that can be followed."""
    device, shown, says = CASES[rule]
    (found,) = judge(shown, device)
    assert found.rule == rule
    assert says in found.says
    assert found.evidence
    assert found.advice.endswith(".")
    assert found.sure in {"proven", "likely"}


def test_more_threads_than_cores():
    """The setting shows it, no reading is needed."""
    (found,) = judge({counter("heat", "busy_s", "s"): lambda t: t}, threads=8)
    assert (found.rule, found.advice) == ("threads above cores", "Race threads=4 against it.")


def test_advice_knows_what_is_set_already():
    device, shown, _ = CASES["page faults"]
    (plain,), (kept,) = judge(shown, device), judge(shown, device, malloc="keep")
    assert "Race malloc=keep against it" in plain.advice
    assert "malloc=keep is set already" in kept.advice


def test_a_limit_of_power_is_no_heat():
    (found,) = judge({channel(CARD, "clock_reasons", "bits"): lambda _: 0x04}, CUDA)
    assert "at its limit of power" in found.says


def test_files_kept_in_memory_are_not_in_use():
    """A container that has read many images is full of them, and gives them back when asked."""
    full = {channel("host", "cgroup_memory_bytes", "bytes"): lambda _: 7.9e9}
    cache = {channel("host", "cgroup_cache_bytes", "bytes"): lambda _: 5e9}
    assert [found.rule for found in judge(full)] == ["memory full"]
    assert judge(full | cache) == ()


def test_quiet_lanes_are_not_accused():
    """Everything there is, and nothing out of the ordinary."""
    quiet = {
        channel(CARD, "busy_percent", "%"): lambda _: 97.0,
        channel(CARD, "foreign_processes", ""): lambda _: 0.0,
        channel(CARD, "clock_reasons", "bits"): lambda _: 0x01,
        channel(CARD, "memory_used_bytes", "bytes"): lambda _: 20e9,
        channel(CARD, "memory_total_bytes", "bytes"): lambda _: 80e9,
        channel(CARD, "sm_clock_mhz", "MHz"): lambda t: 1980 - t,
        counter("host", "cgroup_throttled_s", "s"): lambda t: 0.001 * t,
        channel("host", "memory_available_bytes", "bytes"): lambda _: 9e9,
        channel("host", "swap_used_bytes", "bytes"): lambda _: 1e9,
        counter("heat", "minor_faults"): lambda t: 100 * t,
        counter("heat", "major_faults"): lambda _: 3.0,
    }
    assert judge(quiet, CUDA) == ()


def test_nothing_is_judged_where_clocks_differ():
    """A reading that cannot be compared with a window is no evidence."""
    _, shown, _ = CASES["page faults"]
    line = replace(timeline(shown), clock=Missing("a virtual clock"))
    heat = heat_of(100.0, windows=windows_of(*[100.0] * 5), timeline=line)
    lane = planned()
    assert find_findings([summarise_lane(plan_of(lane), lane, (summarise_heat(heat),), None, cores=4)], MACHINE) == ()


def test_pages_have_the_size_of_the_machine_that_was_recorded():
    """A record of a machine with pages of 64 KiB means the same wherever it is read; older records had 4 KiB."""
    _, shown, _ = CASES["page faults"]
    (found,) = judge(shown, machine=replace(MACHINE, page_bytes=65536))
    assert "50,000 page faults a step, 3,277 MB fetched again" in found.says


@pytest.mark.parametrize("name", ["clock_mhz", "pace_mhz"])
def test_a_rule_reads_what_a_channel_means(name):
    """One sensor's row calls a card's clock otherwise than another's; the last has no row, and its unit says it."""
    found = judge({channel(CARD, name, "MHz"): lambda t: 1980 - 60 * t}, CUDA)
    assert [each.rule for each in found] == ["clocks drifting"]


def test_no_rule_names_a_channel():
    """The row of a sensor says what its channels are called: another sensor then needs no change of a rule."""
    named = {row.name for sensor in SENSORS for row in sensor.channels}
    rooms = ("analysis", "questions", "show/pages")
    files = [path for room in rooms for path in (HOUSE / room).rglob("*.py")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert {(place, name) for place, text in texts.items() for name in named if f'"{name}"' in text} == set()
