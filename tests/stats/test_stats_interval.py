"""Intervals: a worked example, the properties that a ratio must have, and how often the truth is inside."""

from __future__ import annotations

import random
from dataclasses import FrozenInstanceError
from math import exp, inf, log, nan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import Interval, log_mean_interval, paired_ratio, verdict

times = st.floats(1e-3, 1e6)
pairs = st.lists(st.tuples(times, times), min_size=2, max_size=12)
alphas = st.floats(1e-3, 0.5)


def test_a_worked_example():
    """1, 2 and 4 have the mean logarithm of 2, a spread of log 2 and two degrees of freedom."""
    reach = 4.30265273 * log(2) / sqrt(3)
    found = log_mean_interval([1.0, 2.0, 4.0], 0.05)
    assert pytest.approx((2.0, 2 * exp(-reach), 2 * exp(reach))) == (found.estimate, found.low, found.high)


def test_a_lane_that_takes_half_the_time_is_twice_as_fast():
    """The ratio is of speeds, its values are times."""
    assert Interval(2.0, 2.0, 2.0) == paired_ratio([10.0, 10.0, 10.0], [20.0, 20.0, 20.0], 0.05)


def test_one_heat_settles_nothing():
    """One heat has an estimate, and an interval that excludes nothing."""
    found = paired_ratio([10.0], [30.0], 0.05)
    assert Interval(3.0, 0.0, inf) == found
    assert found.half_width == inf
    assert verdict(found) == "not distinguishable"


@pytest.mark.parametrize(
    ("expected", "interval"),
    [
        (0.25, Interval(1.0, 0.8, 1.25)),
        (0.0, Interval(3.0, 3.0, 3.0)),
        (1.0, Interval(2.0, 1.0, 4.0)),
        (inf, Interval(2.0, 0.0, 4.0)),
        (inf, Interval(2.0, 1.0, inf)),
    ],
)
def test_half_width_is_relative_on_the_logarithmic_scale(expected, interval):
    """A margin of 25 % is as far to 1.25 as to 1 / 1.25."""
    assert pytest.approx(expected) == interval.half_width


@pytest.mark.parametrize(
    ("expected", "low", "high"),
    [
        ("faster", 1.01, 1.4),
        ("slower", 0.6, 0.99),
        ("not distinguishable", 1.0, 1.4),
        ("not distinguishable", 0.6, 1.0),
        ("not distinguishable", 0.9, 1.1),
    ],
)
def test_an_interval_that_reaches_one_settles_nothing(expected, low, high):
    """Only an interval wholly on one side is a verdict."""
    assert expected == verdict(Interval(sqrt(low * high), low, high))


@given(pairs, alphas)
def test_the_estimate_lies_inside(measured, alpha):
    """An interval always holds its estimate."""
    ours, theirs = zip(*measured, strict=True)
    found = paired_ratio(ours, theirs, alpha)
    assert 0 <= found.low <= found.estimate <= found.high


@given(pairs, alphas)
def test_swapping_the_lanes_inverts_the_ratio(measured, alpha):
    """If A is 1.2 times as fast as B, B is 1 / 1.2 times as fast as A, interval and all."""
    ours, theirs = zip(*measured, strict=True)
    one, other = paired_ratio(ours, theirs, alpha), paired_ratio(theirs, ours, alpha)
    assert pytest.approx(log(one.estimate), abs=1e-9) == -log(other.estimate)
    if one.low > 0 and one.high < inf:
        assert pytest.approx(one.half_width, rel=1e-6, abs=1e-9) == other.half_width


@given(pairs, st.randoms())
def test_the_order_of_rounds_does_not_matter(measured, shuffler):
    """Rounds are replicates; their order carries nothing."""
    mixed = measured[:]
    shuffler.shuffle(mixed)
    one, other = (paired_ratio(*zip(*rounds, strict=True), 0.05) for rounds in (measured, mixed))
    assert pytest.approx(log(one.estimate), abs=1e-9) == log(other.estimate)


