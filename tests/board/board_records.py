"""Kept records for the tests of the board, and boards that are damaged or dishonest in a known way."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

from measured import with_heat

from laptime.analysis.heats import estimate, mean_step_ms, scaled, steady_windows
from laptime.analysis.lanes import compare_lanes
from laptime.model.record import LaneResult, Record
from laptime.show.board.add import board_rows
from laptime.show.board.evidence import canonical, compress, read_evidence, with_whole
from laptime.show.board.row import BoardRow, decode_row, digest_of, encode_row, record_place
from laptime.store.schema import decode, encode
from laptime.trainings.workloads import CATALOGUE

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@cache
def kept(name: str = "cifar-cnn-default") -> Record:
    """Return a record that laptime wrote: two lanes on a processor; `scenes-cnn-h100` has four, with a card."""
    whole = gzip.decompress((PICTURES / f"{name}.json.gz").read_bytes())
    return with_whole(decode(whole, name), whole)


def encoded(record: Record) -> bytes:
    return encode(record)


def files_of(record: Record) -> dict[str, bytes]:
    """Return the files of a stripped record as they are on a board, whatever is true of it."""
    data = canonical(record)
    rows = board_rows(record, digest_of(data))
    return {str(record_place(record.id)): compress(data), **{str(row.place): encode_row(row) for row in rows}}


def write(files: dict[str, bytes], board: Path) -> Path:
    for name, data in files.items():
        (board / name).parent.mkdir(parents=True, exist_ok=True)
        (board / name).write_bytes(data)
    return board


def with_times(record: Record, factor: float) -> Record:
    """Return a record in which everything took `factor` times as long, consistent from its windows to its factors."""
    lanes = tuple(_slower(lane, factor) for lane in record.lanes)
    by_name = {lane.name: lane for lane in lanes}
    made = (
        compare_lanes(by_name[each.lane], by_name[each.reference], record.ask.margin, each.alpha)
        for each in record.answer.comparisons
    )
    return replace(record, lanes=lanes, answer=replace(record.answer, comparisons=tuple(filter(None, made))))


def _slower(lane: LaneResult, factor: float) -> LaneResult:
    heats = []
    for result in lane.heats:
        windows = tuple(
            replace(
                each,
                start_ns=(start := round(factor * each.start_ns)),
                end_ns=max(start + 1, round(factor * each.end_ns)),
            )
            for each in result.heat.windows
        )
        slow = with_heat(result, windows=windows)
        heats.append(replace(slow, step_ms=mean_step_ms(steady_windows(slow))))
    step = estimate([heat.step_ms for heat in heats])
    assert step is not None
    return replace(lane, heats=tuple(heats), step_ms=step, lap_s=scaled(step, steps_of(lane) / 1e3))


def steps_of(_lane: LaneResult) -> float:
    return CATALOGUE["cifar-cnn"].steps_per_lap


LINK = b"link to "


def row_names(files: dict[str, bytes]) -> list[str]:
    return sorted(each for each in files if each.startswith("rows/"))


def record_name(files: dict[str, bytes]) -> str:
    return next(each for each in files if each.startswith("records/"))


@cache
def trained() -> Record:
    """Return the kept record of a whole training on a card, from the repository's own board."""
    place = PICTURES.parents[1] / "board" / record_place("r-2026-11-27-6664")
    record, data = read_evidence(place.read_bytes(), place.name)
    return with_whole(record, data)  # of an older schema: as if those bytes were the whole record


def place(files: dict[str, bytes], board: Path) -> None:
    """Write files and links, whatever they are called."""
    for name, data in files.items():
        path = board / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data.startswith(LINK):
            path.symlink_to(data.removeprefix(LINK).decode())
        else:
            path.write_bytes(data)


def row_of(board: Path, lane: str) -> BoardRow:
    """Return the row of a lane on a board."""
    return next(row for row in rows_of(board) if row.lane == lane)


def rows_of(board: Path) -> list[BoardRow]:
    return [decode_row(each.read_bytes(), each.name) for each in sorted((board / "rows").rglob("*.json"))]
