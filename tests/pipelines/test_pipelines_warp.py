"""One map in place of four: against the plain linear one, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import smooth

from laptime.engine.pipelines.decode import STILL, NearestWarp, Turn, draw_turns, matrix_of, warp_linear


def nearest(source, turn, size):
    out = np.empty((*size, 3), np.uint8)
    NearestWarp(*size)(source, matrix_of(turn), out)
    return out


def test_a_picture_of_the_right_size_stays_as_it_is():
    picture = smooth(0)
    assert np.array_equal(nearest(picture, STILL, picture.shape[:2]), picture)
    assert np.array_equal(warp_linear(picture.astype(np.float32), matrix_of(STILL)), picture.astype(np.float32))


def test_a_flip_is_exact():
    picture = smooth(1)
    flip = Turn(0, 0, 1, 1, flip=True)
    assert np.array_equal(nearest(picture, flip, picture.shape[:2]), picture[:, ::-1])
    assert np.array_equal(warp_linear(picture.astype(np.float32), matrix_of(flip)), picture[:, ::-1])


def test_a_larger_picture_is_taken_at_the_middle_of_what_each_pixel_covers():
    """Three by three pixels become one: the one in their middle."""
    picture = smooth(2, 60, 90)
    assert np.array_equal(nearest(picture, STILL, (20, 30)), picture[1::3, 1::3])


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_map_is_the_linear_one_to_half_a_pixel(seed):
    """On a smooth picture they differ by little; a wrong sign or a swapped axis would show at once."""
    picture = smooth(seed, 150, 150)
    (turn,) = draw_turns(np.random.default_rng(seed), 1)
    linear = warp_linear(picture.astype(np.float32), matrix_of(turn))
    off = np.abs(nearest(picture, turn, (150, 150)) - linear)
    wrong = np.abs(nearest(picture, Turn(-turn.rotation, 0, 1, 1, flip=turn.flip), (150, 150)) - linear)
    assert off.mean() < 1.0
    assert wrong.mean() > 4 * off.mean()


def test_beyond_the_edge_the_last_pixel_is_repeated():
    """As the authors' generator filled it: zoomed out, the border is drawn on."""
    picture = np.zeros((10, 10, 3), np.uint8)
    picture[0] = 200
    out = Turn(0, 0, 2.0, 2.0, flip=False)
    assert (nearest(picture, out, (10, 10))[:3] == 200).all()
    assert (warp_linear(picture.astype(np.float32), matrix_of(out))[:2] == 200).all()


def test_a_picture_that_lies_scattered_in_memory_is_taken_as_well():
    """A slice or a mirrored view is brought together first."""
    picture = smooth(3)[:, ::-1]
    assert np.array_equal(nearest(picture, STILL, picture.shape[:2]), picture)
