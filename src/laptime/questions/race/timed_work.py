"""Did two lanes do the same work while they were timed? The proof ends before the windows open.

Three things are known of the timed steps. How often each window's steps changed the weights, and at which rate, is read
at its end, and compared at the same steps. And each training is put back to its start after its windows, and takes a
step of the proof again: one that does something else once it was proven shows it there.

All of it is relative to the lane's own first step, which the proof has compared. What is not seen is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from laptime.analysis.parity import relative
from laptime.model.missing import Missing
from laptime.model.record import LaneResult
from laptime.model.sample import LateStep, Window

# Counts and rates are exact: the same training has the same ones.
COUNT_TOLERANCE = 1e-6
# Of a single step from the same weights on the same batch: two kernels' losses, and how far all weights moved.
LATE_LOSS = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 5e-2}
LATE_MOVE = {"fp32": 1e-2, "tf32": 0.1, "fp16": 0.1, "bf16": 0.2}

# Of the items of a lap: a last batch may be left out.
LAPS_ALIKE = 0.01

StepRange = tuple[int, int]
"""The first step of a window, and how many it has."""


def find_other_timed(one: LaneResult, other: LaneResult) -> Missing | None:
    """Return how two lanes' work differs outside of the proof; None if nothing was seen."""
    return find_other_laps(one, other) or find_other_steps(one, other)


def find_other_laps(one: LaneResult, other: LaneResult) -> Missing | None:
    """Return that a lap of two trainings holds other numbers of items: one may see a part of the data alone."""
    mine, theirs = _items_a_lap(one), _items_a_lap(other)
    if mine is None or theirs is None or abs(mine - theirs) <= LAPS_ALIKE * max(mine, theirs):
        return None
    name, its = _names_of((one, other))
    return Missing(f"a lap of {name} has {mine:,.0f} items, and of {its} {theirs:,.0f}")


def _items_a_lap(lane: LaneResult) -> float | None:
    if lane.lap_s is None or lane.step_ms is None or lane.items_per_step is None:
        return None
    return lane.lap_s.median / lane.step_ms.median * 1e3 * lane.items_per_step


def find_other_steps(one: LaneResult, other: LaneResult) -> Missing | None:
    """Return how two lanes' timed steps differ in what they do; None if nothing was seen."""
    lanes = (one, other)
    mine, theirs = (_windows_of(each) for each in lanes)
    for steps in sorted(mine.keys() & theirs.keys()):
        says = _compare_windows(lanes, (mine[steps], theirs[steps]))
        if says is not None:
            return Missing(says)
    return _compare_late(lanes, [_late_of(each) for each in lanes])


def _windows_of(lane: LaneResult) -> dict[StepRange, Window]:
    """Return a window for each stretch of steps that a lane timed: its heats do the same at the same steps."""
    return {
        (window.first_step, window.steps): window
        for result in lane.heats
        for window in result.heat.windows
        if window.first_step is not None
    }


def _compare_windows(lanes: Sequence[LaneResult], windows: Sequence[Window]) -> str | None:
    """Return how the weights were changed otherwise in these steps, or at another rate."""
    one, other = _names_of(lanes)
    window = windows[0]
    first = window.first_step or 0
    span = f"step {first:,}" if window.steps == 1 else f"steps {first:,} to {first + window.steps - 1:,}"
    mine, theirs = (each.updates for each in windows)
    if mine is not None and theirs is not None and relative(mine, theirs) > COUNT_TOLERANCE:
        return (
            f"in {span}, {one} changed its weights {mine:.3g} times as often as in its first step, and {other} "
            f"{theirs:.3g} times"
        )
    mine, theirs = (each.rate for each in windows)
    if mine is not None and theirs is not None and relative(mine, theirs) > COUNT_TOLERANCE:
        return f"in {span}, the rate of {one} is {mine:.3g} times its first one, and that of {other} {theirs:.3g} times"
    return None


def _compare_late(lanes: Sequence[LaneResult], late: Sequence[LateStep | None]) -> Missing | None:
    """Return how the trainings differ that were timed, each put back to its start."""
    one, other = late
    if one is None or other is None or one.precision != other.precision or len(one.moves) != len(other.moves):
        return None
    name, its = _names_of(lanes)
    said = "put back to their start after they were timed"
    if relative(one.loss, other.loss) > LATE_LOSS[one.precision]:
        return Missing(f"{said}, {name} has a loss of {one.loss:.6g}, and {its} of {other.loss:.6g}")
    mine, theirs = (hypot(*each.moves) for each in late if each is not None)
    if relative(mine, theirs) > LATE_MOVE[one.precision]:
        return Missing(f"{said}, a step moves the weights of {name} by {mine:.3g}, and of {its} by {theirs:.3g}")
    return None


def _names_of(lanes: Sequence[LaneResult]) -> tuple[str, str]:
    """Return the names of two lanes, or of their trainings where these are two."""
    one, other = lanes
    if one.training is not None and other.training is not None and one.training != other.training:
        return one.training, other.training
    return one.name, other.name


def _late_of(lane: LaneResult) -> LateStep | None:
    return next((result.heat.late_step for result in lane.heats if result.heat.late_step is not None), None)
