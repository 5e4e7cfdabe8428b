"""The processor as this process may use it: name, cores within affinity and quota, and the features that matter."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from laptime.model.machine import Processor
from laptime.model.missing import Missing
from laptime.sensors import cgroup

# What decides how fast a training can run; the other flags of a processor say little here.
FEATURES = {
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


def look_at_processor() -> Processor:
    quota = cgroup.quota_cores()
    allowed = _allowed_cores()
    usable = allowed if isinstance(quota, Missing) else max(1, min(allowed, int(quota + 0.5)))
    name, flags = _name_and_flags()
    return Processor(
        name=name,
        architecture=platform.machine(),
        cores_visible=os.cpu_count() or 1,
        cores_usable=usable,
        quota_cores=quota,
        features=tuple(sorted(FEATURES & flags)),
    )


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
