"""Findings about clocks that were not the same at the end of a heat as at its beginning."""

from __future__ import annotations

from laptime.diagnosis.seen import Seen
from laptime.model.record import Finding

DRIFT = 0.05


def drifting_card(seen: Seen) -> Finding | None:
    """A card that warms up lowers its clock."""
    return drifting(seen, seen.card, "sm_clock_mhz", "the card's clock") if seen.card else None


def drifting_processor(seen: Seen) -> Finding | None:
    """So does a processor; its first seconds may be a boost."""
    return drifting(seen, "host", "frequency_mean_mhz", "the processor's frequency")


def drifting(seen: Seen, device: str, name: str, what: str) -> Finding | None:
    """Hold the last third of each heat's readings against the first."""
    changes = []
    for points in seen.readings(device, name):
        third = len(points) // 3
        if third:
            first = sum(value for _, value in points[:third]) / third
            last = sum(value for _, value in points[-third:]) / third
            changes.append(last / first - 1 if first else 0.0)
    if not changes or abs(worst := max(changes, key=abs)) <= DRIFT:
        return None
    return Finding(
        "clocks drifting",
        f"{seen.lane.name}: {what} changed by {100 * worst:+.0f} % within a heat.",
        {"changes": changes},
        "Race longer (--budget 5m): the first seconds are not the pace of hours.",
        "likely",
    )
