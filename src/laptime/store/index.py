"""A sqlite index beside the records, so that a long list is not a long wait; it can always be made again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laptime.store.rows import RecordRow

try:
    import sqlite3
except ImportError:  # a Python built without sqlite lists its records by reading them
    sqlite3 = None  # type: ignore[assignment]

VERSION = 1
PATIENCE_S = 0.2
Line = tuple[str, int, int, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Stamp:
    """By this a file is known to be the one that was read: its id, its time and its size."""

    id: str
    mtime_ns: int
    size_bytes: int


def recall(database: Path) -> dict[Stamp, RecordRow]:
    """Give what the index knows; nothing, where it is missing, damaged, outdated or in use."""
    if sqlite3 is None or not database.is_file():
        return {}
    try:
        lines = msgspec.convert(_read(database), list[Line])
    except (sqlite3.Error, msgspec.ValidationError):
        return {}
    return {Stamp(*line[:3]): RecordRow(line[0], *line[3:]) for line in lines}


def remember(database: Path, rows: Mapping[Stamp, RecordRow]) -> None:
    """Write the index anew; if that cannot be done, the next listing reads the records instead."""
    if sqlite3 is None:
        return
    try:
        _write(database, rows)
    except sqlite3.OperationalError:
        return  # in use, or in a folder that cannot be written
    except sqlite3.DatabaseError:
        with contextlib.suppress(sqlite3.Error, OSError):
            database.unlink()
            _write(database, rows)


def _read(database: Path) -> list[object]:
    with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as connection:
        if connection.execute("PRAGMA user_version").fetchone() != (VERSION,):
            return []
        return connection.execute("SELECT * FROM records").fetchall()


def _write(database: Path, rows: Mapping[Stamp, RecordRow]) -> None:
    with closing(sqlite3.connect(database, timeout=PATIENCE_S, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DROP TABLE IF EXISTS records")
        connection.execute(
            "CREATE TABLE records (id, mtime_ns, size_bytes, started, question, workload, status, summary)"
        )
        lines = [_line(stamp, row) for stamp, row in rows.items()]
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", lines)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _line(stamp: Stamp, row: RecordRow) -> Line:
    return (
        row.id,
        stamp.mtime_ns,
        stamp.size_bytes,
        row.started,
        row.question,
        row.workload,
        row.status,
        row.summary,
    )
