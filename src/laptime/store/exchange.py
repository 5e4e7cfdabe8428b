"""Files of records that come from elsewhere: whether each is a record, and how they get into the store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from laptime.model.errors import RecordError, StoreError
from laptime.model.rows import FileCheck, Imported
from laptime.store.disk import expand_home, remove_stale, write_new
from laptime.store.files import find, is_file, is_ours, is_signed, living, not_saved, path_of, read_bytes
from laptime.store.index import home_folder, records_folder
from laptime.store.schema import decode, decode_as_found, encode

HINT_OTHER = (
    "`laptime show {0}` shows the one here. Remove it (`laptime remove {0}`), or import into another LAPTIME_HOME."
)
HINT_RUNNING = "Wait for its end. If its process is gone, save it there again: `laptime show ID --json > FILE`."
NEW: Final = "imported"
KNOWN_ALREADY: Final = "is here already"


def validate(names: Sequence[str]) -> tuple[FileCheck, ...]:
    """Check files, all files of folders, or records of the store: each is a record, or what is wrong and where."""
    checks: list[FileCheck] = []
    for name in names:
        try:
            path = Path(name)
            paths = _files_in(path) if path.is_dir() else [path if is_file(path) else find(name)]
        except (RecordError, OSError, ValueError) as error:
            checks.append(_refused(name, error))
            continue
        checks += map(_check, paths)
    return tuple(checks)


def _check(path: Path) -> FileCheck:
    try:
        data = read_bytes(path)
        schema, record = decode_as_found(data, str(path))
        signed = is_signed(data, home_folder()) or is_ours(record, record.id)
    except RecordError as error:
        return _refused(str(path), error)
    return FileCheck(str(path), valid=True, signed=signed, schema=schema, id=record.id, question=record.question)


def _refused(name: str, error: Exception) -> FileCheck:
    if isinstance(error, RecordError):
        return FileCheck(name, valid=False, path=error.place or None, why=error.says, hint=error.hint or None)
    return FileCheck(name, valid=False, why=f"{name} cannot be read: {error}")


def _files_in(folder: Path) -> list[Path]:
    """Return the files of a folder that may be records. Its folders are not searched."""
    found = sorted(path for path in folder.iterdir() if path.suffix == ".json" and is_file(path))
    if not found:
        raise RecordError(f"there is no .json file in {folder}", "Name the folder that the records are in.")
    return found


def import_records(names: Sequence[str]) -> tuple[Imported, ...]:
    """Copy records of other machines into the store, under their own ids.

    All are checked before the first is written. None replaces another record: one of the same content is passed over,
    one of other content is refused.
    """
    paths: list[Path] = []
    for name in names:
        path = expand_home(name, "the file's name")
        try:
            paths += _files_in(path) if path.is_dir() else [path]
        except (OSError, ValueError) as error:
            raise RecordError(f"{name} cannot be read: {error}", "Check the path and its permissions.") from None
    planned = _plan(paths)
    remove_stale(records_folder())
    for number, (made, digest) in enumerate(planned):
        if made.status == NEW:
            # It is copied as it is, unless it has changed since it was checked, or another process was faster.
            hint = f"{number} of {len(planned)} files are done. Import again: what is here already is passed over."
            data = read_bytes(Path(made.file))
            if _digest(data) != digest:
                raise RecordError(f"{made.file} has changed since it was checked", hint)
            try:
                write_new(path_of(made.id), data)
            except FileExistsError:
                raise StoreError(f"another process has just saved {made.id}", hint) from None
            except OSError as error:
                raise StoreError(not_saved(made.id, error).says, hint) from error
    return tuple(made for made, _ in planned)


def _plan(paths: Sequence[Path]) -> list[tuple[Imported, bytes]]:
    """Check every file. Only a digest of each is kept: a folder may hold more than fits into memory."""
    planned: list[tuple[Imported, bytes]] = []
    contents: dict[str, tuple[bytes, Path]] = {}
    for path in paths:
        data = read_bytes(path)
        record = living(decode(data, str(path)))
        if record.status == "running":
            raise RecordError(f"{path} is of a race that still runs; nothing was imported", HINT_RUNNING)
        content = _digest(encode(record))
        known = contents.get(record.id) or _content_here(record.id)
        if known is not None and known[0] != content:
            says = f"{path} has the id {record.id}, which {known[1]} has with other content; nothing was imported"
            raise RecordError(says, HINT_OTHER.format(record.id))
        contents[record.id] = known or (content, path)
        planned.append((Imported(record.id, str(path), NEW if known is None else KNOWN_ALREADY), _digest(data)))
    return planned


def _content_here(identity: str) -> tuple[bytes, Path] | None:
    """Return the digest of a record of the store, and its file. One that cannot be read equals no other."""
    path = path_of(identity)
    if not is_file(path):
        return None
    try:
        return _digest(encode(living(decode(read_bytes(path), str(path))))), path
    except RecordError:
        return b"", path


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
