"""What processor and memory have to do just now: work, clocks, what is left of the memory."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from laptime.model.machine import Use
from laptime.model.missing import Missing
from laptime.sensors import cgroup
from laptime.sensors.files import read_word
from laptime.sensors.host import mean_frequency

CHOOSES_ITSELF = {"intel_pstate", "amd-pstate-epp"}
WATCHED_S = 0.3
NO_LOAD = Missing("this system tells no load")


def look_at_use(sys: Path = Path("/sys"), watched_s: float = WATCHED_S) -> Use:
    """Watch the cores for a moment, and read the rest."""
    busy = psutil.cpu_percent(interval=watched_s)
    return Use(
        over_s=watched_s,
        busy_percent=busy,
        load_1m=os.getloadavg()[0] if hasattr(os, "getloadavg") else NO_LOAD,
        frequency_mhz=mean_frequency(sys),
        governors=_governors(sys),
        memory_available_bytes=_available(),
        swap_used_bytes=_swap(),
    )


def _governors(sys: Path) -> tuple[str, ...] | Missing:
    """Name the rules by which cores choose their clock; most often all have one."""
    places = sorted((sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/cpufreq"))
    found = tuple(dict.fromkeys(filter(None, map(_governor, places))))
    return found or Missing("no core tells a governor under /sys/devices/system/cpu, as in most virtual machines")


def _governor(place: Path) -> str:
    """A driver that chooses by itself has its own powersave, which is its usual way, and a preference beside it."""
    governor, driver = read_word(place / "scaling_governor"), read_word(place / "scaling_driver")
    if not governor or driver not in CHOOSES_ITSELF:
        return governor
    prefers = read_word(place / "energy_performance_preference")
    return f"{governor} of {driver}" + (f", preferring {prefers}" if prefers else "")


def _available() -> int | Missing:
    """A container may be given less than the machine has left."""
    left = int(psutil.virtual_memory().available)
    limit, used = cgroup.memory_limit_bytes(), cgroup.memory_used_bytes()
    if isinstance(limit, Missing) or isinstance(used, Missing):
        return left
    return max(0, min(left, limit - used))


def _swap() -> int | Missing:
    try:
        return int(psutil.swap_memory().used)
    except (OSError, RuntimeError) as error:
        return Missing(f"this system tells no swap: {error}")
