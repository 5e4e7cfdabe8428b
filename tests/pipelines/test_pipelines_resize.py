"""The authors' resize of plates: blurred, then linear, mirrored at the edge; to check by, figures of scikit-image."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.engine.pipelines.decode import resize_smoothly

RAMP = np.arange(40.0).reshape(5, 8, 1) / 40
# skimage.transform.resize(RAMP, (2, 3)) and (3, 4), version 0.26.0
EXPECTED = {
    (2, 3): [
        [0.20404744321692, 0.26712505878288, 0.33020267434883],
        [0.64479732565117, 0.70787494121712, 0.77095255678308],
    ],
    (3, 4): [
        [0.08474573693382, 0.13206467775327, 0.18206467775327, 0.22938361857273],
        [0.41518105918055, 0.4625, 0.5125, 0.55981894081946],
        [0.74561638142727, 0.79293532224673, 0.84293532224673, 0.89025426306618],
    ],
}


@pytest.mark.parametrize("size", EXPECTED)
def test_it_is_scikit_images(size):
    assert resize_smoothly(RAMP, *size)[:, :, 0] == pytest.approx(np.array(EXPECTED[size]), abs=1e-12)


def test_an_image_of_that_size_stays_as_it_is():
    assert resize_smoothly(RAMP, 5, 8) == pytest.approx(RAMP, abs=1e-15)


def test_one_color_stays_that_color():
    """The weights of the blur add up to one, at the edges too."""
    assert resize_smoothly(np.full((60, 130, 3), 0.3), 64, 32) == pytest.approx(np.full((64, 32, 3), 0.3), abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 9, 3), (9, 1, 3), (1, 1, 3)])
def test_a_line_is_no_error(shape):
    assert resize_smoothly(np.ones(shape), 4, 4).shape == (4, 4, 3)
