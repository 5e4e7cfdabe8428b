"""A whole training: its protocol, what each lap and the test gave, and how far it came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Plan
from laptime.model.sample import Dnf, ProofRun
from laptime.model.timeline import Watched


@dataclass(frozen=True, slots=True)
class Protocol:
    """What each lane does: so many laps, validation after each, a test at the end.

    `steps_per_lap` is of the workload's own batch (None: a user's data say it); a lane of another batch takes as many
    steps as see the same items. Items are counted as published: made data may hold fewer.
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

    An accuracy is missing where outputs and targets are no classes, a loss where it is no number.
    """

    items: int
    loss: float | Missing
    accuracy: float | Missing
    whole: float | Missing = field(default_factory=lambda: Missing("an item has one label"))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A score over items that no training saw, and how long that took."""

    score: Score
    seconds: float


@dataclass(frozen=True, slots=True)
class LapResult:
    """One lap. `train_s` holds training steps only, between two fences; all else is beside it.

    `score` is the running mean over the lap in training mode, as Keras has it. A `fresh` lap is the first of its
    process, and holds the first step.
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
    """Class numbers beside the truth; one tuple an item, with as many numbers as an item has labels."""

    predicted: tuple[tuple[int, ...], ...] = ()
    truth: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """When an accuracy was reached: in which lap, after how much training. With no lap it never was.

    `accuracy` is that lap's, or else the best there was.
    """

    wanted: float
    accuracy: float | Missing
    lap: int | None = None
    train_s: float | None = None


@dataclass(frozen=True, slots=True)
class FullRun:
    """One lane trained from one seed, as far as it came. `processes` counts those that it took; `watched` is what the
    instruments saw of each.
    """

    lane: str
    seed: int
    order: int
    status: Literal["ok", "dnf", "running", "interrupted"]
    laps: tuple[LapResult, ...] = ()
    test: Evaluation | None = None
    predictions: Predictions | None = None
    reached: Reached | None = None
    parameters: int | None = None
    items_per_step: int | None = None
    first_step_ms: float | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    proofs: tuple[ProofRun, ...] = ()
    processes: int = 0
    peak_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the training did not finish"))
    device_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the training did not finish"))
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None
    watched: tuple[Watched, ...] = ()

    @property
    def ready_s(self) -> float:
        """The time until the first step could be taken: starting, importing, building, opening the data."""
        return sum(self.phases_s.get(name, 0.0) for name in ("start", "import", "build", "set up"))

    @property
    def train_s(self) -> float:
        return sum(lap.train_s for lap in self.laps)

    @property
    def validation_s(self) -> float:
        return sum(lap.validation.seconds for lap in self.laps if lap.validation)

    @property
    def whole_s(self) -> float:
        """From starting the process to the end of the test, without what only laptime does: proof, checkpoints."""
        return self.ready_s + self.train_s + self.validation_s + (self.test.seconds if self.test else 0.0)


@dataclass(frozen=True, slots=True)
class LapFactor:
    """How many times faster a lane trains than the reference; laps that hold a first step stand apart.

    `low` and `high` are there where several seeds were run.
    """

    lane: str
    reference: str
    later_laps: float | Missing
    first_lap: float | Missing
    low: float | Missing
    high: float | Missing
    same_work: bool


@dataclass(frozen=True, slots=True)
class FullRace:
    """Whole trainings of some lanes; `order` says in which order they ran, and why."""

    protocol: Protocol
    order: str
    runs: tuple[FullRun, ...]
    factors: tuple[LapFactor, ...] = ()


@dataclass(frozen=True, slots=True)
class FullPlan:
    """What whole trainings would run: the lanes' plan, what each does, and in which order and why."""

    plan: Plan
    protocol: Protocol
    order: str


@dataclass(frozen=True, slots=True)
class FullOrder:
    """All that a child needs to train one lane whole, or to go on from its checkpoint where there is one."""

    heat: HeatOrder
    protocol: Protocol
    checkpoint: str
    prove: bool = True


@dataclass(frozen=True, slots=True)
class Moment:
    """What is being done just now, for whoever shows progress; `lap` is there when a lap has ended.

    `is_news` tells what is worth a line of its own from what the next moment may overwrite.
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
