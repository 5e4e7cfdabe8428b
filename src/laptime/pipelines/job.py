"""What a loader is to make, as its workers are told: which files, how large, turned or not, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from laptime.data import list_items
from laptime.model.dataset import DataSource, Part
from laptime.model.workload import Workload

Labels = npt.NDArray[np.int64]
Way = Literal["ours", "plain", "smoothed"]
"""Ours decodes no more than is needed and gives bytes; the authors' two decode all of a picture and give floats."""


@dataclass(frozen=True, slots=True)
class Job:
    """Batches of one part of a workload's files. Labels are a class number each, or one a character."""

    paths: tuple[str, ...]
    labels: tuple[tuple[int, ...], ...]
    height: int
    width: int
    batch: int
    seed: int
    turned: bool
    shuffled: bool = True
    slots: int = 1
    worker: int = 0
    workers: int = 1
    held_bytes: int = 0
    way: Way = "ours"

    @property
    def pixel(self) -> type[np.uint8 | np.float32]:
        return np.uint8 if self.way == "ours" else np.float32

    @property
    def image_bytes(self) -> int:
        return self.height * self.width * 3 * np.dtype(self.pixel).itemsize

    @property
    def label_width(self) -> int:
        return len(self.labels[0])

    @property
    def slot_bytes(self) -> int:
        """Give the room that one batch takes, labels first, so that both begin on whole words."""
        return -(-self.batch * (8 * self.label_width + self.image_bytes) // 64) * 64


def make_job(workload: Workload, source: DataSource, part: Part, batch: int, seed: int) -> Job:
    """Say what is to be made of one part of the files: turned and shuffled for training, as they are for a test."""
    listing = list_items(source, part)
    height, width, _ = workload.image_shape
    training = part == "train"
    return Job(
        paths=listing.paths,
        labels=tuple(map(tuple, listing.labels.reshape(len(listing.paths), -1).tolist())),
        height=height,
        width=width,
        batch=batch,
        seed=seed,
        turned=training and workload.turned,
        shuffled=training,
    )
