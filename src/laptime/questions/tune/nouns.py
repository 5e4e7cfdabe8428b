"""What the best settings of a lane are, what each of them is worth, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from laptime.model.quantities import Factor, Missing
from laptime.model.record import Answer, CodeChange, Comparison, LaneResult, QuestionAnswer

Allowed = Literal["precision", "batch", "learning"]
ALLOWED: tuple[Allowed, ...] = get_args(Allowed)
ALL_FRAMEWORKS = "all"
Changes = Literal["", "arithmetic", "learning"]
TuneStanding = Literal["confirmed", "no gain", "not confirmed", "not compared"]
"""`confirmed`: fresh heats show that the winner is faster. `no gain`: they show none, or nothing seemed faster."""


@dataclass(frozen=True, slots=True)
class SettingWorth:
    """One setting, as a word of a lane, and by what factor it alone is better. `changes` is what else it changes.

    A batch may have its learning rate with it: `batch=2x+lr=0.02`.
    Without a factor, `reason` says why: it failed, it cannot be had here, or the budget had no room.
    """

    word: str
    changes: Changes
    alone: Factor | None
    in_winner: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TriedSet:
    """A set of settings that the search tried, and by what factor it is better than the lane as asked.

    It was `kept` if the search went on from it. Without a factor, `reason` says why.
    """

    words: tuple[str, ...]
    factor: Factor | None
    kept: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """What a lane had learned after `laps` whole laps: its loss and accuracy over some items.

    They are those of the test, else of the validation after the last lap, else of the last lap itself. Where there are
    none, they say why.
    """

    lane: str
    laps: int
    over: Literal["test", "validation", "training"]
    items: int
    loss: float | Missing
    accuracy: float | Missing


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A setting of a winner whose place in the user's code is not certain, why, and the `code` to write there."""

    word: str
    reason: str
    code: str


@dataclass(frozen=True, slots=True)
class TunedLane:
    """A lane at its best, by the aim that was asked for.

    `words` are the settings of the winner, which the lane `winner` has besides its own. `gain` is that of fresh heats,
    in which the lane as asked and the winner alone raced. `seemed` is what the search showed, which flatters the best
    of many. `ties` are other sets of settings that the search cannot tell from it.
    `code` does the same in a training of your own, `environment` are variables to set before it starts. `learned` is
    what the lane as asked, and then the winner, had learned after the laps that were asked for; empty without these.
    For `untried` settings alone there was no time. `path` has all sets that were tried, in the order of the search.
    `changes` are those of the user's own code that do the same, one for each file, and `unplaced` are settings that
    none of them has.
    """

    asked: str
    winner: str
    words: tuple[str, ...]
    standing: TuneStanding
    gain: Factor | None
    seemed: float | None
    pairs: int
    settings: tuple[SettingWorth, ...]
    tried: int
    ties: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    environment: dict[str, str] | None = None
    reason: str | None = None
    learned: tuple[Learned, ...] = ()
    path: tuple[TriedSet, ...] = ()
    changes: tuple[CodeChange, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    untried: int = 0


@dataclass(frozen=True, slots=True)
class AtBest:
    """How the best of one lane compares with that of the first, in the confirming heats."""

    lane: str
    against: str
    factor: Factor


@dataclass(frozen=True, slots=True)
class Tuning:
    """The whole answer: each asked lane, and how they compare at their best."""

    says: str
    lanes: tuple[TunedLane, ...]
    at_best: tuple[AtBest, ...] = ()


@dataclass(frozen=True, slots=True)
class TuneAnswer(Answer):
    """The best settings of each lane. Empty while the heats run. `comparisons` are those of the search."""

    comparisons: tuple[Comparison, ...] = ()
    tuning: Tuning | None = None
    alone: tuple[str, ...] = ()

    @property
    def is_concluded(self) -> bool:
        return self.tuning is not None and bool(self.tuning.lanes)

    @property
    def has_interval(self) -> bool:
        return self.tuning is not None and any(lane.gain and lane.gain.ends for lane in self.tuning.lanes)

    def asked_of(self, lanes: tuple[LaneResult, ...]) -> tuple[LaneResult, ...]:
        """Leave out what the search tried: it may fail."""
        if self.tuning is None:
            return lanes
        asked = {lane.asked for lane in self.tuning.lanes}
        return tuple(lane for lane in lanes if lane.name in asked)


PART = QuestionAnswer(TuneAnswer)
