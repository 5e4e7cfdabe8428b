"""The files of records: one JSON file per record, written whole or not at all."""

from __future__ import annotations

import atexit
import bisect
import contextlib
import difflib
import errno
import hashlib
import hmac
import os
import random as randomness
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain, repeat, takewhile
from pathlib import Path

from laptime.model.errors import RecordError, StoreError
from laptime.model.frameworks import installed_version
from laptime.model.questions import find_question
from laptime.model.record import SCHEMA, Record
from laptime.model.rows import GONE, RecordRow
from laptime.model.visible import encodable
from laptime.show.pages.page import QuestionPage
from laptime.store import index
from laptime.store.disk import SUFFIX, expand_home, remove_stale, write_atomically, write_new
from laptime.store.index import home_folder, records_folder, unreadable_row
from laptime.store.lock import is_gone, this_process
from laptime.store.schema import HINT_MEMORY, decode, encode

PASSING = {"running", "unreadable"}  # statuses that may change without a change of the file
READING_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
SHORT_IDS_TRIED = 64  # a day has 65,536 short ids
MEBIBYTE = 2**20
RECORD_FILE_MOST_BYTES = 256 * MEBIBYTE  # a record of a million steps has 11 MB
INDEX_COSTS = 8  # to write a byte of the index takes an eighth of the time of reading a byte of a record
MERGED_MOST = 1_000  # rows that are put into their places one by one; more are sorted
ENDING = ".json"
FAKE_LANES = "fake/"  # the beginning of the names of lanes whose figures are made up
NO_STAMP = (0, 0)  # no file has it
LIST_HINT = "`laptime list` shows all records."
SAVING_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this process may write",
    errno.EROFS: "it is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.ENOTDIR: "a file is where a folder is needed",
    errno.EEXIST: "a file is where a folder is needed",
}


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
    data = sign(data, home_folder())
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
    return SAVING_REASONS.get(error.errno or 0) or error.strerror or str(error)


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
    changed_ns = index.folder_changed_ns()
    kept = index.recall(home_folder())
    if changed_ns and changed_ns == kept.head.folder_ns and _are_still_faulty(kept.head):
        running = [_look(identity, NO_STAMP).row for identity in kept.head.passing]
        if all(row.status in PASSING for row in running):
            unreadable = [unreadable_row(fault.id, fault.why) for fault in kept.head.faulty]
            return _with_rows(kept.rows, [*unreadable, *running])
    with index.no_collector():
        known, stamps = _sort_out(kept)
        faults = {fault.id: fault for fault in kept.head.faulty if kept.head.reader == _reader()}
        looked = [_look(identity, stamp, faults.get(identity)) for identity, stamp in stamps.items()]
        fresh = [look.row for look in looked]
        faulty = tuple(look.fault for look in looked if look.fault is not None)
        settled = [row for row in fresh if _is_settled(row)]
        passing = tuple(look.row.id for look in looked if look.fault is None and not _is_settled(look.row))
        folder_ns = changed_ns if all(map(str.isprintable, passing)) else 0
        head = index.Head(folder_ns, passing, faulty, _reader() if faulty else "")
        is_changed = bool(settled) or len(known) < len(kept.rows) or head != kept.head
        new_bytes = sum(stamps[row.id][1] for row in settled)
        new_bytes += sum(fault.stamp[1] for fault in faulty if fault != faults.get(fault.id))
        # The index is written again once the folder's time can be trusted, or earlier where that takes less time than
        # reading the new records in the next list.
        if is_changed and (head.folder_ns or kept.size_bytes <= INDEX_COSTS * new_bytes):
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
        names = {all_name for all_name in all_names if all_name.endswith(ENDING)}
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


def read(path: Path) -> Record:
    """Return the record of a file."""
    return living(decode(read_bytes(path), str(path)))


def living(record: Record) -> Record:
    """Return a record as it is now: one whose process is gone no longer runs, and an older one masks its secrets."""
    is_ended = record.status == "running" and is_gone(record.writer)
    return replace(record.without_secrets(), status="ended" if is_ended else record.status)


def read_bytes(path: Path) -> bytes:
    """Read a file that may hold a record. What is larger than any record is refused before it fills the memory."""
    try:
        if path.is_char_device() or path.is_block_device():
            raise RecordError(f"{path} is a device and no record", LIST_HINT)
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            is_too_large = status.st_size > RECORD_FILE_MOST_BYTES
            most = status.st_size if stat.S_ISREG(status.st_mode) else RECORD_FILE_MOST_BYTES  # a pipe has no size
            data = b"" if is_too_large else file.read(most + 1)
    except MemoryError:
        raise RecordError(f"{path} cannot be read: the system refused the memory", HINT_MEMORY) from None
    except FileNotFoundError:
        raise RecordError(f"there is no file {path}", LIST_HINT) from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", "Check the path and its permissions.") from None
    if is_too_large or len(data) > RECORD_FILE_MOST_BYTES:
        says = f"{path} is larger than a record may be ({RECORD_FILE_MOST_BYTES // MEBIBYTE} MiB)"
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


