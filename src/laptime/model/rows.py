"""What a list shows of saved records, and what was found in their files. It imports no other noun: a list is fast."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

GONE = "its process is gone (killed or crashed)"  # the reason in a record that is "ended"
LABEL_FORM = re.compile(r"\w[\w./+:,=@#%-]*")
"""What a label may be: as the names of branches mostly are, and of characters that no shell acts on."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of the list of records; `unreadable` says why a file could not be read. A fake's figures are made up.

    `lanes` are their names, and `devices` the kinds of devices that these use.
    """

    id: str
    started: str
    question: str
    workload: str
    status: str
    summary: str
    unreadable: str | None = None
    is_fake: bool = False
    label: str | None = None
    lanes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


# What is found out about files of records: whether each is one, and what an import did with it.


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Whether a file is a record. `why` says what is wrong, `path` where in the file (a JSON path), `hint` what to do.

    `schema` is that of the file: reading it upgrades it. `signed` is whether this user made the record here.
    """

    file: str
    valid: bool
    signed: bool | None = None
    schema: int | None = None
    id: str | None = None
    question: str | None = None
    path: str | None = None
    why: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """One file of an import, and whether its record is new here."""

    id: str
    file: str
    status: Literal["imported", "is here already"]


# Which of the saved records a list shows, and how a user's word for a lane or a training finds one.

OF_TRAINING = " of "  # in a lane's name, before what it trains, where a race has several trainings
ON_NODES = " on "  # before the type of its nodes, where a race has each lane on several types
ACCELERATOR = "gpu"  # any device but a processor
BOTH = " and "  # between the trainings of one race, in a row


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list shows: rows that fit every field that is set. `since` has a time zone."""

    workload: str | None = None
    lane: str | None = None
    device: str | None = None
    label: str | None = None
    since: datetime | None = None
    question: str | None = None
    status: str | None = None

    def of(self, rows: Iterable[RecordRow]) -> tuple[RecordRow, ...]:
        """Return the rows that fit, in their order."""
        return tuple(row for row in rows if self._has(row))

    def _has(self, row: RecordRow) -> bool:
        return (
            self.status in {None, row.status}
            and self.question in {None, row.question}
            and self.label in {None, row.label}
            and (self.workload is None or trains(row.workload, self.workload))
            and (self.lane is None or any(is_lane(name, self.lane) for name in row.lanes))
            and (
                self.device is None
                or self.device in row.devices
                or (self.device == ACCELERATOR and any(kind != "cpu" for kind in row.devices))
            )
            and (self.since is None or _is_since(row, self.since))
        )


def parts_of(name: str) -> tuple[str, str]:
    """Return the lane in a lane's name, and the rest: what it trains, or on which nodes it is."""
    found = (name.find(mark) for mark in (OF_TRAINING, ON_NODES))
    place = min((place for place in found if place >= 0), default=len(name))
    return name[:place], name[place:]


def trains(workload: str, what: str) -> bool:
    """Whether a row's workload is WHAT: its name, or the end of a file's path."""
    return any(name == what or name.endswith(f"/{what}") for name in (workload, *workload.split(BOTH)))


def is_lane(name: str, words: str) -> bool:
    """Whether a lane's name is what a user calls it: all of it or its beginning, with or without its framework.

    `cuda` is every card, and `cuda/best` the lanes of that preset on each.
    """
    place, rest = parts_of(name)
    wanted, wanted_rest = parts_of(words)
    if wanted_rest not in {"", rest}:
        return False
    parts = place.split("/")
    asked = wanted.rstrip("/").split("/")
    return _begins(parts, asked) or _begins(parts[1:], asked)


def _begins(parts: list[str], asked: list[str]) -> bool:
    if len(asked) > len(parts):
        return False
    return all(part == word or part.startswith(f"{word}:") for part, word in zip(parts, asked, strict=False))


def _is_since(row: RecordRow, since: datetime) -> bool:
    try:
        started = datetime.fromisoformat(row.started)
    except ValueError:
        return False
    return (started if started.tzinfo else started.replace(tzinfo=since.tzinfo)) >= since
