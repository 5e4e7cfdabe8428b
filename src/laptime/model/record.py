"""The saved result of a race: all samples, the machine, the settings, the estimates and the findings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from laptime.model.ask import Ask, DataSource
from laptime.model.frameworks import FleetNode, NodeType
from laptime.model.hardware import PredictedCards, Roofline
from laptime.model.machine import Device, Machine
from laptime.model.other_work import WorkKind
from laptime.model.plan import Subject
from laptime.model.process import Settings
from laptime.model.protocol import AnswerReference, FullRun, InferHeat, InferPace, LapFactor, Protocol
from laptime.model.quantities import Estimate, IntervalFigure, Missing
from laptime.model.sample import AnswerUsage, Appeal, Heat, Reference, Usage
from laptime.model.secrets import mask_secrets
from laptime.model.symptoms import Profile
from laptime.model.workload import Published

SCHEMA = 3
LITTLE_WEIGHT = 0.5  # a round of a smaller weight hardly counts
ERROR_RATE = 0.05  # of an interval, over all looks at a race that was run in one go
NOT_RELIABLE = "not reliable"  # the rule of the finding that the machine was disturbed nearly all along


@dataclass(frozen=True, slots=True)
class Parity:
    """Whether a lane did the same work as the float64 reference, and by what measure.

    `worst` is the largest relative distance of a step's loss from the reference. `moved` is the distance of the
    weights' movement, in units of what is allowed (up to 1 passes). `strays` is how far the lane's own reduced
    precision moved its loss, where it has one. `chance` says where a first proof differed, if a second proof from
    another seed did not confirm it; the figures are then those of the second. `kind` is what differs, for programs,
    where `reason` says that something does.
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
    kind: WorkKind | None = None


@dataclass(frozen=True, slots=True)
class HeatResult:
    """One heat as it is kept in a record: what it returned, and what its windows show.

    `steady` is flat, warm-up, slowing or unsteady. `steady_from` is the first window that counts, and `counted` are all
    that do: undisturbed in every lane of the round, and of the same steps. `step_ms` is the mean step of these.
    `weight` is how much its round counts in a mean, below 1, and None where it counts as a usual one.
    """

    heat: Heat
    steady: str
    steady_from: int
    step_ms: float | None
    counted: tuple[int, ...] | None = None
    weight: float | None = None

    @property
    def counts(self) -> float:
        return 1.0 if self.weight is None else self.weight

    @property
    def hardly_counts(self) -> bool:
        return self.counts < LITTLE_WEIGHT

    @property
    def first_step_ms(self) -> float | None:
        return None if self.heat.first_step_ns is None else self.heat.first_step_ns / 1e6


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long the whole training would take on a lane, predicted part by part from its heats.

    `ready_s` is from the start of the process to the end of the first step, `train_s` all other steps of all laps. What
    only laptime does (proof, checkpoints) is left out, as in `laptime train`. Where a loader keeps decoded items,
    `fresh_factor` is how many times as long a step takes until every item was decoded once.
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
    """The result of a lane. `absent` says, by name, why an expected lap, profile or roofline is missing.

    A roofline is expected where the lane was profiled, or its device was measured. `training` names what the lane
    trains, in a race of several trainings. `devices` are all devices of a lane on several; `device` is the first.
    `where` is the type of nodes on which it ran, in a race on several types.
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
    training: str | None = None
    devices: tuple[Device, ...] = ()
    where: NodeType | None = None


SameSteps = Literal["same", "alike", "other", "not known"]


@dataclass(frozen=True, slots=True)
class Comparison(IntervalFigure):
    """`ratio` is the lane's items per second over the reference's: above 1 the lane is faster.

    `ratios` are those of the rounds, and `in_turns` says whether the two lanes took turns in these. `steps` says
    whether both timed the same steps of their trainings; other steps are alike if no lane's time depends on the number.
    The spread between turns counted as `prior_dof` further degrees of freedom; where these are 0, the interval is
    Student's t.
    """

    lane: str
    reference: str
    ratio: float
    low: float | Missing
    high: float | Missing
    verdict: Literal["faster", "slower", "not distinguishable"]
    settled: bool
    pairs: int
    same_work: bool | Missing
    alpha: float
    ratios: tuple[float, ...] = ()
    in_turns: bool = False
    steps: SameSteps = "not known"
    prior_dof: float = 0.0


@dataclass(frozen=True, slots=True)
class Wait:
    """What a user waits for, part by part, who starts a program for one answer; and the time of each further answer.

    `network_s` is the time to build the network, set its weights and move it to the device.
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
    """The throughput at one batch size; `reason` says why it is unknown, or not known from every heat."""

    batch: int
    items_per_s: Estimate | None
    reason: str | None = None
    is_tried: bool = True


