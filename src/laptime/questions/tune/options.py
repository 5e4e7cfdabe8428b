"""What `laptime tune` is asked besides what is raced: its aim, and what it may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from laptime.model.option_kinds import COUNT, FLAG, LAPS_RANGE, WORDS, Option, OptionKind, QuestionOptions
from laptime.model.quantities import HOUR_S, Missing

# What `laptime tune` may aim at: a table, one row an aim.

AimWord = Literal["time", "money", "energy"]
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

    @property
    def changes_data(self) -> bool:
        """Whether lanes may read other batches, or with other workers, than they were written with."""
        return True


def _read_aim(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected one of {', '.join(AIMS)}")
    return value


AIM = OptionKind("text", "AimWord", str, _read_aim)
TUNE = ("tune",)

PART = QuestionOptions(TuneAsk, [
    Option("aim", AIM, TUNE, "tune.aim", f"What to minimise: {', '.join(AIMS)}.", flag="--for", default=DEFAULT_AIM,
           metavar="AIM"),
    Option("allow", WORDS, TUNE, "tune.allow", "What may change besides: precision, batch, learning."),
    Option("frameworks", WORDS, TUNE, "tune.frameworks", "Tune on each of these, or on all.  [default: the lane's]"),
    Option("laps", COUNT, TUNE, "tune.laps", "After the budget, train the lane and its winner N laps.",
           range=LAPS_RANGE),
    Option("apply", FLAG, TUNE, help="Then change your code, after showing the change.", only="command"),
    Option("yes", FLAG, TUNE, help="With --apply: make the change without asking.", only="command", is_rare=True),
])  # fmt: skip
