"""The saved result of a race: all samples, the machine, the settings, the estimates and the findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from laptime.model.ask import Ask
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.missing import Missing
from laptime.model.plan import Subject
from laptime.model.sample import Dnf, Heat, Reference
from laptime.model.workload import Published

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; `low` and `high` are missing where one heat alone cannot give them."""

    median: float
    low: float | Missing
    high: float | Missing
    p95: float | Missing = field(default_factory=lambda: Missing("not asked of this figure"))


@dataclass(frozen=True, slots=True)
class Parity:
    """Whether a lane did the same work as the float64 reference, and by what measure.

    `worst` is the largest distance from the reference in units of what is allowed: up to 1 is the same work.
    `strays` is how far the lane's own reduced precision strayed, where it has one.
    """

    status: Literal["same", "differs", "unproven"]
    steps: int = 0
    worst_loss: float | None = None
    tolerance_loss: float | None = None
    worst_move: float | None = None
    tolerance_move: float | None = None
    strays: float | None = None
    tolerance_strays: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class HeatResult:
    """One heat with its class: flat, warm-up, slowing or unsteady; and where its steady part starts."""

    steady: str
    steady_from: int
    step_ms: float | None
    heat: Heat


@dataclass(frozen=True, slots=True)
class LaneResult:
    name: str
    framework: dict[str, str]
    device: Device
    settings: Settings
    status: Literal["ok", "dnf", "unusable"]
    reason: str | None
    step_ms: Estimate | None
    lap_s: Estimate | None
    items_per_s: Estimate | None
    first_step_ms: float | None
    startup_s: float | None
    peak_memory_bytes: int | Missing
    device_memory_bytes: int | Missing
    energy_j_per_lap: float | Missing
    parity: Parity
    items_per_step: int | None = None
    heats: tuple[HeatResult, ...] = ()
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ratio` is the lane's items per second over the reference's: above 1 the lane is faster."""

    lane: str
    reference: str
    ratio: float
    low: float | Missing
    high: float | Missing
    verdict: Literal["faster", "slower", "not distinguishable"]
    settled: bool
    pairs: int
    same_work: bool
    alpha: float


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    says: str
    evidence: dict[str, Any]
    advice: str
    sure: Literal["proven", "likely"]


@dataclass(frozen=True, slots=True)
class Record:
    schema: int
    tool: dict[str, str]
    id: str
    started: str
    question: str
    status: Literal["running", "finished", "interrupted"]
    ask: Ask
    machine: Machine
    workload: Subject
    published: Published | None
    lanes: tuple[LaneResult, ...]
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    reference: Reference | None = None
    elapsed_s: float = 0.0
    overhead: dict[str, float] = field(default_factory=dict)
