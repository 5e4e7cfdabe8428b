"""NVIDIA's management library (NVML): opening, closing, the meaning of its errors, and which cards it shows.

NVML counts its users: each `open_library` needs one `close_library`, and the last one shuts NVML down. So two sensors
share one session. No lock is held here while NVML is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laptime.errors import SensorError
from laptime.model.card import normal_bus, plain_uuid
from laptime.model.missing import Missing

NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION = 3, 4, 13
LOST = {15, 16, 28}  # off the bus, needs a reset, removed
SHUT = {
    2: "this NVML does not know how to be opened by this nvidia-ml-py",
    NO_PERMISSION: "no permission to talk to the NVIDIA driver: this user may not open /dev/nvidia*",
    9: "NVIDIA's library is here, but its kernel module is not loaded: is there a card, and is /dev/nvidiactl here?",
    12: "no NVIDIA driver is installed here, or the container was started without it: libnvidia-ml.so.1 is not found "
    "or cannot be loaded",
    NO_FUNCTION: "the NVIDIA driver is too old for this nvidia-ml-py",
    15: "a card was lost: it does not answer on the bus",
    18: "the NVIDIA driver was changed and not loaded again: its library and its kernel module are of two versions; "
    "restart this computer",
    999: "NVML cannot be opened (Unknown Error); in a container, it often lost its devices: start it again",
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
    """Return NVML, open; SensorError says why it cannot be opened."""
    try:
        import pynvml  # noqa: PLC0415  a race without NVIDIA's cards does not need it
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
    """Return in words why a figure is missing, followed by NVML's own words."""
    words = TOLD.get(error.value)
    return Missing(f"{words} (NVML: {error})" if words else f"NVML: {error}")


@dataclass(frozen=True, slots=True)
class DriverCard:
    """A card, or a MIG instance of one, and NVML's handle for it."""

    handle: Any
    uuid: str
    bus: str
    capability: tuple[int, int] | None
    parent: DriverCard | None = None


@dataclass(frozen=True, slots=True)
class UnreadableCard:
    """A card that NVML counts but that cannot be read."""

    name: str
    reason: Missing


def find_cards(nvml: Any) -> tuple[tuple[DriverCard, ...], tuple[UnreadableCard, ...]]:
    """Return every card that can be read, each followed by its MIG instances; and the others with the reasons."""
    found: list[DriverCard] = []
    unseen: list[UnreadableCard] = []
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            card = _look_at(nvml, nvml.nvmlDeviceGetHandleByIndex(number))
        except nvml.NVMLError as error:
            unseen.append(UnreadableCard(f"NVML's card {number}", explain(error)))
        else:
            found += [card, *_instances(nvml, card)]
    return tuple(found), tuple(unseen)


def choose(
    cards: tuple[DriverCard, ...], named: tuple[str, ...]
) -> tuple[tuple[DriverCard, ...], tuple[UnreadableCard, ...]]:
    """Return the cards named by UUID or bus, in the order of the names; an instance has no bus of its own."""
    chosen: list[DriverCard] = []
    unseen: list[UnreadableCard] = []
    here = ", ".join(each.uuid for each in cards) or "none"
    for name in named:
        card = next((each for each in cards if _is_named(each, name)), None)
        if card is None:
            unseen.append(UnreadableCard(name, Missing(f"no card {name} is here; those that are: {here}")))
        elif card not in chosen:
            chosen.append(card)
    return tuple(chosen), tuple(unseen)


def no_card(unseen: tuple[UnreadableCard, ...]) -> Missing:
    """Return why there is no card to read."""
    if unseen:
        return Missing("; ".join(f"{each.name}: {each.reason.missing}" for each in unseen))
    return Missing("the NVIDIA driver is here, but it shows no card")


def _is_named(card: DriverCard, name: str) -> bool:
    by_bus = card.parent is None and normal_bus(card.bus) == normal_bus(name)
    return by_bus or plain_uuid(card.uuid) == plain_uuid(name)


def _look_at(nvml: Any, handle: Any) -> DriverCard:
    bus = normal_bus(text(nvml.nvmlDeviceGetPciInfo(handle).busId))
    return DriverCard(handle, text(nvml.nvmlDeviceGetUUID(handle)), bus, _ask_capability(nvml, handle))


def _ask_capability(nvml: Any, handle: Any) -> tuple[int, int] | None:
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        return None
    return int(major), int(minor)


def _instances(nvml: Any, card: DriverCard) -> Iterator[DriverCard]:
    """Yield a card's MIG instances; their numbers have gaps where an instance was destroyed."""
    try:
        is_on = nvml.nvmlDeviceGetMigMode(card.handle)[0] == 1
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle) if is_on else 0
    except nvml.NVMLError:
        return
    for number in range(most):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, number)
            yield DriverCard(handle, text(nvml.nvmlDeviceGetUUID(handle)), card.bus, card.capability, card)
        except nvml.NVMLError:
            continue


def text(told: Any) -> str:
    """Older versions of nvidia-ml-py return bytes."""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


@dataclass(frozen=True, slots=True)
class CardMemory:
    """How much of a card's memory programs hold."""

    used_bytes: int
    total_bytes: int


def ask_memory(nvml: Any, handle: Any) -> CardMemory:
    """Return a card's memory. Older drivers count their own reserve (0.6 GB on an H200) as used; newer ones do not."""
    try:
        told = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if error.value not in {NO_FUNCTION, NOT_SUPPORTED}:
            raise
        told = nvml.nvmlDeviceGetMemoryInfo(handle)
    return CardMemory(int(told.used), int(told.total))


def list_processes(nvml: Any, handle: Any) -> dict[int, int | None]:
    """Return the memory of each process on a card; a process that computes and draws is in both of NVML's lists."""
    held: dict[int, int | None] = {}
    for each in [*nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle), *_drawing(nvml, handle)]:
        told = None if each.usedGpuMemory is None else int(each.usedGpuMemory)
        before = held.get(int(each.pid))
        held[int(each.pid)] = told if before is None else max(before, told or 0)
    return held


def _drawing(nvml: Any, handle: Any) -> list[Any]:
    """Cards that only compute have no such list."""
    try:
        return list(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle))
    except nvml.NVMLError as error:
        if error.value != NOT_SUPPORTED:
            raise
        return []