def row_of(identity: str, record: Record) -> RecordRow:
    """Return the list row of a record that is saved under `identity`."""
    words = find_question(record.question).part(QuestionPage).summary(record)
    summary = ", ".join(["NOT RELIABLE", *words] if record.distrust else words)
    return RecordRow(
        id=identity,
        started=record.started,
        question=record.question,
        workload=" and ".join(record.trainings),
        status=record.status,
        summary=f"{GONE}; {summary}" if record.status == "ended" else summary,
        is_fake=any(lane.name.startswith(FAKE_LANES) for lane in record.lanes),
        label=record.ask.label,
        lanes=tuple(lane.name for lane in record.lanes),
        devices=tuple(dict.fromkeys(lane.device.kind for lane in record.lanes)),
    )


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
        why = encodable(error.says)
        is_lasting = error.is_lasting
    except READING_FAULTS as error:
        why = encodable(f"it holds what no list expects ({type(error).__name__}: {error})")
        is_lasting = True
    is_kept = is_lasting and identity.isprintable()
    return _Looked(unreadable_row(identity, why), index.Faulty(identity, why, stamp) if is_kept else None)


def _are_still_faulty(head: index.Head) -> bool:
    """Whether the files that could not be read are as they were, and so is what read them."""
    if not head.faulty:
        return True
    with contextlib.suppress(OSError), _opened_folder() as folder:
        known = all(_stamp(fault.id + ENDING, folder) == fault.stamp for fault in head.faulty)
        return known and head.reader == _reader()
    return False


@cache
def _reader() -> str:
    """Return what reads records: another version of laptime may read what this one cannot."""
    return f"laptime {installed_version()}, schema {SCHEMA}"


# Which record a name means: an id or its beginning, a file, `latest`, or `@label`.

LATEST = "latest"
CLOCK_SLACK_S = 60.0  # of a clock that was set back since
LABEL_SIGN = "@"  # before a label, where a record is named
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
            if is_signed(data, home_folder()) and encode(living(decode(data, str(path)))) == content:
                return True
    return False


def find(name: str) -> Path:
    """Return the file that `name` means; a RecordError names the nearest records."""
    if name == LATEST:
        return _latest()
    if name.startswith(LABEL_SIGN):
        return _labelled(name.removeprefix(LABEL_SIGN))
    if is_file(path_of(name)):
        return path_of(name)
    if os.sep in name or name.endswith(".json") or is_file(Path(name)):
        return expand_home(name, "the record's name")
    ids = [file.removesuffix(ENDING) for file in list_names() if file.endswith(ENDING)]
    begun = sorted(identity for identity in ids if name and identity.startswith(name) and is_file(path_of(identity)))
    if len(begun) == 1:
        return path_of(begun[0])
    if begun:
        raise RecordError(f"{name!r} begins {len(begun)} records: {_few(begun)}", "Give more of the id.")
    near = difflib.get_close_matches(name, sorted(ids)[-COMPARED:], n=3, cutoff=0.5)
    raise RecordError(f"there is no record {name!r}", f"Nearest: {_few(near)}. {LIST_HINT}" if near else LIST_HINT)


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


def find_latest_of(question: str) -> str:
    """Return the id of the newest record of a question that this user made here."""
    ours = (row for row in _by_this_clock([*list_records()]) if row.question == question and row.unreadable is None)
    found = next((row for row in ours if _bears_signature(path_of(row.id))), None)
    if found is None:
        says = f"there is no record of {find_question(question).spoken} that you made here"
        raise RecordError(says, "`laptime list` shows all records.")
    return found.id


def _latest() -> Path:
    """Return the newest record that this user made here, by the clock of now.

    A record of others is not meant by this word, whatever it says of its time. A user without a key has signed none,
    and gets the newest of all.
    """
    rows = list_records()
    if not rows:
        raise RecordError("there are no records yet", "`laptime race` makes one.")
    readable = _by_this_clock([row for row in rows if row.unreadable is None])
    signed = (row for row in readable if _bears_signature(path_of(row.id)))
    found = next(signed, None)
    if found is None and readable and _read_key(home_folder()) is not None:
        says = f"{LATEST} is a record that you made here, and none of these is: {_few([row.id for row in readable])}"
        raise RecordError(says, "Give a record's id.")
    return path_of((found or next(chain(readable, rows))).id)


