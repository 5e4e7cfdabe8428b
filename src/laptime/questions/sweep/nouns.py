"""How fast lanes are over a range of batches, threads, workers or widths, and where one overtakes another."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.interval import IntervalFigure
from laptime.model.missing import Missing
from laptime.questions.scale.nouns import Bounded

WIDTH = "width"
AXES = ("batch", "threads", "workers", "items", "lr", WIDTH)


@dataclass(frozen=True, slots=True)
class SweepAsk:
    """The values of one axis or two, as they were written: `1..4096` doubles, `8,16,24` is a list."""

    batch: str | None = None
    threads: str | None = None
    workers: str | None = None
    items: str | None = None
    lr: str | None = None
    width: str | None = None


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
