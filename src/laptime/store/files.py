"""The files of records: one JSON file per record, written whole or not at all."""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import os
import random as randomness
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path

import platformdirs

from laptime.disk import SUFFIX, expand_home, own_folder, remove_stale, write_atomically
from laptime.errors import RecordError, StoreError
from laptime.model.record import Record, RecordRow
from laptime.store import index
from laptime.store.index import row_of, unreadable_row
from laptime.store.schema import decode, encode
from laptime.store.writer import is_gone, this_process

LATEST = "latest"
LABEL = "@"  # before a label, where a record is named
PASSING = {"running", "unreadable"}  # statuses that may change without a change of the file
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
SHORT_IDS_TRIED = 64  # a day has 65,536 short ids
LIST_HINT = "`laptime list` shows all records."
LABEL_HINT = "`laptime race --label NAME` gives a record a label."
REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this process may write",
    errno.EROFS: "it is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.ENOTDIR: "a file is where a folder is needed",
    errno.EEXIST: "a file is where a folder is needed",
}


def home_folder() -> Path:
    """Return the folder of everything that laptime keeps."""
    return own_folder("LAPTIME_HOME", platformdirs.user_data_dir)


def records_folder() -> Path:
    return home_folder() / "records"


def new_id(now: datetime, random: randomness.Random) -> str:
    """Make an id that no record has, and claim it, so that two races that start at once cannot share it."""
    for bits in chain([16] * SHORT_IDS_TRIED, repeat(64)):
        made = f"r-{now:%Y-%m-%d}-{random.getrandbits(bits):0{bits // 4}x}"
        if not _claim(made):
            continue
        if not _is_file(_path_of(made)):  # checked last: a record is saved before its claim is removed
            break
        _unclaim(made)
    return made


