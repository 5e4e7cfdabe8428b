"""Why a card's clocks stand lower than they could: NVML's bits, in words."""

from __future__ import annotations

REASONS = {
    0x001: "idle",
    0x002: "clocks set by an application",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "kept in step with other cards",
    0x020: "too hot, held back by the driver",
    0x040: "too hot, held back by the card",
    0x080: "power brake from outside",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "voltage limit",
}


def name_reasons(bits: int) -> tuple[str, ...]:
    """Give each reason that stands in a reading of `clock_reasons`; a bit that has no name yet is given as it is."""
    known = tuple(words for bit, words in REASONS.items() if bits & bit)
    rest = bits & ~sum(REASONS)
    return (*known, f"a reason that has no name here ({rest:#x})") if rest else known
