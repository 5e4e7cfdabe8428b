"""The published random transforms: their ranges, their statistics, and the one map that they make together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from laptime.engine.pipelines.decode import STILL, Turn, draw_turns, matrix_of

DRAWS = 20_000


@pytest.fixture(scope="module")
def turns():
    return draw_turns(np.random.default_rng(0), DRAWS)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("rotation", -20.0, 20.0), ("shear", -0.2, 0.2), ("zoom_x", 0.8, 1.2), ("zoom_y", 0.8, 1.2)],
)
def test_draws_fill_the_published_range_evenly(turns, name, least, most):
    """Mean and spread are those of an even distribution over exactly that range."""
    drawn = np.array([getattr(turn, name) for turn in turns])
    reach = most - least
    assert least <= drawn.min() < least + 0.01 * reach
    assert most - 0.01 * reach < drawn.max() <= most
    assert drawn.mean() == pytest.approx((least + most) / 2, abs=4 * reach / math.sqrt(12 * DRAWS))
    assert drawn.std() == pytest.approx(reach / math.sqrt(12), rel=0.02)


def test_half_of_all_are_flipped_and_nothing_goes_with_anything_else(turns):
    """Each transform is drawn on its own, as Keras's generator draws."""
    columns = np.array([[t.rotation, t.shear, t.zoom_x, t.zoom_y, t.flip] for t in turns], float)
    assert columns[:, 4].mean() == pytest.approx(0.5, abs=0.02)
    assert np.abs(np.corrcoef(columns.T) - np.eye(5)).max() < 0.03


def test_no_transform_is_the_identity():
    assert np.array_equal(np.array(matrix_of(STILL)), np.eye(2))


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        pytest.param(Turn(90.0, 0, 1, 1, flip=False), [[0, 1], [-1, 0]], id="a quarter turn"),
        pytest.param(Turn(0, 0, 0.8, 1.2, flip=False), [[1.2, 0], [0, 0.8]], id="x is the column"),
        pytest.param(Turn(0, 0, 1, 1, flip=True), [[1, 0], [0, -1]], id="flip is left to right"),
        pytest.param(Turn(0, 90.0, 1, 1, flip=False), [[0, 0], [-1, 1]], id="shear moves columns by row"),
    ],
)
def test_each_transform_alone(turn, expected):
    """The map goes from an output's (row, column) to the input's."""
    assert np.array(matrix_of(turn)) == pytest.approx(np.array(expected, float), abs=1e-12)
