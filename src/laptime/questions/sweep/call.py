"""`laptime.sweep`: lanes over a range of batches, threads, workers, items or widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from laptime.errors import UsageError
from laptime.library.asking import DurationLike, LaneNames, What, check_call, make_ask
from laptime.library.calls import answer
from laptime.library.results import SweepResult
from laptime.model.ask import DEFAULT_WORKLOAD, SWEEP_BUDGET_S, Ask
from laptime.questions.sweep.nouns import AXES, SweepAsk

if TYPE_CHECKING:
    from laptime.library.calls import Items, PathLike


def sweep(
    what: What = DEFAULT_WORKLOAD,
    lanes: LaneNames = (),
    *,
    batch: str | Sequence[int] | None = None,
    threads: str | Sequence[int] | None = None,
    workers: str | Sequence[int] | None = None,
    items: Items | str | Sequence[int] | None = None,
    lr: str | Sequence[float] | None = None,
    width: str | Sequence[float] | None = None,
    budget: DurationLike | None = None,
    alone: bool = False,
    every: bool = False,
    seed: int | None = None,
    data: PathLike | None = None,
    pretrained: bool = False,
    patience: DurationLike | None = None,
    watchdog: DurationLike | None = None,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    price: float | None = None,
    rate: float | None = None,
    label: str | None = None,
    progress: bool | None = None,
) -> SweepResult:
    """Race the lanes at each value of one axis or two: `"1..1024"` doubles, `[8, 16, 24]` is a list.

    One number of `items` is for all cells, several are an axis. `.verdict` is a sentence, `.curves`, `.crossovers` and
    `.cells` have the figures. For other arguments see `race`.
    """
    for_all, sizes = _split_items(items)
    ask = make_ask(
        what, lanes, budget=SWEEP_BUDGET_S if budget is None and not isinstance(what, Ask) else budget, alone=alone,
        every=every, seed=seed, data=data, items=for_all, pretrained=pretrained, patience=patience, watchdog=watchdog,
        sensors=sensors, sensor_rate=sensor_rate, price=price, rate=rate, label=label,
    )  # fmt: skip
    check_call(ask, "sweep")
    given = {
        name: each
        for name, each in zip(AXES, (batch, threads, workers, sizes, lr, width), strict=True)
        if each is not None
    }
    if ask.sweep is None:
        texts = {name: each if isinstance(each, str) else ",".join(map(str, each)) for name, each in given.items()}
        ask = replace(ask, sweep=SweepAsk(**texts))
    elif given:
        raise UsageError("an Ask has all arguments in it, and others were given too", "Set them in its SweepAsk.")
    return SweepResult(*answer("sweep", ask, progress=progress))


def _split_items(
    items: Items | str | Sequence[int] | None,
) -> tuple[Items | None, str | Sequence[int] | None]:
    """Return the number of items for all cells, or those of an axis."""
    if items is None or isinstance(items, int):
        return items, None
    return ("all", None) if items == "all" else (None, items)
