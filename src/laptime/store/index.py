"""The index: what a list shows of each record, in one file, so that `laptime list` need not read every record.

The file begins with a digest of the rest. If the digest does not match, or the file is of another version, the list is
made from the records and the index is written again. Its rows are newest first. While the folder of records has not
changed since, they are the list, and no record is looked at.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from laptime.disk import remove_stale, write_atomically
from laptime.model.questions import find_question
from laptime.model.record import GONE, Record, RecordRow

NAME = "laptime-index.json"  # LAPTIME_HOME may be a folder in which a user has an index file too
FAKE = "fake/"  # the beginning of the names of lanes whose figures are made up
VERSION = b"laptime index 5\n"


Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What identifies a file that was read before: its id, its time and its size."""

    id: str
    mtime_ns: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Head:
    """What decides whether the rows are those of the folder as it is now.

    `folder_ns` is when the folder of records last changed, or 0 where a change within the resolution of the clock might
    be missed. `passing` are the ids of records that have no row here, because theirs may change without their file.
    """

    folder_ns: int
    passing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """The index as it was read. The stamps are decoded only where the folder has changed."""

    head: Head
    rows: tuple[RecordRow, ...]
    stamps: bytes

    def known(self) -> dict[Stamp, RecordRow]:
        """Return each row by the file that it was made from."""
        stamps = _decoded(self.stamps, tuple[Stamp, ...])
        return dict(zip(stamps or (), self.rows, strict=False))


EMPTY = Index(Head(0), (), b"[]")


def recall(folder: Path) -> Index:
    """Return the index, or an empty one if it is missing, damaged or outdated. It is decoded once a process."""
    try:
        status = (folder / NAME).stat()
    except OSError:
        return EMPTY
    return _recall(folder / NAME, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=1)
def _recall(path: Path, *_stamp: int) -> Index:
    try:
        digest, _, lines = path.read_bytes().partition(b"\n")
    except OSError:
        return EMPTY
    if digest != _digest(lines):
        return EMPTY
    head_line, _, rest = lines.partition(b"\n")
    rows_line, _, stamps = rest.partition(b"\n")
    head, rows = _decoded(head_line, Head), _decoded(rows_line, tuple[RecordRow, ...])
    return EMPTY if head is None or rows is None else Index(head, rows, stamps)


def remember(folder: Path, head: Head, rows: Mapping[Stamp, RecordRow]) -> None:
    """Write the index, with its rows in the given order. If that fails, the next list reads the records instead."""
    with contextlib.suppress(OSError, UnicodeEncodeError):
        lines = b"\n".join(map(msgspec.json.encode, (head, list(rows.values()), list(rows))))
        remove_stale(folder)
        write_atomically(folder / NAME, _digest(lines) + b"\n" + lines)


def _decoded(line: bytes, kind: type[Kind]) -> Kind | None:
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


def _digest(lines: bytes) -> bytes:
    return hashlib.sha256(VERSION + lines).hexdigest().encode()


def row_of(identity: str, record: Record) -> RecordRow:
    """Return the list row of a record that is saved under `identity`."""
    words: list[str] = find_question(record.question).part("summary")(record)
    summary = ", ".join(words)
    return RecordRow(
        id=identity,
        started=record.started,
        question=record.question,
        workload=" and ".join(record.trainings),
        status=record.status,
        summary=f"{GONE}; {summary}" if record.status == "ended" else summary,
        is_fake=any(lane.name.startswith(FAKE) for lane in record.lanes),
        label=record.ask.label,
        lanes=tuple(lane.name for lane in record.lanes),
        devices=tuple(dict.fromkeys(lane.device.kind for lane in record.lanes)),
    )


def unreadable_row(identity: str, why: str) -> RecordRow:
    return RecordRow(identity, "", "", "", "unreadable", "", unreadable=why)
