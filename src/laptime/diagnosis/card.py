"""Findings about an accelerator: idle, shared, held back, full."""

from __future__ import annotations

from laptime.diagnosis.seen import Seen, share_of
from laptime.model.record import Finding

IDLE_PERCENT = 1.0
HELD_BACK_SHARE = 0.05
FULL = 0.95
# The driver's bits for why clocks are lower than they could be (nvml.h: nvmlClocksEventReasons).
POWER_BITS, HEAT_BITS = 0x04 | 0x80, 0x08 | 0x20 | 0x40


def unused_card(seen: Seen) -> Finding | None:
    """The lane says that it computes on a card, and the card had nothing to do."""
    busy = seen.values(seen.card, "busy_percent") if seen.card else []
    if not busy or max(busy) >= IDLE_PERCENT:
        return None
    return Finding(
        "card not used",
        f"{seen.lane.name}: its card was idle in all {len(busy)} readings while it was timed.",
        {"busy_percent": busy},
        f"See that model and batches are moved to {seen.lane.device.name}; `laptime devices` shows it.",
        "proven",
    )


def shared_card(seen: Seen) -> Finding | None:
    """Somebody else's process is on it."""
    others = seen.values(seen.card, "foreign_processes") if seen.card else []
    if not others or max(others) < 1:
        return None
    held = max(seen.values(seen.card or "", "foreign_memory_bytes"), default=0.0)
    return Finding(
        "card shared",
        f"{seen.lane.name}: {max(others):.0f} other processes were on its card, holding {held / 1e9:.1f} GB.",
        {"processes": max(others), "memory_bytes": held},
        "Race again when the card is idle: what others take is in these times.",
        "likely",
    )


def held_back_card(seen: Seen) -> Finding | None:
    """Its clocks were lowered, by heat or by a limit of power."""
    reasons = seen.values(seen.card, "clock_reasons") if seen.card else []
    hot = share_of(reasons, lambda bits: bool(int(bits) & HEAT_BITS))
    capped = share_of(reasons, lambda bits: bool(int(bits) & POWER_BITS))
    if max(hot, capped) <= HELD_BACK_SHARE:
        return None
    why, advice = (
        ("too hot", "Cool it, and race again; a long training will be slower than this.")
        if hot >= capped
        else (
            "at its limit of power",
            "That is its pace under this load; nvidia-smi -q -d POWER shows the limit.",
        )
    )
    return Finding(
        "card held back",
        f"{seen.lane.name}: the driver lowered its clocks in {100 * max(hot, capped):.0f} % of readings: {why}.",
        {"heat_share": hot, "power_share": capped},
        advice,
        "proven",
    )


def full_card(seen: Seen) -> Finding | None:
    """Allocators work harder when little is left, and some drivers spill into the host's memory."""
    used = seen.values(seen.card, "memory_used_bytes") if seen.card else []
    there = seen.values(seen.card or "", "memory_total_bytes")
    if not used or not there or max(used) <= FULL * max(there):
        return None
    return Finding(
        "card memory full",
        f"{seen.lane.name}: {max(used) / 1e9:.1f} of the card's {max(there) / 1e9:.1f} GB were in use.",
        {"used_bytes": max(used), "total_bytes": max(there)},
        "Race batch=N with a smaller N beside it: nearly full memory can cost time of its own.",
        "likely",
    )
