"""Files of the kernel that sensors read again and again: opened once and read in place, which makes them tell anew."""

from __future__ import annotations

import os
from pathlib import Path

FIRST_READ_BYTES = 1 << 16


class OpenFile:
    """One file, held open. A file of many records (vmstat) is told in pieces of a page, one of a single record whole.

    To read until nothing is left would make the kernel write a file of one record twice: how many pieces there are is
    found when it is opened, and so many are read from then on.
    """

    __slots__ = ("_fd", "_pieces", "_size")

    def __init__(self, path: Path | str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pieces, offset = 0, 0
            while piece := os.pread(self._fd, FIRST_READ_BYTES, offset):
                self._pieces, offset = self._pieces + 1, offset + len(piece)
        except OSError:
            os.close(self._fd)
            raise
        self._size = 2 * offset + 256

    def read(self) -> bytes:
        data = os.pread(self._fd, self._size, 0)
        for _ in range(self._pieces - 1):
            data += os.pread(self._fd, self._size, len(data))
        return data

    def close(self) -> None:
        os.close(self._fd)


def read_once(path: str) -> bytes:
    """Read a file that is not worth being held open."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while piece := os.read(file, FIRST_READ_BYTES):
            data += piece
    finally:
        os.close(file)
    return data


def read_word(path: Path) -> str:
    """Give what a small file says, or nothing where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
