"""Memory that a loader's processes share with the training: slots for batches, and decoded images.

It is a file without a name, and disappears when the last process that uses it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from laptime.pipelines.decode import DamagedImageError, decode_small
from laptime.pipelines.job import Labels, LoaderJob, free_memory_bytes
from laptime.pipelines.transforms import Pixels

LOOKED_AT = 8
MOST_OF_FREE = 0.5
WORD = 8
HEAD_BYTES = 2 * WORD  # height and width, in front of the pixels
ROW_BYTES = 32  # what an image takes at most, apart from its pixels: a word of the table, its head, padding to a word


class NoRoomError(Exception):
    """The system has no shared memory of that size."""


def make_shared(size: int, *, reserved: bool) -> int:
    """Return a descriptor of shared memory. Reserved memory is allocated or refused now, other memory when written."""
    free = free_memory_bytes()
    if reserved and size > free:  # the system would fill all memory before it refuses
        raise NoRoomError(f"{size / 1e6:,.0f} MB of shared memory are wanted and {free / 1e6:,.0f} MB are free")
    try:
        descriptor = _nameless()
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


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("laptime", os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix="laptime-")
    Path(path).unlink()
    return descriptor


class PictureStore:
    """Decoded images in shared memory: each worker writes to its own part, and all read through one table.

    The table has one word per image: its place. A reader needs that word first, and a processor cannot read a place
    before it knows it; so a reader sees an image whole or not at all. At worst, two workers decode the same file.
    """

    def __init__(self, memory: memoryview, items: int, part: int = 0, parts: int = 1) -> None:
        self._places = np.frombuffer(memory, np.int64, items)
        self._words = np.frombuffer(memory, np.int64, len(memory) // WORD)
        self._bytes = np.frombuffer(memory, np.uint8)
        room = (len(self._bytes) - items * WORD) // parts // WORD * WORD
        self._next = items * WORD + part * room
        self._end = self._next + room
        self._lock = threading.Lock()

    def get(self, index: int) -> Pixels | None:
        place = int(self._places[index])
        if not place:
            return None
        height, width = self._words[place // WORD : place // WORD + 2].tolist()
        begin = place + HEAD_BYTES
        return self._bytes[begin : begin + height * width * 3].reshape(height, width, 3)

    def put(self, index: int, pixels: Pixels) -> None:
        """Keep an image if there is room."""
        taken = HEAD_BYTES + -(-pixels.size // WORD) * WORD
        with self._lock:
            place = self._next
            if place + taken > self._end:
                return
            self._next = place + taken
            self._words[place // WORD : place // WORD + 2] = pixels.shape[:2]
            begin = place + HEAD_BYTES
            self._bytes[begin : begin + pixels.size] = pixels.reshape(-1)
        # Other processors may see writes in another order. Releasing the lock and taking it again prevents that: the
        # image is visible before its place is.
        with self._lock:
            self._places[index] = place


def bytes_to_hold(paths: tuple[str, ...], height: int, width: int, *, shrunk: bool, free: int | None = None) -> int:
    """Return the bytes that all decoded images need, by a look at a few; 0 if that is over half the free memory."""
    looked_at = paths[:: max(1, len(paths) // LOOKED_AT)][:LOOKED_AT]
    sizes = [height * width * 3 if shrunk else _decoded_bytes(path, height, width) for path in looked_at]
    known = [size for size in sizes if size]
    if not known:
        return 0
    needed = len(paths) * (int(1.2 * sum(known) / len(known)) + ROW_BYTES)
    there = free_memory_bytes() if free is None else free
    return needed if needed <= MOST_OF_FREE * there else 0


def _decoded_bytes(path: str, height: int, width: int) -> int:
    try:
        return decode_small(path, height, width).size
    except DamagedImageError:
        return 0
