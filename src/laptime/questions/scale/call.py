"""`laptime.scale`: one training on 1, 2, 4 devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from laptime.errors import UsageError
from laptime.library.asking import DurationLike, LaneNames, ShareLike, What, check_call, make_ask, read_argument
from laptime.library.calls import answer
from laptime.library.results import ScaleResult
from laptime.model.ask import DEFAULT_WORKLOAD, SCALE_BUDGET_S, Ask
from laptime.questions.scale.nouns import GROWTH, ScaleAsk

if TYPE_CHECKING:
    from laptime.library.calls import Items, PathLike


def scale(
    what: What = DEFAULT_WORKLOAD,
    lanes: LaneNames = (),
    *,
    devices: int | Sequence[int] | None = None,
    weak: bool = False,
    strong: bool = False,
    both: bool = False,
    budget: DurationLike | None = None,
    margin: ShareLike | None = None,
    heats: int | None = None,
    alone: bool = False,
    every: bool = False,
    on: str | None = None,
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
    label: str | None = None,
    progress: bool | None = None,
) -> ScaleResult:
    """Race one training on 1, 2, 4 `devices`: what they bring, and where the time of a step goes.

    Each device has the batch as written (`weak`, the default), or all share it out (`strong`), or `both` are raced.
    `.verdict` is a sentence, `.curves` has the figures. For the other arguments see `race`.
    """
    ask = make_ask(
        what, lanes, budget=SCALE_BUDGET_S if budget is None and not isinstance(what, Ask) else budget, margin=margin,
        heats=heats, alone=alone, every=every, on=on, seed=seed, data=data, items=items, pretrained=pretrained,
        patience=patience, watchdog=watchdog, sensors=sensors, sensor_rate=sensor_rate, price=price, rate=rate,
        label=label,
    )  # fmt: skip
    check_call(ask, "scale")
    if ask.scale is None:
        counts = () if devices is None else read_argument("devices", devices)
        given = {name: read_argument(name, value) for name, value in zip(GROWTH, (weak, strong, both), strict=True)}
        ask = replace(ask, scale=ScaleAsk(counts, tuple(word for word in GROWTH if given[word])))
    elif devices is not None or weak or strong or both:
        raise UsageError("an Ask has all arguments in it, and others were given too", "Set them in its ScaleAsk.")
    return ScaleResult(*answer("scale", ask, progress=progress))
