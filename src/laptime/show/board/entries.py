"""All that a page's table may show, in one form: measured rows, reported ones and predicted ones; and their tiers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from laptime.machine.hardware import known_devices
from laptime.model import quantities
from laptime.model.errors import UsageError
from laptime.show.board.reported import PredictedFile, Reported, price_of
from laptime.show.board.row import ROW_MOST_BYTES, ROWS, BoardRow, decode_row
from laptime.store.disk import read_regular

Kind = Literal["measured", "reported", "predicted"]
ONCE = 1
SAME_KIND = 2
ANOTHER = 3
TIERS = {
    ONCE: "measured once",
    SAME_KIND: "repeated on the same kind of machine",
    ANOTHER: "repeated on another kind of machine",
}
ALIKE = 1.25  # rows without an interval agree within this factor
PUBLISHED = "as published"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a table. `device` is the name of its page, if it has one; `rows` is how many it is the fastest of.

    `more` are sentences for those who look closer: a flaw, a command, the factor within the record.
    """

    kind: Kind
    training: str
    hardware: str
    device: str | None
    device_kind: str
    framework: str
    settings: str
    lap_s: float
    low_s: float | None
    high_s: float | None
    step_ms: float
    energy_wh: float | None
    memory_gb: float | None
    price: float | None
    price_date: str
    tier: int
    rows: int
    machines: int
    where: str
    record: str | None
    more: tuple[str, ...]


def read_rows(board: Path) -> Iterator[BoardRow]:
    """Yield every row of a board. `check` says whether they are good; a file that is no row ends this in words."""
    root = board / ROWS
    if not root.is_dir():
        raise UsageError(f"{board} has no folder {ROWS}/", "Name the board's folder: laptime board build board/.")
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".json"):
                place = os.path.join(folder, name)  # noqa: PTH118  there may be 100,000
                yield decode_row(read_regular(place, ROW_MOST_BYTES), place)


def entry_of(row: BoardRow) -> Entry:
    """Return a measured row as a line."""
    priced = price_of(row.device.short)
    factor = row.factor
    more = []
    if factor is not None:
        ends = "" if factor.low is None or factor.high is None else f", 95 % {factor.low:.3g} to {factor.high:.3g}"
        more.append(f"{quantities.times(factor.ratio)} {factor.reference} of the same record{ends}.")
    memory_bytes = row.machine.memory_bytes if row.device.kind == "cpu" else row.device.memory_bytes
    return Entry(
        kind="measured",
        training=row.training,
        hardware=hardware_of(row),
        device=row.device_slug,
        device_kind=row.device.kind,
        framework=row.framework,
        settings=settings_of(row.lane),
        lap_s=row.lap_s.middle,
        low_s=row.lap_s.low,
        high_s=row.lap_s.high,
        step_ms=row.step_ms.middle,
        energy_wh=None if row.energy_j_per_lap is None else row.energy_j_per_lap / 3600,
        memory_gb=None if memory_bytes is None else memory_bytes / 1e9,
        price=None if priced is None else priced.price_per_hour,
        price_date="" if priced is None else f"{priced.price_provider}, {priced.price_date}",
        tier=ONCE,
        rows=1,
        machines=1,
        where=f"{row.rounds} round{'s' if row.rounds > 1 else ''}, {row.date}",
        record=row.record,
        more=(*more, f"Command: {row.command}", *_circumstances(row)),
    )


def _circumstances(row: BoardRow) -> list[str]:
    """Return the proof of a row, its machine, and what its lane ran with: sentences for those who look closer."""
    allowed = f"{row.proof.tolerance:.1g} allowed"
    share = row.disturbed_share
    disturbed = "" if share is None else f" {quantities.percent(share)} of its windows were disturbed."
    settings = ", ".join(f"{name}={value}" for name, value in row.settings.items()) or "none changed"
    versions = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    machine = row.machine
    memory = f"{machine.memory_bytes / 1e9:.3g} GB"
    card = "" if row.device.kind == "cpu" else f"{row.device.label}; "
    return [
        f"Proof: {row.proof.steps} steps, at most {row.proof.worst:.1g} from float64 ({allowed}).{disturbed}",
        f"Machine: {card}{machine.processor}, {machine.cores} cores, {memory}, {machine.system}.",
        f"Settings: {settings}. Versions: {versions}.",
    ]


def settings_of(lane: str) -> str:
    """Return what a lane's name says of its settings: best, best+augment=host."""
    return lane.split("/", 2)[-1]


