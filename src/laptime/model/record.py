"""The saved result of a race: all samples, the machine, the settings, the estimates and the findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from laptime.model.ask import Ask
from laptime.model.dataset import DataSource
from laptime.model.inference import AnswerReference, InferHeat, InferPace
from laptime.model.lane import Settings
from laptime.model.limits import Roofline
from laptime.model.machine import Device, Machine
from laptime.model.missing import Missing
from laptime.model.plan import Subject
from laptime.model.profile import Profile
from laptime.model.protocol import FullRace
from laptime.model.sample import Appeal, Dnf, Examination, FreshSteps, ProofRun, Reference, Window
from laptime.model.signs import Signs
from laptime.model.timeline import Timeline
from laptime.model.usage import AnswerUsage, Usage
from laptime.model.why import Why
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

    `worst` is the largest relative distance of a step's loss from the reference, `moved` the distance of the
    weights' movement in units of what is allowed (up to 1 passes). `strays` is how far the lane's own reduced
    precision strayed in its loss, where it has one. `chance` is in what a first proof differed that a second, from
    another seed, did not confirm; the figures are then the second's.
    """

    status: Literal["same", "differs", "unproven"]
    steps: int = 0
    worst: float | None = None
    tolerance: float | None = None
    moved: float | None = None
    strays: float | None = None
    strays_tolerance: float | None = None
    strays_precision: str | None = None
    reason: str | None = None
    chance: str | None = None


@dataclass(frozen=True, slots=True)
class HeatResult:
    """One heat as it is kept. `steady` (in JSON: "class") is flat, warm-up, slowing or unsteady.

    `steady_from` is the first window that counts, `step_ms` the median step of the windows from there; their
    mean step where the loader hands over `burst` batches at once and then lets steps wait.
    """

    order: int
    round: int
    status: Literal["ok", "dnf"]
    steady: str
    steady_from: int
    step_ms: float | None
    first_step_ms: float | None
    phases_s: dict[str, float]
    windows: tuple[Window, ...]
    losses: tuple[float, ...]
    proofs: tuple[ProofRun, ...]
    readings: dict[str, float | Missing]
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None
    examination: Examination | None = None
    fresh: FreshSteps | None = None
    burst: int | None = None
    timeline: Timeline | None = None
    signs: Signs | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long the whole training would take on a lane, foretold part by part from its heats.

    `ready_s` is from starting the process to the end of the first step, `train_s` all other steps of all laps. What
    only laptime does (proof, checkpoints) is left out, as `race --full` leaves it out. `fresh_factor` is how many times
    as long a step takes until every item was decoded once, where a loader then holds it.
    """

    laps: int
    steps_per_lap: float
    ready_s: float
    train_s: Estimate
    validation_s: float
    test_s: float
    whole_s: Estimate
    fresh_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class LaneResult:
    """What came of a lane. Why there is no profile or roofline where one was asked for is in `absent`, by name.

    A roofline is asked for where the lane was profiled, or its device was measured.
    """

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
    whole: Forecast | None = None
    appeal: Appeal | None = None
    usage: Usage | None = None
    profile: Profile | None = None
    roofline: Roofline | None = None
    absent: dict[str, Missing] = field(default_factory=dict)


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
class Wait:
    """What one who starts a program for one answer waits for, part by part, and then for each further answer.

    `network_s` is building the network, giving it its weights and bringing it to the device.
    """

    process_s: float
    import_s: float
    network_s: float
    first_call_s: float
    further_call_s: float | Missing

    @property
    def first_answer_s(self) -> float:
        return self.process_s + self.import_s + self.network_s + self.first_call_s


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The throughput at one batch size; `reason` says why it is not known, or not from every heat."""

    batch: int
    items_per_s: Estimate | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InferLane:
    """How a lane answers: one item's latency in milliseconds, and items per second at each batch size.

    `steady` counts the heats' single calls by class, and `calls` those that the percentiles stand on. `usages` are what
    single calls and each batch size took, where heats were watched.
    """

    lane: str
    items_a_call: int | None
    p50_ms: Estimate | None
    p95_ms: Estimate | None
    p99_ms: Estimate | None
    calls: int
    wait: Wait | None
    batches: tuple[BatchResult, ...]
    steady: dict[str, int] = field(default_factory=dict)
    heats: tuple[InferHeat, ...] = ()
    usages: tuple[AnswerUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class InferFactor:
    """How many times faster a lane answers than the reference: a single call (no `batch`), or items per second."""

    lane: str
    reference: str
    batch: int | None
    ratio: float
    low: float | Missing
    high: float | Missing
    verdict: Literal["faster", "slower", "not distinguishable"]
    pairs: int
    same_work: bool


@dataclass(frozen=True, slots=True)
class Inference:
    """Inference of some lanes: how each answers, and by what factors they differ."""

    pace: InferPace
    lanes: tuple[InferLane, ...]
    factors: tuple[InferFactor, ...] = ()
    reference: AnswerReference | None = None


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
    full: FullRace | None = None
    data: DataSource | None = None
    infer: Inference | None = None
    why: Why | None = None
