"""The index: what a list shows of each record, in one file, so that `laptime list` need not read every record.

The file begins with a digest of the rest. If the digest does not match, or the file is of another version, the list is
made from the records and the index is written again. Its rows are newest first. While the folder of records has not
changed since, they are the list, and no record is looked at. The file may have 30 MB: no part of it is copied.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs

from laptime.model.rows import RecordRow
from laptime.store.disk import own_folder, read_regular, remove_stale, write_atomically

INDEX_NAME = "laptime-index.json"  # LAPTIME_HOME may be a folder in which a user has an index file too
INDEX_VERSION = b"laptime index 7\n"
INDEX_MOST_BYTES = 2**30  # of 3 million records
SETTLES_NS = 2 * 10**9  # the coarsest clock of a file system that is in use
INDEX_LINES = 3  # the lines under the digest: head, rows, stamps
Stamp = tuple[int, int]  # the time and the size of a record's file when it was read


Stored = TypeVar("Stored")


@dataclass(frozen=True, slots=True)
class Faulty:
    """A file that is no record, whatever else changes: why, and its stamp when it was read. Reading it may be slow."""

    id: str
    why: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Head:
    """What decides whether the rows are those of the folder as it is now.

    `folder_ns` is when the folder of records last changed, or 0 where a change within the resolution of the clock might
    be missed. `passing` are the ids of records that have no row here, because theirs may change without their file.
    `faulty` are files that `reader`, a version of laptime, could not read.
    """

    folder_ns: int
    passing: tuple[str, ...] = ()
    faulty: tuple[Faulty, ...] = ()
    reader: str = ""


@dataclass(frozen=True, slots=True)
class Index:
    """The index as it was read. The stamps are decoded only where the folder has changed."""

    head: Head
    rows: tuple[RecordRow, ...] = ()
    encoded_stamps: bytes | memoryview = b"[]"
    size_bytes: int = 0

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the stamps of the files that the rows were made from, in the same order."""
        return _decoded(self.encoded_stamps, tuple[Stamp, ...]) or ()


EMPTY_INDEX = Index(Head(0))


def home_folder() -> Path:
    """Return the folder of everything that laptime keeps."""
    return own_folder("LAPTIME_HOME", platformdirs.user_data_dir)


def records_folder() -> Path:
    return home_folder() / "records"


def recall(folder: Path) -> Index:
    """Return the index, or an empty one if it is missing, damaged or outdated. It is decoded once a process."""
    try:
        status = (folder / INDEX_NAME).stat()
    except OSError:
        return EMPTY_INDEX
    return _recall(folder / INDEX_NAME, status.st_mtime_ns, status.st_size, status.st_ino)


def folder_changed_ns() -> int:
    """Return when the folder of records last changed; 0 if that is so recent that the next change may look the same."""
    try:
        changed_ns = records_folder().stat().st_mtime_ns
    except OSError:
        return 0
    return changed_ns if changed_ns < time.time_ns() - SETTLES_NS else 0


def kept_rows() -> tuple[RecordRow, ...] | None:
    """Return the rows of all records, or None where the index alone does not know them: a file has to be read."""
    try:
        with os.scandir(records_folder()) as found:  # reads one name of 100,000
            if next(found, None) is None:
                return ()
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    changed_ns = folder_changed_ns()
    kept = recall(home_folder())
    is_whole = changed_ns and changed_ns == kept.head.folder_ns and not kept.head.passing and not kept.head.faulty
    return kept.rows if is_whole else None


@lru_cache(maxsize=1)
def _recall(path: Path, *_stamp: int) -> Index:
    try:
        data = read_regular(path, INDEX_MOST_BYTES)  # another user's pipe or device would never end
    except (OSError, MemoryError):
        return EMPTY_INDEX
    digest, *lines = _split(data)
    if len(lines) != INDEX_LINES or digest != _digest(*lines):
        return EMPTY_INDEX
    head = _decoded(lines[0], Head)
    rows = _decoded(lines[1], tuple[RecordRow, ...])
    return EMPTY_INDEX if head is None or rows is None else Index(head, rows, lines[2], len(data))


def _split(data: bytes) -> Iterator[memoryview]:
    """Yield the first lines, and the rest."""
    whole = memoryview(data)
    start = 0
    for _ in range(INDEX_LINES):
        end = data.find(b"\n", start)
        if end < 0:
            break
        yield whole[start:end]
        start = end + 1
    yield whole[start:]


def remember(folder: Path, head: Head, rows: Sequence[RecordRow], stamps: Sequence[Stamp]) -> None:
    """Write the index, with its rows in the given order. If that fails, the next list reads the records instead."""
    with contextlib.suppress(OSError, UnicodeEncodeError):
        lines = [msgspec.json.encode(part) for part in (head, rows, stamps)]
        remove_stale(folder)
        write_atomically(folder / INDEX_NAME, b"\n".join([_digest(*lines), *lines]))


def _decoded(line: bytes | memoryview, kind: type[Stored]) -> Stored | None:
    try:
        with no_collector():
            return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Stop the garbage collector for a while: it would look at 100,000 new rows again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _digest(*lines: bytes | memoryview) -> bytes:
    """Return the digest of all lines as they are in the file."""
    digest = hashlib.sha256(INDEX_VERSION)
    for number, line in enumerate(lines):
        digest.update(b"\n" if number else b"")
        digest.update(line)
    return digest.hexdigest().encode()


def unreadable_row(identity: str, why: str) -> RecordRow:
    return RecordRow(identity, "", "", "", "unreadable", "", unreadable=why)
