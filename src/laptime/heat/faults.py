"""What a page fault costs here: machines differ tenfold, virtual ones most, so it is measured and not assumed."""

from __future__ import annotations

import mmap
from collections.abc import Callable

from laptime.model.missing import Missing

CHUNK_BYTES = 1 << 20  # too small for huge pages, of which one fault fetches hundreds of small ones
CHUNKS = 24
NOTHING = Missing("this clock did not move while pages were fetched")


def time_fault_ns(clock: Callable[[], int]) -> float | Missing:
    """Give the nanoseconds of one page fault, fetching, clearing and giving back: the middle of some megabytes.

    Memory is written twice: the first time each page is fetched, the second time none.
    """
    ink = bytes(CHUNK_BYTES)
    pages = CHUNK_BYTES // mmap.PAGESIZE
    costs = sorted(_time_chunk(clock, ink) for _ in range(CHUNKS))
    cost = costs[CHUNKS // 2] / pages
    return cost if cost > 0 else NOTHING


def _time_chunk(clock: Callable[[], int], ink: bytes) -> int:
    start_ns = clock()
    memory = mmap.mmap(-1, CHUNK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = ink
    fetched_ns = clock()
    memory[:] = ink
    written_ns = clock()
    memory.close()
    ended_ns = clock()
    return (fetched_ns - start_ns) - (written_ns - fetched_ns) + (ended_ns - written_ns)
