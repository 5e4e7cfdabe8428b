"""Spells in which the machine was slow for all lanes, told from what is slow in one lane only."""

from __future__ import annotations

import pytest

from laptime.engine.run.turns import find_slow_spells
from laptime.model.sample import Window


def turns(*pairs):
    """Return the windows of two heats that took turns, A B, B A; a step's milliseconds in each."""
    heats, clock = ([], []), 0
    for turn, pair in enumerate(pairs):
        for heat in (0, 1) if turn % 2 == 0 else (1, 0):
            end = clock + pair[heat] * 2_000_000
            heats[heat].append(Window(clock, end, 2, turn=turn))
            clock = end + 1_000_000
    return heats


@pytest.mark.parametrize(
    ("expected", "heats"),
    [
        ([], turns((170, 125), (180, 130), (165, 120), (200, 128))),
        ([(0, 0), (1, 0), (1, 1), (0, 1)], turns((272, 237), (214, 237), (175, 128), (161, 123))),
        ([(1, 2), (1, 3), (0, 3)], turns((172, 127), (165, 126), (182, 271), (298, 244))),
        ([], turns((170, 125), (270, 126), (168, 124), (280, 125))),
        ([], turns((170, 125), (170, 260), (170, 125), (270, 125))),
        ([], turns((170, 125))),
        ([], [[], []]),
    ],
    ids=["quiet", "from the start", "begins within a turn", "one lane's own", "apart", "one turn", "none"],
)
def test_spells_hold_windows_of_both_heats(expected, heats):
    """The second and third case were seen on a shared virtual machine: others 0.0 cores, own 1.98 of 2."""
    assert find_slow_spells(heats) == expected


def test_a_window_that_was_flagged_sets_no_standard():
    """One that stood still for another reason, or counted too few steps, says nothing about the usual speed."""
    one, other = turns((170, 125), (172, 126), (171, 124))
    flagged = [Window(0, 1_000_000, 2, flag="planted"), *one]
    assert find_slow_spells([flagged, other]) == []
