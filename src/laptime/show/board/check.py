"""`laptime board check`: what a pull request's CI runs over all rows and their records, file by file.

A row is made again from its record, so a number that was edited in a row alone cannot pass. What a record has to be is
in `claims.py`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import get_args

from laptime.model.errors import LaptimeError, RecordError, UsageError
from laptime.model.hardware import Binds
from laptime.model.record import Record
from laptime.planner.lanes import name_lane, parse_lane
from laptime.show.board.add import board_rows
from laptime.show.board.claims import FAULTS, find_chosen_windows, find_faults
from laptime.show.board.evidence import (
    INFLATED_MOST_BYTES,
    RECORD_MOST_BYTES,
    WHOLE,
    WORD,
    canonical,
    decompress,
    read_evidence,
    strip,
    whole_digest,
    with_whole,
)
from laptime.show.board.physics import expected_step, known_device
from laptime.show.board.reported import (
    HINT_PREDICT,
    PredictedFile,
    PredictedRow,
    encode_predictions,
    predict_again,
    read_predictions,
)
from laptime.show.board.row import (
    HINT_ADD,
    PREDICTED,
    RECORDS,
    ROW_MOST_BYTES,
    ROWS,
    BoardRow,
    decode_row,
    digest_of,
    encode_row,
    record_name,
    record_place,
    sealed,
)
from laptime.store.disk import read_regular
from laptime.store.schema import ID, decode
from laptime.trainings.workloads import CATALOGUE

ROW_NAME = re.compile(r"(?P<id>r-\d{4}-\d\d-\d\d-[0-9a-f]{4,16})-[a-z0-9-]{1,80}\.json", re.ASCII)
RECORD_NAME = re.compile(r"(r-\d{4}-\d\d-\d\d-[0-9a-f]{4,16})\.json\.gz", re.ASCII)
WHOLE_NAME = re.compile(r"r-[0-9a-f-]+\.json(\.gz)?", re.ASCII)
FOLDER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}", re.ASCII)
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
OTHER_FILES = {PurePosixPath("README.md")}
HINT_RACE = "Race it again with an unchanged laptime, then: laptime board add latest."
HINT_REMAKE = "Write it again from its record: laptime board remake."
HINT_FILE = "Remove it: the board's folder has rows/, records/ and predicted/ and nothing else."
HINT_KEEP = "Put it back as it was. Who keeps the board removes and remakes rows in a change of their own."
SAME_DIGITS = 6  # of the step of each round, by which a copy is known
ALL_DIGITS = 17  # of the step of a single round


@dataclass(frozen=True, slots=True)
class BoardFault:
    """Why a file is refused: which check found what, and the way out."""

    file: str
    check: str
    says: str
    hint: str


@dataclass(frozen=True, slots=True)
class BoardNote:
    """What is worth a look in a file that is not refused."""

    file: str
    says: str


@dataclass(frozen=True, slots=True)
class BoardCheck:
    """What `check` found: how many rows and records it read, what it refuses, and what it only notes."""

    rows: int
    records: int
    faults: tuple[BoardFault, ...]
    notes: tuple[BoardNote, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is kept of a stripped record: its id, the digests of its bytes as they are and in this laptime's schema, its
    rows, and what is worth a look in it.
    """

    identity: str
    digest: str
    upgraded_digest: str
    rows: dict[str, BoardRow]
    notes: tuple[str, ...] = ()
    whole: str | None = None


# The files: each is read on its own, then rows are held against their records and each other.


def check(board: Path, before: Path | None = None, wholes: Path | None = None) -> BoardCheck:
    """Check all rows and records of a board's folder. Of the board `before`, each file has to be there unchanged.

    `wholes` is a folder of whole records, as those who measured keep them: each that is there has to give its own.
    """
    if wholes is not None and not wholes.is_dir():
        raise UsageError(f"{wholes} is no folder", "Name the folder of whole records: --records ~/.laptime/records.")
    for folder in (board, *([before] if before else [])):
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder", "Name the board's folder: laptime board check board/.")
        if not any(path.is_file() for name in (ROWS, RECORDS, PREDICTED) for path in folder.glob(f"{name}/**/*")):
            raise UsageError(
                f"{folder} has nothing of a board", "Name the board's folder, or add one: laptime board add latest."
            )
    faults: list[BoardFault] = [] if before is None else [*_find_lost(board, before)]
    notes: list[BoardNote] = []
    places = list(_files_of(board, faults))
    row_places = [place for place in places if place.parts[0] == ROWS]
    records = {place: _read_record(board, place, faults) for place in places if place.parts[0] == RECORDS}
    evidence = {place.name: its for place, its in records.items() if its is not None}
    notes += [BoardNote(str(record_place(its.identity)), says) for its in evidence.values() for says in its.notes]
    rows: dict[PurePosixPath, BoardRow] = {}
    for place in row_places:
        row = _read_row(board, place, evidence, faults)
        if row is not None:
            rows[place] = row
            notes += _outlier(place, row)
    for place in [place for place in places if place.parts[0] == PREDICTED]:
        faults += _find_wrong_prediction(board, place)
    if wholes is not None:
        # The keeper's files by the id in their name; of two with one id, the first by its path
        files = sorted((Path(folder) / name for folder, _, names in os.walk(wholes) for name in names), reverse=True)
        kept = [path for path in files if WHOLE_NAME.fullmatch(path.name) and path.is_file()]
        by_id = {path.name.partition(".")[0]: path for path in kept}
        for its in evidence.values():
            if its.identity in by_id:
                faults += _hold_against_whole(its, by_id[its.identity])
            else:
                notes.append(BoardNote(str(record_place(its.identity)), f"no whole record of it is in {wholes}"))
    if before is not None:
        faults += _find_nameless(evidence, before)
    faults += _find_orphans(evidence, places)
    faults += _find_copies(rows)
    in_order = sorted(dict.fromkeys(faults), key=lambda fault: (fault.file, fault.check))
    return BoardCheck(len(row_places), len(evidence), tuple(in_order), tuple(notes))


