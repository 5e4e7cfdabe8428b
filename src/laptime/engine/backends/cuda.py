"""Which card is CUDA's first, second and so on, for frameworks that report only this number.

The number is valid only in the process that uses it: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change it. Therefore
this module asks CUDA's own driver library in the framework's process, where the framework has already loaded and opened
it.
"""

from __future__ import annotations

import ctypes
from uuid import UUID

AMPERE = (8, 0)  # the compute capability from which on a card has tf32 and bf16

LIBRARY = "libcuda.so.1"
UUID_BYTES, BUS_BYTES = 16, 32


def identify_card(number: int) -> dict[str, str]:
    """Return a card's UUID (for a MIG instance, its own UUID) and its place on the bus; an empty dict without CUDA."""
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError:
        return {}
    device = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), number):
        return {}
    uuid = (ctypes.c_ubyte * UUID_BYTES)()
    ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid  # only v2 knows the UUID of a MIG instance
    uuid_text = "" if ask(uuid, device) else str(UUID(bytes=bytes(uuid)))
    # Domain:bus:device, as in 0000:3b:00, without the function number: a card has only one function
    bus = ctypes.create_string_buffer(BUS_BYTES)
    bus_text = ""
    if not cuda.cuDeviceGetPCIBusId(bus, BUS_BYTES, device):
        bus_text = bus.value.decode(errors="replace").lower().partition(".")[0]
    return {name: text for name, text in (("uuid", uuid_text), ("bus", bus_text)) if text}


def ask_driver() -> dict[str, str]:
    """Ask NVIDIA's management library for the driver version, which no framework reports; empty without one (ROCm)."""
    import pynvml

    try:
        pynvml.nvmlInit()  # never shut down: this process ends with its answer
        return {"driver": str(pynvml.nvmlSystemGetDriverVersion())}
    except pynvml.NVMLError:
        return {}
