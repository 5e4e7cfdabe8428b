"""How fast lanes are over a range of batches, threads, workers or widths, and where one overtakes another."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.quantities import Bounded, IntervalFigure, Missing
from laptime.model.record import Answer, LaneResult, QuestionAnswer

WIDTH_AXIS = "width"
AXES = ("batch", "threads", "workers", "items", "lr", WIDTH_AXIS)


@dataclass(frozen=True, slots=True)
class SweepAxis:
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepCell:
    """One asked lane at one value of each axis. `lane` is its name in the record; none where it was refused or left
    out, with the `reason`.

    `memory_bytes` is the most that it held, and `estimated_memory_bytes` what was expected before it ran: None where
    nothing was estimated. One that is `too_large` was left out, because it surely does not fit into memory, and one
    that is `too_long` because a heat would take longer than the budget. `parameters` are those of its network, as a
    process counted them.
    """

    of: str
    at: tuple[str, ...]
    lane: str | None
    step_ms: float | None = None
    items_per_s: float | None = None
    memory_bytes: int | Missing | None = None
    reason: str | None = None
    out_of_memory: bool = False
    estimated_memory_bytes: int | Missing | None = None
    too_large: bool = False
    too_long: bool = False
    parameters: int | None = None


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where, on the first axis, a lane begins to be faster than another; `along` is the value of the second axis."""

    lane: str
    against: str
    at: Bounded
    along: str | None = None


@dataclass(frozen=True, slots=True)
class SweepFactor(IntervalFigure):
    """How many times as fast a lane is as another at one value of the first axis, by the rounds of both."""

    lane: str
    against: str
    at: str
    ratio: float
    low: float | Missing
    high: float | Missing
    along: str | None = None


@dataclass(frozen=True, slots=True)
class SweepCurve:
    """One asked lane along the first axis. At `knee` it has 90 % of its highest rate. `largest` is the last value that
    fits into memory, known to within 5 %. `empty_ms` is what a step with no items in it would take.

    `absent` says why one of these is missing.
    """

    of: str
    along: str | None
    best_at: str
    best_items_per_s: float
    knee: str | None = None
    largest: int | None = None
    empty_ms: Bounded | None = None
    absent: dict[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The whole answer."""

    says: str
    axes: tuple[SweepAxis, ...]
    cells: tuple[SweepCell, ...]
    curves: tuple[SweepCurve, ...] = ()
    crossovers: tuple[Crossover, ...] = ()
    factors: tuple[SweepFactor, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepAnswer(Answer):
    """Lanes over a range of values. Empty while the heats run."""

    sweep: Sweep | None = None
    alone: tuple[str, ...] = ()

    @property
    def is_concluded(self) -> bool:
        return self.sweep is not None and bool(self.sweep.axes)

    def asked_of(self, lanes: tuple[LaneResult, ...]) -> tuple[LaneResult, ...]:
        """Leave out lanes that had no room in memory, and those that halved batches in search of the largest."""
        if self.sweep is None:
            return lanes
        full = {cell.lane for cell in self.sweep.cells if cell.out_of_memory}
        of_cells = {cell.lane for cell in self.sweep.cells} - full
        return tuple(lane for lane in lanes if lane.name in of_cells)


PART = QuestionAnswer(SweepAnswer)
