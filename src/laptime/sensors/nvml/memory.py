"""How much of a card's memory programs hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.sensors.nvml.question import Ask, Place
from laptime.sensors.nvml.session import NO_FUNCTION, NOT_SUPPORTED


@dataclass(frozen=True, slots=True)
class Memory:
    used_bytes: int
    total_bytes: int


def ask_memory(nvml: Any, handle: Any) -> Memory:
    """Older drivers count what they keep for themselves (0.6 GB on an H200) as used; newer ones tell it apart."""
    try:
        told = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if error.value not in {NO_FUNCTION, NOT_SUPPORTED}:
            raise
        told = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Memory(int(told.used), int(told.total))


def begin_used(at: Place) -> Ask:
    return lambda: (float(ask_memory(at.nvml, at.card.handle).used_bytes),)


def begin_total(at: Place) -> Ask:
    return lambda: (float(ask_memory(at.nvml, at.card.handle).total_bytes),)