@dataclass(frozen=True, slots=True)
class InferLane:
    """How a lane answers: one item's latency in milliseconds, and items per second at each batch size.

    `steady` counts the heats' single calls by class; `calls` is how many calls the percentiles are based on. `usages`
    holds the resources that single calls and each batch size used, where heats were watched.
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
class InferFactor(IntervalFigure):
    """How many times faster a lane answers than the reference: in a single call (no `batch`), or in items/s."""

    lane: str
    reference: str
    batch: int | None
    ratio: float
    low: float | Missing
    high: float | Missing
    verdict: Literal["faster", "slower", "not distinguishable"]
    pairs: int
    same_work: bool | Missing


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A remedy as a change of the user's own code. `file` is from the top of its git work tree, or its script's folder.

    `rewrite` is a word of the table of changes (`workers=2`), and `digest` is the SHA-256 of the file as it ran. `diff`
    shows the change, and nobody applies it: `laptime apply` makes the change again from its word and the file. `start`
    and `function` are of the training, from whose file the place was found.
    """

    rewrite: str
    file: str
    line: int
    digest: str
    diff: str | Missing
    start: str
    function: str | None = None


@dataclass(frozen=True, slots=True)
class PredictedGain:
    """How many times as fast a remedy would make a training, by what it takes away: likely, and at most."""

    likely: float
    most: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What is conspicuous, and what to do.

    `rewrite` is the word of the change of code that is the advice (`questions/rewrites.py`), `change` that change, and
    `unchanged` says why there is none. `where` is the line of the user's own code that brings it about, as file:line,
    where that is known. `gain` is what the advice would gain, where that is a matter of time.
    """

    rule: str
    says: str
    evidence: dict[str, Any]
    advice: str
    sure: Literal["proven", "likely"]
    change: CodeChange | None = None
    unchanged: str | None = None
    where: str | None = None
    gain: PredictedGain | None = None
    rewrite: str = ""


@dataclass(frozen=True, slots=True)
class OtherTraining:
    """A further training of a race, and its float64 reference if there is one.

    `differs` says how its work differs from the first training's; None if both do the same.
    """

    what: str
    subject: Subject
    reference: Reference | None
    differs: str | Missing | None


class Answer:
    """The answer to a question: each question has its own subclass, which its row names.

    A subclass that has a field of one of these names answers with that.
    """

    __slots__ = ()

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """How lanes compare with their reference."""
        return ()

    @property
    def alone(self) -> tuple[str, ...]:
        """Why heats of a round did not take turns, if so."""
        return ()

    @property
    def doubt(self) -> str | None:
        """Why the answer itself concludes nothing; None where it does."""
        return None

    @property
    def is_concluded(self) -> bool:
        """Whether its own page can show it; else its heats are shown as those of a race."""
        return True

    @property
    def has_interval(self) -> bool:
        """Whether it shows how sure a factor is."""
        return any(comparison.ends is not None for comparison in self.comparisons)

    def asked_of(self, lanes: tuple[LaneResult, ...]) -> tuple[LaneResult, ...]:
        """Return the lanes that were asked for: they have to finish, and others may fail."""
        return lanes


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that writes a record: `began` distinguishes it from a later process with the same number."""

    host: str
    pid: int
    began: str


@dataclass(frozen=True, slots=True)
class RecordPart:
    """One run of a question that was gone on with: when it began, what it took, and how many heats there were then.

    One that `has_interval` showed a reader how sure its figures are, and so spent of their errors.
    """

    started: str
    budget_s: float
    elapsed_s: float
    heats: int
    has_interval: bool


def error_share(number: int) -> float:
    """Return what a part may spend of an error rate: the first all of it, each later one half of the one before.

    Who goes on has seen the interval, and what was spent stays spent. All parts together, of which there is no last
    one, spend twice the rate.
    """
    return 0.5 ** (number - 1)


@dataclass(frozen=True, slots=True)
class Record:
    """The header, the lanes and the answer to the question that was asked.

    `question` names the row of `laptime.model.questions` that defines the answer. `writer` is the process that writes
    the record while it is "running". Where that process is gone, the record is "ended". `cards` is what common cards
    would bring, where this machine has none. `beyond_budget_s` is the part of `elapsed_s` that came after the budget:
    whole laps of a tuning, profiles of a race. A question that was gone on with has `parts`; its `ask` has the budget
    of all. `sources` are digests of the code of each training, by the paths of its files from its own file's folder.
    """

    schema: int
    tool: dict[str, str]
    id: str
    started: str
    question: str
    status: Literal["running", "finished", "interrupted", "ended"]
    ask: Ask
    machine: Machine
    workload: Subject
    published: Published | None
    lanes: tuple[LaneResult, ...]
    answer: Answer
    findings: tuple[Finding, ...] = ()
    reference: Reference | None = None
    elapsed_s: float = 0.0
    beyond_budget_s: float = 0.0
    overhead: dict[str, float] = field(default_factory=dict)
    data: DataSource | None = None
    writer: Writer | None = None
    others: tuple[OtherTraining, ...] = ()
    cards: PredictedCards | None = None
    parts: tuple[RecordPart, ...] = ()
    sources: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def error_times(self) -> float:
        """By what the error rate of a figure is to be multiplied, for the looks of all parts."""
        spending = sum(part.has_interval for part in self.parts)
        return sum(map(error_share, range(1, max(1, spending) + 1)))

    @property
    def confidence(self) -> float:
        """How sure the intervals of its factors are, after the looks of all parts."""
        return 1 - ERROR_RATE * self.error_times

    @property
    def heats(self) -> int:
        """How many heats there are."""
        return sum(len(lane.heats) for lane in self.lanes)

    def without_secrets(self) -> Record:
        """Return the record without words of a command that look like secrets; older ones were saved with them."""
        if not self.ask.command and not self.workload.command:
            return self
        return replace(
            self,
            ask=replace(self.ask, command=mask_secrets(self.ask.command)),
            workload=self.workload.without_secrets(),
            others=tuple(replace(other, subject=other.subject.without_secrets()) for other in self.others),
        )

    @property
    def distrust(self) -> str | None:
        """Why no figure of this record can be relied on; None where there is no such reason."""
        return next((finding.says for finding in self.findings if finding.rule == NOT_RELIABLE), self.answer.doubt)

    @property
    def trainings(self) -> dict[str, str]:
        """What each training is called on the command line, by its name in this record."""
        return {self.workload.name: self.ask.what, **{other.subject.name: other.what for other in self.others}}


