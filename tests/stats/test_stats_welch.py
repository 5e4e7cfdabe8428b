"""Welch's t against figures that anybody can check, and against what must always hold."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import welch

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=6)


def test_a_known_example():
    """By hand: means 2 and 6, squared errors 1/3 each, t = 4 / sqrt(2/3), four degrees of freedom."""
    found = welch([1.0, 2.0, 3.0], [5.0, 6.0, 7.0], 0.05)
    assert found.t == pytest.approx(4.898979)
    assert found.allowed == pytest.approx(2.776445)
    assert found.differs


def test_unlike_spreads_cost_degrees_of_freedom():
    """One sample without spread leaves only the other's two degrees."""
    assert welch([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], 0.05).allowed == pytest.approx(4.302653)


def test_samples_without_spread_differ_or_do_not():
    """There is nothing to hold a difference against."""
    assert welch([0.5, 0.5], [0.5, 0.5], 0.05).t == 0
    assert not welch([0.5, 0.5], [0.5, 0.5], 0.05).differs
    assert welch([0.5, 0.5], [0.6, 0.6], 0.05).t == inf


def test_one_value_has_no_spread():
    """Refused in words."""
    with pytest.raises(ValueError, match="a sample of one value"):
        welch([1.0], [1.0, 2.0], 0.05)


@given(SHARES, SHARES)
def test_it_does_not_matter_which_comes_first(one, other):
    """The distance is the same both ways."""
    assert welch(one, other, 0.05).t == pytest.approx(welch(other, one, 0.05).t)


@given(SHARES)
def test_no_sample_differs_from_itself(values):
    """Not by chance either."""
    assert not welch(values, values, 0.05).differs
