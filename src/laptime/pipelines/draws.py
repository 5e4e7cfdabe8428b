"""The random transforms that scenes-cnn was published with, and the affine map that all four of them make.

Keras's ImageDataGenerator drew for each image: rotation within 20 degrees, shear within 0.2 (degrees, in that class),
a zoom of each axis from 0.8 to 1.2, and a horizontal flip half of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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
    """Draw some images' transforms from the published ranges."""
    least, most = np.array(RANGES).T
    drawn = least + (most - least) * rng.random((count, len(RANGES)))
    return [Turn(angle, lean, x, y, flip=side < 0.5) for angle, lean, x, y, side in drawn.tolist()]


def matrix_of(turn: Turn) -> Matrix:
    """Give the map from an output's (row, column), counted from the centre, to the input's: turn, shear, zoom, flip.

    Keras writes its matrices for (x, y) and exchanges both axes before use; so does this. The flip comes last there,
    which here, going from output to input, is first.
    """
    angle, lean = math.radians(turn.rotation), math.radians(turn.shear)
    x_by_x, x_by_y = math.cos(angle), -math.sin(angle + lean)  # rotation times shear, multiplied out
    y_by_x, y_by_y = math.sin(angle), math.cos(angle + lean)
    side = -1.0 if turn.flip else 1.0
    return (
        (y_by_y * turn.zoom_y, y_by_x * turn.zoom_x * side),
        (x_by_y * turn.zoom_y, x_by_x * turn.zoom_x * side),
    )
