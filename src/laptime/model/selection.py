"""Which of the saved records a list shows, and how a user's word for a lane or a training finds one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from laptime.model.lane import AS_WRITTEN, parts_of
from laptime.model.record import RecordRow

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
            and (self.device is None or _uses(row, self.device))
            and (self.since is None or _is_since(row, self.since))
        )


def trains(workload: str, what: str) -> bool:
    """Whether a row's workload is WHAT: its name, or the end of a file's path."""
    return any(each == what or each.endswith(f"/{what}") for each in (workload, *workload.split(BOTH)))


def is_lane(name: str, words: str) -> bool:
    """Whether a lane's name is what a user calls it: all of it or its beginning, with or without its framework.

    `cuda` is every card, and `cuda/best` the lanes of that preset on each.
    """
    place, rest = parts_of(name)
    wanted, wanted_rest = parts_of(words)
    if wanted_rest not in {"", rest}:
        return False
    parts, asked = place.split("/"), wanted.rstrip("/").split("/")
    return _begins(parts, asked) or _begins(parts[1:], asked)


def is_exactly(name: str, words: str) -> bool:
    """Whether a lane's name is this one, where the default preset may be left out."""
    place, rest = parts_of(name)
    return words in {name, f"{place.removesuffix(f'/{AS_WRITTEN}')}{rest}"}


def _begins(parts: list[str], asked: list[str]) -> bool:
    if len(asked) > len(parts):
        return False
    return all(part == word or part.startswith(f"{word}:") for part, word in zip(parts, asked, strict=False))


def _uses(row: RecordRow, device: str) -> bool:
    return any(kind != "cpu" for kind in row.devices) if device == ACCELERATOR else device in row.devices


def _is_since(row: RecordRow, since: datetime) -> bool:
    try:
        started = datetime.fromisoformat(row.started)
    except ValueError:
        return False
    return (started if started.tzinfo else started.replace(tzinfo=since.tzinfo)) >= since
