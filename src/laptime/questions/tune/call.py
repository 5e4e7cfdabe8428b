"""`laptime.tune`: the best settings of each lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from laptime.errors import UsageError
from laptime.library.asking import DurationLike, LaneNames, What, check_call, make_ask, read_argument
from laptime.library.calls import answer
from laptime.library.results import TuneResult
from laptime.model.ask import DEFAULT_WORKLOAD, TUNE_BUDGET_S, Ask
from laptime.questions.tune.nouns import DEFAULT_AIM, AimWord, TuneAsk

if TYPE_CHECKING:
    from laptime.library.calls import Items, PathLike


def tune(
    what: What = DEFAULT_WORKLOAD,
    lanes: LaneNames = (),
    *,
    allow: str | Sequence[str] = (),
    frameworks: str | Sequence[str] = (),
    laps: int | None = None,
    aim: AimWord = DEFAULT_AIM,
    budget: DurationLike | None = None,
    alone: bool = False,
    every: bool = False,
    seed: int | None = None,
    data: PathLike | None = None,
    items: Items | None = None,
    pretrained: bool = False,
    patience: DurationLike | None = None,
    watchdog: DurationLike | None = None,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    price: float | None = None,
    rate: float | None = None,
    prices: Mapping[str, float] | None = None,
    label: str | None = None,
    progress: bool | None = None,
) -> TuneResult:
    """Search for the best settings of each lane, and race the winner again on fresh heats.

    `allow` names what may change besides: "precision", "batch", "learning". `frameworks` are those to tune on, or
    "all". With `laps` the lane and its winner are then trained whole, and `.tuned[0].learned` has their loss and
    accuracy. `aim` is what to minimise: "time", "energy" or "money"; `prices` are those of an hour, by device.
    `.verdict` is a sentence, `.tuned` has each lane's winner and what each setting is worth. For the other arguments
    see `race`.
    """
    ask = make_ask(
        what, lanes, budget=TUNE_BUDGET_S if budget is None and not isinstance(what, Ask) else budget, alone=alone,
        every=every, seed=seed, data=data, items=items, pretrained=pretrained, patience=patience, watchdog=watchdog,
        sensors=sensors, sensor_rate=sensor_rate, price=price, rate=rate, prices=prices, label=label,
    )  # fmt: skip
    check_call(ask, "tune")
    if ask.tune is None:
        counted = None if laps is None else read_argument("laps", laps)
        words = (read_argument("allow", allow), read_argument("frameworks", frameworks))
        ask = replace(ask, tune=TuneAsk(*words, counted, aim))
    elif allow or frameworks or laps is not None or aim != DEFAULT_AIM:
        raise UsageError("an Ask has all arguments in it, and others were given too", "Set them in its TuneAsk.")
    return TuneResult(*answer("tune", ask, progress=progress))