def _labelled(label: str) -> Path:
    """Return the newest readable record with this label. One that this user made here comes first."""
    rows = _by_this_clock([row for row in list_records() if row.label is not None and row.unreadable is None])
    labelled = [row for row in rows if row.label == label]
    signed = (row for row in labelled if _bears_signature(path_of(row.id)))
    found = next(chain(signed, labelled), None)
    if found is not None:
        return path_of(found.id)
    labels = list(dict.fromkeys(row.label for row in rows if row.label is not None))
    near = difflib.get_close_matches(label, labels, n=3, cutoff=0.5) or labels[:3]
    hint = f"Nearest: {_few([LABEL_SIGN + word for word in near])}. {LIST_HINT}" if near else LABEL_HINT
    raise RecordError(f"no record has the label {label!r}", hint)


def _by_this_clock(rows: list[RecordRow]) -> list[RecordRow]:
    """Return rows that are newest first, with those that began in the future last: a clock that was wrong made them."""
    latest_s = time.time() + CLOCK_SLACK_S
    future = [*takewhile(lambda row: _age(row)[0] > latest_s, rows)]
    return [*rows[len(future) :], *future]


def _bears_signature(path: Path) -> bool:
    """Whether this user signed a record's file. Most files of others are known by their last bytes."""
    with contextlib.suppress(OSError, RecordError):
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - SIGNATURE_MOST_BYTES))
            is_signed_by_any = SIGNATURE.search(file.read(SIGNATURE_MOST_BYTES)) is not None
        return is_signed_by_any and is_signed(read_bytes(path), home_folder())
    return False


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (" and others" if len(ids) > 5 else "")


# Where profilers' traces are: one compressed file per lane, in a folder next to that of the records.

LONGEST_RECORD_NAME = 100


def place_trace(record_id: str, lane: str) -> Path:
    """Return the file for a lane's trace. Remove what killed children left in the folder."""
    folder = home_folder() / "traces"
    remove_stale(folder)
    plain = re.sub(r"[^A-Za-z0-9=.]+", "-", lane)
    if plain != lane.replace("/", "-") or len(plain) > LONGEST_RECORD_NAME:
        # A digest separates names that are shortened or become the same here.
        plain = f"{plain[:LONGEST_RECORD_NAME]}-{hashlib.sha256(lane.encode()).hexdigest()[:8]}"
    return folder / f"{record_id}-{plain}.json.gz"


def drop_all(record_id: str) -> None:
    """Remove the traces of a record that is removed."""
    with contextlib.suppress(OSError):
        for path in (home_folder() / "traces").glob(f"{record_id}-*.json.gz"):
            path.unlink()


# Which records this user made here: laptime signs what it saves with a key in LAPTIME_HOME that its owner alone reads.
#
# A record is data, and may come from anybody. To race one again, or to resume it, starts what it names: a command, the
# code of a file, heats on a cluster. That takes a signature of this key, or the user's word. A signature is the last
# member of a record's file, over all bytes before it: it holds whatever schema the file has.

KEY_BYTES = 32
SIGNATURE = re.compile(rb',"signature":"([0-9a-f]{64})"\}\s*\Z')
SIGNATURE_MOST_BYTES = 256
OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def sign(data: bytes, home: Path) -> bytes:
    """Return a record's JSON with a signature as its last member. Where no key can be kept, it stays as it is."""
    key = _read_key(home)
    if key is None:
        with contextlib.suppress(OSError):  # another process may have been faster
            write_new(_place(home), secrets.token_bytes(KEY_BYTES), is_private=True)
        key = _read_key(home)
    return data if key is None else data[:-1] + f',"signature":"{_signed_digest(key, data[:-1])}"}}'.encode()


def is_signed(data: bytes, home: Path) -> bool:
    """Whether these bytes of a file were signed with this user's key."""
    found = SIGNATURE.search(data)
    key = _read_key(home)
    if found is None or key is None:
        return False
    return hmac.compare_digest(_signed_digest(key, data[: found.start()]), found[1].decode())


def _signed_digest(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _place(home: Path) -> Path:
    """Return where the key is. Users who share a LAPTIME_HOME have a key each."""
    return home / f"laptime-key-{os.getuid()}"


def _read_key(home: Path) -> bytes | None:
    """Return the key, unless there is none that this user alone could have written and can read."""
    data = b""
    with contextlib.suppress(OSError):
        file = os.open(_place(home), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & OF_OTHERS:
                data = os.read(file, KEY_BYTES + 1)
        finally:
            os.close(file)
    return data if len(data) == KEY_BYTES else None
