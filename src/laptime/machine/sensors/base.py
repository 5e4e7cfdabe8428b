"""The interface of every sensor, so that one sampler reads them all; and questions to drivers that may hang."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

from laptime.model.process import Opened
from laptime.model.quantities import Missing

SensorClock = Callable[[], int]

T = TypeVar("T")
PATIENCE_S = 15.0  # NVML wakes sleeping cards, which takes a second or two each


class Sensor(Protocol):
    """An instrument. `probe` comes first: it returns the reason why there is nothing to read, or None."""

    name: str
    """Its name in `--sensors`."""

    period_s: float
    """The shortest useful or affordable time between two readings; 0 where any rate is."""

    def probe(self) -> Missing | None:
        """Return why there is nothing to read here, or None. It is cheap, changes nothing and never raises."""

    def open(self, pid: int) -> Opened:
        """Get ready to read the machine and the process tree that begins at `pid`; return the channels."""

    def read(self) -> tuple[float | None, ...]:
        """Return one figure per channel, None where there is none this time. Raises SensorError when all are lost."""

    def close(self) -> None:
        """Free what is held; called once after `open`, whatever happened in between."""


class PendingAnswer(Generic[T]):
    """A question to a driver, asked in a thread: drivers may hang, and must not hold up laptime."""

    def __init__(self, what: str, ask: Callable[[], T]) -> None:
        self._what = what
        self._answers = SimpleQueue[T | Missing]()
        Thread(target=self._run, args=(ask,), name=f"asking {what}", daemon=True).start()

    def answer(self, patience_s: float) -> T | Missing:
        """Return the answer, or a reason if there is none in time."""
        try:
            return self._answers.get(timeout=patience_s)
        except Empty:
            return Missing(f"{self._what} gave no answer for {patience_s:g} s: it hangs")

    def _run(self, ask: Callable[[], T]) -> None:
        try:
            self._answers.put(ask())
        except Exception as error:  # noqa: BLE001  looking must never fail, whatever a driver raises
            self._answers.put(Missing(f"{type(error).__name__}: {error}"))


# Small files of the kernel: opened once and read again in place, or read once as a word or a number.

FIRST_READ_BYTES = 1 << 16
LINK_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
PCIE_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # by 1e9 transfers per second and lane


class OpenFile:
    """One file, held open. It is read in as many pieces as it took when it was opened.

    A file of many records (/proc/stat) comes in pieces of a page, a file of one record as a whole. Reading until the
    end would make the kernel produce a file of one record twice.
    """

    __slots__ = ("_fd", "_pieces", "_size")

    def __init__(self, path: Path | str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pieces = 0
            offset = 0
            while piece := os.pread(self._fd, FIRST_READ_BYTES, offset):
                self._pieces += 1
                offset += len(piece)
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
    """Read a file that is not worth holding open."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while piece := os.read(file, FIRST_READ_BYTES):
            data += piece
    finally:
        os.close(file)
    return data


def read_word(path: Path) -> str:
    """Return the text of a small file, or an empty string if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def read_lines(path: Path) -> list[str]:
    """Return the lines of a small file, or none if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def read_number_file(place: Path, scale: float = 1) -> int | Missing:
    """Return the whole number that a small file holds."""
    word = read_word(place)
    return round(int(word) * scale) if word.lstrip("-").isdigit() else Missing(f"{place} does not tell it")


def read_link_generation(place: Path) -> int | Missing:
    """Read a link's speed, such as "16.0 GT/s PCIe", as a generation of PCI Express."""
    found = LINK_SPEED.match(read_word(place))
    known = PCIE_GENERATIONS.get(float(found[1])) if found else None
    return Missing(f"{place} does not tell it") if known is None else known