def checked_records(board: Path) -> tuple[Record, ...]:
    """Return the records behind a board's rows, once all of it was checked: strangers may have sent them."""
    faults = check(board).faults
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        says = f"{board} is not a good board: {faults[0].file}: {faults[0].says}{more}"
        raise UsageError(says, f"See all of it: laptime board check {board}")
    packed = [path for path in sorted((board / RECORDS).iterdir()) if RECORD_NAME.fullmatch(path.name)]
    return tuple(read_evidence(read_regular(path, RECORD_MOST_BYTES), path.name)[0] for path in packed)


def _files_of(board: Path, faults: list[BoardFault]) -> Iterator[PurePosixPath]:
    """Yield rows, records and predictions, by their names. Links are not followed, and other files are refused."""
    for folder, folders, names in os.walk(board):
        here = PurePosixPath(Path(folder).relative_to(board).as_posix())
        links = {name for name in folders if (Path(folder) / name).is_symlink()}
        faults += [
            _fault(here / link, "files", "it is a link", "Put the folder itself there.") for link in sorted(links)
        ]
        folders[:] = sorted(set(folders) - links)
        for name in sorted(names):
            place = here / name
            if (Path(folder) / name).is_symlink():
                faults.append(_fault(place, "files", "it is a link", "Put the file itself there."))
            elif is_row_place(place) or is_record_place(place) or is_predicted_place(place):
                yield place
            elif place not in OTHER_FILES:
                faults.append(_fault(place, "files", "no row, record or prediction has such a name", HINT_FILE))


def _find_lost(board: Path, before: Path) -> Iterator[BoardFault]:
    """Yield the files of an earlier board that are gone or are others: who sends rows leaves those of others alone."""
    for place in _files_of(before, []):
        now = board / place
        if not now.is_file():
            yield _fault(place, "kept", "it was on the board, and is gone", HINT_KEEP)
        elif now.read_bytes() != (before / place).read_bytes():
            yield _fault(place, "kept", "it was on the board, and was changed", HINT_KEEP)


def _find_nameless(evidence: dict[str, Evidence], before: Path) -> Iterator[BoardFault]:
    """Yield records that are new and name no whole record: one may claim a schema from before these had to."""
    for found in evidence.values():
        place = record_place(found.identity)
        if found.whole is None and not (before / place).is_file():
            yield _fault(place, "record", "it is new, and does not name the digest of its whole record", HINT_ADD)


def is_record_place(place: PurePosixPath) -> bool:
    return place.parts[:-1] == (RECORDS,) and RECORD_NAME.fullmatch(place.name) is not None


def is_predicted_place(place: PurePosixPath) -> bool:
    return place.parts[:-1] == (PREDICTED,) and place.suffix == ".json" and place.stem in CATALOGUE


def is_row_place(place: PurePosixPath) -> bool:
    parts = place.parts
    return (
        len(parts) == 4
        and parts[0] == ROWS
        and parts[1] in CATALOGUE
        and FOLDER_NAME.fullmatch(parts[2]) is not None
        and ROW_NAME.fullmatch(parts[3]) is not None
    )


def _fault(place: PurePosixPath, check_name: str, says: str, hint: str) -> BoardFault:
    return BoardFault(str(place), check_name, says, hint)


def _read(board: Path, place: PurePosixPath, most: int, faults: list[BoardFault]) -> bytes | None:
    try:
        return read_regular(board / place, most)
    except OSError as error:
        faults.append(_fault(place, "files", f"it cannot be read: {error.strerror or error}", HINT_ADD))
        return None


