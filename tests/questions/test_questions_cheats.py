"""Time that a candidate hides from its own clock, and work that it does before its first step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import records

from laptime.questions.verdict.cheats import (
    CHEATS,
    find_hidden_time,
    find_late_gain,
    find_replaced,
    name_cheat,
)


def lane(step_ms, *, outside_ms=30.0, build_s=0.4, changed=()):
    """Return a lane whose turns took `outside_ms` longer by laptime's own clock than its windows."""
    found = records.lane("torch/cpu/as-written", step_ms)

    def with_turns(result):
        windows = tuple(
            replace(window, turn=place, turn_ns=window.end_ns - window.start_ns + round(outside_ms * 1e6))
            for place, window in enumerate(result.heat.windows)
        )
        process = replace(result.heat.process, phases_s={"build": build_s})
        return replace(result, heat=replace(result.heat, windows=windows, process=process, changed=changed))

    return replace(found, heats=tuple(map(with_turns, found.heats)))


@pytest.mark.parametrize("step_ms", [2.0, 10.0, 50.0])
def test_a_turn_of_an_honest_candidate_hides_nothing(step_ms):
    """It takes as long beyond its window as one of the base, or as much longer as its steps are."""
    assert find_hidden_time(lane(step_ms), lane(10.0)) is None
    assert find_hidden_time(lane(step_ms, outside_ms=33.0), lane(10.0)) is None
    assert find_hidden_time(lane(50.0, outside_ms=150.0), lane(10.0)) is None


def test_a_clock_at_half_its_speed_is_found_by_the_one_of_laptimes_own_process():
    """Two steps of 50 ms that are reported as 25 ms: the other half is in the turn."""
    says = find_hidden_time(lane(25.0, outside_ms=30.0 + 50.0), lane(50.0))
    assert says == (
        "by laptime's own clock its turns took 130 ms, of which it reported 50.0 ms; those of the base took 130 and "
        "reported 100 ms"
    )
    assert name_cheat(says) == "hidden time"


def test_turns_that_were_not_timed_by_laptime_say_nothing():
    assert find_hidden_time(records.lane("torch/cpu/as-written", 5.0), lane(10.0)) is None


def test_what_is_done_before_the_first_step_must_pay_within_ten_laps():
    """A lap has 500 steps: from 10 to 8 ms a step it saves a second."""
    assert find_late_gain(lane(8.0, build_s=10.0), lane(10.0)) is None
    assert find_late_gain(lane(8.0, build_s=30.4), lane(10.0)) == (
        "it takes 30.0 s longer before its first step, and saves 1.00 s a lap: that pays after 30 laps"
    )
    assert find_late_gain(lane(12.0, build_s=30.4), lane(10.0)) is None  # it is slower, which is said instead


def test_what_was_replaced_is_named():
    assert find_replaced(lane(10.0)) is None
    says = find_replaced(lane(10.0, changed=("laptime.wire.write", "time.time")))
    assert says == "it replaced laptime.wire.write and time.time, by which it is judged"
    assert name_cheat(says) == "changed laptime"


def test_each_cheat_has_words_of_its_own():
    """No row hides behind an earlier one."""
    assert all(name_cheat(cheat.words) == cheat.name for cheat in CHEATS)
    assert name_cheat("something that no row knows") == "other work"
