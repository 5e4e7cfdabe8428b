"""Of all heats of a race, the windows count that were undisturbed in every lane, and of the same steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import STEPS, changed, heat_of, plan_of, planned, reference, windows_of

from laptime.analysis.heats import judge_rounds, steps_of
from laptime.analysis.lanes import compare_lanes, scales, summarise_lane
from laptime.model.sample import SLOW_SPELL

EARLY, LATE = 100.0, 500.0


def in_turns(steps_ms, number=0, flags=None):
    windows = windows_of(*steps_ms, flags=flags)
    return heat_of(1.0, number, windows=tuple(replace(each, turn=turn) for turn, each in enumerate(windows)))


def apart(steps_ms, steps, number=0):
    """Return a heat that ran alone: windows of some steps each, from step 3 on."""
    windows = windows_of(*(ms * steps / STEPS for ms in steps_ms))
    numbered = (replace(each, steps=steps, first_step=3 + steps * place) for place, each in enumerate(windows))
    return heat_of(1.0, number, windows=tuple(numbered))


def counted(heats):
    return [heat.counted for heat in heats]


def times(heats):
    return [result.step_ms for result in heats]


def test_a_turn_that_was_disturbed_in_one_lane_counts_in_none():
    """So both lanes count the same steps."""
    judged = judge_rounds(
        {"a": [in_turns([10.0] * 6, flags={2: "noise"})], "b": [in_turns([20.0] * 6, flags={4: "noise"})]}
    )
    assert counted(judged["a"]) == counted(judged["b"]) == [(0, 1, 3, 5)]


def test_a_heat_that_failed_takes_no_turns_from_the_others():
    """Of a lane that failed in its third turn, two are there."""
    lost = changed(in_turns([10.0] * 2), status="dnf")
    judged = judge_rounds({"a": [in_turns([10.0] * 6)], "b": [in_turns([20.0] * 6)], "lost": [lost]})
    assert counted(judged["a"]) == counted(judged["b"]) == [(0, 1, 2, 3, 4, 5)]


def test_two_quiet_turns_stand_for_a_round_and_one_does_not():
    """A neighbour that computes now and then makes the others up to ten times as long: they would decide the step."""
    slow = [10.0, 10.0, 80.0, 80.0]
    flags = {2: "noise", 3: "noise"}
    judged = judge_rounds({"a": [in_turns(slow, flags=flags)], "b": [in_turns([20.0] * 4)]})
    assert counted(judged["a"]) == counted(judged["b"]) == [(0, 1)]
    judged = judge_rounds({"a": [in_turns(slow, flags=flags)], "b": [in_turns([20.0] * 4, flags={0: "noise"})]})
    assert counted(judged["a"]) == counted(judged["b"]) == [(0, 1, 2, 3)]


def test_a_cold_start_of_one_lane_is_left_out_of_both():
    """It is no part of a lap, and the steps have to be the same."""
    cold = [in_turns([30.0, *[10.0] * 5], number) for number in range(3)]
    judged = judge_rounds({"a": cold, "b": [in_turns([20.0] * 6, number) for number in range(3)]})
    assert counted(judged["a"]) == counted(judged["b"]) == [(1, 2, 3, 4, 5)] * 3


def test_steps_that_are_slow_in_every_round_are_the_lanes_own():
    """What was flagged as a slow spell of the machine is none where the same steps are slow in the other rounds."""
    flags = dict.fromkeys((4, 5, 6, 7), SLOW_SPELL)
    rounds = [in_turns([EARLY] * 4 + [LATE] * 4, number, flags) for number in range(3)]
    judged = judge_rounds(
        {"a": rounds, "b": [in_turns([60.0] * 4 + [300.0] * 4, number, flags) for number in range(3)]}
    )
    assert {window.flag for result in (*judged["a"], *judged["b"]) for window in result.heat.windows} == {None}
    assert times(judged["a"]) == pytest.approx([LATE] * 3)
    assert times(judged["b"]) == pytest.approx([300.0] * 3)


def test_a_spell_of_one_round_stays_a_spell():
    """The same steps are fast in the others."""
    rounds = [in_turns([10.0] * 6, number) for number in range(3)]
    slow = in_turns([10.0, 10.0, 20.0, 20.0, 10.0, 10.0], 3, {2: SLOW_SPELL, 3: SLOW_SPELL})
    judged = judge_rounds({"a": [*rounds, slow], "b": [in_turns([20.0] * 6, number) for number in range(4)]})
    assert counted(judged["a"])[3] == (0, 1, 4, 5)


def test_what_slows_single_turns_of_all_lanes_alike_is_the_machine():
    """It is flagged by the same steps in the other rounds."""
    a = [in_turns([10.0] * 4 + [16.0 if number == 1 else 10.0] + [10.0], number) for number in range(4)]
    b = [in_turns([20.0] * 2 + [40.0 if number == 2 else 20.0] + [20.0] * 3, number) for number in range(4)]
    judged = judge_rounds({"a": a, "b": b})
    flags = [window.flag for result in judged["a"] for window in result.heat.windows if window.flag]
    assert flags == ["the machine was slow: these steps were 1.6 times as fast in other rounds"]
    assert counted(judged["a"])[1] == counted(judged["b"])[1] == (0, 1, 2, 3, 5)
    assert times(judged["a"]) == pytest.approx([10.0] * 4)


def test_slow_turns_of_one_lane_alone_are_its_own():
    """A lane whose steps are slow now and then is slower, and no flag hides it."""
    slow = {0: 1, 1: 3, 2: 4, 3: 2}
    a = [in_turns([50.0 if turn == slow[number] else 10.0 for turn in range(6)], number) for number in range(4)]
    judged = judge_rounds({"a": a, "b": [in_turns([20.0] * 6, number) for number in range(4)]})
    assert {window.flag for result in judged["a"] for window in result.heat.windows} == {None}
    assert times(judged["a"]) == pytest.approx([(5 * 10 + 50) / 6] * 4, rel=0.3)


def test_heats_that_ran_alone_count_the_steps_that_both_timed():
    """A faster lane meets its slow steps in the same second; the slower one does not get there."""
    fast = apart([EARLY] * 10 + [LATE] * 10, 1)
    judged = judge_rounds({"fast": [fast], "slow": [apart([2 * EARLY] * 10, 1)]})
    assert times(judged["fast"]) == pytest.approx([EARLY])
    assert times(judged["slow"]) == pytest.approx([2 * EARLY])
    steps = [steps_of(judged["fast"][0].heat.windows[place]).start for place in judged["fast"][0].counted]
    assert steps == list(range(3, 13))


def test_a_heat_that_times_far_more_steps_counts_all_of_them():
    """A card may take 300 steps while a processor takes one: no whole window of it is of the same steps."""
    judged = judge_rounds({"card": [apart([0.3] * 10, 800)], "processor": [apart([100.0] * 10, 2)]})
    assert times(judged["card"]) == pytest.approx([0.3])


def test_a_step_is_the_first_lanes_step_over_the_factor_where_rounds_are_missing():
    """The machine was twice as slow in the first round, which the second lane did not run."""
    a = [in_turns([ms] * 4, number) for number, ms in enumerate((200.0, 100.0, 100.0))]
    b = [in_turns([50.0] * 4, number) for number in (1, 2)]
    judged = judge_rounds({"a": a, "b": b})
    found = scales(judged)
    lane = planned("a")
    ours, theirs = (
        summarise_lane(plan_of(lane), lane, judged[name], reference(), scale=found[name]) for name in ("b", "a")
    )
    factor = compare_lanes(ours, theirs, 0.05, 0.05)
    assert factor.ratio == pytest.approx(2.0)
    assert theirs.step_ms.median / ours.step_ms.median == pytest.approx(factor.ratio)
    assert ours.lap_s.median == pytest.approx(ours.step_ms.median / 1e3 * 500)


def noisy(spread, rounds=8, turns=5, level=10.0):
    """Return heats whose turns differ a little, in a fixed pattern."""
    pattern = [0.0, 1.0, -1.0, 0.5, -0.5, 0.8, -0.8]
    return [
        in_turns([level * (1 + spread * pattern[(number * 3 + turn * 2) % 7]) for turn in range(turns)], number)
        for number in range(rounds)
    ]


def slowed(heats, number, turn, times):
    """Return the heats with one turn that took `times` as long."""
    told = [steps.end_ns - steps.start_ns for steps in heats[number].windows]
    changed_ms = [ns / STEPS / 1e6 * (times if place == turn else 1) for place, ns in enumerate(told)]
    return [in_turns(changed_ms, number) if place == number else heat for place, heat in enumerate(heats)]


def flagged(results):
    return [
        (number, place)
        for number, result in enumerate(results)
        for place, each in enumerate(result.heat.windows)
        if each.flag
    ]


@pytest.mark.parametrize(
    ("spread", "rounds", "times", "is_flagged"),
    [
        (0.01, 8, 1.15, True),  # turns differ by 1 %, so 15 % is far
        (0.01, 8, 1.08, False),  # never below 1.1 times
        (0.01, 4, 1.15, False),  # four rounds do not show how much turns differ
        (0.08, 8, 1.15, False),  # nothing much where turns differ by 8 %
        (0.08, 8, 1.6, True),
    ],
)
def test_a_turn_is_slow_by_what_turns_differ_by(spread, rounds, times, is_flagged):
    """It is taken from both lanes, and only if the machine may have slowed it."""
    plain = noisy(spread, rounds)
    judged = judge_rounds({"a": slowed(plain, 2, 3, times), "b": noisy(spread, rounds, level=20.0)})
    assert flagged(judged["a"]) == ([(2, 3)] if is_flagged else [])
    assert flagged(judged["b"]) == []
    assert [place for place in range(5) if place not in judged["b"][2].counted] == ([3] if is_flagged else [])
