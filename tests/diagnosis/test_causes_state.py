"""Trust, placement and the device's state: proven by windows held against each other, or else by a reading likely."""

from __future__ import annotations

from dataclasses import replace

import pytest
from card_machines import card
from cases import CUDA, MACHINE, case_of, lane_of, steps_windows, trial
from timelines import CARD, channel

from laptime.model.quantities import Factor, Missing
from laptime.model.record import Finding, Parity
from laptime.model.sample import Noise
from laptime.questions.why.answer import find_distrust
from laptime.questions.why.causes import sum_up
from laptime.questions.why.nouns import Trial
from laptime.questions.why.step_causes import clocks_lowered, measuring_error, memory_full, not_on_device, shared

USED, TOTAL = channel(CARD, "memory_used_bytes", "bytes"), channel(CARD, "memory_total_bytes", "bytes")
BITS, OTHERS = channel(CARD, "clock_reasons", "bits"), channel(CARD, "foreign_processes", "processes")
BUSY = channel(CARD, "busy_percent", "%")
MHZ = channel("host", "frequency_mean_mhz", "MHz")
FREE = channel("host", "memory_available_bytes", "bytes")
UNKNOWN = Noise(Missing("no /proc"), Missing("no /proc"), Missing("no quota"))
UNSEEN = Finding(
    "card not seen",
    "NVIDIA H100 is not used in torch: torch is a build for processors only.",
    {},
    "pip install torch",
    "likely",
)


def on_card(shown, **changes):
    return lane_of(100.0, device=CUDA, shown=shown, **changes)


def disturbed(*cores, slow=1.5):
    """Return windows in which others took this many cores, and in which a step took longer where these were many."""
    windows = steps_windows(*[[100.0 * (slow if other > 0.2 else 1.0)] * 4 for other in cores])
    return tuple(replace(each, noise=Noise(other, 0.5, 0.0)) for each, other in zip(windows, cores, strict=True))


