"""AMD's graphics cards, as their driver (amdgpu) shows them under /sys: no library, no root.

Written from the kernel's documentation and tested on simulated trees; it has not run on a real card. Nothing reads them
while a heat runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from laptime.machine.sensors.base import read_link_generation, read_number_file, read_word
from laptime.model.machine import Card, card_with, normal_bus
from laptime.model.quantities import Missing

VENDOR = "0x1002"
AMDGPU_TELLS_NOT = Missing("amdgpu does not tell it under /sys")
OF_NVIDIA = Missing("it is a notion of NVIDIA's")


@dataclass(frozen=True, slots=True)
class AmdCard:
    """One card. `bus` is its PCI address, "0000:03:00.0"; some cards report a `unique_id`."""

    bus: str
    unique_id: str | Missing
    memory_total_bytes: int | Missing
    folder: Path


def list_amd_cards(sys: Path = Path("/sys")) -> tuple[AmdCard, ...]:
    """Return the cards that amdgpu drives, in the order of their addresses."""
    folders: dict[str, Path] = {}
    for place in (sys / "class" / "drm").glob("card*"):
        folder = place / "device"
        if re.fullmatch(r"card\d+", place.name) and read_word(folder / "vendor") == VENDOR:
            words = dict(line.split("=", 1) for line in read_word(folder / "uevent").splitlines() if "=" in line)
            bus = words.get("PCI_SLOT_NAME", folder.resolve().name).lower()  # domain:bus:device.function
            folders[bus] = folder
    return tuple(
        AmdCard(
            bus,
            read_word(folder / "unique_id") or Missing("this card reports no identity of its own"),
            read_number_file(folder / "mem_info_vram_total"),
            folder,
        )
        for bus, folder in sorted(folders.items())
    )


def describe_amd_cards(sys: Path = Path("/sys")) -> tuple[Card, ...]:
    """Return the cards that amdgpu drives. Only AMD's own tools (rocm-smi) report which processes use them."""
    driver: str | Missing = read_word(sys / "module" / "amdgpu" / "version")
    if not driver:  # it is part of the kernel
        release = read_word(sys.parent / "proc" / "sys" / "kernel" / "osrelease")
        driver = f"of Linux {release}" if release else AMDGPU_TELLS_NOT
    return tuple(_describe(card, driver) for card in list_amd_cards(sys))


def _describe(card: AmdCard, driver: str | Missing) -> Card:
    folder = card.folder
    power = next(iter(sorted((folder / "hwmon").glob("hwmon*/power1_cap"))), folder / "hwmon" / "power1_cap")
    return card_with(
        AMDGPU_TELLS_NOT,
        uuid=card.unique_id,
        bus=normal_bus(card.bus),
        name=read_word(folder / "product_name") or AMDGPU_TELLS_NOT,
        driver=driver,
        cuda=OF_NVIDIA,
        capability=OF_NVIDIA,
        memory_bytes=card.memory_total_bytes,
        memory_used_bytes=read_number_file(folder / "mem_info_vram_used"),
        power_limit_mw=read_number_file(power, 1e-3),
        pcie_generation=read_link_generation(folder / "current_link_speed"),
        pcie_generation_most=read_link_generation(folder / "max_link_speed"),
        pcie_width=read_number_file(folder / "current_link_width"),
        pcie_width_most=read_number_file(folder / "max_link_width"),
        mig=OF_NVIDIA,
        persistence=OF_NVIDIA,
        maker="AMD",
        busy_percent=read_number_file(folder / "gpu_busy_percent"),
        module="amdgpu",
    )
