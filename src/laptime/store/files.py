"""Where records live: one JSON file a race, each written whole or not at all."""

from __future__ import annotations

import difflib
import errno
import os
import random as randomness
from datetime import datetime
from pathlib import Path

import platformdirs

from laptime.disk import remove_stale, write_atomically
from laptime.errors import RecordError, StoreError
from laptime.model.record import Record
from laptime.store import index
from laptime.store.rows import RecordRow, row_of, unreadable_row
from laptime.store.schema import decode, encode

LATEST = "latest"
LIST_HINT = "`laptime list` shows all records."
REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this process may write",
    errno.EROFS: "it is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EEXIST: "a file stands where a folder is needed",
}


def home_folder() -> Path:
    """Give the folder of everything that laptime keeps."""
    named = os.environ.get("LAPTIME_HOME")
    return Path(named).expanduser() if named else Path(platformdirs.user_data_dir("laptime"))


def records_folder() -> Path:
    return home_folder() / "records"


def new_id(now: datetime, random: randomness.Random) -> str:
    """Make an id that no saved record has; without a seed in `random`, two races begun at once differ too."""
    while True:
        made = f"r-{now:%Y-%m-%d}-{random.getrandbits(16):04x}"
        if not _is_file(_path_of(made)):
            return made


def save(record: Record) -> Path:
    """Write the record whole, or leave what was there and say why."""
    path = _path_of(record.id)
    data = encode(record)
    remove_stale(path.parent)
    try:
        write_atomically(path, data)
    except OSError as error:
        reason = REASONS.get(error.errno or 0) or error.strerror or str(error)
        says = f"the record {record.id} could not be saved in {path.parent}: {reason}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    return path


def load(name: str) -> Record:
    """Read the record that an id, a unique beginning of one, a file or `latest` names."""
    return _read(find(name))


def find(name: str) -> Path:
    """Give the file that `name` means, or say what there is instead."""
    if name == LATEST:
        return _latest()
    if _is_file(_path_of(name)):
        return _path_of(name)
    if os.sep in name or name.endswith(".json") or _is_file(Path(name)):
        return Path(name).expanduser()
    return _begun_by(name, sorted(stamp.id for stamp in _stamps()))


def list_records() -> tuple[RecordRow, ...]:
    """List all records, newest first; one that cannot be read stands in the list with its reason."""
    stamps = _stamps()
    database = home_folder() / "index.sqlite3"
    known = index.recall(database)
    rows = {stamp: known.get(stamp) or _read_row(stamp) for stamp in stamps}
    readable = {stamp: row for stamp, row in rows.items() if row.unreadable is None}
    if readable != known:
        index.remember(database, readable)
    newest = sorted(stamps, key=lambda stamp: (_instant(stamp, rows[stamp]), stamp.id), reverse=True)
    return tuple(rows[stamp] for stamp in newest)


def _latest() -> Path:
    rows = list_records()
    if not rows:
        raise RecordError("there are no records yet", "`laptime race` makes one.")
    readable = next((row for row in rows if row.unreadable is None), rows[0])
    return _path_of(readable.id)


def _begun_by(name: str, ids: list[str]) -> Path:
    begun = [each for each in ids if name and each.startswith(name)]
    if len(begun) == 1:
        return _path_of(begun[0])
    if begun:
        raise RecordError(f"{name!r} begins {len(begun)} records: {_few(begun)}", "Give more of the id.")
    near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
    raise RecordError(f"there is no record {name!r}", f"Nearest: {_few(near)}. {LIST_HINT}" if near else LIST_HINT)


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (" and others" if len(ids) > 5 else "")


def _read(path: Path) -> Record:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"there is no file {path}", LIST_HINT) from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", "Check the path and its permissions.") from None
    return decode(data, str(path))


def _path_of(identity: str) -> Path:
    return records_folder() / f"{identity}.json"


def _is_file(path: Path) -> bool:
    """Take for no file what cannot be a file's name, or may not be looked at."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _stamps() -> list[index.Stamp]:
    """Look at the folder alone; what is still being written does not end in .json."""
    try:
        with os.scandir(records_folder()) as entries:
            found = [_stamp(entry) for entry in entries if entry.name.endswith(".json")]
    except FileNotFoundError:
        return []
    except OSError as error:
        says = f"the records in {records_folder()} cannot be listed: {error.strerror}"
        raise RecordError(says, "Check its permissions, or set LAPTIME_HOME to another folder.") from None
    return [stamp for stamp in found if stamp is not None]


def _stamp(entry: os.DirEntry[str]) -> index.Stamp | None:
    """Give nothing for a folder, or a file that was deleted while we looked."""
    try:
        status = entry.stat()
    except OSError:
        return None
    identity = entry.name.removesuffix(".json")
    return index.Stamp(identity, status.st_mtime_ns, status.st_size) if entry.is_file() else None


def _read_row(stamp: index.Stamp) -> RecordRow:
    try:
        return row_of(stamp.id, _read(_path_of(stamp.id)))
    except RecordError as error:
        return unreadable_row(stamp.id, error.says)


def _instant(stamp: index.Stamp, row: RecordRow) -> float:
    """Give when the race began, or when its file was written where that cannot be read."""
    try:
        return datetime.fromisoformat(row.started).timestamp()
    except (ValueError, OverflowError):
        return stamp.mtime_ns / 1e9
