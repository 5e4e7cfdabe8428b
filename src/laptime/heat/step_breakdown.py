"""Break down some steps: how long the loader, the copy and the rest of a step take, each between two fences."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Hashable
from dataclasses import replace

from laptime.backends.base import StepParts
from laptime.model.missing import Missing
from laptime.model.symptoms import NOT_LOOKED, StepSymptoms

ENOUGH_NS = 1_000_000_000
STEPS_LEAST, STEPS_MOST = 3, 50
LOOKS = 3  # additional steps, inspected off the clock because inspecting takes time
SLOW_NS = 1_000_000_000  # of steps that take longer, one is enough
CHUNK_BYTES = 1 << 20  # too small for huge pages, where one fault maps hundreds of small pages
CHUNKS = 24
NO_TIME = Missing("this clock did not move while pages were fetched")

Clock = Callable[[], int]


def break_down_steps(clock: Clock, fence: Callable[[], None], apart: StepParts, least: int = 1) -> StepSymptoms:
    """Time the parts of about one second of steps, then inspect a few more for symptoms that need no clock.

    `least` is how many steps must be timed when a loader delivers that many batches at once.
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
    clock: Clock, fence: Callable[[], None], apart: StepParts, shapes: set[Hashable]
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
    """Return what the back end reported, a reason included; where it did not look, return what the clock measured."""
    return found if told == NOT_LOOKED else told


def time_fault_ns(clock: Clock) -> float | Missing:
    """Return the nanoseconds of one page fault, from mapping and clearing a page to freeing it: a median over 24 MiB.

    Memory is written twice: the first write maps each page, the second maps none.
    """
    ink = bytes(CHUNK_BYTES)
    pages = CHUNK_BYTES // mmap.PAGESIZE
    costs = sorted(_time_chunk(clock, ink) for _ in range(CHUNKS))
    cost = costs[CHUNKS // 2] / pages
    return cost if cost > 0 else NO_TIME


def _time_chunk(clock: Clock, ink: bytes) -> int:
    start_ns = clock()
    memory = mmap.mmap(-1, CHUNK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = ink
    fetched_ns = clock()
    memory[:] = ink
    written_ns = clock()
    memory.close()
    ended_ns = clock()
    return (fetched_ns - start_ns) - (written_ns - fetched_ns) + (ended_ns - written_ns)
