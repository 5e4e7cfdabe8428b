"""The index: what a list shows of each record, in one file, so that `laptime list` need not read every record.

The file begins with a digest of the rest. If the digest does not match, or the file is of another version, the list is
made from the records and the index is written again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laptime.disk import remove_stale, write_atomically
from laptime.model.questions import find_question
from laptime.model.record import GONE, Record, RecordRow

NAME = "laptime-index.json"  # LAPTIME_HOME may be a folder in which a user has an index file too
FAKE = "fake/"  # the beginning of the names of lanes whose figures are made up
VERSION = b"laptime index 4\n"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What identifies a file that was read before: its id, its time and its size."""

    id: str
    mtime_ns: int
    size_bytes: int


def recall(folder: Path) -> dict[Stamp, RecordRow]:
    """Return the rows of the index, or none if it is missing, damaged or outdated."""
    try:
        digest, _, lines = (folder / NAME).read_bytes().partition(b"\n")
    except OSError:
        return {}
    if digest != _digest(lines):
        return {}
    try:
        return dict(msgspec.json.decode(lines, type=list[tuple[Stamp, RecordRow]]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def remember(folder: Path, rows: Mapping[Stamp, RecordRow]) -> None:
    """Write the index. If that fails, the next list reads the records instead."""
    with contextlib.suppress(OSError, UnicodeEncodeError):
        lines = msgspec.json.encode(list(rows.items()))
        remove_stale(folder)
        write_atomically(folder / NAME, _digest(lines) + b"\n" + lines)


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
