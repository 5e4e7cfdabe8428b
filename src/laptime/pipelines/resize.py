"""The resize that the authors of plates-cnn called, as scikit-image does it: in double precision, blurred to shrink.

They read and resized as the example in Keras's own documentation of Sequence does: `resize(imread(file), (64, 128))`.
That is a Gaussian blur of half the shrinking less one, then linear interpolation, both mirrored at the edge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
CUT_AT = 4.0  # standard deviations


def resize_smoothly(image: Doubles, height: int, width: int) -> Doubles:
    """Bring (row, column, channel) to a size."""
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
    """Fold places beyond an edge back, the edge itself not repeated."""
    if size == 1:
        return np.zeros_like(places)
    around = 2 * (size - 1)
    folded = np.abs(places) % around
    near: npt.NDArray[np.int64] = np.minimum(folded, around - folded)
    return near
