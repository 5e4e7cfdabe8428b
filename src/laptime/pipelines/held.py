"""Decoded pictures kept in memory that all workers share, so that a file is decoded once."""

from __future__ import annotations

import threading

import numpy as np

from laptime.pipelines.decode import SpoiltImageError, decode_small
from laptime.pipelines.room import free_memory_bytes
from laptime.pipelines.warp import Pixels

LOOKED_AT = 8
MOST_OF_FREE = 0.5
ROW_BYTES = 32  # height, width, where it begins plus one, and one spare: four numbers a picture


class Held:
    """A part of shared memory for each worker to write into, and a table for all to read from.

    A picture's place is written after the picture itself, so a reader sees it whole or not at all; the worst that
    two workers can do is decode one file twice.
    """

    def __init__(self, memory: memoryview, items: int, part: int = 0, parts: int = 1) -> None:
        self._table = np.frombuffer(memory, np.int64, 4 * items).reshape(items, 4)
        self._bytes = np.frombuffer(memory, np.uint8)
        room = (len(self._bytes) - items * ROW_BYTES) // parts
        self._next = items * ROW_BYTES + part * room
        self._end = self._next + room
        self._lock = threading.Lock()

    def get(self, index: int) -> Pixels | None:
        height, width, place, _ = self._table[index].tolist()
        if not place:
            return None
        begin = place - 1
        return self._bytes[begin : begin + height * width * 3].reshape(height, width, 3)

    def put(self, index: int, pixels: Pixels) -> None:
        """Keep a picture; when the room is full, none is kept any more."""
        with self._lock:
            begin = self._next
            if begin + pixels.size > self._end:
                return
            self._next = begin + pixels.size
        self._bytes[begin : begin + pixels.size] = pixels.reshape(-1)
        self._table[index, :2] = pixels.shape[:2]
        self._table[index, 2] = begin + 1


def bytes_to_hold(paths: tuple[str, ...], height: int, width: int, *, shrunk: bool, free: int | None = None) -> int:
    """Give the room that all decoded pictures need, from a look at some, or 0 where they do not fit well."""
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
    except SpoiltImageError:
        return 0
