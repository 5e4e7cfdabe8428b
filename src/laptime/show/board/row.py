"""A row of the board: one lane of one record, in numbers and in words that laptime itself knows."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from laptime.machine.hardware import bare_name
from laptime.model.errors import RecordError
from laptime.model.machine import DeviceKind
from laptime.store.schema import ID

ROW_SCHEMA = 1
ROWS = "rows"
RECORDS = "records"
PREDICTED = "predicted"
ROW_MOST_BYTES = 64 << 10
NOT_IN_SLUGS = re.compile(r"[^a-z0-9]+")
LONGEST_SLUG = 80
DIGEST_DIGITS = 8
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SHORTEST = 1e-9  # of a step in ms and a lap in s
LARGEST = 1e18  # of any number: with larger ones, sums overflow
HINT_ADD = "A row is never edited by hand: write it from its record, by `laptime board add ID -o board/`."


@dataclass(frozen=True, slots=True)
class RowFigure:
    """A figure and its 95 % interval over rounds. `low` and `high` are null where one round alone was run."""

    middle: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class RowDevice:
    """What trained. `short` is its name in laptime's table of devices, null where the table does not have it."""

    kind: DeviceKind
    label: str
    short: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RowMachine:
    """The computer: its processor, the cores that laptime could use, its memory, its system without a build's name."""

    processor: str
    architecture: str
    cores: int
    memory_bytes: int
    system: str


@dataclass(frozen=True, slots=True)
class RowFactor:
    """How many times as fast as the reference of the same record, with the ratio of each round."""

    reference: str
    ratio: float
    low: float | None = None
    high: float | None = None
    ratios: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RowProof:
    """The proof of the same work: its steps, the largest distance of a loss from float64, and what is allowed."""

    status: Literal["same"]
    steps: int
    worst: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One lane of one record. `question` is the command that asked: race or train.

    `step_rounds_ms` has the mean step of each round, or of each whole training. `turns` counts the windows that the
    step is computed from, and `disturbed_share` is the share of all windows that were disturbed. `record_digest` is
    that of the stripped record next to the rows, `whole_digest` that of the whole record, which stays with its author
    (null in rows from before it was kept), and `digest` that of this row without it.
    """

    schema: int
    training: str
    lane: str
    question: str
    device: RowDevice
    machine: RowMachine
    framework: str
    versions: dict[str, str]
    preset: str
    settings: dict[str, str]
    batch: int
    steps_per_lap: float
    step_ms: RowFigure
    lap_s: RowFigure
    step_rounds_ms: tuple[float, ...]
    turns: int
    factor: RowFactor | None
    proof: RowProof
    disturbed_share: float | None
    peak_memory_bytes: int | None
    device_memory_bytes: int | None
    energy_j_per_lap: float | None
    command: str
    date: str
    laptime: str
    record: str
    record_digest: str
    whole_digest: str | None = None
    digest: str = ""

    @property
    def rounds(self) -> int:
        return len(self.step_rounds_ms)

    @property
    def hardware(self) -> str:
        """What a reader calls what trained: a card by its label, a processor by its name."""
        return self.machine.processor if self.device.kind == "cpu" else self.device.label

    @property
    def device_slug(self) -> str:
        """The folder of its device. Processors with other counts of cores are other devices."""
        if self.device.kind == "cpu":
            return slug(f"{self.device.short or self.machine.processor} {self.machine.cores} cores")
        return slug(self.device.short or bare_name(self.device.label))

    @property
    def place(self) -> PurePosixPath:
        """Its file, inside the board's folder."""
        return PurePosixPath(ROWS, self.training, self.device_slug, f"{self.record}-{slug(self.lane)}.json")


def slug(text: str) -> str:
    """Return a text as a part of a file's name: small letters, digits and hyphens only."""
    whole = NOT_IN_SLUGS.sub("-", text.lower()).strip("-") or "unknown"
    if len(whole) <= LONGEST_SLUG:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:DIGEST_DIGITS]  # two long texts may differ at their ends only
    return f"{whole[: LONGEST_SLUG - DIGEST_DIGITS - 1].strip('-')}-{digest}"


def record_name(identity: str) -> str:
    """Return the name of a record's file, in the board's folder of records."""
    return f"{identity}.json.gz"


def record_place(identity: str) -> PurePosixPath:
    return PurePosixPath(RECORDS, record_name(identity))


def sealed(row: BoardRow) -> BoardRow:
    """Return a row with its own digest."""
    return replace(row, digest=digest_of(encode_row(replace(row, digest=""))))


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode_row(row: BoardRow) -> bytes:
    """Return a row as its file: sorted keys, one field a line, so that a pull request shows what is in it."""
    tree = msgspec.to_builtins(row)
    return (json.dumps(tree, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=True) + "\n").encode()


def decode_row(data: bytes, where: str) -> BoardRow:
    """Read a row, or refuse it in words."""
    try:
        row = msgspec.json.decode(data, type=BoardRow)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        why, _, place = str(error).partition(" - at ")
        inside = f" ({place.strip('`')})" if place else ""
        says = f"{where} is not a row of the board: {why[:1].lower()}{why[1:]}{inside}"
        raise RecordError(says, HINT_ADD) from None
    if row.schema != ROW_SCHEMA:
        says = f"{where} is a row of schema {row.schema}, and this laptime knows {ROW_SCHEMA}"
        raise RecordError(says, "Write it again with this version of laptime, or upgrade laptime.")
    if not is_possible(row):
        raise RecordError(f"{where} has a step or a lap that takes no time, or a number that nothing has", HINT_ADD)
    if not ID.fullmatch(row.record):
        raise RecordError(f"{where} names a record that cannot be: {row.record!a}", HINT_ADD)
    return row


def is_possible(row: BoardRow) -> bool:
    """Whether a row's figures may be those of a training at all: finite, and no time that cannot be."""
    for figure in (row.step_ms, row.lap_s):
        if not figure.middle >= SHORTEST or (figure.high is not None and not figure.high > 0):
            return False
    return has_possible_numbers(row)


def has_possible_numbers(tree: Any) -> bool:
    """Whether all numbers of a file are small enough to be computed with."""
    if isinstance(tree, dict):
        return all(map(has_possible_numbers, tree.values()))
    if isinstance(tree, list | tuple):
        return all(map(has_possible_numbers, tree))
    if is_dataclass(tree):
        return all(has_possible_numbers(getattr(tree, field.name)) for field in fields(tree))
    return not isinstance(tree, int | float) or abs(tree) <= LARGEST


def row_schema() -> dict[str, Any]:
    """Return the JSON Schema of a row's file."""
    (_,), parts = msgspec.json.schema_components([BoardRow], ref_template="#/$defs/{name}")
    for part in parts.values():
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
    row = parts.pop("BoardRow")
    row["properties"]["schema"] = {"const": ROW_SCHEMA}
    return {
        "$schema": DIALECT,
        "$id": f"urn:laptime:board-row:{ROW_SCHEMA}",
        **row,
        "title": f"A row of laptime's board, schema {ROW_SCHEMA}",
        "additionalProperties": False,
        "$defs": {name: {**part, "additionalProperties": False} for name, part in sorted(parts.items())},
    }


def row_schema_text() -> str:
    """Return the schema as it is in docs/board.schema.json."""
    return json.dumps(row_schema(), indent=1) + "\n"
