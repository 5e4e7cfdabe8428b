"""Find the spells in which the whole machine was slow: slow windows of different heats, one directly after another.

Seen on a shared virtual machine: steps took twice as long for a second or two while the heats used all cores and no
other process ran. The cause is not known; perhaps another machine on the same host. A lane's own slow steps look
different: the other lane is as fast as ever next to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from laptime.model.sample import Window

SLOW = 1.25  # times the step of the heat's fastest undisturbed window


def find_slow_spells(heats: Sequence[Sequence[Window]]) -> list[tuple[int, int]]:
    """Return the windows in such spells, each as the number of its heat and its number within the heat."""
    fastest = [min((_step_ns(each) for each in windows if each.flag is None), default=0.0) for windows in heats]
    timed = sorted(
        (window.start_ns, heat, number, _step_ns(window) > SLOW * fastest[heat] > 0)
        for heat, windows in enumerate(heats)
        for number, window in enumerate(windows)
    )
    found: list[tuple[int, int]] = []
    for is_slow, run in groupby(timed, key=lambda each: each[3]):
        spell = [(heat, number) for _, heat, number, _ in run]
        if is_slow and len({heat for heat, _ in spell}) > 1:
            found += spell
    return found


def _step_ns(window: Window) -> float:
    return (window.end_ns - window.start_ns) / window.steps
