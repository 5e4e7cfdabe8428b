"""Why a lane is as fast as it is: where its step goes, what limits it, what was tried, and what each remedy gains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from laptime.model.missing import Missing

Standing = Literal["proven", "likely", "ruled out", "not testable here", "not tested"]
Stage = Literal["loader", "copy", "compute"]
PartOf = Literal["loader", "copy", "compute", "host", "outside", "unattributed"]
NO_CHANGE = "nothing"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A counterfactual: the lane that is asked about with some settings otherwise.

    `settings` are words of a lane ("input=resident"). A ceiling has one stage alone; a remedy says what it `changes`
    ("nothing", "the learning", "the arithmetic", "memory") and the `code`, a line or a flag of this framework, that
    does the same in the user's own training. `absent` says why it cannot be run here.
    """

    name: str
    cause: str
    says: str
    settings: tuple[str, ...]
    changes: str = NO_CHANGE
    code: str = ""
    is_remedy: bool = True
    absent: Missing | None = None


@dataclass(frozen=True, slots=True)
class Factor:
    """How many times the items per second of the lane asked about; `low` and `high` bound it."""

    ratio: float
    low: float | Missing
    high: float | Missing


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of an experiment: its lane's name in the record, and by what factor it is faster, or the `reason` why
    that is not known: it failed, no budget was left, it cannot be run here.
    """

    experiment: Experiment
    lane: str | None
    factor: Factor | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one cause stands. `evidence` holds the figures it stands on, `lanes` the experiments that judged it.

    `gain` is what its removal gains, where that is known: a factor.
    """

    cause: str
    standing: Standing
    says: str
    evidence: dict[str, Any] = field(default_factory=dict)
    lanes: tuple[str, ...] = ()
    gain: float | Missing = field(default_factory=lambda: Missing("not measured"))


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a step's time, as a share of 1. All parts of a step together are 1."""

    of: PartOf
    share: float


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The speed of one stage alone; `low` and `high` bound it. The smallest of the three binds."""

    stage: Stage
    items_per_s: float | Missing
    low: float | Missing
    high: float | Missing
    binds: bool
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What may be changed, the gain that was foretold (a factor) and the one that was measured, or the `reason` why it
    was not.
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


@dataclass(frozen=True, slots=True)
class Why:
    """The whole answer. `causes` stand in the order of judgement, all fifteen; `first` are those named first.

    `missing` names the experiments that the budget had no room for. `trusted` says whether the noise was small enough
    to tell anything at all, and `distrust` why not.
    """

    lane: str
    says: str
    first: tuple[str, ...]
    parts: tuple[Part, ...]
    ceilings: tuple[Ceiling, ...]
    causes: tuple[Verdict, ...]
    remedies: tuple[Remedy, ...]
    missing: tuple[str, ...] = ()
    trusted: bool = True
    distrust: str | None = None
