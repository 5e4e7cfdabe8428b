"""Figures as people read them: known values, and edges where a unit or a digit changes."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import figure

from laptime.model import quantities
from laptime.questions.forecast.page import usd
from laptime.show.pages import words


@pytest.mark.parametrize(
    ("expected", "ms"),
    [
        ("92.2 ms", 92.2),
        ("906 ms", 906.0),
        ("1.00 s", 999.6),
        ("12.3 s", 12_345.0),
        ("1,235 s", 1_234_567.0),
        ("1.00 ms", 0.9999),
        ("812 µs", 0.812),
        ("0.500 µs", 0.0005),
        ("0.00 µs", 0.0),
        ("not a number", inf),
    ],
)
def test_a_step_has_three_digits_and_the_unit_that_fits(expected, ms):
    """999.6 ms must not become 1,000 ms."""
    assert expected == quantities.step(ms)


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ("46.1 s", 46.1),
        ("0.310 s", 0.31),
        ("4.20 ms", 0.0042),
        ("1 min", 59.97),
        ("59.9 s", 59.94),
        ("7 min 33 s", 453.2),
        ("1 h", 3599.6),
        ("1 h 12 min", 4320.0),
        ("13 h", 46_800.0),
    ],
)
def test_a_lap_is_in_seconds_then_minutes_then_hours(expected, seconds):
    """Nobody thinks in 4,320 seconds."""
    assert expected == words.lap(seconds)


@pytest.mark.parametrize(("expected", "seconds"), [("0 s", 0.2), ("58 s", 58.2), ("1 min", 60.2), ("2 min", 119.7)])
def test_a_duration_is_whole(expected, seconds):
    """How long a race took needs no fractions."""
    assert expected == words.duration(seconds)


@pytest.mark.parametrize(("expected", "seconds"), [("0.31 s", 0.31), ("2.1 s", 2.1), ("12 s", 12.4), ("42 ms", 0.042)])
def test_what_happens_once_needs_two_digits(expected, seconds):
    """A start-up is not worth three digits."""
    assert expected == words.about(seconds)


@pytest.mark.parametrize(
    ("expected", "value"), [("3e-6", 3.1e-6), ("2e-4", 0.0002), ("1e-2", 0.0123), ("0", 0.0), ("1e0", 1.0)]
)
def test_a_tiny_number_is_one_digit_and_a_power(expected, value):
    """How far a loss strays is a matter of its power of ten."""
    assert expected == words.tiny(value)


@pytest.mark.parametrize(
    ("expected", "ratio", "like"),
    [("1.49", 1.488, None), ("9.99", 9.99, None), ("10.0", 9.996, None), ("1,116", 1115.8, None), ("9.5", 9.497, 10.0)],
)
def test_a_factor_has_the_digits_that_it_can_bear(expected, ratio, like):
    """The ends of an interval have as many decimals as its figure."""
    assert expected == words.factor(ratio, like)


@pytest.mark.parametrize(
    ("expected", "half"), [("±9 %", 0.09), ("±0.4 %", 0.004), ("±1 %", 0.0097), ("±0 %", 0.0), ("", None)]
)
def test_a_spread_is_half_the_interval(expected, half):
    """One heat has no interval, so nothing is said of it."""
    assert expected == words.spread(figure(92.2, half))


@pytest.mark.parametrize(
    ("expected", "count"), [("22.1 GB", 22.1e9), ("812 MB", 812e6), ("1.00 GB", 999.9e6), ("17.0 bytes", 17)]
)
def test_a_size_is_in_decimal_units(expected, count):
    """Memory is sold in them."""
    assert expected == quantities.size(count)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_no_number_says_so(value):
    """A damaged figure is shown as one, and never stops the page."""
    told = [quantities.number(value), words.duration(value), quantities.percent(value), words.tiny(value)]
    assert {"not a number"} == {*told, words.factor(value), words.about(value)}


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_a_number_is_within_half_a_percent_of_what_it_stands_for(value):
    """Rounding for the reader must not change what is said."""
    assert pytest.approx(value, rel=0.0051) == float(quantities.number(value).replace(",", ""))


@pytest.mark.parametrize(
    ("expected", "amount"),
    [
        ("0.000063 USD", 0.0000631),
        ("0.2 USD", 0.2),
        ("0.99 USD", 0.9949),
        ("0.996 USD", 0.996),
        ("1,235 USD", 1234.6),
        ("not a number USD", nan),
    ],
)
def test_money_has_no_power_of_ten(expected, amount):
    """A race of a second costs a part of a cent."""
    assert expected == usd(amount)
