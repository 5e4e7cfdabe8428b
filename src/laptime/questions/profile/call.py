"""`laptime.profile`: the operators of a step, from Python."""

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


@with_options("profile")
def profile(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Run some steps of each lane under its framework's profiler: operators, kernels, and a saved trace. See `race`."""
    return Result(*answer("profile", make_ask(what, lanes, "profile", **given), progress=progress))


PART = QuestionCall(profile, Result)
