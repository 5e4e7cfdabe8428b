"""How many turns a round has: as many as its start is worth, and no more than fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laptime.model.plan import Pace
from laptime.model.stats import BETWEEN_OVER_TURNS
from laptime.questions.race.turns import TURN_OVER_ROUND, balance_turns, fit_turns

PACE = Pace(3, 14, True, measure_s=1.25, window_s=0.25, windows_min=5, takes_turns=True)


@pytest.mark.parametrize(
    ("turn_s", "room_s", "turns"), [(0.7, 20.0, 5), (4.0, 20.0, 5), (5.0, 20.0, 4), (10.0, 20.0, 3), (60.0, 20.0, 3)]
)
def test_long_steps_take_fewer_turns_so_that_a_round_fits(turn_s, room_s, turns):
    """Three are the least from which a disturbed one can be told."""
    pace = fit_turns(PACE, turn_s, room_s)
    assert (pace.windows_min, pace.measure_s) == (turns, turns * 0.25)
    assert replace(pace, windows_min=5, measure_s=1.25) == PACE


@pytest.mark.parametrize(
    ("turn_s", "fixed_s", "left_s", "turns"),
    [(0.7, 1.3, 50.0, 5), (0.5, 10.0, 600.0, 8), (0.5, 10.0, 60.0, 5), (0.5, 40.0, 1200.0, 17)],
)
def test_a_round_that_is_dear_to_start_takes_more_turns(turn_s, fixed_s, left_s, turns):
    """Where the usual number of rounds still fits."""
    assert balance_turns(PACE, turn_s, fixed_s, left_s).windows_min == turns


def test_the_number_of_turns_is_the_one_with_the_narrowest_interval():
    """Among all numbers, by the variances that `laptime.model.stats` expects: of what a round shares, and of a turn."""
    between = (BETWEEN_OVER_TURNS - 1) / 5

    def variance(turns, turn_s, fixed_s):
        return (between + 1 / turns) * (fixed_s + turns * turn_s)

    for turn_s, fixed_s in ((0.5, 10.0), (0.5, 40.0), (1.0, 30.0)):
        best = min(range(5, 60), key=lambda turns: variance(turns, turn_s, fixed_s))
        assert abs(balance_turns(PACE, turn_s, fixed_s, 1e9).windows_min - best) <= 1
    assert 1 / between == pytest.approx(TURN_OVER_ROUND)
