"""One affine map for all transforms of an image; beyond the picture's edge its last pixel is repeated."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from laptime.pipelines.draws import Matrix

Pixels = npt.NDArray[np.uint8]
PIXEL = np.dtype("V3")
BITS = 16
ONE = 1 << BITS


class NearestWarp(threading.local):
    """Maps pictures of any size onto one size; each thread has scratch memory of its own.

    A picture is taken to be stretched to the wanted size first; stretching and turning are one map, in whole numbers
    of a 65,536th of a pixel, and each pixel is moved whole: three bytes at once.
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self._down = np.arange(rows) - (rows - 1) / 2
        self._across = np.arange(columns) - (columns - 1) / 2
        self._y = np.empty((rows, columns), np.int32)
        self._x = np.empty((rows, columns), np.int32)
        self._index = np.empty((rows, columns), np.int64)

    def __call__(self, source: Pixels, matrix: Matrix, out: Pixels) -> None:
        height, width = source.shape[:2]
        rows, columns = self._index.shape
        (a, b), (c, d) = matrix
        self._place(self._y, (a * height / rows, b * height / columns), height)
        self._place(self._x, (c * width / rows, d * width / columns), width)
        np.multiply(self._y, width, out=self._y)
        np.add(self._y, self._x, out=self._index)
        pixels = np.ascontiguousarray(source).reshape(-1).view(PIXEL)
        pixels.take(self._index, out=out.reshape(rows, columns * 3).view(PIXEL), mode="clip")

    def _place(self, place: npt.NDArray[np.int32], along: tuple[float, float], size: int) -> None:
        """Give each output pixel's place on one axis of the source; beyond the edge it is the edge."""
        by_row = (along[0] * ONE * self._down).astype(np.int32)
        # The centre of the picture lies half a pixel from its middle ones; rounding down then gives the nearest.
        by_column = (along[1] * ONE * self._across + ONE * size / 2).astype(np.int32)
        np.add(by_row[:, None], by_column[None, :], out=place)
        np.right_shift(place, BITS, out=place)
        place.clip(0, size - 1, out=place)


def warp_linear(image: npt.NDArray[np.float32], matrix: Matrix) -> npt.NDArray[np.float32]:
    """Turn a picture onto one of its own size, channel by channel, linearly between pixels, as the authors' did."""
    height, width, channels = image.shape
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    rows -= height / 2 - 0.5
    columns -= width / 2 - 0.5
    (a, b), (c, d) = matrix
    y = a * rows + b * columns + (height / 2 - 0.5)
    x = c * rows + d * columns + (width / 2 - 0.5)
    above, left = np.floor(y), np.floor(x)
    share_down, share_right = y - above, x - left
    top, bottom = (np.clip(each, 0, height - 1).astype(np.intp) for each in (above, above + 1))
    near, far = (np.clip(each, 0, width - 1).astype(np.intp) for each in (left, left + 1))
    turned = np.empty_like(image)
    for channel in range(channels):
        plane = image[:, :, channel]
        upper = plane[top, near] * (1 - share_right) + plane[top, far] * share_right
        lower = plane[bottom, near] * (1 - share_right) + plane[bottom, far] * share_right
        turned[:, :, channel] = upper * (1 - share_down) + lower * share_down
    return turned