CASES = {
    "a slow first window is proven": (
        measuring_error, "proven", "in the first window a step takes 3.00x",
        lambda: case_of(lane_of(100.0, windows=steps_windows([300.0] * 4, *[[100.0] * 4] * 6))),
    ),
    "a first step that compiles is likely to be counted in": (
        measuring_error, "likely", "the first step takes 30 s, 300 times a later one",
        lambda: case_of(replace(lane_of(100.0), first_step_ms=30_000.0)),
    ),
    "other work is no comparison": (
        measuring_error, "likely", "does other work than its reference: the loss strays",
        lambda: case_of(replace(lane_of(100.0), parity=Parity("differs", reason="the loss strays"))),
    ),
    "fenced windows rule measuring out": (
        measuring_error, "ruled out", "every window is fenced",
        lambda: case_of(lane_of(100.0)),
    ),
    "no window, no judgement": (
        measuring_error, "not tested", "no heat",
        lambda: case_of(replace(lane_of(100.0), heats=())),
    ),
    "a card that is here and hidden": (
        not_on_device, "likely", "NVIDIA H100 is not used in torch: torch is a build for processors only (pip install",
        lambda: case_of(lane_of(100.0), unseen=(UNSEEN,)),
    ),
    "a card that idles is proven": (
        not_on_device, "proven", "cuda:0 was idle in all",
        lambda: case_of(on_card({BUSY: lambda _: 0.0})),
    ),
    "a card that works": (
        not_on_device, "ruled out", "busy for 90 % of the time, our process holds 612 MB",
        lambda: case_of(replace(on_card({BUSY: lambda _: 90.0}), device_memory_bytes=612_000_000)),
    ),
    "a card that was not asked for": (
        not_on_device, "ruled out", "the processor was asked for",
        lambda: case_of(lane_of(100.0), machine=replace(MACHINE, cards=(card(),))),
    ),
    "a machine without a card": (
        not_on_device, "not testable here", "no device but its processor",
        lambda: case_of(lane_of(100.0)),
    ),
    "full memory is proven by half the batch": (
        memory_full, "proven", "79.0 of the device's 80.0 GB are used, 99 %; at half the batch it is 1.50x",
        lambda: case_of(on_card({USED: lambda _: 79e9, TOTAL: lambda _: 80e9}), trial("half batch", 1.5)),
    ),
    "full memory alone is likely": (
        memory_full, "likely", "99 %",
        lambda: case_of(on_card({USED: lambda _: 79e9, TOTAL: lambda _: 80e9})),
    ),
    "full memory that costs nothing": (
        memory_full, "ruled out", "at half the batch it is 0.80x",
        lambda: case_of(on_card({USED: lambda _: 79e9, TOTAL: lambda _: 80e9}), trial("half batch", 0.8)),
    ),
    "room enough": (
        memory_full, "ruled out", "25 %",
        lambda: case_of(on_card({USED: lambda _: 20e9, TOTAL: lambda _: 80e9})),
    ),
    "no instrument reads memory": (
        memory_full, "not testable here", "no instrument was read",
        lambda: case_of(lane_of(100.0, device=CUDA)),
    ),
    "a host with memory to spare": (
        memory_full, "ruled out", "9.0 of 16.0 GB of memory are free",
        lambda: case_of(lane_of(100.0, shown={FREE: lambda _: 9e9})),
    ),
    "others on a card are likely": (
        shared, "likely", "2 other processes on the device",
        lambda: case_of(on_card({OTHERS: lambda _: 2.0})),
    ),
    "others that came and went are proven": (
        shared, "proven", "windows with that take 1.50x",
        lambda: case_of(on_card({OTHERS: lambda t: 1.0 if t > 1.3 else 0.0}, windows=steps_windows(
            *[[100.0] * 4] * 3, *[[150.0] * 4] * 3))),
    ),
    "nobody else on the card": (
        shared, "ruled out", "no other process is on the device",
        lambda: case_of(on_card({OTHERS: lambda _: 0.0})),
    ),
    "a neighbour on the processor is proven": (
        shared, "proven", "windows with that take 1.50x",
        lambda: case_of(lane_of(100.0, windows=disturbed(0.0, 0.9, 0.0, 0.9, 0.9, 0.9))),
    ),
    "a neighbour who never rests is likely": (
        shared, "likely", "other processes take 1 of 4 cores",
        lambda: case_of(lane_of(100.0, windows=disturbed(*[1.0] * 5))),
    ),
    "a quiet processor": (
        shared, "ruled out", "other processes take 0.05 of 4 cores",
        lambda: case_of(lane_of(100.0)),
    ),
    "no word of neighbours": (
        shared, "not testable here", "was not read",
        lambda: case_of(lane_of(100.0, windows=steps_windows(*[[100.0] * 4] * 5, noise=UNKNOWN))),
    ),
    "clocks held back throughout are likely": (
        clocks_lowered, "likely", "lowered the clocks in 100 % of readings: too hot",
        lambda: case_of(on_card({BITS: lambda _: 0x20})),
    ),
    "clocks held back now and then are proven": (
        clocks_lowered, "proven", "windows with that take 1.50x",
        lambda: case_of(on_card({BITS: lambda t: 0x20 if t > 1.3 else 0.0}, windows=steps_windows(
            *[[100.0] * 4] * 3, *[[150.0] * 4] * 3))),
    ),
    "clocks as they should be": (
        clocks_lowered, "ruled out", "lowered the clocks in 0 % of 149 readings",
        lambda: case_of(on_card({BITS: lambda _: 0.0})),
    ),
    "clocks that nobody reads": (
        clocks_lowered, "not testable here", "no instrument was read",
        lambda: case_of(lane_of(100.0, device=CUDA)),
    ),
    "a processor that slows": (
        clocks_lowered, "likely", "the processor's frequency changed by",
        lambda: case_of(lane_of(100.0, shown={MHZ: lambda t: 3000 - 200 * t})),
    ),
    "a processor's clock that cannot be read": (
        clocks_lowered, "not testable here", "cannot be read here",
        lambda: case_of(lane_of(100.0, shown={FREE: lambda _: 9e9})),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cause_stands_as_its_figures_say(name):
    """With a sentence that has the figures in it, and evidence wherever something was seen."""
    rule, standing, says, make = CASES[name]
    verdict = rule(make())
    assert (verdict.standing, says in verdict.says or verdict.says) == (standing, True)
    assert verdict.evidence or standing in {"not testable here", "not tested"}


def test_a_wide_step_is_not_trusted():
    """Heats that are a third apart tell nothing of a twentieth."""
    quiet = lane_of(100.0)
    heats = tuple(replace(heat, step_ms=ms) for heat, ms in zip(quiet.heats, (70.0, 100.0, 160.0), strict=True))
    wide = replace(quiet.step_ms, low=55.0, high=190.0)
    noisy = replace(quiet, heats=heats, step_ms=wide)
    assert find_distrust(case_of(quiet)) is None
    assert "varies by 129 % from heat to heat" in find_distrust(case_of(noisy))
    assert "other processes took 0.05 cores, so that its own steps" in find_distrust(case_of(noisy))


def test_factors_that_may_be_anything_are_not_trusted():
    blind = [Trial(trial(name, 1.0).experiment, name, Factor(1.0, 0.5, 2.1)) for name in ("keep", "layout")]
    assert "each experiment may be 1.41x as fast or as slow" in find_distrust(case_of(lane_of(100.0), *blind))
    assert find_distrust(case_of(lane_of(100.0), *blind, trial("flush", 1.0))) is None


def test_a_lane_that_did_not_finish_is_not_trusted():
    lost = replace(lane_of(100.0), step_ms=None, reason="killed by the system")
    assert find_distrust(case_of(lost)) == "the lane as it is did not finish: killed by the system"


@pytest.mark.parametrize(("threads", "gain"), [(4, 4 / 3), (3, None), (None, 4 / 3)])
def test_a_neighbour_takes_no_more_than_what_the_training_wants(threads, gain):
    """One of four cores: three threads have theirs. What each step could have filled is not known, and not promised."""
    case = case_of(lane_of(100.0, windows=disturbed(*[1.0] * 5), threads=threads))
    told = shared(case)
    assert (None if isinstance(told.gain, Missing) else told.gain) == (gain and pytest.approx(gain))
    assert "possible" not in sum_up(case, (told,))[0]
    proven = case_of(lane_of(100.0, windows=disturbed(0.0, 0.9, 0.0, 0.9, 0.9, 0.9), threads=threads))
    assert "of a possible" in sum_up(proven, (shared(proven),))[0]
