"""Two lanes are compared in what their timed steps did: updates, rates, and a step of the proof after the windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import STEPS, heat_of, plan_of, planned, reference, windows_of

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.analysis.parity import find_other_beginning, find_other_losses, find_other_steps
from laptime.model.other_work import OtherWork
from laptime.model.sample import LateStep, SeenBatch

PLAIN = LateStep("fp32", 2.3, (0.3, 0.4))


def lane_of(name, updates=(1.0, 1.0, 1.0), rates=(1.0, 1.0, 1.0), late=PLAIN, first=5):
    """Return a lane with three windows of ten steps, the first of them at step `first`."""
    windows = tuple(
        replace(window, first_step=first + STEPS * place, updates=updates[place], rate=rates[place])
        for place, window in enumerate(windows_of(10.0, 10.0, 10.0))
    )
    lane = planned(name)
    return summarise_lane(
        plan_of(lane), lane, (summarise_heat(heat_of(10.0, windows=windows, late_step=late)),), reference()
    )


HONEST = lane_of("torch/cpu/as-written")
NAMES = HONEST.name, "torch/cpu/best"
SAYS_UPDATES = (
    f"in steps 15 to 24, {NAMES[0]} changed its weights 1 times as often as in its first step, and {NAMES[1]} 0.9 times"
)
SAYS_MOVED = (
    f"put back to their start after they were timed, a step moves the weights of {NAMES[0]} by 0.5, and of {NAMES[1]} "
    "by 0.3"
)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"updates": (None, None, None), "rates": (None, None, None)},
        {"late": None},
        {"late": LateStep("fp32", 2.30001, (0.3001, 0.4))},
        {"late": LateStep("bf16", 1.0, (3.0, 4.0))},
        {"late": LateStep("fp32", 1.0, (3.0,))},
    ],
)
def test_the_same_work_and_what_was_not_seen_are_no_difference(other):
    assert find_other_steps(HONEST, lane_of(NAMES[1], **other)) is None


def test_schedules_and_frozen_layers_that_both_lanes_have_are_no_difference():
    """A training that does something else at a step does so in each lane."""
    planned_so = {"updates": (1.0, 0.5, 0.5), "rates": (1.0, 0.5, 0.1)}
    assert find_other_steps(lane_of(NAMES[0], **planned_so), lane_of(NAMES[1], **planned_so)) is None


def test_windows_of_other_steps_are_not_compared():
    assert find_other_steps(HONEST, lane_of(NAMES[1], updates=(0.5, 0.5, 0.5), first=6)) is None


@pytest.mark.parametrize(
    ("other", "kind", "says"),
    [
        (
            {"updates": (1.0, 0.9, 0.8)},
            "skipped updates",
            SAYS_UPDATES,
        ),
        (
            {"rates": (1.0, 1.0, 0.1)},
            "other rate",
            f"in steps 25 to 34, the rate of {NAMES[0]} is 1 times its first one, and that of {NAMES[1]} 0.1 times",
        ),
        (
            {"late": LateStep("fp32", 2.31, (0.3, 0.4))},
            "knows the judge",
            f"put back to their start after they were timed, {NAMES[0]} has a loss of 2.3, and {NAMES[1]} of 2.31",
        ),
        (
            {"late": LateStep("fp32", 2.3, (0.3, 0.0))},
            "knows the judge",
            SAYS_MOVED,
        ),
    ],
)
def test_what_differs_is_said_with_both_figures(other, kind, says):
    assert find_other_steps(HONEST, lane_of(NAMES[1], **other)) == OtherWork(kind, says)


# What is seen of the timed steps themselves: the batch of a window's last step, and its loss.

LONG = 8  # windows
FALLING = tuple(2.3 - 0.05 * place for place in range(LONG))


def lane_seen(name, digests="abcdefgh", items=None, losses=FALLING):
    """Return a lane of eight windows whose last batches and losses were seen."""
    of_window = items or [None] * LONG
    windows = tuple(
        replace(
            window,
            first_step=5 + STEPS * place,
            seen=SeenBatch(of_window[place] or HONEST.items_per_step, digests[place]),
        )
        for place, window in enumerate(windows_of(*[10.0] * LONG))
    )
    lane = planned(name)
    heat = replace(heat_of(10.0, windows=windows), losses=losses)
    return summarise_lane(plan_of(lane), lane, (summarise_heat(heat),), reference())


SEEN = lane_seen(NAMES[0])


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"digests": "ABCDEFGH"},  # drawn again: other batches, and as many different ones
        {"digests": "abcdeabc"},  # a few more that are alike may be chance
        {"losses": tuple(loss * (1.2, 0.8)[place % 2] for place, loss in enumerate(FALLING))},  # dropout
        {"losses": tuple(loss + 1e-4 for loss in FALLING)},
    ],
)
def test_other_draws_are_no_other_work(other):
    other = lane_seen(NAMES[1], **other)
    assert find_other_steps(SEEN, other) is None
    assert find_other_losses(SEEN, other) is None


def test_a_loss_of_almost_nothing_is_not_compared_with_another():
    """Batches that are learned by heart: rounding decides what is left of their loss."""
    small, smaller = ((2.3, *(each,) * (LONG - 1)) for each in (1e-5, 1e-6))
    assert find_other_losses(lane_seen(NAMES[0], losses=small), lane_seen(NAMES[1], losses=smaller)) is None


def test_batches_that_are_smaller_or_repeated_while_the_clock_runs_are_seen():
    usual = HONEST.items_per_step
    fewer = lane_seen(NAMES[1], items=[None] * 3 + [usual // 4] * 5)
    assert find_other_steps(SEEN, fewer) == OtherWork(
        "fewer items",
        f"while it was timed, {NAMES[0]} trained on batches of {usual:,} items, and {NAMES[1]} of {usual // 4:,}",
    )
    assert find_other_steps(SEEN, lane_seen(NAMES[1], digests="abbbbbbb")) == OtherWork(
        "repeated batches", f"of 8 batches of timed steps, {NAMES[0]} had 8 different ones, and {NAMES[1]} 2"
    )
    joined = lane_seen(NAMES[1], items=[2 * usual] * LONG)
    assert find_other_steps(SEEN, replace(joined, items_per_step=2 * usual)) is None


def test_losses_that_fall_otherwise_at_the_same_steps_are_seen():
    faster = lane_seen(NAMES[1], losses=tuple(loss * 0.9 for loss in FALLING))
    assert find_other_losses(SEEN, faster) == OtherWork(
        "knows the judge",
        f"at 8 timed steps up to step 84, the losses of {NAMES[0]} are 2.125 in the mean, "
        f"and those of {NAMES[1]} 1.912",
    )


def test_a_training_that_is_another_where_it_is_timed_shows_it_at_its_first_steps():
    """In windows up to step 50; later, rounding may have grown as far."""
    assert find_other_beginning(SEEN, lane_seen(NAMES[1])) is None
    early = lane_seen(NAMES[1], losses=(2.3, 2.26, *FALLING[2:]))
    says = f"at its step 24, {NAMES[0]} has a loss of 2.25, and {NAMES[1]} of 2.26"
    assert find_other_beginning(SEEN, early) == OtherWork("knows the judge", says)
    assert find_other_beginning(SEEN, lane_seen(NAMES[1], losses=(*FALLING[:-1], 1.0))) is None
    first = [replace(heat.heats[0].heat, first_losses=(loss, 2.2)) for heat, loss in ((SEEN, 2.3), (SEEN, 2.301))]
    lanes = [replace(SEEN, heats=(replace(SEEN.heats[0], heat=each),)) for each in first]
    assert find_other_beginning(*lanes) == OtherWork(
        "knows the judge", f"at its step 1, {NAMES[0]} has a loss of 2.3, and {NAMES[0]} of 2.301"
    )
    assert find_other_beginning(lanes[0], lanes[0]) is None