# What was written elsewhere.


@dataclass(frozen=True, slots=True)
class Applied:
    """A change of the user's code, whether it was made, and what to type to take it back and to measure it.

    `signed` says whether this user made the record that names it.
    """

    applied: bool
    signed: bool
    says: str
    change: CodeChange
    undo: str
    measure: str


@dataclass(frozen=True, slots=True)
class Exported:
    """Where a record was written for another program: a file, a folder or a URL."""

    record: str
    to: str
    place: str


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Where a report of these records was written: a file, or a folder of these files."""

    records: tuple[str, ...]
    place: str
    files: tuple[str, ...]


# The answers that all rooms know. Those of other questions are in the nouns of their folders.


@dataclass(frozen=True, slots=True)
class RaceAnswer(Answer):
    """How the lanes compare with the first lane. `alone` says why heats of a round did not take turns, if so.

    `nodes` are those of a race on several types of nodes.
    """

    comparisons: tuple[Comparison, ...] = ()
    alone: tuple[str, ...] = ()
    nodes: tuple[FleetNode, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingAnswer(Answer):
    """Whole trainings of some lanes; `order` says in which order they ran, and why."""

    protocol: Protocol
    order: str
    runs: tuple[FullRun, ...]
    factors: tuple[LapFactor, ...] = ()


@dataclass(frozen=True, slots=True)
class InferAnswer(Answer):
    """Inference of some lanes: how each answers, and by what factors they differ.

    `alone` says why heats of a round did not take turns, if so.
    """

    pace: InferPace
    lanes: tuple[InferLane, ...]
    factors: tuple[InferFactor, ...] = ()
    reference: AnswerReference | None = None
    alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileAnswer(Answer):
    """The profiles are in the lanes."""


def training_of(record: Record) -> TrainingAnswer:
    assert isinstance(record.answer, TrainingAnswer)
    return record.answer


def inference_of(record: Record) -> InferAnswer:
    assert isinstance(record.answer, InferAnswer)
    return record.answer


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What `nouns.py` of a question holds: the class of its answer."""

    FILE: ClassVar[str] = "nouns"

    answer: type[Answer]


@dataclass(frozen=True, slots=True)
class QuestionRates:
    """What `reduce.py` of a question holds whose records are compared and followed: a lane's rates, one a process."""

    FILE: ClassVar[str] = "reduce"

    of_lane: Callable[[Record, LaneResult], Iterable[float]]


# How far a question is: made by the question, and drawn by one place for the terminal, the notebook and a file.


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done now, and how much of the time is gone.

    `lanes` holds what each lane does now, by its name. `left_s` is what is still to come, the most of it where it
    `is_most`, and None where it is not known. Where there is no terminal, it has a line only if it `is_news`. What
    `stays` is a notice: a terminal keeps its line above what is drawn next.
    """

    doing: str
    elapsed_s: float = 0.0
    left_s: float | None = None
    is_most: bool = True
    lanes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_news: bool = True
    stays: bool = False

    @property
    def share(self) -> float | None:
        """The share of the time that is gone, or None where the rest is not known."""
        if self.left_s is None:
            return None
        whole_s = self.elapsed_s + self.left_s
        return self.elapsed_s / whole_s if whole_s > 0 else 1.0


# The source files of a training: a digest per file, and which files differ between two processes.

Digests = Mapping[str, str]
"""By the file's path, relative to the folder of the user's file."""


def digest_source(data: bytes) -> str:
    """Return a digest that is short enough for a record and long enough to avoid collisions."""
    return hashlib.sha256(data).hexdigest()[:32]


def find_differing(one: Digests, other: Digests) -> tuple[str, ...]:
    """Return the files that are in both and that differ."""
    return tuple(sorted(name for name in one.keys() & other.keys() if one[name] != other[name]))
