"""A whole training: its protocol, the results of each lap and of the test, and how far it came."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.plan import HeatOrder, Plan
from laptime.model.process import Mark, ProcessRun, Watched
from laptime.model.quantities import IntervalFigure, Missing
from laptime.model.sample import Noise, ProofRun, Window
from laptime.model.symptoms import DenormalCensus


@dataclass(frozen=True, slots=True)
class Protocol:
    """What each lane does: `laps` laps, validation after each, a test at the end.

    `steps_per_lap` is for the workload's own batch (None: a user's data decide). A lane with another batch takes as
    many steps as cover the same items. Items are counted as published: made data may hold fewer.
    """

    laps: int
    steps_per_lap: int | None
    validation_items: int = 0
    evaluation_items: int = 0
    predictions: int = 0
    seeds: int = 1
    until_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Loss and accuracy over some items; `whole` is the share of items with every character right.

    The accuracy is missing where outputs and targets are not classes, the loss where it is not a number.
    """

    items: int
    loss: float | Missing
    accuracy: float | Missing
    whole: float | Missing = field(default_factory=lambda: Missing("an item has one label"))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A score over items that were not trained on, and how long it took."""

    score: Score
    seconds: float


@dataclass(frozen=True, slots=True)
class LapResult:
    """One lap. `train_s` holds training steps only, between two fences; everything else is timed separately.

    `score` is the running mean over the lap in training mode, as Keras reports it. A `fresh` lap is the first of its
    process, and includes the first step.
    """

    number: int
    steps: int
    train_s: float
    score: Score
    fresh: bool = False
    validation: Evaluation | None = None
    checkpoint_s: float | Missing = field(default_factory=lambda: Missing("not written"))


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predicted and true class numbers; one tuple per item, with as many numbers as an item has labels."""

    predicted: tuple[tuple[int, ...], ...] = ()
    truth: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """When an accuracy was reached: in which lap, and after how much training. `lap` is None if it never was.

    `accuracy` is that lap's, or else the best one.
    """

    wanted: float
    accuracy: float | Missing
    lap: int | None = None
    train_s: float | None = None


