"""The files of records: one JSON file per record, written whole or not at all."""

from __future__ import annotations

import atexit
import bisect
import contextlib
import errno
import os
import random as randomness
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain, repeat
from pathlib import Path

import platformdirs

from laptime.disk import SUFFIX, own_folder, remove_stale, write_atomically
from laptime.errors import RecordError, StoreError
from laptime.model.installation import installed_version
from laptime.model.record import SCHEMA, Record, RecordRow
from laptime.store import index, signing
from laptime.store.index import row_of, unreadable_row
from laptime.store.schema import HINT_MEMORY, decode, encode
from laptime.store.writer import is_gone, this_process
from laptime.visible import encodable

PASSING = {"running", "unreadable"}  # statuses that may change without a change of the file
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
SHORT_IDS_TRIED = 64  # a day has 65,536 short ids
MEBIBYTE = 2**20
LARGEST_BYTES = 256 * MEBIBYTE  # a record of a million steps has 11 MB
SETTLES_NS = 2 * 10**9  # the coarsest clock of a file system that is in use
INDEX_COSTS = 8  # to write a byte of the index takes an eighth of the time of reading a byte of a record
MERGED_MOST = 1_000  # rows that are put into their places one by one; more are sorted
ENDING = ".json"
NO_STAMP = (0, 0)  # no file has it
LIST_HINT = "`laptime list` shows all records."
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
        if not is_file(path_of(made)):  # checked last: a record is saved before its claim is removed
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
    """Save a record, signed. If it cannot be written, the old file stays and a StoreError says why.

    One that keeps the words of a command is for its owner only: there may be a secret among them.
    What killed processes left is removed by the next list, which knows the names of all files anyway.
    """
    path = path_of(record.id)
    data = encode(replace(record, writer=this_process() if record.status == "running" else None))
    data = signing.sign(data, home_folder())
    try:
        write_atomically(path, data, is_private=bool(record.ask.command))
    except OSError as error:
        raise not_saved(record.id, error) from error
    _unclaim(record.id)
    return path


def check_store() -> None:
    """Raise a StoreError if no record can be saved: better before a run than after it. Nothing stays behind."""
    probe = records_folder() / f".{secrets.token_hex(8)}.claim.0{SUFFIX}"
    made: list[Path] = []
    try:
        made += [folder for folder in (probe.parent, *probe.parent.parents) if not folder.exists()]
        probe.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        says = f"what comes now cannot be saved in {records_folder()}: {_reason(error)}"
        raise StoreError(
            says, "Set LAPTIME_HOME to a folder that can be written. The answer is printed all the same."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()


def not_saved(identity: str, error: OSError) -> StoreError:
    """Return an error that says why a record could not be saved."""
    says = f"the record {identity} could not be saved in {records_folder()}: {_reason(error)}"
    return StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.")


def _reason(error: OSError) -> str:
    return REASONS.get(error.errno or 0) or error.strerror or str(error)


def remove(identity: str) -> None:
    """Remove a record's file."""
    path = path_of(identity)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path} could not be removed: {_reason(error)}", "Check the permissions of its folder."
        ) from error


def list_records() -> tuple[RecordRow, ...]:
    """List all records, newest first. One that cannot be read has a row with the reason.

    Whether a race still runs can change without a change of its file, so the index never keeps such a row. A file that
    is no record is read again once it changes.
    """
    changed_ns = _changed_ns()
    kept = index.recall(home_folder())
    if changed_ns and changed_ns == kept.head.folder_ns and _are_still_faulty(kept.head):
        passing = [_look(identity, NO_STAMP).row for identity in kept.head.passing]
        if all(row.status in PASSING for row in passing):
            faulty = [unreadable_row(each.id, each.why) for each in kept.head.faulty]
            return _with_rows(kept.rows, [*faulty, *passing])
    with index.no_collector():
        return _list_again(kept, changed_ns)


def _list_again(kept: index.Index, changed_ns: int) -> tuple[RecordRow, ...]:
    """List the records by their files' stamps, and read those that the index does not know.

    The index is written again once the folder's time can be trusted, or earlier where that takes less time than reading
    the new records in the next list.
    """
    known, stamps = _sort_out(kept)
    faults = {each.id: each for each in kept.head.faulty if kept.head.reader == _reader()}
    looked = [_look(identity, stamp, faults.get(identity)) for identity, stamp in stamps.items()]
    fresh = [each.row for each in looked]
    faulty = tuple(each.fault for each in looked if each.fault is not None)
    settled = [row for row in fresh if _is_settled(row)]
    passing = tuple(each.row.id for each in looked if each.fault is None and not _is_settled(each.row))
    folder_ns = changed_ns if all(map(str.isprintable, passing)) else 0
    head = index.Head(folder_ns, passing, faulty, _reader() if faulty else "")
    is_changed = bool(settled) or len(known) < len(kept.rows) or head != kept.head
    read_bytes = sum(stamps[row.id][1] for row in settled) + sum(
        each.stamp[1] for each in faulty if each != faults.get(each.id)
    )
    if is_changed and (head.folder_ns or kept.size_bytes <= INDEX_COSTS * read_bytes):
        rows = _with_rows(known, settled)
        stamps |= dict(zip([row.id for row in kept.rows], kept.stamps(), strict=False)) | stamps
        index.remember(home_folder(), head, rows, [stamps[row.id] for row in rows])
    return _with_rows(known, fresh)


def _is_settled(row: RecordRow) -> bool:
    """Whether the index may keep a row: it changes only with its file, whose name is text."""
    return row.status not in PASSING and row.id.isprintable()


