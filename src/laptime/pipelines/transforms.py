"""Turn and resize images: the random transforms of scenes-cnn as one affine map, and scikit-image's resize, which
plates-cnn uses.

Keras's ImageDataGenerator drew for each image: a rotation within 20 degrees, a shear within 0.2 (degrees, in that
class), a zoom of each axis from 0.8 to 1.2, and a horizontal flip half of the time. Beyond the edge, the last pixel is
repeated. The authors of plates-cnn wrote `resize(imread(file), (64, 128))`, as Keras's documentation of Sequence does:
a Gaussian blur with a sigma of (shrink factor - 1) / 2, then linear interpolation, both mirrored at the edge.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ROTATION_DEGREES = 20.0
SHEAR_DEGREES = 0.2
ZOOM_LEAST, ZOOM_MOST = 0.8, 1.2
RANGES = (
    (-ROTATION_DEGREES, ROTATION_DEGREES),
    (-SHEAR_DEGREES, SHEAR_DEGREES),
    (ZOOM_LEAST, ZOOM_MOST),
    (ZOOM_LEAST, ZOOM_MOST),
    (0.0, 1.0),
)
Matrix = tuple[tuple[float, float], tuple[float, float]]
Pixels = npt.NDArray[np.uint8]
PIXEL = np.dtype("V3")
BITS = 16
ONE = 1 << BITS
Doubles = npt.NDArray[np.float64]
CUT_AT = 4.0  # standard deviations


@dataclass(frozen=True, slots=True)
class Turn:
    """What was drawn for one image; angles in degrees."""

    rotation: float
    shear: float
    zoom_x: float
    zoom_y: float
    flip: bool


STILL = Turn(0.0, 0.0, 1.0, 1.0, flip=False)


def draw_turns(rng: np.random.Generator, count: int) -> list[Turn]:
    """Draw the transforms of `count` images from the published ranges."""
    least, most = np.array(RANGES).T
    drawn = least + (most - least) * rng.random((count, len(RANGES)))
    return [Turn(angle, lean, x, y, flip=side < 0.5) for angle, lean, x, y, side in drawn.tolist()]


def matrix_of(turn: Turn) -> Matrix:
    """Return the map from an output's (row, column), counted from the centre, to the input's: turn, shear, zoom, flip.

    Keras writes its matrices for (x, y) and swaps the axes before use; so does this function. In Keras the flip comes
    last; from output to input it comes first.
    """
    angle, lean = math.radians(turn.rotation), math.radians(turn.shear)
    x_by_x, x_by_y = math.cos(angle), -math.sin(angle + lean)  # rotation times shear, multiplied out
    y_by_x, y_by_y = math.sin(angle), math.cos(angle + lean)
    side = -1.0 if turn.flip else 1.0
    return (
        (y_by_y * turn.zoom_y, y_by_x * turn.zoom_x * side),
        (x_by_y * turn.zoom_y, x_by_x * turn.zoom_x * side),
    )


class NearestWarp(threading.local):
    """Maps images of any size to one size. Each thread has its own scratch memory.

    An image is first stretched to the wanted size. Stretching and turning are one map, computed in integers of 1/65,536
    of a pixel. Each pixel is moved as a whole: three bytes at once.
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
        """Write each output pixel's place on one axis of the source to `place`, clipped at the edges."""
        by_row = (along[0] * ONE * self._down).astype(np.int32)
        # The centre of an image is half a pixel from its middle pixels, so rounding down finds the nearest pixel.
        by_column = (along[1] * ONE * self._across + ONE * size / 2).astype(np.int32)
        np.add(by_row[:, None], by_column[None, :], out=place)
        np.right_shift(place, BITS, out=place)
        place.clip(0, size - 1, out=place)


def warp_linear(image: npt.NDArray[np.float32], matrix: Matrix) -> npt.NDArray[np.float32]:
    """Turn an image within its own size, channel by channel, with linear interpolation, as the authors' loader did."""
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


def resize_smoothly(image: Doubles, height: int, width: int) -> Doubles:
    """Resize an image of (row, column, channel), as scikit-image does."""
    for axis, size in enumerate((height, width)):
        image = _stretch(_blur(image, axis, max(0.0, (image.shape[axis] / size - 1) / 2)), axis, size)
    return image


def _blur(image: Doubles, axis: int, sigma: float) -> Doubles:
    reach = int(CUT_AT * sigma + 0.5)
    if sigma == 0 or reach == 0:
        return image
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weights /= weights.sum()
    size = image.shape[axis]
    wide = image.take(_mirrored(np.arange(-reach, size + reach), size), axis)
    parts = [wide[step : step + size] if axis == 0 else wide[:, step : step + size] for step in range(2 * reach + 1)]
    blurred: Doubles = parts[reach] * weights[reach]
    both = np.empty_like(blurred)
    for step in range(reach):  # the weights are the same on both sides
        np.add(parts[step], parts[-1 - step], out=both)
        both *= weights[step]
        blurred += both
    return blurred


def _stretch(image: Doubles, axis: int, size: int) -> Doubles:
    there = image.shape[axis]
    places = (np.arange(size) + 0.5) * (there / size) - 0.5
    below = np.floor(places).astype(np.int64)
    share = (places - below).reshape([-1 if each == axis else 1 for each in range(image.ndim)])
    lower, upper = image.take(_mirrored(below, there), axis), image.take(_mirrored(below + 1, there), axis)
    stretched: Doubles = lower * (1 - share) + upper * share
    return stretched


def _mirrored(places: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Mirror places beyond an edge; the edge itself is not repeated."""
    if size == 1:
        return np.zeros_like(places)
    around = 2 * (size - 1)
    folded = np.abs(places) % around
    near: npt.NDArray[np.int64] = np.minimum(folded, around - folded)
    return near
