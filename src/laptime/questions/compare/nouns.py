"""How the lanes of one record compare with those of another, or the trainings of one race with its first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laptime.model.quantities import Estimate, IntervalFigure, Missing

HISTORY_POINTS = 30  # of a history, where no limit is given
Measured = Literal["heats", "trainings", "windows"]
ChangeVerdict = Literal["faster", "slower", "not distinguishable"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared. In a race of several trainings both have one id, and `training` differs."""

    id: str
    started: str
    label: str | None
    status: str
    training: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What is not the same on both sides. If it is `doubtful`, it may be the reason for a ratio."""

    what: str
    before: str
    after: str
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class LaneChange(IntervalFigure):
    """One lane before and after, in items per second. `ratio` is after over before: above 1 it became faster.

    `counts` are the heats (or whole trainings, or windows of a watched one) of each side, of which each gave one value.
    """

    lane: str
    training: str
    measured: Measured
    before: Estimate
    after: Estimate
    counts: tuple[int, int]
    ratio: float
    low: float | Missing
    high: float | Missing
    verdict: ChangeVerdict
    same_work: bool | Missing

    def is_beyond(self, share: float) -> bool:
        """Whether the lane takes more than `share` longer for certain: at the end of the interval nearest to 1."""
        return self.verdict == "slower" and self.ends is not None and self.ends[1] * (1 + share) < 1


@dataclass(frozen=True, slots=True)
class PartChange:
    """A part of an iteration of a watched script, before and after."""

    part: str
    before_ms: float
    after_ms: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two records or, where it is `interleaved`, of the trainings of one race.

    `unpaired` says which lanes are on one side only, and `warnings` what makes the ratios doubtful. `failing` are the
    lanes that are slower than `fail_above` allows, and `unjudged` those that should have been judged and have no
    result. Of watched scripts, `parts` are those of an iteration, what changed most first.
    """

    question: str
    before: Side
    after: Side
    interleaved: bool
    lanes: tuple[LaneChange, ...]
    differences: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()
    fail_above: float | None = None
    failing: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    parts: tuple[PartChange, ...] = ()


# One lane over time: a point a record, and what changed from each to the next.


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A lane in one record, in items per second.

    `change` is against the newest earlier point on the same machine; None for the first on its machine. `marks` name
    what is different from the point before: the machine, versions, settings, work. Of a watched script, `step_ms` is
    what an iteration takes, `finding` the first that was found, and `heats` the blocks of its iterations.
    """

    id: str
    started: str
    label: str | None
    machine: str
    items_per_s: Estimate
    heats: int
    change: LaneChange | None = None
    marks: tuple[str, ...] = ()
    step_ms: Estimate | None = None
    finding: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The points of a lane, or of a watched script, the oldest first.

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
