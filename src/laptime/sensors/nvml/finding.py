"""Which cards the driver shows: whole ones and MIG instances, each by its UUID and its place on the bus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laptime.model.card import normal_bus, plain_uuid
from laptime.model.missing import Missing
from laptime.sensors.nvml.session import explain


@dataclass(frozen=True, slots=True)
class Found:
    """A card, or an instance of one, and NVML's handle of it."""

    handle: Any
    uuid: str
    bus: str
    capability: tuple[int, int] | None
    parent: Found | None = None


@dataclass(frozen=True, slots=True)
class Unseen:
    """A card that NVML counts and does not let be asked."""

    name: str
    reason: Missing


def find_cards(nvml: Any) -> tuple[tuple[Found, ...], tuple[Unseen, ...]]:
    """Give every card that may be asked, each followed by its MIG instances; and the others, with the reasons."""
    found: list[Found] = []
    unseen: list[Unseen] = []
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            card = _look_at(nvml, nvml.nvmlDeviceGetHandleByIndex(number))
        except nvml.NVMLError as error:
            unseen.append(Unseen(f"NVML's card {number}", explain(error)))
        else:
            found += [card, *_instances(nvml, card)]
    return tuple(found), tuple(unseen)


def choose(cards: tuple[Found, ...], named: tuple[str, ...]) -> tuple[tuple[Found, ...], tuple[Unseen, ...]]:
    """Keep the cards that are named by UUID or bus, in the order of the names; an instance has no bus of its own."""
    chosen: list[Found] = []
    unseen: list[Unseen] = []
    here = ", ".join(each.uuid for each in cards) or "none"
    for name in named:
        card = next((each for each in cards if _is_named(each, name)), None)
        if card is None:
            unseen.append(Unseen(name, Missing(f"no card {name} is here; those that are: {here}")))
        elif card not in chosen:
            chosen.append(card)
    return tuple(chosen), tuple(unseen)


def no_card(unseen: tuple[Unseen, ...]) -> Missing:
    """Say why there is no card to ask."""
    if unseen:
        return Missing("; ".join(f"{each.name}: {each.reason.missing}" for each in unseen))
    return Missing("the NVIDIA driver is here, but it shows no card")


def _is_named(card: Found, name: str) -> bool:
    by_bus = card.parent is None and normal_bus(card.bus) == normal_bus(name)
    return by_bus or plain_uuid(card.uuid) == plain_uuid(name)


def _look_at(nvml: Any, handle: Any) -> Found:
    bus = normal_bus(text(nvml.nvmlDeviceGetPciInfo(handle).busId))
    return Found(handle, text(nvml.nvmlDeviceGetUUID(handle)), bus, _ask_capability(nvml, handle))


def _ask_capability(nvml: Any, handle: Any) -> tuple[int, int] | None:
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        return None
    return int(major), int(minor)


def _instances(nvml: Any, card: Found) -> Iterator[Found]:
    """Give a card's MIG instances; their numbers have gaps where an instance was destroyed."""
    try:
        is_on = nvml.nvmlDeviceGetMigMode(card.handle)[0] == 1
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle) if is_on else 0
    except nvml.NVMLError:
        return
    for number in range(most):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, number)
            yield Found(handle, text(nvml.nvmlDeviceGetUUID(handle)), card.bus, card.capability, card)
        except nvml.NVMLError:
            continue


def text(told: Any) -> str:
    """Older versions of nvidia-ml-py give bytes."""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
