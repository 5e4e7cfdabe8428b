"""The random transforms that scenes-cnn was published with, and the affine map that all four of them make.

Keras's ImageDataGenerator drew for each image: rotation within 20 degrees, shear within 0.2 (degrees, in that class),
a zoom of each axis from 0.8 to 1.2, and a horizontal flip half of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ROTATION_DEGREES = 20.0
SHEAR_DEGREES = 0.2
ZOOM_LEAST, ZOOM_MOST = 0.8, 1.2
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Turn:
    """What was drawn for one image; angles in degrees."""

    rotation: float
    shear: float
    zoom_x: float
    zoom_y: float
    flip: bool


STILL = Turn(0.0, 0.0, 1.0, 1.0, flip=False)


def draw_turn(rng: np.random.Generator) -> Turn:
    """Draw one image's transforms from the published ranges."""
    return Turn(
        rng.uniform(-ROTATION_DEGREES, ROTATION_DEGREES),
        rng.uniform(-SHEAR_DEGREES, SHEAR_DEGREES),
        rng.uniform(ZOOM_LEAST, ZOOM_MOST),
        rng.uniform(ZOOM_LEAST, ZOOM_MOST),
        flip=bool(rng.random() < 0.5),
    )


def matrix_of(turn: Turn) -> Matrix:
    """Give the map from an output's (row, column), counted from the centre, to the input's: turn, shear, zoom, flip.

    Keras writes its matrices for (x, y) and exchanges both axes before use; so does this. The flip comes last there,
    which here, going from output to input, is first.
    """
    angle, lean = math.radians(turn.rotation), math.radians(turn.shear)
    rotate = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    shear = np.array([[1.0, -math.sin(lean)], [0.0, math.cos(lean)]])
    combined: Matrix = rotate @ shear @ np.diag([turn.zoom_x, turn.zoom_y])
    by_row = combined[::-1, ::-1].copy()
    if turn.flip:
        by_row[:, 1] *= -1
    return by_row