def hardware_of(row: BoardRow) -> str:
    """Return the one name of what trained: a card by its name in the table of devices, whatever its driver calls it."""
    if row.device.kind == "cpu":
        return f"{row.hardware}, {row.machine.cores} cores"
    return names_of_devices().get(row.device.short or "", row.hardware)


@cache
def names_of_devices() -> dict[str, str]:
    return {device.short: device.name for device in known_devices()}


def reported_entry(found: Reported) -> Entry | None:
    """Return a published result as a line; None where it has no time of a lap."""
    if found.lap_s is None or found.step_ms is None:
        return None
    return Entry(
        kind="reported",
        training=found.training,
        hardware=found.hardware if found.kind == "cpu" else names_of_devices().get(found.short or "", found.hardware),
        device=found.short,
        device_kind="cpu" if found.kind == "cpu" else "tpu" if found.kind == "tpu" else "cuda",
        framework="not known",
        settings=PUBLISHED,
        lap_s=found.lap_s,
        low_s=None,
        high_s=None,
        step_ms=found.step_ms,
        energy_wh=None,
        memory_gb=None,
        price=None,
        price_date="",
        tier=0,
        rows=1,
        machines=1,
        where=f"{found.source}; {found.date}",
        record=None,
        more=(
            f"Claim: {found.claim}. The line is the median lap. Its authors call it: {found.hardware}.",
            *(f"{figure}." for figure in found.figures),
            f"Flaw: {found.flaw}",
        ),
    )


def predicted_entries(found: PredictedFile) -> Iterator[Entry]:
    """Yield a line for each device that is predicted: a range, and no figure of its own."""
    by_short = {known_device.short: known_device for known_device in known_devices()}
    loader = () if found.loader_is_known else ("Its loader was not timed alone, and may take longer than this.",)
    for row in found.rows:
        device = by_short.get(row.short)
        priced = price_of(row.short)
        yield Entry(
            kind="predicted",
            training=found.training,
            hardware=row.hardware,
            device=None if device is None else device.short,
            device_kind=row.kind,
            framework=found.lane.partition("/")[0],
            settings=found.preset,
            lap_s=row.lap_s,
            low_s=row.lap_low_s,
            high_s=row.lap_high_s,
            step_ms=row.step_ms,
            energy_wh=None,
            memory_gb=None if device is None else device.memory_gb,
            price=None if priced is None else priced.price_per_hour,
            price_date="" if priced is None else f"{priced.price_provider}, {priced.price_date}",
            tier=0,
            rows=1,
            machines=1,
            where=f"80 % range, {found.date}",
            record=None,
            more=(f"Predicted from {found.lane} of {found.record}; {row.binds} would bind.", *loader),
        )


def fastest_of_each(rows: Iterable[BoardRow]) -> list[Entry]:
    """Return one line for each device, framework and settings: the fastest, with how well it was repeated."""
    entries = []
    for group in _groups(rows):
        best = min(group, key=lambda row: row.lap_s.middle)
        machines = {_machine_kind(row) for row in group}
        entries.append(replace(entry_of(best), tier=tier_of(best, group), rows=len(group), machines=len(machines)))
    return entries


def all_of_each(rows: Iterable[BoardRow]) -> list[Entry]:
    """Return one line for each row, with how well it was repeated."""
    return [replace(entry_of(row), tier=tier_of(row, group)) for group in _groups(rows) for row in group]


def _groups(rows: Iterable[BoardRow]) -> list[list[BoardRow]]:
    groups: dict[tuple[str, str, str, str], list[BoardRow]] = {}
    for row in rows:
        key = (row.training, row.device_slug, row.framework, settings_of(row.lane))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def tier_of(row: BoardRow, group: Sequence[BoardRow]) -> int:
    """Return how well a row was repeated: by other records whose steps agree with it."""
    agreeing = [other for other in group if other.record != row.record and agree(other, row)]
    if any(_machine_kind(other) != _machine_kind(row) for other in agreeing):
        return ANOTHER
    return SAME_KIND if agreeing else ONCE


def agree(one: BoardRow, other: BoardRow) -> bool:
    """Whether the intervals of two steps overlap; where one has none, whether the steps are near each other."""
    first = one.step_ms
    second = other.step_ms
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return max(first.middle, second.middle) <= ALIKE * min(first.middle, second.middle)
    return first.low <= second.high and second.low <= first.high


def _machine_kind(row: BoardRow) -> tuple[str, str, int]:
    return (row.device_slug, row.machine.processor, row.machine.cores)
