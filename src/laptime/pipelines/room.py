"""What this process may really use: cores and memory, the container's limits included."""

from __future__ import annotations

import os

import psutil

from laptime.model.missing import Missing
from laptime.sensors.cgroup import memory_limit_bytes, memory_used_bytes


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory_bytes() -> int:
    """Give what may still be used here, the container's limit included."""
    free = int(psutil.virtual_memory().available)
    limit, used = memory_limit_bytes(), memory_used_bytes()
    if isinstance(limit, Missing) or isinstance(used, Missing):
        return free
    return max(0, min(free, limit - used))
