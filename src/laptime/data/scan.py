"""What a folder of images holds: files, labels, and which part each belongs to where the folder says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """All items of a folder in a fixed order; `in_test` is absent where the folder has no `train` and `test`.

    `strata` says for each item which group a split keeps in proportion: its class, or 0 where there are no classes.
    """

    folder: Path
    sizes: Mapping[str, int]
    names: tuple[str, ...]
    labels: Labels
    strata: Labels
    classes: tuple[str, ...]
    in_test: Mask | None
    notes: tuple[str, ...] = ()


def find_parts(folder: Path) -> bool:
    """Say whether the folder is divided into `train` and `test`."""
    return (folder / "train").is_dir() and (folder / "test").is_dir()
