"""What this process may really use: cores and memory, the container's limits included."""

from __future__ import annotations

import os

import psutil

from laptime.model.lane import Settings
from laptime.model.missing import Missing
from laptime.sensors.cgroup import memory_limit_bytes, memory_used_bytes, quota_cores

MOST_WORKERS = 16


def workers_for(settings: Settings, device_kind: str) -> int:
    """Give the processes that read: on a processor none, since a step uses all of its cores."""
    if settings.workers is not None:
        return settings.workers
    return 0 if device_kind == "cpu" else max(1, min(usable_cores() - 1, MOST_WORKERS))


def usable_cores() -> int:
    """Give the cores within affinity and the container's quota, in whole ones."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = quota_cores()
    return allowed if isinstance(quota, Missing) else max(1, min(allowed, round(quota)))


def free_memory_bytes() -> int:
    """Give what may still be used here, the container's limit included."""
    free = int(psutil.virtual_memory().available)
    limit, used = memory_limit_bytes(), memory_used_bytes()
    if isinstance(limit, Missing) or isinstance(used, Missing):
        return free
    return max(0, min(free, limit - used))
