"""Numbers in sentences: at most three digits that count, and never a power of ten."""

from __future__ import annotations

from math import inf

import pytest

from laptime.model.quantities import brief, cores, number, plain, step, taken
from laptime.remedies.cached import write_memory


@pytest.mark.parametrize(
    ("value", "plain", "short"),
    [
        (3.0, "3.00", "3"),
        (0.25, "0.250", "0.25"),
        (99.96, "100", "100"),
        (999.6, "1,000", "1,000"),
        (1000.0, "1,000", "1,000"),
        (41_130.4, "41,130", "41,130"),
        (inf, "not a number", "not a number"),
    ],
)
def test_a_number_is_written_as_people_read_it(value, plain, short):
    assert (number(value), brief(value)) == (plain, short)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.000063, "0.000063"), (0.4637, "0.4637"), (150.0, "150"), (1500, "1,500"), (2e7, "20,000,000"), (0.0, "0")],
)
def test_a_price_has_all_of_its_digits_and_no_power(value, written):
    assert plain(value) == written
    assert plain(inf) == "not a number"


def test_large_times_counts_and_sizes_have_no_powers():
    """A step of a second is not 1e+03 ms."""
    assert (step(999.96), taken(999.96), taken(1234.5), taken(0.9996)) == ("1.00 s", "1 s", "1.23 s", "1 ms")
    assert (cores(128.0), cores(1.0), cores(0.004)) == ("128 cores", "1 core", "0 cores")
    assert write_memory(999_999) == "1,000 KB"
