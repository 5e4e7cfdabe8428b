"""How many heats a budget buys, and how long each may measure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_machines import CPU, machine_with, plan_for

from laptime.model.ask import Ask
from laptime.model.plan import Pace
from laptime.planner.groups import choose_pace, confirming_pace, shorten_pace, shortest_pace


def pace(lanes, **asked):
    return choose_pace(Ask(**asked), lanes)


@pytest.mark.parametrize(
    ("lanes", "asked", "expected"),
    [
        (2, {}, Pace(3, 5, adaptive=True, measure_s=2.0, window_s=0.2)),
        (4, {}, Pace(3, 5, adaptive=True, measure_s=1.2, window_s=0.12)),
        (1, {}, Pace(3, 3, adaptive=False, measure_s=8.0, window_s=0.8)),
        (2, {"budget_s": 1.0}, Pace(3, 5, adaptive=True, measure_s=1.2, window_s=0.12)),
        (2, {"budget_s": 120.0}, Pace(3, 5, adaptive=True, measure_s=8.0, window_s=0.8)),
        (2, {"budget_s": 280.0}, Pace(3, 10, adaptive=True, measure_s=10.0, window_s=1.0)),
        (2, {"budget_s": 3600.0}, Pace(3, 15, adaptive=True, measure_s=10.0, window_s=1.0)),
        (2, {"heats": 1}, Pace(1, 1, adaptive=False, measure_s=10.0, window_s=1.0)),
        (2, {"heats": 7}, Pace(3, 7, adaptive=False, measure_s=1.2, window_s=0.12)),
        (2, {"heats": 1000, "budget_s": 3600.0}, Pace(3, 1000, adaptive=False, measure_s=1.2, window_s=0.12)),
    ],
)
def test_a_budget_is_shared_out_among_heats(lanes, asked, expected):
    """Each heat gets its share less its start, from 1 to 10 s; a larger budget buys more heats, up to 15."""
    assert expected == pace(lanes, **asked)


@given(
    st.integers(1, 30),
    st.floats(1, 604_800),
    st.none() | st.integers(1, 1000),
)
@settings(deadline=None)
def test_every_pace_is_one_that_can_be_run(lanes, budget_s, heats):
    """At least one heat, never more least than most, and windows of a tenth of the measuring time."""
    found = pace(lanes, budget_s=budget_s, heats=heats)
    assert 1 <= found.heats_min <= found.heats_max
    assert heats in {None, found.heats_max}
    assert 1.2 <= found.measure_s <= 10.0
    assert found.window_s == found.measure_s / 10


def test_a_number_of_heats_turns_the_adaptive_stop_off():
    """Exactly this many were asked for."""
    assert not plan_for(machine_with(CPU), "cpu", "cpu/best", heats=6).pace.adaptive
    assert plan_for(machine_with(CPU), "cpu", "cpu/best").pace.adaptive


PACE = Pace(heats_min=3, heats_max=5, adaptive=True, measure_s=4.0, window_s=0.4)


@pytest.mark.parametrize(
    ("timed_s", "round_s", "left_s", "rounds", "measure_s"),
    [
        pytest.param([4.0, 4.0], 14.0, 58.0, 4, 4.0, id="all fit"),
        pytest.param([4.0, 4.0], 14.0, 46.0, 4, 2.5775, id="three seconds of overhead a heat leave less"),
        pytest.param([4.0, 4.0], 14.0, 10.0, 4, 1.2, id="no less than the least"),
        pytest.param([4.0, 9.0], 19.0, 20.0, 4, 4.0, id="one step is longer than all of the measure"),
        pytest.param([4.0, 4.0], 14.0, 5.0, 0, 4.0, id="no round is left"),
        pytest.param([], 1.0, 50.0, 4, 4.0, id="nobody is running"),
        pytest.param([0.0, 0.0], 1.0, 50.0, 4, 4.0, id="nobody came as far as timing"),
    ],
)
def test_heats_to_come_are_shortened_so_that_all_fit_the_budget(timed_s, round_s, left_s, rounds, measure_s):
    """What a round cost beyond its timing is known after the first; ten windows a heat stay ten."""
    shorter = shorten_pace(PACE, timed_s, round_s, left_s, rounds)
    assert (shorter.measure_s, shorter.window_s) == pytest.approx((measure_s, measure_s / 10))
    assert (shorter.heats_max, shorter.adaptive) == (5, True)


@pytest.mark.parametrize(
    ("round_s", "left_s", "measure_s"),
    [
        pytest.param(12.0, 100.0, 4.0, id="as long as it takes to start"),
        pytest.param(12.0, 80.0, 3.76, id="less, for the usual five rounds"),
        pytest.param(12.0, 20.0, 2.0, id="no less than in the search"),
        pytest.param(12.0, 240.0, 7.64, id="more, where ten rounds leave time"),
        pytest.param(12.0, 900.0, 10.0, id="no more than any heat"),
        pytest.param(3.0, 30.0, 2.0, id="a start that takes no time"),
    ],
)
def test_heats_that_confirm_are_longer_than_those_of_the_search(round_s, left_s, measure_s):
    """Two lanes whose heats of two seconds took this long a round."""
    short = shortest_pace(PACE, takes_turns=True, turns=8)
    longer = confirming_pace(short, round_s, 2, left_s, 10)
    assert longer.measure_s == pytest.approx(measure_s)
    assert (longer.window_s, longer.takes_turns) == (0.25, True)
    alone = confirming_pace(replace(short, takes_turns=False), round_s, 2, left_s, 10)
    assert alone.window_s == pytest.approx(measure_s / 10)
