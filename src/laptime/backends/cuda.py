"""Which card is CUDA's first, second and so on, for frameworks that tell no more than this number.

The number means something only inside the process that counts so: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change it.
So CUDA's own driver library is asked, in the framework's process; the framework has it loaded and opened already.
"""

from __future__ import annotations

import ctypes
from typing import Any
from uuid import UUID

LIBRARY = "libcuda.so.1"
UUID_BYTES, BUS_BYTES = 16, 32


def identify_card(number: int) -> dict[str, str]:
    """Give a card's UUID (a MIG instance's own, where it is one) and its place on the bus; nothing without CUDA."""
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError:
        return {}
    device = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), number):
        return {}
    told = {"uuid": _ask_uuid(cuda, device), "bus": _ask_bus(cuda, device)}
    return {name: words for name, words in told.items() if words}


def ask_driver() -> dict[str, str]:
    """Ask NVIDIA's management library, since no framework tells; nothing where there is none, as with ROCm."""
    import pynvml

    try:
        pynvml.nvmlInit()  # never shut down: this process ends with its answer
        return {"driver": str(pynvml.nvmlSystemGetDriverVersion())}
    except pynvml.NVMLError:
        return {}


def _ask_uuid(cuda: Any, device: ctypes.c_int) -> str:
    uuid = (ctypes.c_ubyte * UUID_BYTES)()
    ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid  # the former gives instances of a card one
    return "" if ask(uuid, device) else str(UUID(bytes=bytes(uuid)))


def _ask_bus(cuda: Any, device: ctypes.c_int) -> str:
    """Write domain:bus:device, as in 0000:3b:00; what follows is the card's function, of which it has but one."""
    bus = ctypes.create_string_buffer(BUS_BYTES)
    if cuda.cuDeviceGetPCIBusId(bus, BUS_BYTES, device):
        return ""
    return bus.value.decode(errors="replace").lower().partition(".")[0]
