"""NVIDIA's management library, opened and closed, and what its errors mean.

NVML itself counts who opened it: each `open_library` needs one `close_library`, and the last of them shuts it down, so
that two sensors share one session without knowing of each other. No lock is held here while NVML is called.
"""

from __future__ import annotations

import contextlib
from typing import Any

from laptime.errors import SensorError
from laptime.model.missing import Missing

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TIMEOUT, NO_FUNCTION = 3, 4, 6, 10, 13
LOST = {15, 16, 28}  # off the bus, in need of a reset, taken out
SHUT = {
    2: "this NVML does not know how to be opened by this nvidia-ml-py",
    NO_PERMISSION: "no permission to talk to the NVIDIA driver: this user may not open /dev/nvidia*",
    9: "NVIDIA's library is here, but its kernel module is not loaded: is there a card, and is /dev/nvidiactl here?",
    12: "no NVIDIA driver is installed here, or the container was started without it: libnvidia-ml.so.1 is not found "
    "or cannot be loaded",
    NO_FUNCTION: "the NVIDIA driver is too old for this nvidia-ml-py",
    15: "a card was lost: it does not answer on the bus",
    18: "the NVIDIA driver was changed and not loaded anew: its library and its kernel module are of two versions; "
    "restart this computer",
    999: "NVML cannot be opened (Unknown Error); in a container, its devices were often taken away: start it anew",
}
TOLD = {
    NOT_SUPPORTED: "this card does not tell",
    NO_PERMISSION: "this user may not ask",
    NO_FUNCTION: "this driver cannot be asked",
    15: "the card was lost",
    16: "the card needs a reset",
    28: "the card is gone",
}


def open_library() -> Any:
    """Give NVML, ready to be asked; SensorError says why it is not."""
    try:
        import pynvml  # noqa: PLC0415  a race without NVIDIA's cards has no use for it
    except ImportError as error:
        raise SensorError(f"nvidia-ml-py cannot be imported: {error}") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SensorError(SHUT.get(error.value, f"NVML cannot be opened: {error}")) from error
    return pynvml


def close_library(nvml: Any) -> None:
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def explain(error: Any) -> Missing:
    """Say in words why a figure is not told; NVML's own word follows."""
    words = TOLD.get(error.value)
    return Missing(f"{words} (NVML: {error})" if words else f"NVML: {error}")