def _read_record(board: Path, place: PurePosixPath, faults: list[BoardFault]) -> Evidence | None:
    packed = _read(board, place, RECORD_MOST_BYTES, faults)
    if packed is None:
        return None
    try:
        record, data = read_evidence(packed, place.name)
        if record_place(record.id) != place:
            raise RecordError(f"{place.name} holds the record {record.id}", "Name the file like its record.")
        digest = digest_of(data)
        found = find_faults(record)
        faults += [_fault(place, name, says, HINT_RACE) for name, says in found]
        notes = () if found else tuple(find_chosen_windows(record))
        rows = {row.lane: row for row in board_rows(record, digest)}
        whole = record.tool.get(WHOLE)
        upgraded = digest if whole is not None else digest_of(canonical(strip(record)))
        return Evidence(record.id, digest, upgraded, rows, notes, whole)
    except LaptimeError as error:
        faults.append(_fault(place, "record", error.says, error.hint))
    except FAULTS as error:
        says = f"it holds what no laptime wrote ({type(error).__name__}: {error})"
        faults.append(_fault(place, "record", says, HINT_RACE))
    return None


def _hold_against_whole(found: Evidence, file: Path) -> Iterator[BoardFault]:
    """Yield where a record is not the one that its keeper has."""
    place = record_place(found.identity)
    try:
        packed = read_regular(file, INFLATED_MOST_BYTES)
        data = decompress(packed, file.name) if file.suffix == ".gz" else packed
        whole = decode(data, file.name)
        if found.whole not in {None, whole_digest(data)}:
            yield _fault(place, "whole", f"it is of another whole record than {file.name}", HINT_ADD)
            return
        made = strip(whole if found.whole is None else with_whole(whole, data))
    except (LaptimeError, OSError, LookupError) as error:
        yield _fault(place, "whole", f"its whole record {file.name} cannot be read: {error}", HINT_ADD)
        return
    if digest_of(canonical(made)) != found.upgraded_digest:
        yield _fault(place, "whole", f"it is not what {file.name} gives: it was changed", HINT_ADD)


def _read_row(
    board: Path, place: PurePosixPath, evidence: dict[str, Evidence], faults: list[BoardFault]
) -> BoardRow | None:
    """Return a row that its record gives, byte for byte; else note the first thing that is wrong with it."""
    data = _read(board, place, ROW_MOST_BYTES, faults)
    if data is None:
        return None
    try:
        row = decode_row(data, place.name)
    except RecordError as error:
        faults.append(_fault(place, "schema", error.says, error.hint))
        return None
    found = evidence.get(record_name(row.record))
    made = None if found is None else found.rows.get(row.lane)
    if sealed(row).digest != row.digest:
        says = "its digest is not that of what it says: a number or a word in it was changed"
        faults.append(_fault(place, "digest", says, HINT_ADD))
    elif found is None:
        says = f"the record {row.record} is not in records/, or is refused"
        faults.append(_fault(place, "record", says, "Add the record's file, too."))
    elif found.digest != row.record_digest:
        says = f"it names another digest than that of the record {row.record}"
        faults.append(_fault(place, "record", says, HINT_ADD))
    elif made is None:
        says = f"the record {row.record} has no lane {row.lane!a} that has a row"
        faults.append(_fault(place, "record", says, HINT_ADD))
    elif made != row:
        differs = [field.name for field in fields(row) if getattr(made, field.name) != getattr(row, field.name)]
        says = f"it does not say what its record says: {', '.join(differs)}"
        faults.append(_fault(place, "record", says, HINT_REMAKE))
    elif encode_row(made) != data:
        says = "it has other bytes than the row of its record: a field or a space too many"
        faults.append(_fault(place, "record", says, HINT_ADD))
    elif made.place != place:
        hint = "Move it there, or write it again: laptime board add ID."
        faults.append(_fault(place, "files", f"it belongs into {made.place}", hint))
    else:
        return row
    return None


def _outlier(place: PurePosixPath, row: BoardRow) -> Iterator[BoardNote]:
    """Yield a note where a forecast expects something else, or knows no such card; it is no proof, so the row stays."""
    if row.device.kind != "cpu" and row.device.short is None:
        yield BoardNote(str(place), f"{row.hardware} is not in laptime's table of devices, so no peak bounds its step")
    workload = CATALOGUE[row.training]
    expected = expected_step(row, workload)
    # A loader may take any time, so where there is one, only a step that is too short is a surprise.
    if expected is not None and not expected.low <= row.step_ms.middle <= (
        math.inf if workload.reads_files else expected.high
    ):
        yield BoardNote(
            str(place),
            f"a step of {row.step_ms.middle:.3g} ms is outside of what a forecast expects "
            f"({expected.low:.3g} to {expected.high:.3g} ms, 80 %)",
        )


