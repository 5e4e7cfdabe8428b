"""bench/made_data_keras.py counts denormal numbers by their bits, whatever the processor does with them."""

from __future__ import annotations

import numpy as np
import pytest

from made_data_keras import shares_of

DENORMAL, TINY, OTHERS = [1e-38, -1e-39], [1.2e-38, -1e-31], [0.0, -0.0, 1e-29, -1.0]


@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_a_census_counts_denormal_and_tiny_numbers(shape):
    planted = np.array(DENORMAL + TINY + OTHERS, np.float32).reshape(shape)
    assert shares_of(planted) == (2 / 8, 4 / 8)
    assert shares_of(planted.T) == (2 / 8, 4 / 8)


def test_a_census_of_plain_numbers_finds_none():
    assert shares_of(np.array(OTHERS, np.float32)) == (0.0, 0.0)
