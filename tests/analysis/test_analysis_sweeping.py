"""Crossovers, knees and empty steps, from points whose truth is known."""

from __future__ import annotations

import pytest
from measured import heat_of, windows_of

from laptime.analysis.heats import summarise_heat
from laptime.model.quantities import Missing
from laptime.questions.sweep.reduce import RatioPoint, find_crossovers, find_empty_step, find_knee

NO_ENDS = Missing("one round alone gives no interval")


def points(*ratios, wide=0.1):
    """Return ratios at batches 1, 2, 4 and so on, each known to a tenth."""
    ends = [(each / (1 + wide), each * (1 + wide)) for each in ratios]
    return [RatioPoint(2.0**place, each, *end) for place, (each, end) in enumerate(zip(ratios, ends, strict=True))]


def test_a_ratio_that_rises_passes_one_between_two_values():
    """On logarithmic axes, half way from 1/2 to 2 is 1. Its interval is where the bounds pass 1."""
    ((at, rises),) = find_crossovers(points(0.25, 0.5, 2.0, 4.0))
    assert rises
    assert at.value == pytest.approx(2**1.5)
    assert at.low == pytest.approx(at.value / 1.1 ** (1 / 2), rel=0.02)
    assert at.high == pytest.approx(at.value * 1.1 ** (1 / 2), rel=0.02)


def test_a_ratio_that_falls_passes_one_too_and_twice_if_it_returns():
    ((at, rises),) = find_crossovers(points(4.0, 2.0, 0.5))
    assert not rises
    assert at.low < at.value < at.high
    assert [rises for _, rises in find_crossovers(points(0.5, 2.0, 0.5))] == [True, False]
    assert find_crossovers(points(1.5, 2.0, 4.0)) == []


def test_bounds_that_never_pass_one_are_outside_of_what_was_raced():
    """Known to a factor of three, a ratio of 2 may be less than 1."""
    ((at, _),) = find_crossovers(points(0.9, 1.2, wide=2.0))
    assert isinstance(at.low, Missing)
    assert isinstance(at.high, Missing)
    unknown = [RatioPoint(1.0, 0.5, NO_ENDS, NO_ENDS), RatioPoint(2.0, 2.0, NO_ENDS, NO_ENDS)]
    ((at, _),) = find_crossovers(unknown)
    assert isinstance(at.low, Missing)


def test_the_knee_has_nine_tenths_of_the_highest_rate():
    assert find_knee([("1", 50.0), ("2", 92.0), ("4", 100.0)]) == "2"
    assert isinstance(find_knee([("1", 50.0), ("2", 70.0), ("4", 100.0)]), Missing)


def heats(ms):
    return [summarise_heat(heat_of(ms, windows=windows_of(*[ms] * 5)))]


def test_an_empty_step_is_where_the_line_meets_nothing():
    """3 ms and 0.5 ms an item."""
    found = find_empty_step([(batch, heats(3 + 0.5 * batch)) for batch in (1.0, 2.0, 4.0, 64.0)])
    assert found.value == pytest.approx(3.0, rel=1e-3)
    assert isinstance(found.low, Missing), "one round"
    noisy = {1.0: 31.0, 2.0: 4.0, 4.0: 5.0, 8.0: 7.0, 16.0: 11.0}
    assert find_empty_step([(batch, heats(ms)) for batch, ms in noisy.items()]).value == pytest.approx(3.0, rel=1e-3)
    assert isinstance(find_empty_step([(1.0, heats(3.5))]), Missing)