def _find_wrong_prediction(board: Path, place: PurePosixPath) -> Iterator[BoardFault]:
    """Yield what is wrong with a file of predictions. It is made again from the measured record that it begins with."""
    try:
        found = read_predictions(board, place.stem)
        data = read_regular(board / place, ROW_MOST_BYTES)
    except RecordError as error:
        yield _fault(place, "predicted", error.says, error.hint)
        return
    except OSError as error:
        yield _fault(place, "predicted", f"it cannot be read: {error.strerror or error}", HINT_PREDICT)
        return
    whys = [] if found is None else [_why_no_prediction(found, data), *(map(_why_not_predicted, found.rows))]
    refused = [_fault(place, "predicted", says, HINT_PREDICT) for says in filter(None, whys)]
    yield from refused
    if found is not None and not refused:
        says = _why_not_again(board, found)
        if says is not None:
            yield _fault(place, "predicted", says, HINT_PREDICT)


def _why_not_again(board: Path, found: PredictedFile) -> str | None:
    """Return where the record of a prediction, which is on the board and good, does not predict the same."""
    there = record_place(found.record)
    try:
        record, _ = read_evidence(read_regular(board / there, RECORD_MOST_BYTES), there.name)
        refused = find_faults(record)
        made = predict_again(record, found)
    except OSError:
        return f"the measured record {found.record} that it begins with is not in records/"
    except (LaptimeError, *FAULTS) as error:
        return f"nothing is predicted from {found.record}: {error}"
    if refused:
        return f"the record {found.record} that it begins with is refused: {refused[0][1]}"
    if made.rows != found.rows or made.loader_is_known != found.loader_is_known:
        names = [row.short for row, other in zip(made.rows, found.rows, strict=False) if row != other]
        return f"{found.record} predicts something else of {', '.join(names) or 'its devices'}"
    return None


def _why_no_prediction(found: PredictedFile, data: bytes) -> str | None:
    """Return what is in a file of predictions that `laptime board predict` does not write."""
    if encode_predictions(found) != data:
        return "it has other bytes than such a file: a field or a space too many"
    words = ((ID, found.record), (DAY, found.date), (WORD, found.laptime or "0"))
    if not all(form.fullmatch(word) for form, word in words):
        return "its record, its date or its version cannot be"
    if len({row.short for row in found.rows}) < len(found.rows):
        return "it has a device twice"
    try:
        lane = parse_lane(found.lane)
    except UsageError:
        return f"its lane {found.lane!a} is none"
    name = name_lane(lane.framework, lane.device or "", lane.preset, lane.overrides)
    if name != found.lane or found.preset != found.lane.rpartition("/")[2]:
        return f"its lane {found.lane!a} is not written as laptime writes it, or has other settings than its rows"
    return None


def _why_not_predicted(row: PredictedRow) -> str | None:
    device = known_device(row.short)
    if device is None or (row.hardware, row.kind) != (device.name, device.kind):
        return f"its row of {row.short!a} is of no known device, or calls it by another name"
    if row.binds not in get_args(Binds):
        return f"its row of {row.short!a} names a limit that laptime does not know"
    ends = (row.step_low_ms, row.step_ms, row.step_high_ms), (row.lap_low_s, row.lap_s, row.lap_high_s)
    if not all(0 < low <= middle <= high for low, middle, high in ends):
        return f"the range of its row of {row.short!a} does not hold its middle"
    return None


def _find_orphans(evidence: dict[str, Evidence], places: list[PurePosixPath]) -> Iterator[BoardFault]:
    """Yield the records of which no file in rows/ is, whether that row is a good one or not."""
    named = {found["id"] for place in places if (found := ROW_NAME.fullmatch(place.name))}
    for name, its in sorted(evidence.items()):
        if its.identity not in named:
            place = PurePosixPath(RECORDS, name)
            yield BoardFault(str(place), "record", "no row is of this record", "Add its rows, or remove it.")


def _find_copies(rows: dict[PurePosixPath, BoardRow]) -> Iterator[BoardFault]:
    """Yield the rows whose numbers another record has too, to six digits: chance does not do that in several rounds."""
    by_numbers: dict[str, list[PurePosixPath]] = {}
    for place, row in rows.items():
        digits = SAME_DIGITS if len(row.step_rounds_ms) > 1 else ALL_DIGITS
        numbers = json.dumps([row.training, [f"{step_ms:.{digits}g}" for step_ms in row.step_rounds_ms], row.turns])
        by_numbers.setdefault(numbers, []).append(place)
    for places in by_numbers.values():
        first, *others = sorted(places)
        for place in others:
            if rows[place].record != rows[first].record:
                says = f"it has the same numbers as {first} under another id"
                yield _fault(place, "copies", says, "Keep the row of the record that was measured.")
