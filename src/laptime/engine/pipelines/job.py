"""The job of a loader's workers: which files, in which order, at what size, turned or not, and how they are read.

Also how many workers and how much memory this process may use, including a container's limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import psutil

from laptime.machine.sensors.cgroup import memory_left_bytes, usable_cores
from laptime.model.ask import DataPart, DataSource
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.workload import Workload
from laptime.trainings.data import list_items

Labels = npt.NDArray[np.int64]
Way = Literal["ours", "plain", "smoothed"]
"""Ours decodes no more than is needed and returns bytes. The authors' two decode whole images and return floats."""
Indices = npt.NDArray[np.int64]
LOADER_MOST_WORKERS = 16


@dataclass(frozen=True, slots=True)
class LoaderJob:
    """Batches of one part of a workload's files. A label is one class number, or one per character."""

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
        """Return the bytes that one batch takes. Labels come first, so that both begin on whole words."""
        return -(-self.batch * (8 * self.label_width + self.image_bytes) // 64) * 64


def make_job(workload: Workload, source: DataSource, part: DataPart, batch: int, seed: int) -> LoaderJob:
    """Return the job for one part of the files: shuffled and turned for training, in order and unturned for a test."""
    listing = list_items(source, part)
    height, width, _ = workload.image_shape
    training = part == "train"
    return LoaderJob(
        paths=listing.paths,
        labels=tuple(map(tuple, listing.labels.reshape(len(listing.paths), -1).tolist())),
        height=height,
        width=width,
        batch=batch,
        seed=seed,
        turned=training and workload.turned,
        shuffled=training,
    )


class BatchOrder:
    """Chooses the items of batch number N of an endless training. A lap leaves out what does not fill a batch."""

    def __init__(self, items: int, batch: int, seed: int) -> None:
        self._items = items
        self._batch = min(batch, items)
        self._seed = seed
        self._repeats = -(-batch // self._batch)
        self._wanted = batch
        self._shuffled = (-1, np.empty(0, np.int64))  # a lap, and the order of its items

    def __call__(self, number: int) -> Indices:
        lap, place = divmod(number, self._items // self._batch)
        of_lap, order = self._shuffled
        if of_lap != lap:
            order = np.random.default_rng([self._seed, 0x0DE2, lap]).permutation(self._items)
            self._shuffled = (lap, order)  # at once: several threads ask
        chosen = order[place * self._batch : (place + 1) * self._batch]
        return np.tile(chosen, self._repeats)[: self._wanted] if self._repeats > 1 else chosen


def rng_of(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of one batch. It is the same in every process and in any order."""
    return np.random.default_rng([seed, 0x7042, number])


def workers_for(settings: Settings, device_kind: str) -> int:
    """Return how many worker processes read. On a processor none, because a step uses all of its cores."""
    if settings.workers is not None:
        return settings.workers
    return 0 if device_kind == "cpu" else max(1, min(usable_cores() - 1, LOADER_MOST_WORKERS))


def free_memory_bytes() -> int:
    """Return how many bytes may still be used, including a container's limit."""
    free = int(psutil.virtual_memory().available)
    left = memory_left_bytes()
    return free if isinstance(left, Missing) else min(free, left)
