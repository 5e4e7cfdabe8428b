"""What a plain function could compute on: no framework is asked, so no card is tried."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from laptime.model.machine import Device
from laptime.model.missing import Missing

FRAMEWORKS = ("numpy", "torch", "tensorflow", "keras", "jax", "mxnet", "tinygrad", "cupy", "paddle", "numba", "mlx")
UNTRIED = "NVIDIA card, not tried"
ABSENT = "there is no NVIDIA card here: no /dev/nvidia0"
HIDDEN = "CUDA_VISIBLE_DEVICES hides every card"
NOBODY_TELLS = Missing("no framework is asked")


def list_devices(nodes: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """Give the processor, and each NVIDIA card that has a device node and is not hidden, as CUDA counts them."""
    there = len(list(nodes.glob("nvidia[0-9]*")))
    shown = _count_shown(environment.get("CUDA_VISIBLE_DEVICES"), there)
    features = ("malloc",) if platform.libc_ver()[0] == "glibc" else ()
    processor = Device("cpu", "cpu", "the processor", usable=True, features=features)
    cards = [Device(f"cuda:{index}", "cuda", UNTRIED, usable=True, memory_bytes=NOBODY_TELLS) for index in range(shown)]
    if not cards:
        cards = [Device("cuda", "cuda", "-", usable=False, reason=HIDDEN if there else ABSENT)]
    return (processor, *cards)


def list_versions() -> dict[str, str]:
    """Give Python's version, then those of the frameworks that the user's code has imported by now."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in FRAMEWORKS}
    return {"python": platform.python_version(), **{name: str(each) for name, each in loaded.items() if each}}


def _count_shown(visible: str | None, there: int) -> int:
    """CUDA counts what is named up to the first that cannot be."""
    if visible is None:
        return there
    names = [each.strip() for each in visible.split(",")]
    ends = [index for index, name in enumerate(names) if name in {"", "-1"}]
    return min(ends[0] if ends else len(names), there)
