"""Two scripts are compared in their counts, their first losses, how these moved the weights, and their timed losses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import STEPS, heat_of, plan_of, planned, proof, windows_of

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.analysis.script_pair import compare_scripts
from laptime.model.other_work import OtherWork
from laptime.model.quantities import Missing
from laptime.model.sample import FirstLosses

FIRST, MOVES, LATER = (2.3, 2.2, 2.1), (0.5, -0.25, 0.125), (2.0, 1.9, 1.8)


def script(*, losses=FIRST, moves=MOVES, later=LATER, first=5, items=100, weights=1_000):
    """Return the lane of a script with three windows of ten steps, the first of them at step `first`."""
    windows = tuple(
        replace(window, first_step=first + STEPS * place) for place, window in enumerate(windows_of(10.0, 10.0, 10.0))
    )
    run = proof(losses=losses, moves=moves)
    heat = heat_of(10.0, windows=windows, proofs=(run,), losses=later, items_per_step=items, parameters=weights)
    lane = planned("cpu/as-written")
    return summarise_lane(
        plan_of(lane), lane, (summarise_heat(heat),), FirstLosses(lane.name, "cpu", (proof(losses=FIRST),))
    )


BASE = script()


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"losses": (2.3, 2.2001, 2.1002), "moves": (0.501, -0.2502, 0.1249), "later": (2.0, 1.91, 1.83)},
        {"later": (1.9, 1.8, 1.7), "first": 15},  # two of three windows are of the same steps
    ],
)
def test_rounding_is_no_other_work(other):
    assert compare_scripts(script(**other), BASE) is None


@pytest.mark.parametrize(
    ("other", "kind", "says"),
    [
        (
            {"losses": (2.3, 2.1, 2.0)},
            "other computation",
            "its losses differ from those of cpu/as-written by up to 4.76 %",
        ),
        ({"weights": 900}, "other network", "it trains 900 weights, and the base 1,000"),
        ({"items": 50}, "other batch size", "its step has 50 items, and that of the base 100"),
        ({"moves": (0.4, -0.2, 0.1)}, "other update", "its first 3 steps change its weights otherwise, by 20 %"),
        ({"moves": (0.5, -0.25)}, "other network", "it trains 2 arrays of weights, and the base 3"),
    ],
)
def test_what_differs_at_once_is_other_work_of_a_kind(other, kind, says):
    assert compare_scripts(script(**other), BASE) == OtherWork(kind, says)


def test_an_array_that_is_not_trained_is_other_work_though_the_others_move_as_far():
    small = script(moves=(0.5, -0.25, 0.02))
    frozen = script(moves=(0.5, -0.25, 0.0))
    says = "its first 3 steps change one of its arrays of weights otherwise"
    assert compare_scripts(frozen, small) == OtherWork("frozen weights", says)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"later": (2.0, 1.9, 1.6)}, "its loss at step 34 differs by 11.1 %, and that of its first steps does not"),
        ({"moves": ()}, "how its first steps change its weights was not seen"),
        ({"first": 6}, "0 of its 3 timed losses were seen at the same step of the base"),
        ({"later": (2.0,)}, "0 of its 0 timed losses were seen at the same step of the base"),
        ({"losses": ()}, "its losses were not seen"),
    ],
)
def test_what_differs_late_or_was_not_seen_is_not_proven(other, says):
    found = compare_scripts(script(**other), BASE)
    assert isinstance(found, Missing)
    assert found.missing.startswith(says)


def test_small_losses_are_compared_with_the_first_one():
    """Near 0, a relative distance means nothing."""
    base, other = script(later=(2.0, 0.02, 0.010)), script(later=(2.0, 0.021, 0.015))
    assert compare_scripts(other, base) is None
