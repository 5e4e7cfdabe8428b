"""The processor as this process may use it, and the current load on processor and memory."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import psutil

from laptime.model.machine import Processor, Use
from laptime.model.missing import Missing
from laptime.sensors import cgroup
from laptime.sensors.base import read_word
from laptime.sensors.cgroup import usable_cores
from laptime.sensors.host import mean_frequency

# The features that decide how fast a training can run; a processor's other flags matter little here.
PROCESSOR_FEATURES = {
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_vnni",
    "amx_bf16",
    "amx_tile",
    "asimd",
    "bf16",
    "fma",
    "sve",
    "sve_bf16",
}
CHOOSES_ITSELF = {"intel_pstate", "amd-pstate-epp"}
WATCHED_S = 0.3
NO_LOAD = Missing("this system reports no load")


def look_at_processor() -> Processor:
    name, flags = _name_and_flags()
    return Processor(
        name=name,
        architecture=platform.machine(),
        cores_visible=os.cpu_count() or 1,
        cores_usable=usable_cores(),
        quota_cores=cgroup.quota_cores(),
        features=tuple(sorted(PROCESSOR_FEATURES & flags)),
    )


def _name_and_flags() -> tuple[str, set[str]]:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        return _from_cpuinfo(cpuinfo.read_text(errors="replace"))
    if platform.system() == "Darwin":
        asked = subprocess.run(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                               capture_output=True, text=True, check=False)  # fmt: skip
        return asked.stdout.strip() or platform.processor(), set()
    return platform.processor() or platform.machine(), set()


def _from_cpuinfo(text: str) -> tuple[str, set[str]]:
    first = text.split("\n\n", 1)[0]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    name = fields.get("model name") or fields.get("Hardware") or fields.get("CPU part") or platform.machine()
    return name, set((fields.get("flags") or fields.get("Features") or "").split())


def read_use(sys: Path = Path("/sys"), watched_s: float = WATCHED_S) -> Use:
    """Watch the cores for a moment, and read the other figures."""
    return Use(
        over_s=watched_s,
        busy_percent=_busy(watched_s),
        load_1m=os.getloadavg()[0] if hasattr(os, "getloadavg") else NO_LOAD,
        frequency_mhz=mean_frequency(sys),
        governors=_governors(sys),
        memory_available_bytes=available_memory_bytes(),
        swap_used_bytes=_swap(),
    )


def _busy(watched_s: float) -> float | Missing:
    try:
        return float(psutil.cpu_percent(interval=watched_s))
    except (OSError, RuntimeError) as error:
        return Missing(f"this system reports no processor times: {error}")


def _governors(sys: Path) -> tuple[str, ...] | Missing:
    """Return the governors of the cores' clocks; most often all cores have the same."""
    places = sorted((sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/cpufreq"))
    found = tuple(dict.fromkeys(filter(None, map(_governor, places))))
    return found or Missing("no core reports a governor under /sys/devices/system/cpu, as in most virtual machines")


def _governor(place: Path) -> str:
    """Return one core's governor, with its driver where that chooses the clock on its own.

    Such a driver has its own "powersave", which is its usual mode, and a preference as well.
    """
    governor, driver = read_word(place / "scaling_governor"), read_word(place / "scaling_driver")
    if not governor or driver not in CHOOSES_ITSELF:
        return governor
    prefers = read_word(place / "energy_performance_preference")
    return f"{governor} of {driver}" + (f", preferring {prefers}" if prefers else "")


def available_memory_bytes() -> int | Missing:
    """Return the memory that is available; a container may be allowed less than the machine has left."""
    try:
        left = int(psutil.virtual_memory().available)
    except (OSError, RuntimeError) as error:
        return Missing(f"this system reports no memory: {error}")
    allowed = cgroup.memory_left_bytes()
    return left if isinstance(allowed, Missing) else min(left, allowed)


def _swap() -> int | Missing:
    try:
        return int(psutil.swap_memory().used)
    except (OSError, RuntimeError) as error:
        return Missing(f"this system reports no swap: {error}")
