"""Order statistics: known values, another implementation, and what no outlier may do."""

from __future__ import annotations

import random
import statistics
import time
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import mad, median, quantile

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
samples = st.lists(finite, min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("expected", "values"),
    [(7.0, [7.0]), (2.0, [3.0, 1.0, 2.0]), (2.5, [4.0, 1.0, 3.0, 2.0]), (2.0, [1.0, 2.0, 1e300])],
)
def test_median_is_the_middle_or_half_way_between_two(expected, values):
    """An even count has no middle value, and an outlier pulls nothing."""
    assert expected == median(values)


@pytest.mark.parametrize(
    ("expected", "q"), [(10.0, 0.0), (15.0, 0.125), (20.0, 0.25), (30.0, 0.5), (58.0, 0.95), (60.0, 1.0)]
)
def test_quantile_lies_on_the_line_between_neighbours(expected, q):
    """A 95th percentile of few values must not jump from one to the next."""
    assert pytest.approx(expected) == quantile([60.0, 10.0, 50.0, 20.0, 30.0], q)


@pytest.mark.parametrize(("expected", "values"), [(0.0, [4.0]), (1.0, [1, 2, 3, 4, 5]), (1.0, [1, 2, 3, 4, 999])])
def test_mad_does_not_see_an_outlier(expected, values):
    """The last value may be anything without the spread growing."""
    assert expected == mad(values)


@given(samples)
def test_median_agrees_with_the_standard_library(values):
    """Another implementation finds the same middle."""
    assert pytest.approx(statistics.median(values), rel=1e-12, abs=1e-300) == median(values)


@given(st.lists(finite, min_size=2, max_size=60))
def test_quantiles_agree_with_the_standard_library(values):
    """Another implementation draws the same lines between neighbours."""
    expected = statistics.quantiles(values, n=20, method="inclusive")
    scale = max(map(abs, values))
    assert pytest.approx(expected, abs=1e-12 * scale) == [quantile(values, step / 20) for step in range(1, 20)]


@given(samples, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_and_stay_inside_the_sample(values, one, other):
    """Rounding must not push a quantile past the values it is between."""
    low, high = sorted((one, other))
    assert min(values) <= quantile(values, low) <= quantile(values, high) <= max(values)


@given(samples)
def test_mad_agrees_with_its_definition(values):
    """The short cut over two sorted runs gives what the definition gives."""
    centre = statistics.median(values)
    expected = statistics.median([abs(value - centre) for value in values])
    assert pytest.approx(expected, rel=1e-9, abs=1e-9 * max(map(abs, values))) == mad(values)


@given(samples, st.randoms())
def test_order_does_not_matter_and_the_sample_is_left_alone(values, shuffler):
    """A sample is a set of values; its owner keeps it as it was."""
    mixed = values[:]
    shuffler.shuffle(mixed)
    before = mixed[:]
    assert (median(values), mad(values)) == (median(mixed), mad(mixed))
    assert before == mixed


@pytest.mark.parametrize("statistic", [median, mad, lambda values: quantile(values, 0.9)])
@pytest.mark.parametrize("values", [[], [1.0, nan], [inf], [1.0, -inf, 2.0]])
def test_what_has_no_order_is_refused(statistic, values):
    """A NaN sorts anywhere, so a result would depend on where it stood."""
    with pytest.raises(ValueError, match="sample"):
        statistic(values)


@pytest.mark.parametrize("q", [-0.1, 1.1, nan])
def test_a_quantile_outside_the_sample_is_refused(q):
    """A quantile of 95 instead of 0.95 is a slip, not a request."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile([1.0, 2.0], q)


@pytest.mark.long
@pytest.mark.parametrize("statistic", [median, mad])
def test_a_million_steps_cost_little_more_than_sorting_them(statistic):
    """A training run may have a million steps. bench/stats.py measures the seconds."""
    generator = random.Random(1)
    values = [generator.random() for _ in range(1_000_000)]

    def took_s(work):
        begin = time.process_time()
        work(values)
        return time.process_time() - begin

    assert min(took_s(statistic) for _ in range(3)) < 4 * min(took_s(sorted) for _ in range(3))
