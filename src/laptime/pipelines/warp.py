"""One affine map for all transforms of an image; beyond the picture's edge its last pixel is repeated."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from laptime.pipelines.draws import Matrix

Pixels = npt.NDArray[np.uint8]
PIXEL = np.dtype("V3")


def warp_nearest(source: Pixels, matrix: Matrix, out: Pixels) -> None:
    """Fill `out` from a picture of any size, which is taken to be stretched to the size of `out` first.

    Stretching and turning are one map, and each pixel is moved whole: three bytes at once.
    """
    height, width = source.shape[:2]
    rows, columns = out.shape[:2]
    down, across = _from_centre(rows), _from_centre(columns)
    per_row, per_column = height / rows, width / columns
    (a, b), (c, d) = matrix.astype(np.float32)
    # The centre of the picture lies half a pixel from its middle ones; rounding down then gives the nearest.
    y = (a * per_row * down)[:, None] + (b * per_row * across + np.float32(height / 2))[None, :]
    x = (c * per_column * down)[:, None] + (d * per_column * across + np.float32(width / 2))[None, :]
    index = y.astype(np.int32)
    np.clip(index, 0, height - 1, out=index)
    index *= width
    column = x.astype(np.int32)
    np.clip(column, 0, width - 1, out=column)
    index += column
    pixels = np.ascontiguousarray(source).reshape(-1).view(PIXEL)
    pixels.take(index, out=out.reshape(rows, columns * 3).view(PIXEL), mode="clip")


def warp_linear(image: npt.NDArray[np.float32], matrix: Matrix) -> npt.NDArray[np.float32]:
    """Turn a picture onto one of its own size, channel by channel, linearly between pixels, as the authors' did."""
    height, width, channels = image.shape
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    rows -= height / 2 - 0.5
    columns -= width / 2 - 0.5
    y = matrix[0, 0] * rows + matrix[0, 1] * columns + (height / 2 - 0.5)
    x = matrix[1, 0] * rows + matrix[1, 1] * columns + (width / 2 - 0.5)
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


@lru_cache(maxsize=8)
def _from_centre(size: int) -> npt.NDArray[np.float32]:
    return np.arange(size, dtype=np.float32) - np.float32((size - 1) / 2)
