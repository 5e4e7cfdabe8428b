"""The ratio of two samples that do not come in pairs."""

from __future__ import annotations

from math import exp, inf, isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import unpaired_ratio, welch

samples = st.lists(st.floats(0.1, 10.0), min_size=2, max_size=9)


def test_known_samples_have_a_known_interval():
    """By hand: logs 0, 0.1, 0.2 and 0, 0, 0.3; means 0.1 each, squared errors 0.01 / 3 and 0.03 / 3."""
    one, other = [exp(each) for each in (0, 0.1, 0.2)], [exp(each) for each in (0, 0, 0.3)]
    found = unpaired_ratio(one, other, 0.05)
    dof = 1 / (0.25**2 / 2 + 0.75**2 / 2)
    assert isclose(1.0, found.estimate)
    assert isclose(3.2, dof)
    assert isclose(3.0730 * (0.04 / 3) ** 0.5, log(found.high), rel_tol=1e-3)
    assert isclose(found.low * found.high, 1.0)


def test_samples_without_spread_have_an_interval_of_one_point():
    found = unpaired_ratio([2.0, 2.0], [1.0, 1.0, 1.0], 0.05)
    assert (found.low, found.estimate, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_one_value_has_no_interval():
    found = unpaired_ratio([3.0], [1.0, 2.0], 0.05)
    assert (found.low, found.high) == (0.0, inf)


@given(samples, samples)
def test_turned_around_it_is_the_inverse(one, other):
    there, back = unpaired_ratio(one, other, 0.05), unpaired_ratio(other, one, 0.05)
    assert there.estimate == pytest.approx(1 / back.estimate)
    assert there.low == pytest.approx(1 / back.high)


@given(samples, samples)
def test_it_excludes_1_where_welch_finds_a_difference(one, other):
    """But for the last digits, where one of them is at its limit."""
    found = unpaired_ratio(one, other, 0.05)
    t = welch([log(each) for each in one], [log(each) for each in other], 0.05)
    if abs(t.t - t.allowed) > 1e-6:
        assert t.differs == (not found.low <= 1 <= found.high)
