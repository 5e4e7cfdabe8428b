"""The memory at a batch that did not run, from the memory at others."""

from __future__ import annotations

import pytest

from laptime.analysis.heats import estimate_memory, find_largest_batch
from laptime.model.quantities import Missing

UNKNOWN = Missing("not known")


def shapes(batch):
    """What a network holds: 50 bytes in any case, and 2 for each item from 100 items on."""
    return 50 + 2 * max(0, batch - 100)


def test_shapes_say_how_much_more_than_the_nearest_batch_that_ran():
    """The framework's own part is in the peak; where another part of a heat holds more, nothing grows."""
    peaks = {10: 1_000, 200: 1_250}
    assert estimate_memory(400, peaks, shapes) == 1_250 + 400
    assert estimate_memory(50, peaks, shapes) == 1_000
    assert isinstance(estimate_memory(50, {}, shapes), Missing)


def test_without_shapes_it_is_the_line_through_the_two_largest_batches():
    assert estimate_memory(32, {4: 900, 8: 1_000, 16: 1_400}, UNKNOWN) == 1_400 + 50 * 16


@pytest.mark.parametrize("peaks", [{}, {8: 1_000}, {8: 1_000, 16: 1_190}])
def test_peaks_that_hardly_grow_say_nothing(peaks):
    """A small difference is chance, and a line through it would be wrong far away."""
    assert isinstance(estimate_memory(1_024, peaks, UNKNOWN), Missing)


def test_the_largest_batch_that_fits_is_the_last_whose_estimate_does():
    assert find_largest_batch(1_250, lambda batch: estimate_memory(batch, {200: 1_250}, shapes)) == 200
    assert find_largest_batch(40, shapes) is None
    assert find_largest_batch(1_000, lambda _batch: UNKNOWN) is None