def _claim(identity: str) -> bool:
    """Create a file that only one process can create. Any other failure counts as success: saving will fail as well."""
    place = _claim_of(identity)
    absent: list[Path] = []
    with contextlib.suppress(OSError):
        absent += [folder for folder in (place.parent, *place.parent.parents) if not folder.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
    atexit.register(_unclaim, identity, absent)  # a race that is refused leaves nothing behind
    try:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def _unclaim(identity: str, made: Sequence[Path] = ()) -> None:
    """Remove a claim, and the folders made for it, innermost first, unless something is in them."""
    with contextlib.suppress(OSError):
        _claim_of(identity).unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()


def _claim_of(identity: str) -> Path:
    """Return a claim's path. It looks like another machine's temporary file, so it is removed after a day."""
    return records_folder() / f".{identity}.claim.0{SUFFIX}"


def save(record: Record) -> Path:
    """Save a record. If it cannot be written, the old file stays and a StoreError says why."""
    path = _path_of(record.id)
    data = encode(replace(record, writer=this_process() if record.status == "running" else None))
    remove_stale(path.parent)
    try:
        write_atomically(path, data)
    except OSError as error:
        reason = REASONS.get(error.errno or 0) or error.strerror or str(error)
        says = f"the record {record.id} could not be saved in {path.parent}: {reason}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    _unclaim(record.id)
    return path


def load(name: str) -> Record:
    """Load a record by its id, a unique beginning of the id, a file, `latest`, or `@label`."""
    return _read(find(name))


def load_own(name: str) -> Record:
    """Load a record that will be continued, and so saved again. Refuse it if another record here has its id."""
    record = load(name)
    try:
        own = _read(_path_of(record.id)) if _is_file(_path_of(record.id)) else record
    except RecordError:
        own = None
    if own is None or own.started != record.started:
        says = f"{record.id} is the id of another record here, which would be written over"
        raise RecordError(says, f"Set LAPTIME_HOME to another folder, or move {_path_of(record.id)} away.")
    return record


def find(name: str) -> Path:
    """Return the file that `name` means; a RecordError names the nearest records."""
    if name == LATEST:
        return _latest()
    if name.startswith(LABEL):
        return _labelled(name.removeprefix(LABEL))
    if _is_file(_path_of(name)):
        return _path_of(name)
    if os.sep in name or name.endswith(".json") or _is_file(Path(name)):
        return expand_home(name, "the record's name")
    return _begun_by(name, sorted(stamp.id for stamp in _stamps()))


def find_removable(name: str) -> str:
    """Return the id of a record that may be removed: one in the folder of records that no process is writing."""
    path = find(name)
    if path.absolute().parent != records_folder().absolute():
        raise RecordError(f"{path} is not in the folder of records", "Give a record's id, or delete the file yourself.")
    status: str = "unreadable"
    with contextlib.suppress(RecordError):
        status = _read(path).status
    if status == "running":
        raise RecordError(f"{path.stem} is still running", "Wait for its end, or end it with Ctrl-C.")
    return path.stem


def remove(identity: str) -> None:
    """Remove a record's file."""
    path = _path_of(identity)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        reason = REASONS.get(error.errno or 0) or error.strerror or str(error)
        raise StoreError(f"{path} could not be removed: {reason}", "Check the permissions of its folder.") from error


def list_records() -> tuple[RecordRow, ...]:
    """List all records, newest first. One that cannot be read has a row with the reason.

    Whether a race still runs can change without a change of its file, so the index never keeps such a row.
    """
    stamps = _stamps()
    known = index.recall(home_folder())
    rows = {stamp: known.get(stamp) or _read_row(stamp) for stamp in stamps}
    settled = {stamp: row for stamp, row in rows.items() if row.status not in PASSING and stamp.id.isprintable()}
    if settled != known:
        index.remember(home_folder(), settled)
    newest = sorted(stamps, key=lambda stamp: (_instant(stamp, rows[stamp]), stamp.id), reverse=True)
    return tuple(rows[stamp] for stamp in newest)


def _latest() -> Path:
    rows = list_records()
    if not rows:
        raise RecordError("there are no records yet", "`laptime race` makes one.")
    readable = next((row for row in rows if row.unreadable is None), rows[0])
    return _path_of(readable.id)


def _labelled(label: str) -> Path:
    """Return the newest readable record with this label."""
    rows = [row for row in list_records() if row.label is not None and row.unreadable is None]
    found = next((row for row in rows if row.label == label), None)
    if found is not None:
        return _path_of(found.id)
    labels = list(dict.fromkeys(row.label for row in rows if row.label is not None))
    near = difflib.get_close_matches(label, labels, n=3, cutoff=0.5) or labels[:3]
    hint = f"Nearest: {_few([LABEL + each for each in near])}. {LIST_HINT}" if near else LABEL_HINT
    raise RecordError(f"no record has the label {label!r}", hint)


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
        if path.is_char_device() or path.is_block_device():
            raise RecordError(f"{path} is a device and no record", LIST_HINT)
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"there is no file {path}", LIST_HINT) from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", "Check the path and its permissions.") from None
    record = decode(data, str(path))
    is_ended = record.status == "running" and is_gone(record.writer)
    return replace(record, status="ended") if is_ended else record


def _path_of(identity: str) -> Path:
    return records_folder() / f"{identity}.json"


def _is_file(path: Path) -> bool:
    """Whether this is a file. A path that is not a possible file name, or may not be read, is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _stamps() -> list[index.Stamp]:
    """List the records in the folder without opening them. A file that is still being written has another ending."""
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
    """Return a file's stamp, or None for a folder or a file that was just deleted."""
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
    except FAULTS as error:
        return unreadable_row(stamp.id, f"it holds what no list expects ({type(error).__name__}: {error})")


def _instant(stamp: index.Stamp, row: RecordRow) -> float:
    """Return when the race began, or when its file was written if that cannot be read."""
    try:
        return datetime.fromisoformat(row.started).timestamp()
    except (ValueError, OverflowError):
        return stamp.mtime_ns / 1e9
