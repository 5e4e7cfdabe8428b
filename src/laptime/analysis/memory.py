"""Memory that lanes held at some batches -> what one would hold at another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from laptime.model.missing import Missing
from laptime.model.record import LaneResult

GROWS = 1.2  # times the memory at half of the batch or less: one that grows less says nothing of larger batches
LARGEST_BATCH = 1_000_000
Held = Callable[[int], int]
"""Returns what the shapes of a network hold at a batch."""


def memory_of(lane: LaneResult) -> int | Missing:
    """Return the most memory that a lane held where it computes: on a processor, that of its process."""
    return lane.peak_memory_bytes if lane.device.kind == "cpu" else lane.device_memory_bytes


def estimate_memory(batch: int, peaks: Mapping[int, int], shapes: Held | Missing) -> int | Missing:
    """Return what a lane would hold: the peak at the nearest batch that ran, and how much more the shapes hold.

    Where the shapes are not known, it is on the line through the peaks of the two largest batches.
    """
    if isinstance(shapes, Missing):
        return _on_line(batch, peaks)
    if not peaks:
        return Missing("no batch of this lane has run")
    near = min(peaks, key=lambda each: abs(each - batch))
    return max(0, peaks[near] + shapes(batch) - shapes(near))


def _on_line(batch: int, peaks: Mapping[int, int]) -> int | Missing:
    if len(peaks) < 2:
        return Missing("fewer than two batches of this lane have run")
    small, large = sorted(peaks)[-2:]
    if peaks[large] < GROWS * peaks[small]:
        return Missing(f"its memory hardly grows from batch {small:,} to {large:,}")
    return round(peaks[large] + (peaks[large] - peaks[small]) * (batch - large) / (large - small))


def find_largest_batch(room_bytes: int, estimate: Callable[[int], int | Missing]) -> int | None:
    """Return the largest batch that fits by its estimate; None if there are no estimates, or not even one item fits."""
    fits, fails = 0, LARGEST_BATCH
    while fails - fits > 1:
        batch = (fits + fails) // 2
        needed = estimate(batch)
        if isinstance(needed, Missing):
            return None
        fits, fails = (batch, fails) if needed <= room_bytes else (fits, batch)
    return fits or None
