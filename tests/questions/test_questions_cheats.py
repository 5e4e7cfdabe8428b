"""Time that a candidate hides from its own clock, and work that it does before its first step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import records

from laptime.model.other_work import OtherWork, WorkKind
from laptime.questions.verdict.cheats import (
    find_hidden_time,
    find_late_gain,
    find_replaced,
)

UNTIMED = 4  # steps at the begin of a turn


def lane(step_ms, *, real_ms=None, fixed_ms=6.0, build_s=0.4):
    """Return a lane that reports such steps; its turns take `fixed_ms` and its real steps by laptime's own clock."""
    found, real_ms = records.lane("torch/cpu/as-written", step_ms), real_ms or step_ms

    def with_turns(result):
        steps = result.heat.windows[0].steps
        took_ns = round(((UNTIMED + steps) * real_ms + fixed_ms) * 1e6)
        windows = tuple(
            replace(window, turn=turn, turn_ns=took_ns, first_step=10 + turn * (UNTIMED + steps))
            for turn, window in enumerate(result.heat.windows)
        )
        process = replace(result.heat.process, phases_s={"build": build_s})
        return replace(result, heat=replace(result.heat, windows=windows, process=process))

    return replace(found, heats=tuple(map(with_turns, found.heats)))


@pytest.mark.parametrize("step_ms", [2.0, 10.0, 50.0])
def test_a_turn_of_an_honest_candidate_hides_nothing(step_ms):
    """It takes as long beyond its steps as one of the base."""
    assert find_hidden_time(lane(step_ms), lane(10.0)) is None
    assert find_hidden_time(lane(step_ms, fixed_ms=9.0), lane(10.0)) is None


def test_a_clock_at_half_its_speed_is_found_by_the_one_of_laptimes_own_process():
    """Steps of 50 ms that are reported as 25 ms: the other half is in the turn."""
    assert find_hidden_time(lane(25.0, real_ms=50.0), lane(50.0)) == OtherWork(
        "hidden time",
        "by laptime's own clock its turns took 150 ms longer than those of the base, next to the 50.0 ms that it "
        "reported",
    )


def test_an_eighth_is_found_where_every_round_hides_it():
    assert find_hidden_time(lane(44.0, real_ms=50.0), lane(50.0)) is not None


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
    assert find_replaced([(), ()]) is None
    says = "it replaced laptime.engine.wire.write and time.time, by which it is judged"
    assert find_replaced([("laptime.engine.wire.write",), ("time.time",)]) == OtherWork("changed laptime", says)
    assert find_replaced([("jax.block_until_ready",)]).kind == find_replaced([("torch.cuda.synchronize",)]).kind


def test_each_kind_of_other_work_is_in_the_docs():
    """A program reads it as `cheat`, and a person looks it up."""
    page = Path(__file__).parents[2].joinpath("docs", "method-verdict.md").read_text(encoding="utf-8")
    table = page.partition("## What is no gain")[2]
    assert [kind for kind in get_args(WorkKind) if kind not in table] == []
