"""Why a lane is as fast as it is: where its step's time goes, what limits it, what was tried and what it gains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from laptime.model.quantities import Factor, IntervalFigure, Missing
from laptime.model.record import Answer, CodeChange, Comparison, LaneResult, QuestionAnswer, Record

LEARNING = "the learning"  # what a remedy changes that makes it another training

CauseStanding = Literal["proven", "likely", "ruled out", "not testable here", "not tested"]
Stage = Literal["loader", "copy", "compute"]
STEP_STAGES: tuple[Stage, ...] = get_args(Stage)
PartOf = Literal["loader", "copy", "compute", "host", "outside", "unattributed"]
NO_CHANGE = "nothing"
WHAT_IT_DOES = "what it does"  # changes a remedy that leaves a line out
NOT_PROMISING = "nothing pointed to it"  # why an experiment was not tried
INPUT = "input pipeline"  # the cause that the page names in its notes


@dataclass(frozen=True, slots=True)
class Experiment:
    """The lane in question with some settings changed, so that one cause is removed.

    `settings` are words of a lane ("input=resident"). An experiment that is a remedy says what it `changes` ("nothing",
    "the learning", "the arithmetic", "memory") and the `code`, a line or a flag of this framework, that does the same
    in the user's own training; where it is not `is_code`, it is only a lane to race. `did` completes "... it
    is 3.7x as fast". `absent` says why it cannot run. `rewrite` is the word of the change of code that is the remedy,
    `change` that change, and `unchanged` why there is none.
    """

    name: str
    cause: str
    says: str
    settings: tuple[str, ...]
    changes: str = NO_CHANGE
    code: str = ""
    is_code: bool = True
    is_remedy: bool = True
    absent: Missing | None = None
    did: str = ""
    rewrite: str = ""
    change: CodeChange | None = None
    unchanged: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of an experiment: its lane's name in the record, and by what factor it is faster.

    Without a factor `reason` says why: it failed, the budget had no room, it cannot run here. A factor may be that of
    the steps from `since` on, at which what the experiment takes out is there.
    """

    experiment: Experiment
    lane: str | None
    factor: Factor | None
    reason: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one cause. `evidence` holds its figures, `lanes` the experiments that decided it.

    `gain` is the factor that removing the cause gains, where known. `cause` is that of a row of `CAUSES`.
    """

    cause: str
    standing: CauseStanding
    says: str
    evidence: dict[str, Any] = field(default_factory=dict)
    lanes: tuple[str, ...] = ()
    gain: float | Missing = field(default_factory=lambda: Missing("not measured"))


@dataclass(frozen=True, slots=True)
class StepPart:
    """A part of a step's time, as a share from 0 to 1. All parts of a step add up to 1."""

    of: PartOf
    share: float


@dataclass(frozen=True, slots=True)
class Ceiling(IntervalFigure):
    """The speed of one stage alone; `low` and `high` bound it. The lowest of the three stages binds."""

    stage: Stage
    items_per_s: float | Missing
    low: float | Missing
    high: float | Missing
    binds: bool
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What the user may change: the predicted gain as a factor, and the measured one or the `reason` for none.

    `change` is the remedy as a change of the user's own code, and `unchanged` says why there is none. What `is_code` is
    for the user's own training; else `code` is a lane to race.
    """

    cause: str
    says: str
    predicted: float | Missing
    measured: Factor | None
    changes: str
    code: str
    lane: str | None = None
    reason: str | None = None
    recommended: bool = False
    change: CodeChange | None = None
    unchanged: str | None = None
    is_code: bool = True


@dataclass(frozen=True, slots=True)
class Why:
    """The whole answer. `causes` has all of them in the order of judgement; `first` are those that the verdict names.

    `missing` names the experiments for which the budget had no room. `trusted` says whether the noise was small enough
    for any conclusion, and `distrust` why not.
    """

    lane: str
    says: str
    first: tuple[str, ...]
    parts: tuple[StepPart, ...]
    ceilings: tuple[Ceiling, ...]
    causes: tuple[Verdict, ...]
    remedies: tuple[Remedy, ...]
    missing: tuple[str, ...] = ()
    trusted: bool = True
    distrust: str | None = None


@dataclass(frozen=True, slots=True)
class WhyAnswer(Answer):
    """Why the first lane is as fast as it is, and how the experiments compare with it. Empty while the heats run.

    `alone` says why heats of a round did not take turns, if so.
    """

    comparisons: tuple[Comparison, ...] = ()
    why: Why | None = None
    alone: tuple[str, ...] = ()

    @property
    def is_concluded(self) -> bool:
        return self.why is not None

    @property
    def doubt(self) -> str | None:
        return None if self.why is None or self.why.trusted else self.why.distrust or "the noise was too great"

    def asked_of(self, lanes: tuple[LaneResult, ...]) -> tuple[LaneResult, ...]:
        """Leave out the experiments: they may fail."""
        return lanes[:1]


def why_of(record: Record) -> Why:
    assert isinstance(record.answer, WhyAnswer)
    assert record.answer.why is not None
    return record.answer.why


def recommended_first(why: Why) -> list[Remedy]:
    """Return the remedies in the order in which `laptime apply` numbers those that are changes of code."""
    return sorted(why.remedies, key=lambda remedy: not remedy.recommended)


PART = QuestionAnswer(WhyAnswer)
