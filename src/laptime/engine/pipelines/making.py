"""Make a batch of our loader: decode no more than is needed, and apply all transforms as one map into the batch."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from laptime.engine.pipelines.decode import (
    TRIES,
    Bad,
    DamagedImageError,
    DamagedImages,
    NearestWarp,
    Pixels,
    decode_small,
    draw_turns,
    import_pillow,
    matrix_of,
)
from laptime.engine.pipelines.job import BatchOrder, Labels, LoaderJob, free_memory_bytes, make_job, rng_of
from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.ask import DataPart, DataSource
from laptime.model.errors import TrainingError
from laptime.model.workload import Workload
from laptime.trainings.data import read_arrays
from laptime.trainings.workloads.data import Items

SpreadWork = Callable[[Callable[[int], Any], Iterable[int]], Iterable[Any]]


class BatchMaker:
    """Makes batches into given arrays. A batch depends on its number only."""

    def __init__(self, job: LoaderJob, held: PictureStore | None = None, spread: SpreadWork = map) -> None:
        self._job = job
        self._held = held
        self._spread = spread
        self._order = BatchOrder(len(job.paths), job.batch, job.seed) if job.shuffled else None
        self._labels = np.array(job.labels, np.int64)
        self._warp = NearestWarp(job.height, job.width)

    def __call__(self, number: int, images: Pixels, labels: Labels) -> list[Bad]:
        """Make batch `number`. Return the files that were skipped."""
        if self._order is not None:
            chosen = self._order(number)
        else:
            chosen = np.arange(number * self._job.batch, (number + 1) * self._job.batch) % len(self._job.paths)
        rng = rng_of(self._job.seed, number)
        turns = draw_turns(rng, len(chosen)) if self._job.turned else []
        bad: list[Bad] = []

        def make_one(place: int) -> None:
            item, pixels = self._sound_one(int(chosen[place]), bad)
            labels[place] = self._labels[item]
            if turns:
                self._warp(pixels, matrix_of(turns[place]), images[place])
            else:
                images[place] = pixels

        for _ in self._spread(make_one, range(len(chosen))):
            pass
        return bad

    def _sound_one(self, item: int, bad: list[Bad]) -> tuple[int, Pixels]:
        """Return this item and its pixels, or the next item that can be read."""
        for further in range(TRIES):
            index = (item + further) % len(self._job.paths)
            try:
                return index, self._pixels(index)
            except DamagedImageError as error:
                bad.append((self._job.paths[index], str(error)))
        raise TrainingError(f"{TRIES} images one after another cannot be used, the first: {' '.join(bad[0])}")

    def _pixels(self, index: int) -> Pixels:
        found = self._held.get(index) if self._held is not None else None
        if found is not None:
            return found
        job = self._job
        pixels = decode_small(job.paths[index], job.height, job.width)
        if not job.turned and pixels.shape[:2] != (job.height, job.width):
            # Resize an image: shrink it by averaging, enlarge it by interpolation
            pillow = import_pillow()
            shrinks = pixels.shape[0] >= job.height and pixels.shape[1] >= job.width
            way = pillow.Resampling.BOX if shrinks else pillow.Resampling.BILINEAR
            pixels = np.asarray(pillow.fromarray(pixels).resize((job.width, job.height), way))
        if self._held is not None:
            self._held.put(index, pixels)
        return pixels


# Memory that a loader's processes share with the training: slots for batches, and decoded images.
#
# It is a file without a name, and disappears when the last process that uses it ends.

LOOKED_AT = 8
MOST_OF_FREE = 0.5
WORD_BYTES = 8
SIZE_BYTES = 2 * WORD_BYTES  # height and width, in front of the pixels
ROW_BYTES = 32  # what an image takes at most, apart from its pixels: a word of the table, its head, padding to a word


class NoRoomError(Exception):
    """The system has no shared memory of that size."""


def make_shared(size: int, *, reserved: bool) -> int:
    """Return a descriptor of shared memory. Reserved memory is allocated or refused now, other memory when written."""
    free = free_memory_bytes()
    if reserved and size > free:  # the system would fill all memory before it refuses
        raise NoRoomError(f"{size / 1e6:,.0f} MB of shared memory are wanted and {free / 1e6:,.0f} MB are free")
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("laptime", os.MFD_CLOEXEC)
        else:
            descriptor, path = tempfile.mkstemp(prefix="laptime-")
            Path(path).unlink()
        try:
            if reserved and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NoRoomError(f"the system gives no {size / 1e6:,.0f} MB of shared memory: {reason}") from error
    return descriptor


def map_shared(descriptor: int) -> memoryview:
    try:
        return memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))
    except (OSError, ValueError) as error:
        raise NoRoomError(f"shared memory cannot be mapped: {error}") from error


def slot_of(memory: memoryview, job: LoaderJob, slot: int) -> tuple[Any, Labels]:
    """Return views of the images and labels in one slot. Images are bytes or floats, by the job's way."""
    begin = slot * job.slot_bytes
    count = job.batch * job.label_width
    labels = np.frombuffer(memory, np.int64, count, begin)
    numbers = job.batch * job.height * job.width * 3
    images = np.frombuffer(memory, job.pixel, numbers, begin + 8 * count)
    return images.reshape(job.batch, job.height, job.width, 3), labels.reshape(job.batch, job.label_width)


