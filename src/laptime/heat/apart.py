"""Some steps taken apart: how long the loader, the copy and all else of a step take, each between two fences."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from laptime.backends.base import Apart
from laptime.heat.faults import time_fault_ns
from laptime.model.missing import Missing
from laptime.model.signs import NOT_LOOKED, Signs

ENOUGH_NS = 1_000_000_000
STEPS_LEAST, STEPS_MOST = 3, 50
LOOKS = 3  # steps that are looked into besides, off the clock: to look costs time
SLOW_NS = 1_000_000_000  # of steps that take longer one is enough


def take_apart(clock: Callable[[], int], fence: Callable[[], None], apart: Apart, least: int = 1) -> Signs:
    """Time the parts of about a second's worth of steps, then look into some more for all that takes no clock.

    `least` is how many have to be timed where a loader gives that many batches at once.
    """
    calls_least = max(STEPS_LEAST, least // apart.stride)
    spent = [0, 0, 0]
    shapes: set[Hashable] = set()
    calls = 0
    while calls < calls_least or (sum(spent) < ENOUGH_NS and calls < STEPS_MOST):
        for part, ns in enumerate(_time_parts(clock, fence, apart, shapes)):
            spent[part] += ns
        calls += 1
    told = apart.look(1 if sum(spent) / calls > SLOW_NS else LOOKS, calls)
    return replace(
        told,
        steps=calls * apart.stride,
        wait_ns=_unless_told(told.wait_ns, spent[0]),
        copy_ns=_unless_told(told.copy_ns, spent[1]),
        compute_ns=_unless_told(told.compute_ns, spent[2]),
        shapes=_unless_told(told.shapes, len(shapes)),
        fault_ns=time_fault_ns(clock) if told.fault_ns == NOT_LOOKED else told.fault_ns,
    )


def _time_parts(
    clock: Callable[[], int], fence: Callable[[], None], apart: Apart, shapes: set[Hashable]
) -> tuple[int, int, int]:
    fence()
    start_ns = clock()
    batch = apart.fetch()
    fence()
    fetched_ns = clock()
    placed = apart.move(batch)
    fence()
    moved_ns = clock()
    apart.compute(placed)
    fence()
    done_ns = clock()
    shapes.add(apart.describe(batch))
    return fetched_ns - start_ns, moved_ns - fetched_ns, done_ns - moved_ns


def _unless_told(told: int | Missing, found: int) -> int | Missing:
    """A back end that cannot tell a part from the others says why; where it says nothing, the clock has told."""
    return found if told == NOT_LOOKED else told