@dataclass(frozen=True, slots=True)
class FullRun:
    """One lane trained from one seed, as far as it came.

    `processes` counts the processes that it took, `process` is their combined report, and `watched` is what the sensors
    read in each. `sources` are digests of the user's files that the latest process imported; `changed` names the files
    that were different in an earlier process of this training.
    """

    process: ProcessRun
    seed: int
    order: int
    laps: tuple[LapResult, ...] = ()
    test: Evaluation | None = None
    predictions: Predictions | None = None
    reached: Reached | None = None
    first_step_ms: float | None = None
    proofs: tuple[ProofRun, ...] = ()
    processes: int = 0
    watched: tuple[Watched, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    census: DenormalCensus | None = None

    @property
    def ready_s(self) -> float:
        """The time until the first step could be taken: starting, importing, building, opening the data."""
        return sum(self.process.phases_s.get(name, 0.0) for name in ("start", "import", "build", "set up"))

    @property
    def train_s(self) -> float:
        return sum(lap.train_s for lap in self.laps)

    @property
    def validation_s(self) -> float:
        return sum(lap.validation.seconds for lap in self.laps if lap.validation)

    @property
    def whole_s(self) -> float:
        """From the start of the process to the end of the test, without what only laptime does: proof, checkpoints."""
        return self.ready_s + self.train_s + self.validation_s + (self.test.seconds if self.test else 0.0)


@dataclass(frozen=True, slots=True)
class LapFactor(IntervalFigure):
    """How many times faster a lane trains than the reference; laps that include a first step are compared separately.

    `low` and `high` are known where several seeds were run.
    """

    lane: str
    reference: str
    later_laps: float | Missing
    first_lap: float | Missing
    low: float | Missing
    high: float | Missing
    same_work: bool | Missing


@dataclass(frozen=True, slots=True)
class FullPlan:
    """What whole trainings would run: the plan of the lanes, what each lane does, and in which order and why."""

    plan: Plan
    protocol: Protocol
    order: str


@dataclass(frozen=True, slots=True)
class FullOrder:
    """All that a child needs to train one lane completely, or to continue from its checkpoint if there is one."""

    heat: HeatOrder
    protocol: Protocol
    checkpoint: str
    prove: bool = True


@dataclass(frozen=True, slots=True)
class LearningOrder:
    """All that a child needs to train one side of a verdict on learning.

    It trains in legs: of `leg_steps`, or of `leg_laps` of its own, or of as many steps as take `leg_s`. After each one
    its weights are in the file `weights`, and it waits.
    """

    heat: HeatOrder
    weights: str
    leg_s: float
    leg_steps: int | None = None
    leg_laps: float | None = None


@dataclass(frozen=True, slots=True)
class Consent:
    """What a user allows a resumed training: to continue with `changed` sources, to train finished laps `again`."""

    changed: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """What is being done now, for a progress display; `lap` is set when a lap has ended.

    With `is_news`, the moment gets a line of its own; otherwise the next moment may overwrite it.
    """

    lane: str
    seed: int | None
    doing: str
    laps: int
    is_news: bool = False
    number: int = 0
    step: int = 0
    steps: int = 0
    step_ms: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    left_s: float | None = None
    lap: LapResult | None = None


# Inference: how long a heat measures, what the child is ordered to do, and what it returns.

INFER_BATCHES = (1, 8, 64, 256)
PROOF_ITEMS = 8


@dataclass(frozen=True, slots=True)
class InferPace:
    """How many heats, and how long each part of a heat takes: the single calls, then each batch size.

    `measure_s` is how long a part takes where calls are fast. A batch size is left out if its first two calls would
    take more than `patience_s`. Where a heat `takes_turns` with those of other lanes, a turn is single calls for
    `window_s`, or one window.
    """

    heats: int
    measure_s: float
    window_s: float
    patience_s: float
    batches: tuple[int, ...] = INFER_BATCHES
    calls_min: int = 100
    calls_max: int = 10_000
    windows_min: int = 5
    takes_turns: bool = False


@dataclass(frozen=True, slots=True)
class InferPlan:
    """What inference would run: the lanes' plan, and how long each part is measured."""

    plan: Plan
    pace: InferPace


@dataclass(frozen=True, slots=True)
class InferOrder:
    """All that a child needs to know to run one heat of inference."""

    heat: HeatOrder
    pace: InferPace


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """What a network answers to the items of the proof: some values from all answers, and the length of all of them."""

    precision: str
    values: tuple[float, ...]
    length: float
    count: int


@dataclass(frozen=True, slots=True)
class AnswerReference:
    """The float64 answers that every lane is compared with, and a float32 twin: the effect of rounding alone."""

    exact: AnswerRun
    twin: AnswerRun
    depth: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class BatchRun:
    """The windows of one batch size; a window's steps are calls. `reason` says why there are no windows, or no more."""

    batch: int
    windows: tuple[Window, ...] = ()
    reason: str | None = None
    is_tried: bool = True


@dataclass(frozen=True, slots=True)
class CallTurn:
    """How many single calls one turn held. `flag` names the disturbance, if there was one."""

    turn: int
    calls: int
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class InferHeat:
    """One fresh process in which one lane answered; `calls_ns` are its single calls, each between two fences.

    `calls_noise` is what other processes did on this machine meanwhile; `calls_flag` names the disturbance, if there
    was one; in turns, the noise is of the last one, and `call_turns` divides the calls. `items_a_call` is
    1, except for a network that only takes batches of its own size. `marks` say when each part began.
    """

    process: ProcessRun
    order: int
    round: int
    items_a_call: int | None = None
    first_call_ns: int | None = None
    calls_ns: tuple[int, ...] = ()
    calls_noise: Noise | None = None
    calls_flag: str | None = None
    call_turns: tuple[CallTurn, ...] = ()
    batches: tuple[BatchRun, ...] = ()
    proofs: tuple[AnswerRun, ...] = ()
    marks: tuple[Mark, ...] = ()