def _sort_out(kept: index.Index) -> tuple[list[RecordRow], dict[str, index.Stamp]]:
    """Return the rows whose files are as the index knows them, and the stamps of all other files in the folder.

    No file is opened. One that is still being written has another ending.
    """
    with _folder_isread(), _opened_folder() as folder:
        all_names = os.listdir(folder)  # noqa: PTH208  an open folder
        remove_stale(records_folder(), all_names)
        names = {each for each in all_names if each.endswith(ENDING)}
        stamps = zip(kept.rows, kept.stamps(), strict=False)
        known = [row for row, stamp in stamps if _stamp(row.id + ENDING, folder) == stamp]
        others = names.difference([row.id + ENDING for row in known])
        found = {name.removesuffix(ENDING): _stamp(name, folder) for name in others}
        return known, {identity: stamp for identity, stamp in found.items() if stamp is not None}
    return [], {}


def _stamp(name: str, folder: int) -> index.Stamp | None:
    """Return the stamp of a file, or None for a folder or a file that was just deleted."""
    try:
        status = os.stat(name, dir_fd=folder)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _with_rows(rows: Sequence[RecordRow], others: Sequence[RecordRow]) -> tuple[RecordRow, ...]:
    """Return rows that are newest first with others in their places."""
    oldest_first = list(reversed(rows))
    if len(others) > MERGED_MOST:
        oldest_first = sorted([*oldest_first, *others], key=_age)
    else:
        for row in others:
            bisect.insort(oldest_first, row, key=_age)
    return tuple(reversed(oldest_first))


def _age(row: RecordRow) -> tuple[float, str]:
    """Return when the race began, or when its file was written if that cannot be read."""
    try:
        return datetime.fromisoformat(row.started).timestamp(), row.id
    except (ValueError, OverflowError):
        with contextlib.suppress(OSError, ValueError):
            return path_of(row.id).stat().st_mtime, row.id
    return 0.0, row.id


def _changed_ns() -> int:
    """Return when the folder of records last changed; 0 if that is so recent that the next change may look the same."""
    try:
        changed_ns = records_folder().stat().st_mtime_ns
    except OSError:
        return 0
    return changed_ns if changed_ns < time.time_ns() - SETTLES_NS else 0


def read(path: Path) -> Record:
    """Return the record of a file."""
    return living(decode(read_bytes(path), str(path)))


def living(record: Record) -> Record:
    """Return a record as it is now: one whose process is gone no longer runs."""
    is_ended = record.status == "running" and is_gone(record.writer)
    return replace(record, status="ended") if is_ended else record


def read_bytes(path: Path) -> bytes:
    """Read a file that may hold a record. What is larger than any record is refused before it fills the memory."""
    try:
        if path.is_char_device() or path.is_block_device():
            raise RecordError(f"{path} is a device and no record", LIST_HINT)
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            is_too_large = status.st_size > LARGEST_BYTES
            most = status.st_size if stat.S_ISREG(status.st_mode) else LARGEST_BYTES  # a pipe has no size
            data = b"" if is_too_large else file.read(most + 1)
    except MemoryError:
        raise RecordError(f"{path} cannot be read: the system refused the memory", HINT_MEMORY) from None
    except FileNotFoundError:
        raise RecordError(f"there is no file {path}", LIST_HINT) from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", "Check the path and its permissions.") from None
    if is_too_large or len(data) > LARGEST_BYTES:
        says = f"{path} is larger than a record may be ({LARGEST_BYTES // MEBIBYTE} MiB)"
        raise RecordError(says, "Check that it is a record; it was not read.")
    return data


def path_of(identity: str) -> Path:
    return records_folder() / f"{identity}{ENDING}"


def is_file(path: Path) -> bool:
    """Whether this is a file. A path that is not a possible file name, or may not be read, is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _opened_folder() -> Iterator[int]:
    """Open the folder of records: its files are found faster in it than by their whole paths."""
    folder = os.open(records_folder(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def list_names() -> list[str]:
    """Return the names of all files in the folder of records."""
    with _folder_isread():
        return os.listdir(records_folder())  # noqa: PTH208  100,000 paths are slow to make
    return []


@contextlib.contextmanager
def _folder_isread() -> Iterator[None]:
    """Let a folder that does not exist be an empty one; another failure is a sentence."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        says = f"the records in {records_folder()} cannot be listed: {error.strerror}"
        raise RecordError(says, "Check its permissions, or set LAPTIME_HOME to another folder.") from None


@dataclass(frozen=True, slots=True)
class _Looked:
    """The row of a file, and its fault, if only a change of the file can end it."""

    row: RecordRow
    fault: index.Faulty | None = None


def _look(identity: str, stamp: index.Stamp, known: index.Faulty | None = None) -> _Looked:
    """Read a file for its row, unless it has a known fault and has not changed since."""
    if known is not None and known.stamp == stamp:
        return _Looked(unreadable_row(identity, known.why), known)
    try:
        return _Looked(row_of(identity, read(path_of(identity))))
    except RecordError as error:
        why, is_lasting = encodable(error.says), error.is_lasting
    except FAULTS as error:
        why, is_lasting = encodable(f"it holds what no list expects ({type(error).__name__}: {error})"), True
    is_kept = is_lasting and identity.isprintable()
    return _Looked(unreadable_row(identity, why), index.Faulty(identity, why, stamp) if is_kept else None)


def _are_still_faulty(head: index.Head) -> bool:
    """Whether the files that could not be read are as they were, and so is what read them."""
    if not head.faulty:
        return True
    with contextlib.suppress(OSError), _opened_folder() as folder:
        known = all(_stamp(each.id + ENDING, folder) == each.stamp for each in head.faulty)
        return known and head.reader == _reader()
    return False


@cache
def _reader() -> str:
    """Return what reads records: another version of laptime may read what this one cannot."""
    return f"laptime {installed_version()}, schema {SCHEMA}"
