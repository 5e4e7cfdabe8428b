"""A stated memory: how it is written, and whether this machine, or its container, has so much left."""

from __future__ import annotations

import re

import psutil

from laptime.errors import UsageError
from laptime.model.missing import Missing
from laptime.sensors.cgroup import memory_limit_bytes, memory_used_bytes

UNITS = {"B": 1}
UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", 1)}
WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B)\s*", re.IGNORECASE)
HOW = 'write it as "4 GB", "512MB", "1.5 GiB", or give the bytes as a whole number'


def read_memory(memory: str | int) -> int:
    """Give the bytes that are meant."""
    if isinstance(memory, int) and not isinstance(memory, bool):
        if memory > 0:
            return memory
        raise UsageError(f"memory={memory}: expected more than 0 bytes", HOW)
    found = WRITTEN.fullmatch(memory) if isinstance(memory, str) else None
    unit = UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise UsageError(f"memory={memory!r}: that is no amount of memory", HOW)
    size = int(float(found[1]) * unit)
    if size < 1:
        raise UsageError(f"memory={memory!r}: expected more than 0 bytes", HOW)
    return size


def check_memory(size: int) -> None:
    """Refuse what is not there: a training that fills all memory is ended by the system, without a word."""
    free, whose = free_memory()
    if size > free:
        raise UsageError(
            f"memory={write_memory(size)}: {write_memory(free)} are free {whose}",
            "state less: what does not fit is decoded anew each time, and all else is kept",
        )


def free_memory() -> tuple[int, str]:
    """Give what may still be used, and who says so: the machine, or the limit of a container."""
    free = int(psutil.virtual_memory().available)
    limit, used = memory_limit_bytes(), memory_used_bytes()
    if isinstance(limit, Missing) or isinstance(used, Missing) or free <= limit - used:
        return free, f"on this machine of {write_memory(psutil.virtual_memory().total)}"
    return max(0, limit - used), f"within this container's limit of {write_memory(limit)}"


def write_memory(size: int) -> str:
    """Write bytes in the largest unit of which there is one."""
    for unit in ("TB", "GB", "MB", "KB"):
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.3g} {unit}"
    return f"{size} B"
