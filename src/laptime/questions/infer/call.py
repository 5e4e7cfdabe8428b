"""`laptime.infer`: how long answers take, from Python."""

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


@with_options("infer")
def infer(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Time answers, not training: how long one takes, and how many there are a second in batches. See `race`."""
    return Result(*answer("infer", make_ask(what, lanes, "infer", **given), progress=progress))


PART = QuestionCall(infer, Result)
