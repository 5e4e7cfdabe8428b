"""The most memory that this process held."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from laptime.model.missing import Missing


def peak_memory_bytes() -> int | Missing:
    """Return the most memory that this process held: the kernel's high-water mark, or getrusage without one."""
    status = Path("/proc/self/status")
    if status.exists():
        for row in status.read_text().splitlines():
            if row.startswith("VmHWM:"):
                return int(row.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
