"""`laptime.train`: each lane trains whole, from Python."""

from __future__ import annotations

from typing import Any

from laptime.library.asking import (
    LaneNames,
    What,
    make_ask,
    with_options,
)
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD


@with_options("train")
def train(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Train each lane whole, one after another: laps, validation, a test. The record is saved after every lap.

    `laps` and `steps_per_lap` replace what was published. Each lane is trained from `seeds` seeds, and once for every
    pair of `lr` and `batch`. `until_accuracy` (0.7 or "70%") says when that was reached. For the rest see `race`.
    """
    return Result(*answer("full", make_ask(what, lanes, "train", **given), progress=progress))


PART = QuestionCall(train, Result)
