"""All lanes whose steps take about as long time the same steps in a turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laptime.engine import wire
from laptime.engine.run.turns import FAR_SLOWER, Entrant, choose_steps, fit_steps

WINDOW_S = 0.25


def entrant(step_ms, taken=1, **needs):
    return Entrant(wire.TurnNeeds(step_ms * 1e6, **needs), taken)


def test_lanes_time_the_same_steps():
    """A turn lasts its time in the mean of both."""
    one, other = choose_steps([entrant(150.0), entrant(50.0, taken=4)], WINDOW_S)
    assert one == other
    assert (one.after, one.steps) == (4, 3)
    assert (one.order(0), one.order(1)) == (wire.TakeTurn(3, 4, 4), wire.TakeTurn(3, 7, 7))


def test_a_card_and_a_processor_have_turns_of_their_own():
    """300 steps to one: the same steps would be over before a card's clock is up."""
    slow, also_slow, card = choose_steps([entrant(150.0), entrant(100.0), entrant(0.4, warm=600)], WINDOW_S)
    assert slow == also_slow
    assert (card.steps, card.untimed, card.after) == (625, 600, 601)


def test_a_slower_lane_does_not_warm_a_faster_lanes_clock():
    """As seen on an H100: 500 steps a turn until the fastest lane's clock was up took the lane as written 1.7 s."""
    card = [entrant(3.3, warm=76), entrant(1.7, warm=148), entrant(0.67, warm=354)]
    written, best, fastest = choose_steps(card, WINDOW_S)
    assert written == best != fastest
    assert (fastest.untimed, fastest.steps) == (354, 374)


def test_nobody_walks_to_where_a_faster_lane_has_come():
    """As seen there: after the first turn a processor's lane went to a card's step 3,545, which took it 42 s a heat."""
    processor, card = choose_steps([entrant(8.0, taken=25), entrant(1.5, taken=3420)], WINDOW_S)
    assert processor.after == 25
    assert card.after == 3420
    kept = [processor, card]
    assert fit_steps(kept, [entrant(8.0, taken=25), entrant(1.5, taken=5000)])[0] == processor


def test_slow_steps_may_be_a_few_apart():
    one, other = choose_steps([entrant(5_000.0, taken=2), entrant(4_000.0, taken=5)], WINDOW_S)
    assert one == other


def test_turns_hold_whole_strides_of_every_framework():
    """A framework that takes ten steps at once and one that takes four take twenty."""
    one, other = choose_steps([entrant(10.0, stride=10, unit=10), entrant(10.0, stride=4, unit=4)], WINDOW_S)
    assert one == other
    assert (one.steps, one.after % 20) == (40, 0)
    assert choose_steps([entrant(10.0, stride=97, unit=97), entrant(10.0, stride=89, unit=89)], WINDOW_S)[0].steps == 97


def test_a_later_round_keeps_the_steps_of_the_first_one():
    """Unless a heat has gone beyond them already."""
    heats = [entrant(150.0, taken=5), entrant(50.0, taken=4)]
    kept = choose_steps(heats, WINDOW_S)
    assert fit_steps(kept, [entrant(99.0, taken=2), entrant(50.0, taken=2)]) == kept
    later = fit_steps(kept, [entrant(99.0, taken=8), entrant(50.0, taken=2)])
    assert [each.after for each in later] == [8, 8]


@given(st.lists(st.tuples(st.floats(0.01, 5_000), st.integers(1, 40), st.integers(0, 50)), min_size=1, max_size=6))
def test_every_turn_is_long_enough_and_nobody_goes_back(lanes):
    """No lane is asked for steps that it has taken, and its turn is not far shorter than it should be."""
    heats = [entrant(step_ms, taken=taken, stride=stride, unit=stride) for step_ms, stride, taken in lanes]
    for heat, steps in zip(heats, choose_steps(heats, WINDOW_S), strict=True):
        assert steps.after >= heat.taken
        assert steps.steps % heat.needs.unit == 0
        assert steps.steps * heat.needs.step_ns >= WINDOW_S * 1e9 / (2 * FAR_SLOWER)


def test_where_steps_are_shared_even_a_lane_that_is_hundreds_of_times_as_fast_takes_the_same_ones():
    """What is too fast to be compared would not be proven."""
    slow, fast = choose_steps([entrant(60.0), entrant(0.2, warm=150, taken=40)], WINDOW_S, shares_steps=True)
    assert slow == fast
    assert slow.steps * 60.0e-3 <= 2 * WINDOW_S + 60.0e-3
    assert slow.untimed <= 1
    assert slow.after >= 40


def test_shared_steps_of_lanes_of_one_speed_are_turns_as_usual():
    usual = choose_steps([entrant(5.0), entrant(4.0)], WINDOW_S)
    assert choose_steps([entrant(5.0), entrant(4.0)], WINDOW_S, shares_steps=True) == usual


def test_laps_of_two_lengths_do_not_make_shared_turns_longer():
    """One that trains on half of the data has other laps, and their common multiple may be minutes."""
    one, other = choose_steps([entrant(5.0, unit=97), entrant(5.0, unit=89)], WINDOW_S, shares_steps=True)
    assert one == other
    assert one.steps * 5.0e-3 <= 2 * WINDOW_S
