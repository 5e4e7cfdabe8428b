"""What a part of a source is handed over as; annotated with numpy, which this file does not open.

numpy takes 80 ms to import, which `laptime list` should not have to wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Paths of all images of one part in a fixed order, and their labels: (item,), or (item, slot) for plates."""

    paths: tuple[str, ...]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Decoded images, (item, height, width, channel), and their class numbers."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
