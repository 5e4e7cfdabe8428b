"""Turns by the clock of laptime's own process -> windows that no code of a training has timed.

A training runs in the process that times its windows, and may hide time from it. From outside, a turn is seen whole:
it costs what any turn costs, and the steps. What it costs besides is known from the base, which took the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from laptime.model.sample import Window

QUIET_TURNS = 3  # turns: of fewer, a median is noise


WindowsOfTurns = Sequence[Window]


def by_own_clock(windows: WindowsOfTurns, base: WindowsOfTurns) -> tuple[Window, ...]:
    """Return the windows of a candidate's turns with what they took by laptime's clock, next to those of the base.

    The share that its own process did not report is a median of the round's turns: of one turn it would be noise.
    """
    hidden = hidden_share([windows], [base])
    if hidden is None:
        return tuple(windows)
    return tuple(
        replace(window, judged_ns=round((window.end_ns - window.start_ns) * max(1 + hidden, 0.5))) for window in windows
    )


def hidden_share(heats: Sequence[WindowsOfTurns], base: Sequence[WindowsOfTurns]) -> float | None:
    """Return what turns took beyond those of the base and was in no window, as a part of a window; None if unknown."""
    for is_quiet in (True, False):  # where all were disturbed, these tell it less well, and tell it all the same
        mine, theirs = (
            [took for turns in lane for took in _outside_ns(turns, is_quiet=is_quiet)] for lane in (heats, base)
        )
        if min(len(mine), len(theirs)) >= QUIET_TURNS:
            break
    else:
        return None
    usual_ns = median(window.end_ns - window.start_ns for turns in heats for window in turns)
    return (median(mine) - median(theirs)) / max(usual_ns, 1)


def _outside_ns(turns: WindowsOfTurns, *, is_quiet: bool) -> list[float]:
    """Return what each turn took besides its steps. How many it did not time, the next one shows."""
    untimed = [
        later.first_step - earlier.first_step - earlier.steps
        for earlier, later in pairwise(turns)
        if earlier.first_step is not None and later.first_step is not None
    ]
    before = min(untimed, default=0)
    return [
        window.turn_ns - (window.end_ns - window.start_ns) * (1 + before / window.steps)
        for window in turns
        if window.turn_ns is not None and not (is_quiet and window.flag)
    ]
