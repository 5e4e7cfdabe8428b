"""What a race sees of steps for nothing: a slow beginning, pauses, signs, a loader next to its lane."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import CUDA, MACHINE, lane_of, signs_of, steps_windows
from measured import with_heat

from laptime.analysis.diagnosis.findings import find_findings
from laptime.analysis.diagnosis.lane_readings import find_pauses, long_share, slow_starts
from laptime.model.symptoms import GRADIENTS, WEIGHTS, DenormalCensus

LAP_ENDS = steps_windows(*[[*[10.0] * 9, 60.0] * 2] * 5)


def named(lane, other):
    return replace(other, name=lane)


CASES = {
    "slow at first": (
        "in the first window of every heat a step took 3.0 times what it took later",
        lambda: lane_of(100.0, windows=steps_windows([300.0] * 4, *[[100.0] * 4] * 6)),
    ),
    "pauses between steps": (
        "every 10 steps there was a pause of 50 ms, 33 % of the time",
        lambda: lane_of(15.0, windows=LAP_ENDS),
    ),
    "denormal numbers": ("30 % of the weights and gradients", lambda: lane_of(100.0, signs=signs_of(denormals=0.3))),
    "values read": (
        "asked the device for a value 2 times a step",
        lambda: lane_of(100.0, device=CUDA, signs=signs_of(reads=2.0)),
    ),
    "compiled again": (
        "were compiled 5 times more, with 7 shapes of batch",
        lambda: lane_of(100.0, signs=signs_of(shapes=7, compiles=5)),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_what_it_is_for(rule):
    says, make = CASES[rule]
    (found,) = find_findings([make()], MACHINE)
    assert found.rule == rule
    assert says in found.says
    assert found.evidence
    assert found.advice.endswith(".")


def test_quiet_steps_are_not_accused():
    """Nor what costs nothing where it is: a value read on a processor, denormals on a card."""
    quiet = signs_of(reads=2.0, shapes=3, compiles=0, denormals=0.0)
    assert find_findings([lane_of(100.0, signs=quiet)], MACHINE) == ()
    assert find_findings([lane_of(100.0, device=CUDA, signs=signs_of(reads=0.0, denormals=0.5))], MACHINE) == ()


def test_a_lane_without_its_loader_proves_the_loader():
    """Raced next to it, whatever it was raced for."""
    lane, ready = lane_of(100.0), named("torch/cpu/input=cached", lane_of(40.0, input="cached"))
    (found,) = find_findings([lane, ready], MACHINE)
    assert (found.rule, found.sure, found.evidence["share"]) == ("loader", "proven", pytest.approx(0.6))
    assert "torch/cpu/as-written: its loader takes 60 % of a step" in found.says


def test_a_loader_alone_that_takes_the_whole_step_is_likely_to_bind_it():
    lane, alone = lane_of(100.0), named("torch/cpu/input=only", lane_of(97.0, input="only"))
    (found,) = find_findings([lane, alone], MACHINE)
    assert (found.rule, found.sure, found.evidence["share"]) == ("loader", "likely", pytest.approx(0.97))
    quick = named("torch/cpu/input=only", lane_of(60.0, input="only"))
    assert find_findings([lane, quick], MACHINE) == ()


def test_lanes_that_differ_otherwise_tell_nothing_of_a_loader():
    lane = lane_of(100.0)
    other = named("torch/cpu/malloc=keep+input=cached", lane_of(40.0, input="cached", malloc="keep"))
    assert find_findings([lane, other], MACHINE) == ()


def test_a_lap_that_ends_in_the_first_window_is_no_slow_beginning():
    """Windows shorter than a lap hold its end or do not."""
    usual = [10.0] * 6
    windows = steps_windows([*usual, 100.0], usual, [*usual, 100.0], usual, usual, usual)
    assert slow_starts(lane_of(10.0, windows=windows)) == [pytest.approx(1.0)] * 3


def test_pauses_are_not_looked_for_across_steps_that_were_not_timed():
    """Of a window of thousands only the beginning is there: how far it is to the next one is unknown."""
    whole = steps_windows(*[[*[1.0] * 9, 90.0] * 3] * 4)
    assert find_pauses(lane_of(10.0, windows=whole)).every == 10
    cut = tuple(replace(each, step_ns=each.step_ns[:15]) for each in whole)
    assert find_pauses(lane_of(10.0, windows=cut)) is None
    longer = tuple(replace(each, step_ns=each.step_ns[:25]) for each in whole)
    assert find_pauses(lane_of(10.0, windows=longer)).every == 10


def test_the_beat_of_many_workers_is_no_pause():
    """Six of them make five fast steps and a long one, at distances as even as those of the end of a lap."""
    beat = steps_windows(*[[1.0, 1.0, 1.0, 1.0, 1.0, 900.0] * 2] * 5)
    assert find_pauses(lane_of(10.0, windows=beat)).every == 6
    assert find_pauses(lane_of(10.0, windows=beat, burst=12)) is None


def test_a_slow_beginning_is_seen_in_bursts_by_whole_windows():
    """The middle step of a burst is next to nothing, in one window ten times what it is in another."""
    quick = [[1.0, 0.1, 0.1, 300.0], *[[1.0, 1.0, 1.0, 300.0]] * 4]
    assert slow_starts(lane_of(75.0, windows=steps_windows(*quick), burst=4)) == [pytest.approx(1.0, rel=0.01)] * 3
    slow = [[1.0, 1.0, 1.0, 600.0], *[[1.0, 1.0, 1.0, 300.0]] * 4]
    assert slow_starts(lane_of(75.0, windows=steps_windows(*slow), burst=4)) == [pytest.approx(2.0, rel=0.01)] * 3


def test_chance_and_a_loaders_beat_are_no_pauses():
    """Long steps at no even distances are noise, and those very near to each other the beat of its workers.

    Where a step takes next to nothing, its jitter is no pause, and the end of a lap is.
    """
    uneven = [10.0] * 60
    for place in (3, 9, 31, 38, 55):
        uneven[place] = 50.0
    assert find_pauses(lane_of(10.0, windows=steps_windows(uneven))) is None
    assert find_pauses(lane_of(20.0, windows=steps_windows([10.0, 10.0, 40.0] * 20))) is None
    jitter = [0.003, 0.009, 0.003, 0.003, 0.007, 0.003]
    ends = find_pauses(lane_of(9.0, windows=steps_windows(*[[*jitter, 0.02, *jitter, 0.003, 120.0] * 4] * 3)))
    assert (ends.every, ends.pause_ms) == (15, pytest.approx(120, rel=1e-3))
    assert ends.share > 0.99
    assert long_share(lane_of(10.0, windows=steps_windows(uneven))) == pytest.approx(200 / 800)


def with_census(lane, *censuses):
    """Return a lane of which each heat has a census, the last one for all that are left."""
    told = [*censuses, *[censuses[-1]] * len(lane.heats)]
    return replace(
        lane, heats=tuple(with_heat(heat, census=each) for heat, each in zip(lane.heats, told, strict=False))
    )


@pytest.mark.parametrize(
    ("census", "rules"),
    [
        (DenormalCensus({GRADIENTS: 0.002}, ("float32",)), ["denormal numbers"]),
        (DenormalCensus({GRADIENTS: 0.0002}, ("float32",)), []),
        (DenormalCensus({GRADIENTS: 0.5}, ("float32",), flushed=True), []),
        (DenormalCensus({GRADIENTS: 0.0}, ("float64",)), ["float64"]),
    ],
)
def test_a_census_says_what_costs_time(census, rules):
    """A tenth of a per cent of any kind does; where they are taken as 0, none does. Weights in float64 are named."""
    lane = with_census(lane_of(100.0), census)
    assert [each.rule for each in find_findings([lane], MACHINE)] == rules
    assert find_findings([replace(lane, device=CUDA)], MACHINE) == () or rules == ["float64"]


def test_a_lane_that_flushes_shows_what_denormal_numbers_cost():
    """As that lane says on the same steps; a small cost is said, too."""
    census = DenormalCensus({WEIGHTS: 0.3}, ("float32",))
    lane = with_census(lane_of(100.0), census)
    for flushed_ms, sure, says in ((20.0, "proven", "(measured: 5.00x)"), (99.0, "likely", "They cost little here")):
        twin = named("torch/cpu/denormals=flush", lane_of(flushed_ms, denormals="flush"))
        (found,) = find_findings([lane, twin], MACHINE)
        assert (found.rule, found.sure) == ("denormal numbers", sure)
        assert says in found.advice
        assert "30 % of the weights are denormal numbers" in found.says