class PictureStore:
    """Decoded images in shared memory: each worker writes to its own part, and all read through one table.

    The table has one word per image: its place. A reader needs that word first, and a processor cannot read a place
    before it knows it; so a reader sees an image whole or not at all. At worst, two workers decode the same file.
    """

    def __init__(self, memory: memoryview, items: int, part: int = 0, parts: int = 1) -> None:
        self._places = np.frombuffer(memory, np.int64, items)
        self._words = np.frombuffer(memory, np.int64, len(memory) // WORD_BYTES)
        self._bytes = np.frombuffer(memory, np.uint8)
        room = (len(self._bytes) - items * WORD_BYTES) // parts // WORD_BYTES * WORD_BYTES
        self._next = items * WORD_BYTES + part * room
        self._end = self._next + room
        self._lock = threading.Lock()

    def get(self, index: int) -> Pixels | None:
        place = int(self._places[index])
        if not place:
            return None
        height, width = self._words[place // WORD_BYTES : place // WORD_BYTES + 2].tolist()
        begin = place + SIZE_BYTES
        return self._bytes[begin : begin + height * width * 3].reshape(height, width, 3)

    def put(self, index: int, pixels: Pixels) -> None:
        """Keep an image if there is room."""
        taken = SIZE_BYTES + -(-pixels.size // WORD_BYTES) * WORD_BYTES
        with self._lock:
            place = self._next
            if place + taken > self._end:
                return
            self._next = place + taken
            self._words[place // WORD_BYTES : place // WORD_BYTES + 2] = pixels.shape[:2]
            begin = place + SIZE_BYTES
            self._bytes[begin : begin + pixels.size] = pixels.reshape(-1)
        # Other processors may see writes in another order. Releasing the lock and taking it again prevents that: the
        # image is visible before its place is.
        with self._lock:
            self._places[index] = place


def bytes_to_hold(paths: tuple[str, ...], height: int, width: int, *, shrunk: bool, free: int | None = None) -> int:
    """Return the bytes that all decoded images need, by a look at a few; 0 if that is over half the free memory."""
    looked_at = paths[:: max(1, len(paths) // LOOKED_AT)][:LOOKED_AT]
    sizes: list[int] = []
    for path in looked_at:
        with suppress(DamagedImageError):
            sizes.append(height * width * 3 if shrunk else decode_small(path, height, width).size)
    if not sizes:
        return 0
    needed = len(paths) * (int(1.2 * sum(sizes) / len(sizes)) + ROW_BYTES)
    there = free_memory_bytes() if free is None else free
    return needed if needed <= MOST_OF_FREE * there else 0


# Read decoded items into memory: from an archive's arrays, or from a shuffled choice of files.

ITEMS_AT_ONCE = 64
CHOICE_SEED = 0


def read_items(workload: Workload, source: DataSource, part: DataPart, count: int | None) -> Items:
    """Return the first `count` items of one part, or all, as floats from 0 to 1.

    An archive's items keep their order. Files are sorted by class, so they are shuffled first, always in the same way.
    """
    if source.layout == "archive":
        arrays = read_arrays(source, part)
        return Items(arrays.images[:count].astype(np.float32) / np.float32(255), arrays.labels[:count])
    chunks = list(read_batches(workload, source, part, count, ITEMS_AT_ONCE))
    return Items(np.concatenate([chunk.images for chunk in chunks]), np.concatenate([chunk.labels for chunk in chunks]))


def read_batches(
    workload: Workload, source: DataSource, part: DataPart, count: int | None, batch: int
) -> Iterator[Items]:
    """Yield the same items of files in batches, so that a large test set need not fit in memory."""
    job = make_job(workload, source, part, batch, CHOICE_SEED)
    wanted = min(count or len(job.paths), len(job.paths))
    order = np.random.default_rng(CHOICE_SEED).permutation(len(job.paths)).tolist()
    job = replace(
        job,
        paths=tuple(job.paths[place] for place in order),
        labels=tuple(job.labels[place] for place in order),
        turned=False,
        shuffled=False,
        batch=min(batch, wanted),
    )
    images = np.empty((job.batch, job.height, job.width, 3), np.uint8)
    labels = np.empty((job.batch, job.label_width), np.int64)
    damaged = DamagedImages(len(job.paths))
    with ThreadPoolExecutor(usable_cores(), "decode") as pool:
        make = BatchMaker(job, spread=pool.map)
        for number, begin in enumerate(range(0, wanted, job.batch)):
            for path, reason in make(number, images, labels):
                damaged.add(path, reason)
            taken = min(job.batch, wanted - begin)
            some = labels[:taken].copy()
            floats = np.multiply(images[:taken], np.float32(1 / 255), dtype=np.float32)
            yield Items(floats, some if len(workload.outputs) > 1 else some[:, 0])
