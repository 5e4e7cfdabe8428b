"""The axes and the lanes of `laptime sweep`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from laptime.errors import UsageError
from laptime.model.plan import PlannedLane
from laptime.model.process import Lane
from laptime.model.workload import is_width
from laptime.planner.plan import PlanLane
from laptime.planner.settings import SETTINGS
from laptime.questions.sweep.nouns import AXES, WIDTH_AXIS, SweepAxis
from laptime.questions.sweep.options import SweepAsk

NUMBER_FORM = r"([0-9]{0,7}\.?[0-9]{1,7})"
RANGE = re.compile(rf"{NUMBER_FORM}\.\.{NUMBER_FORM}")
DEFAULT_AXIS = SweepAxis("batch", tuple(str(1 << power) for power in range(11)))
VALUES_MOST, CELLS_MOST = 40, 400
At = tuple[str, ...]
"""A value of each axis."""


def read_axes(ask: SweepAsk) -> tuple[SweepAxis, ...]:
    """Return the axes; by default batches from 1 to 1,024."""
    given = [(name, text) for name in AXES if (text := getattr(ask, name)) is not None]
    if len(given) > 2:
        raise UsageError(f"laptime sweep has one axis or two, and {len(given)} are given", "leave some out")
    return tuple(SweepAxis(name, _read_values(name, text)) for name, text in given) or (DEFAULT_AXIS,)


def _read_values(name: str, text: str) -> At:
    """Return the values that a text means: doubled from the first to the last, or a list."""
    if (found := RANGE.fullmatch(text)) is not None:
        first, last = map(float, found.groups())
        if first >= last:
            raise UsageError(f"--{name} {text}: the first value has to be less than the last", "such as 1..1024")
        values = [str(int(each)) if each.is_integer() else f"{each:g}" for each in _doubled(first, last)]
    else:
        values = text.split(",")
    for value in values:
        if not _can_be(name, value):
            raise UsageError(f"--{name} {text}: '{value}' cannot be", f"such as --{name} 1..64 or --{name} 1,2,3")
    if len(set(map(float, values))) < len(values):
        raise UsageError(f"--{name} {text}: a value is named twice", "name each once")
    if not 2 <= len(values) <= VALUES_MOST:
        raise UsageError(f"--{name} {text}: expected 2 to {VALUES_MOST} values", f"such as --{name} 1..64")
    return tuple(sorted(values, key=float))


def _can_be(name: str, value: str) -> bool:
    return is_width(value) if name == WIDTH_AXIS else SETTINGS[name].can_be(value) and not value.endswith("x")


def _doubled(first: float, last: float) -> list[float]:
    values = [first]
    while (following := 2 * values[-1] or 1.0) < last:
        values.append(following)
    return [*values, last]


def grid(axes: Sequence[SweepAxis]) -> list[At]:
    """Return every combination, the first axis slowest within each value of the second."""
    first, *others = axes
    if not others:
        return [(value,) for value in first.values]
    found: list[At] = [(value, other) for other in others[0].values for value in first.values]
    if len(found) > CELLS_MOST:
        raise UsageError(f"laptime sweep: {len(found)} cells, expected at most {CELLS_MOST}", "shorten an axis")
    return found


def lane_at(lane: Lane, axes: Sequence[SweepAxis], at: At, plan: PlanLane) -> PlannedLane | UsageError:
    """Return a lane at one value of each axis, or why it cannot be. A width is no setting of a lane."""
    named = dict(lane.overrides)
    for axis in axes:
        if axis.name in named:
            raise UsageError(f"--{axis.name}: the lane names {axis.name} itself", "leave one of the two out")
    words = tuple((axis.name, value) for axis, value in zip(axes, at, strict=True) if axis.name != WIDTH_AXIS)
    try:
        return plan(replace(lane, overrides=(*lane.overrides, *words)))
    except UsageError as error:
        return error


def between(fits: int, fails: int) -> int | None:
    """Return the next value to try between one that fits and one that does not; None within 5 %."""
    return None if fails - fits <= max(1, 0.05 * fits) else (fits + fails) // 2


def pairs_of(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.combinations(names, 2))
