"""The environment variables that settings need at the start of a lane's process."""

from __future__ import annotations

from laptime.model.lane import Settings
from laptime.model.machine import Device

# glibc returns freed memory to the system, and the next step takes page faults for it. These thresholds keep it.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
    "MALLOC_TOP_PAD_": str(64 << 20),
}

# One place for each core, and threads spread over them, as OpenMP reads it.
PINNED = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"}
WITHOUT_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}  # PyTorch has a switch of its own


def of_threads(settings: Settings, device: Device) -> dict[str, str]:
    if settings.threads is None or device.kind != "cpu":
        return {}
    return {"OMP_NUM_THREADS": str(settings.threads), "MKL_NUM_THREADS": str(settings.threads)}


def of_pinning(settings: Settings, _device: Device) -> dict[str, str]:
    return PINNED if settings.value_of("pinning") == "cores" else {}


def of_malloc(settings: Settings, _device: Device) -> dict[str, str]:
    return KEEP_MEMORY if settings.malloc == "keep" else {}


def of_onednn(settings: Settings, _device: Device) -> dict[str, str]:
    return WITHOUT_ONEDNN if settings.value_of("onednn") == "off" else {}
