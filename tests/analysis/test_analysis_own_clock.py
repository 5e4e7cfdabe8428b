"""What a turn takes by laptime's own clock is charged to a candidate, whatever its process reports."""

import pytest

from laptime.analysis.own_clock import by_own_clock, hidden_share
from laptime.model.sample import Window

MS = 1_000_000


STEPS, UNTIMED = 10, 2


def turns(window_ms, turn_ms, count=5, flag=None):
    return [
        Window(
            0,
            window_ms * MS,
            STEPS,
            first_step=13 + number * (STEPS + UNTIMED),
            turn_ns=turn_ms * MS,
            flag=flag,
        )
        for number in range(count)
    ]


BASE = turns(200, 200 + 40 + 6)  # two steps that are not timed, and 6 ms that any turn costs


def test_an_honest_candidate_takes_what_it_reports():
    """It is twice as fast, in the steps that are not timed as well."""
    assert hidden_share([turns(100, 100 + 20 + 6)], [BASE]) == pytest.approx(0.0)
    assert [window.took_ns for window in by_own_clock(turns(100, 126), BASE)] == [100 * MS] * 5


def test_a_hidden_eighth_is_charged_for():
    """It takes as long as the base, and reports an eighth less."""
    candidate = turns(175, 200 + 40 + 6)
    assert [window.took_ns for window in by_own_clock(candidate, BASE)] == [
        pytest.approx(200 * MS + 5 * MS, rel=0.01)  # it hides a part of its untimed steps as well
    ] * 5


def test_too_little_tells_nothing_and_what_is_disturbed_tells_it_less_well():
    """A candidate that is judged on a busy machine hides as much."""
    hidden = turns(175, 200 + 40 + 6, flag="other processes took 1 core")
    assert hidden_share([hidden], [BASE]) > 0.1
    assert hidden_share([turns(100, 300, count=2)], [BASE]) is None
    unseen = turns(100, 300)
    assert by_own_clock(unseen, []) == tuple(unseen)
