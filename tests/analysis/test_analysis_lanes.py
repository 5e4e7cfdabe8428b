"""All heats of a lane give its step, lap and rate, each with an interval."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

import pytest
from measured import SUBJECT, failed, heat_of, plan_of, planned, proof, reference, windows_of

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.model.quantities import Missing

T_95_OF_3 = 4.302652729911275  # Student's t at 97.5 % with two degrees of freedom
ONE_HEAT = Missing("one heat alone gives no interval")


def lane_of(*heats, lane=None, subject=SUBJECT, held=None):
    lane = lane or planned()
    return summarise_lane(
        plan_of(lane, subject=subject), lane, tuple(map(summarise_heat, heats)), reference() if held is None else held
    )


def test_three_heats_give_a_step_with_its_interval():
    """The geometric mean of the heats' medians, and a t interval on their logarithms."""
    step = lane_of(heat_of(90.0, 0), heat_of(100.0, 1), heat_of(1000 / 9, 2)).step_ms
    spread = 0.10536051565782628  # ln(100 / 90), and ln(1000 / 9 / 100) too
    reach = exp(T_95_OF_3 * spread / sqrt(3))
    assert (100.0, 100.0 / reach, 100.0 * reach) == pytest.approx((step.median, step.low, step.high), rel=1e-6)


def test_a_lap_and_a_rate_follow_from_the_step():
    """500 steps of 100 ms are 50 s; 100 images in 100 ms are 1,000 a second; the bounds change places."""
    lane = lane_of(heat_of(90.0, 0), heat_of(100.0, 1), heat_of(1000 / 9, 2))
    step, lap, rate = lane.step_ms, lane.lap_s, lane.items_per_s
    assert (lap.median, lap.low, lap.high) == pytest.approx((50.0, step.low / 2, step.high / 2), rel=1e-6)
    assert (rate.median, rate.low, rate.high) == pytest.approx((1000.0, 1e5 / step.high, 1e5 / step.low), rel=1e-6)


def test_one_heat_alone_has_no_interval():
    """Every figure that follows from it has the reason."""
    lane = lane_of(heat_of(100.0))
    for each in (lane.step_ms, lane.lap_s, lane.items_per_s):
        assert (each.low, each.high) == (ONE_HEAT, ONE_HEAT)
    assert lane.step_ms.median == pytest.approx(100.0)


def test_the_95th_percentile_is_of_the_single_steps():
    """One slow step in twenty shows there, and nowhere else."""
    slow = windows_of(*[100.0] * 4)
    last = replace(slow[-1], step_ns=(*slow[-1].step_ns[:6], *[300_000_000] * 4))
    lane = lane_of(heat_of(1.0, windows=(*slow[:-1], last)))
    assert lane.step_ms.p95 == pytest.approx(300.0)
    assert lane_of(heat_of(100.0)).step_ms.p95 == pytest.approx(100.0)


def test_steps_that_nobody_timed_have_no_percentile():
    """It is missing, not zero."""
    untimed = tuple(replace(window, step_ns=()) for window in windows_of(*[10.0] * 5))
    assert lane_of(heat_of(1.0, windows=untimed)).step_ms.p95 == Missing("no step was timed on its own")


@pytest.mark.parametrize(
    ("batch", "told", "lap_s"),
    [
        (None, 500, 50.0),
        (100, 500, 50.0),
        (400, 500, 12.5),
        (50, None, 100.0),
        (None, 20, 2.0),
    ],
)
def test_a_lap_at_another_batch_sees_the_same_items(batch, told, lap_s):
    """Four times the batch is a quarter of the steps."""
    lane = lane_of(heat_of(100.0, steps_per_lap=told), lane=planned(batch=batch))
    assert lap_s == pytest.approx(lane.lap_s.median)


def test_a_training_without_a_length_has_no_lap():
    """A user's data may be endless; its steps and its rate are known all the same."""
    subject = replace(SUBJECT, steps_per_lap=None, batch=None)
    lane = lane_of(heat_of(100.0, steps_per_lap=None), subject=subject)
    assert (lane.lap_s, lane.items_per_s.median) == (None, pytest.approx(1000.0))


def test_start_up_is_the_way_to_the_first_step_without_the_proof():
    """Starting, importing and building: a training has no proof to wait for."""
    lane = lane_of(heat_of(100.0, 0), heat_of(100.0, 1))
    assert (lane.startup_s, lane.first_step_ms) == (1.75, 300.0)


def test_one_unfinished_heat_makes_a_lane_unfinished_and_keeps_the_others():
    """The figures of the finished heats are next to the reason."""
    lane = lane_of(heat_of(100.0, 0), heat_of(100.0, 1), failed(2))
    assert (lane.status, lane.reason, len(lane.heats)) == ("dnf", "planted failure", 3)
    assert lane.step_ms.median == pytest.approx(100.0)


def test_a_lane_without_a_finished_heat_has_no_figures():
    """Nothing is shown as zero."""
    lane = lane_of(failed())
    assert (lane.step_ms, lane.lap_s, lane.items_per_s, lane.first_step_ms, lane.startup_s) == (None,) * 5
    assert lane.parity.reason == "no heat came as far as the proof"


def test_a_lane_that_was_not_run_is_no_error():
    """A race may be interrupted before its first heat."""
    lane = lane_of()
    assert (lane.status, lane.parity.status, lane.parity.reason) == ("ok", "unproven", "no heat was run")
    assert lane.peak_memory_bytes == Missing("no heat was run")


def test_the_most_memory_of_any_heat_is_the_lanes():
    """And the reason of the first, where none could tell."""
    sizes = [heat_of(1.0, number, peak_memory_bytes=size) for number, size in enumerate((3, 7, 5))]
    assert lane_of(*sizes).peak_memory_bytes == 7
    assert lane_of(heat_of(1.0)).peak_memory_bytes == Missing("the process did not finish")


def test_a_note_is_kept_once():
    """However many heats have said it."""
    heats = [heat_of(1.0, number, notes=("same", "own")[: number + 1]) for number in range(2)]
    assert lane_of(*heats).notes == ("same", "own")


def test_the_worst_heat_speaks_for_the_lane():
    """One heat that did other work is enough."""
    heats = [heat_of(1.0, 0), heat_of(1.0, 1, proofs=(proof(loss=1e-3),))]
    assert lane_of(*heats).parity.status == "differs"


def test_two_heats_far_apart_state_no_lap_and_no_forecast():
    """A lap of 0.775 s with an interval of 1.5e-5 to 41,130 s is no result: the reason takes its place."""
    lane = lane_of(heat_of(20.0, 0), heat_of(80.0, 1))
    assert (lane.lap_s, lane.whole) == (None, None)
    says = lane.absent["lap"].missing
    assert says == (
        "its 2 heats give laps of 10.0 s to 40.0 s, too far apart to state one; more heats need a longer --budget"
    )
    assert lane.step_ms.median == pytest.approx(40.0)
    near = lane_of(heat_of(20.0, 0), heat_of(21.0, 1))
    assert (near.lap_s.low, near.lap_s.high) == (pytest.approx(10.25, rel=0.5), pytest.approx(10.25, rel=0.5))
    assert near.absent == {}
