"""Which record a name means: an id or its beginning, a file, `latest`, or `@label`."""

from __future__ import annotations

import contextlib
import difflib
import os
from pathlib import Path

from laptime.disk import expand_home
from laptime.errors import RecordError
from laptime.model.record import Record
from laptime.store import signing
from laptime.store.files import (
    LIST_HINT,
    home_folder,
    is_file,
    list_names,
    list_records,
    living,
    path_of,
    read,
    read_bytes,
    records_folder,
)
from laptime.store.schema import decode, encode

LATEST = "latest"
LABEL = "@"  # before a label, where a record is named
COMPARED = 2_000  # the newest ids, of which the nearest to a wrong one are named
LABEL_HINT = "`laptime race --label NAME` gives a record a label."


def load(name: str) -> Record:
    """Load a record by its id, a unique beginning of the id, a file, `latest`, or `@label`."""
    return read(find(name))


def load_own(name: str) -> Record:
    """Load a record that will be continued, and so saved again. Refuse it if another record here has its id."""
    record = load(name)
    try:
        own = read(path_of(record.id)) if is_file(path_of(record.id)) else record
    except RecordError:
        own = None
    if own is None or own.started != record.started:
        says = f"{record.id} is the id of another record here, which would be written over"
        raise RecordError(says, f"Set LAPTIME_HOME to another folder, or move {path_of(record.id)} away.")
    return record


def load_ours(name: str) -> Record | None:
    """Load a record, unless this user did not make it here."""
    record = load(name)
    return record if is_ours(record, name) else None


def is_ours(record: Record, name: str) -> bool:
    """Whether this user made this very record here: the file that `name` means holds it signed, or the store does."""
    content = encode(record)
    for found_by in (name, record.id):
        with contextlib.suppress(RecordError):
            data = read_bytes(path := find(found_by))
            if signing.is_signed(data, home_folder()) and encode(living(decode(data, str(path)))) == content:
                return True
    return False


def find(name: str) -> Path:
    """Return the file that `name` means; a RecordError names the nearest records."""
    if name == LATEST:
        return _latest()
    if name.startswith(LABEL):
        return _labelled(name.removeprefix(LABEL))
    if is_file(path_of(name)):
        return path_of(name)
    if os.sep in name or name.endswith(".json") or is_file(Path(name)):
        return expand_home(name, "the record's name")
    return _begun_by(name)


def find_removable(name: str) -> str:
    """Return the id of a record that may be removed: one in the folder of records that no process is writing."""
    path = find(name)
    if path.absolute().parent != records_folder().absolute():
        raise RecordError(f"{path} is not in the folder of records", "Give a record's id, or delete the file yourself.")
    status: str = "unreadable"
    with contextlib.suppress(RecordError):
        status = read(path).status
    if status == "running":
        raise RecordError(f"{path.stem} is still running", "Wait for its end, or end it with Ctrl-C.")
    return path.stem


def _latest() -> Path:
    rows = list_records()
    if not rows:
        raise RecordError("there are no records yet", "`laptime race` makes one.")
    readable = next((row for row in rows if row.unreadable is None), rows[0])
    return path_of(readable.id)


def _labelled(label: str) -> Path:
    """Return the newest readable record with this label."""
    rows = [row for row in list_records() if row.label is not None and row.unreadable is None]
    found = next((row for row in rows if row.label == label), None)
    if found is not None:
        return path_of(found.id)
    labels = list(dict.fromkeys(row.label for row in rows if row.label is not None))
    near = difflib.get_close_matches(label, labels, n=3, cutoff=0.5) or labels[:3]
    hint = f"Nearest: {_few([LABEL + each for each in near])}. {LIST_HINT}" if near else LABEL_HINT
    raise RecordError(f"no record has the label {label!r}", hint)


def _begun_by(name: str) -> Path:
    ids = [each.removesuffix(".json") for each in list_names() if each.endswith(".json")]
    begun = sorted(each for each in ids if name and each.startswith(name) and is_file(path_of(each)))
    if len(begun) == 1:
        return path_of(begun[0])
    if begun:
        raise RecordError(f"{name!r} begins {len(begun)} records: {_few(begun)}", "Give more of the id.")
    near = difflib.get_close_matches(name, sorted(ids)[-COMPARED:], n=3, cutoff=0.5)
    raise RecordError(f"there is no record {name!r}", f"Nearest: {_few(near)}. {LIST_HINT}" if near else LIST_HINT)


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (" and others" if len(ids) > 5 else "")
