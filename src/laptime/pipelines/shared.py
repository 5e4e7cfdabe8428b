"""Memory that a loader's processes share with the training: a file without a name, gone with its last user."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from laptime.pipelines.job import Job, Labels
from laptime.pipelines.room import free_memory_bytes


class NoRoomError(Exception):
    """The system gives no shared memory of that size."""


def make_shared(size: int, *, reserved: bool) -> int:
    """Give a descriptor of so much memory. Reserved, it is there or refused now; if not, it comes as it is written."""
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


def slot_of(memory: memoryview, job: Job, slot: int) -> tuple[Any, Labels]:
    """Give the images, bytes or floats by the job's way, and the labels of one slot, in place."""
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
