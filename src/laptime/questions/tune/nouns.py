"""What the best settings of a lane are, what each of them is worth, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from laptime.model.missing import Missing
from laptime.questions.why.nouns import Factor

# What `laptime tune` may aim at: a table, one row an aim.

AimWord = Literal["time", "money", "energy"]
HOUR_S = 3600.0
KWH_J = 3.6e6


@dataclass(frozen=True, slots=True)
class LanePrices:
    """What an hour of a lane's device costs, and a kWh, in any currency; None where no price was named."""

    per_hour: float | None = None
    per_kwh: float | None = None


@dataclass(frozen=True, slots=True)
class Aim:
    """One aim of a tuning, by its `word`. Settings are rated by how many items they do per `unit`.

    `per_s` returns how much of the unit a second of a lane takes, from its device's power in watts and the prices; the
    items per second, divided by this, are the rating. `needs_power` says whether it depends on the power.

    The others are words of sentences: a lane `does` some times `as_much` with its settings, or `seems` to; the best one
    does `most`. `none` says that no settings help. `per` is for lists and heads of columns.
    """

    word: AimWord
    unit: str
    per_s: Callable[[float | Missing, LanePrices], float | Missing]
    needs_power: Callable[[LanePrices], bool]
    does: str
    seems: str
    as_much: str
    most: str
    none: str
    per: str = ""


def _money_per_s(power_w: float | Missing, prices: LanePrices) -> float | Missing:
    time = (prices.per_hour or 0.0) / HOUR_S
    if not prices.per_kwh:
        return time
    return power_w if isinstance(power_w, Missing) else time + prices.per_kwh * power_w / KWH_J


AIMS: dict[AimWord, Aim] = {
    row.word: row
    for row in (
        Aim(
            word="time",
            unit="s",
            per_s=lambda _power_w, _prices: 1.0,
            needs_power=lambda _prices: False,
            does="is",
            seems="seems",
            as_much="as fast",
            most="the fastest",
            none="No settings make {} surely faster than it is.",
        ),
        Aim(
            word="money",
            unit="",
            per_s=_money_per_s,
            needs_power=lambda prices: bool(prices.per_kwh),
            does="does",
            seems="seems to do",
            as_much="as much for the money",
            most="the most for the money",
            none="No settings make {} surely cheaper than it is.",
            per="for the money",
        ),
        Aim(
            word="energy",
            unit="J",
            per_s=lambda power_w, _prices: power_w,
            needs_power=lambda _prices: True,
            does="does",
            seems="seems to do",
            as_much="as much per joule",
            most="the most per joule",
            none="No settings surely make {} take less energy than it does.",
            per="per joule",
        ),
    )
}
DEFAULT_AIM: AimWord = "time"


Allowed = Literal["precision", "batch", "learning"]
ALLOWED: tuple[Allowed, ...] = get_args(Allowed)
ALL = "all"
Changes = Literal["", "arithmetic", "learning"]
Standing = Literal["confirmed", "no gain", "not confirmed", "not compared"]
"""`confirmed`: fresh heats show that the winner is faster. `no gain`: they show none, or nothing seemed faster."""


@dataclass(frozen=True, slots=True)
class TuneAsk:
    """What may change besides settings that keep arithmetic and learning, and the frameworks to try: names, or `all`.

    With `learning`, another batch also gets the learning rate that belongs to it.
    Without frameworks, each lane is tuned on its own one. With `laps`, a lane as asked and its winner are then trained
    for that many whole laps. `aim` is a word of `AIMS`: what is minimised.
    """

    allow: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    laps: int | None = None
    aim: AimWord = DEFAULT_AIM


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
class TunedLane:
    """A lane at its best, by the aim that was asked for.

    `words` are the settings of the winner, which the lane `winner` has besides its own. `gain` is that of fresh heats,
    in which the lane as asked and the winner alone raced. `seemed` is what the search showed, which flatters the best
    of many. `ties` are other sets of settings that the search cannot tell from it.
    `code` does the same in a training of your own, `environment` are variables to set before it starts. `learned` is
    what the lane as asked, and then the winner, had learned after the laps that were asked for; empty without these.
    `path` has all sets that were tried, in the order of the search.
    """

    asked: str
    winner: str
    words: tuple[str, ...]
    standing: Standing
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
