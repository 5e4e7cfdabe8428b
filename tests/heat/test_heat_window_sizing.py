"""Single steps tell whether a loader delivers several batches at once."""

from __future__ import annotations

import pytest

from laptime.engine.heat.loop import come_in_bursts


@pytest.mark.parametrize(
    ("strides", "bursts"),
    [
        ([900, 1, 1, 1, 1, 1], True),
        ([1, 1, 1, 900], True),
        ([100, 0, 100, 0], True),
        ([100, 0, 100], True),
        ([100, 60, 100, 60], False),
        ([5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], False),
        ([10, 11, 9], False),
        ([10], False),
        ([], False),
    ],
)
def test_bursts_are_told_from_steps_that_are_late_once(strides, bursts):
    assert come_in_bursts(strides) is bursts
