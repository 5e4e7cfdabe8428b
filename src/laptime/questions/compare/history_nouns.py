"""One lane over time: a point a record, and what changed from each to the next."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.record import Estimate
from laptime.questions.compare.nouns import LaneChange


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A lane in one record, in items per second.

    `change` is against the newest earlier point on the same machine; None for the first on its machine. `marks` name
    what is different from the point before: the machine, versions, settings, work.
    """

    id: str
    started: str
    label: str | None
    machine: str
    items_per_s: Estimate
    heats: int
    change: LaneChange | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The points of a lane, the oldest first.

    `others` are further lanes of these records, and `left_out` says which records have no point, and why.
    `older` is how many records are older than the limit allows.
    """

    what: str
    lane: str
    question: str
    points: tuple[HistoryPoint, ...]
    others: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    older: int = 0
