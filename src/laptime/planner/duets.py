"""Whether the heats of a round may be alive at once and take turns, or must run one after another, and why.

And whether there is room for a heat at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laptime.model.ask import Ask
from laptime.model.digits import size
from laptime.model.machine import Device, Machine
from laptime.model.missing import Missing

# A new heat may need somewhat more memory than one of another lane, or than it needed before.
MEMORY_SPARE = 1.2
# An estimate may be this much too high: one from shapes, and one on a line through two batches (bench/memory.py).
SHAPES_MAY_BE_OFF, LINE_MAY_BE_OFF = 0.15, 0.3
ONE_PROCESS = {"tpu": "a TPU admits one process"}


def why_alone(ask: Ask, machine: Machine, devices: Sequence[Device]) -> str | None:
    """Return why no two heats of these lanes may be alive at once, or None if they may."""
    if ask.alone:
        return "--alone asks for it"
    if not machine.system.startswith("Linux"):
        return "this system offers no way to stop a training with all that it started"
    return next((ONE_PROCESS[each.kind] for each in devices if each.kind in ONE_PROCESS), None)


@dataclass(frozen=True, slots=True)
class Need:
    """The memory that a heat holds, or is expected to need: of the machine, and of its device."""

    device: Device
    memory_bytes: int
    device_memory_bytes: int | Missing


def expect_need(device: Device, held: Sequence[Need]) -> Need:
    """Return what a heat that never ran may need: as much as the largest of those that are alive."""
    beside = [each.device_memory_bytes for each in held if each.device.name == device.name]
    known = [each for each in beside if not isinstance(each, Missing)]
    on_device: int | Missing = max(known) if known else Missing("no heat on this device was seen")
    return Need(device, max(each.memory_bytes for each in held), on_device)


def why_no_room(need: Need, held: Sequence[Need], free_bytes: int | Missing) -> str | None:
    """Return why a heat does not fit next to those that are alive and `held` their memory, or None."""
    wanted = MEMORY_SPARE * need.memory_bytes
    if not isinstance(free_bytes, Missing) and wanted > free_bytes:
        return f"{wanted / 2**30:.1f} GiB more were needed, and {free_bytes / 2**30:.1f} GiB are free"
    device = need.device
    if device.kind == "cpu" or isinstance(device.memory_bytes, Missing):
        return None
    beside = [each.device_memory_bytes for each in held if each.device.name == device.name]
    if not beside or isinstance(need.device_memory_bytes, Missing):
        return None
    wanted = MEMORY_SPARE * (need.device_memory_bytes + sum(each for each in beside if not isinstance(each, Missing)))
    if wanted > device.memory_bytes:
        return f"{device.name} has {device.memory_bytes / 2**30:.1f} GiB, and together they need {wanted / 2**30:.1f}"
    return None


def room_for(device: Device, free_bytes: int | Missing) -> int | Missing:
    """Return the memory in which a heat that runs alone has to fit: what is free here, or all that a card has."""
    return free_bytes if device.kind == "cpu" else device.memory_bytes


def why_too_large(device: Device, needed_bytes: int, may_be_off: float, free_bytes: int | Missing) -> str | None:
    """Return why a heat surely does not fit, even if its estimate is too high; or None."""
    room = room_for(device, free_bytes)
    if isinstance(room, Missing) or (1 - may_be_off) * needed_bytes <= room:
        return None
    there = "are free" if device.kind == "cpu" else f"are all that {device.name} has"
    return f"it would need about {size(needed_bytes)}, and {size(room)} {there}"