@given(pairs, st.floats(1e-3, 0.2))
def test_more_certainty_needs_a_wider_interval(measured, alpha):
    """An interval at alpha holds the one at twice alpha."""
    ours, theirs = zip(*measured, strict=True)
    sure, less_sure = paired_ratio(ours, theirs, alpha), paired_ratio(ours, theirs, 2 * alpha)
    assert sure.low <= less_sure.low
    assert less_sure.high <= sure.high


def test_a_drift_that_both_lanes_share_cancels():
    """A machine that gets 40 % slower during the race widens a lane's own interval, not the ratio's."""
    lane, reference = [10.0, 10.1, 9.9, 10.0], [20.0, 20.1, 20.1, 19.9]
    drift = [1.0, 1.1, 1.2, 1.4]
    slowed = [[time * slow for time, slow in zip(heats, drift, strict=True)] for heats in (lane, reference)]
    calm, moved = paired_ratio(lane, reference, 0.05), paired_ratio(*slowed, 0.05)
    assert pytest.approx((calm.low, calm.high)) == (moved.low, moved.high)
    assert log_mean_interval(slowed[0], 0.05).half_width > 10 * log_mean_interval(lane, 0.05).half_width


def test_two_wild_heats_give_infinity_not_an_error():
    """One degree of freedom at a small error rate reaches past the largest float."""
    found = log_mean_interval([1e-6, 1e6], 1e-4)
    assert (0.0, inf) == (found.low, found.high)


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [-1.0], [nan, 1.0], [inf, 1.0]])
def test_what_no_clock_measures_is_refused(values):
    """Zero, negative and missing times have no logarithm."""
    with pytest.raises(ValueError, match=r"positive|at least one"):
        log_mean_interval(values, 0.05)
    with pytest.raises(ValueError, match=r"positive|at least one"):
        paired_ratio(values, [1.0] * len(values), 0.05)
    with pytest.raises(ValueError, match=r"positive|at least one"):
        paired_ratio([1.0] * len(values), values, 0.05)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.05, nan])
def test_no_error_rate_is_refused(alpha):
    """An alpha of 0 would be an interval of everything; 95 instead of 0.05 is a slip."""
    with pytest.raises(ValueError, match="error rate"):
        log_mean_interval([1.0, 2.0], alpha)


def test_heats_without_a_partner_are_refused():
    """A pair with one heat missing would shift all later pairs by one."""
    with pytest.raises(ValueError, match="2 of one lane and 1"):
        paired_ratio([1.0, 2.0], [1.0], 0.05)


@pytest.mark.parametrize("bounds", [(1, 1.1, 1.2), (1, 0.5, 0.9), (nan, 0, 1), (1, -1, 2)])
def test_an_interval_without_its_estimate_cannot_be_made(bounds):
    """A swapped or missing bound is caught where it is made."""
    with pytest.raises(ValueError, match="low <= estimate <= high"):
        Interval(*bounds)


def test_an_interval_cannot_be_changed():
    """A result is a value; nobody downstream may retouch it."""
    with pytest.raises(FrozenInstanceError):
        Interval(1.0, 0.9, 1.1).low = 1.0


@pytest.mark.parametrize(("heats", "spread"), [(3, 0.02), (5, 0.06)])
def test_the_truth_is_inside_as_often_as_claimed(heats, spread):
    """Of 3000 races with a common drift, 95 % hold the true ratio, give or take three standard errors."""
    generator = random.Random(heats)
    held = 0
    for _ in range(3000):
        drift = [generator.gauss(0, 0.1) for _ in range(heats)]
        lane = [10 * exp(slow + generator.gauss(0, spread)) for slow in drift]
        reference = [13 * exp(slow + generator.gauss(0, spread)) for slow in drift]
        found = paired_ratio(lane, reference, 0.05)
        held += found.low <= 1.3 <= found.high
    assert pytest.approx(0.95, abs=0.012) == held / 3000
