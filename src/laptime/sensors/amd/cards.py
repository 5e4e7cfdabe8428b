"""Which cards AMD's driver (amdgpu) drives, and where their files lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from laptime.model.missing import Missing
from laptime.sensors.files import read_word

VENDOR = "0x1002"
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # by transfers a second and lane, in 1e9


@dataclass(frozen=True, slots=True)
class AmdCard:
    """One card. `bus` is its PCI address, "0000:03:00.0"; `unique_id` is there on cards that tell their own."""

    bus: str
    unique_id: str | Missing
    memory_total_bytes: int | Missing
    folder: Path


def list_amd_cards(sys: Path = Path("/sys")) -> tuple[AmdCard, ...]:
    """Give the cards that the driver drives, in the order of their addresses."""
    folders = {
        _bus_of(place / "device"): place / "device"
        for place in (sys / "class" / "drm").glob("card*")
        if re.fullmatch(r"card\d+", place.name) and read_word(place / "device" / "vendor") == VENDOR
    }
    return tuple(
        AmdCard(
            bus,
            read_word(folder / "unique_id") or Missing("this card tells no identity of its own"),
            _number_or_missing(folder / "mem_info_vram_total"),
            folder,
        )
        for bus, folder in sorted(folders.items())
    )


def read_generation(data: bytes) -> float | None:
    """Read a link's speed, such as "16.0 GT/s PCIe", as a generation of PCI Express."""
    return GENERATIONS.get(float(data.split(maxsplit=1)[0]))


def _bus_of(folder: Path) -> str:
    """Give the PCI address as domain:bus:device.function in lower case."""
    words = dict(line.split("=", 1) for line in read_word(folder / "uevent").splitlines() if "=" in line)
    return words.get("PCI_SLOT_NAME", folder.resolve().name).lower()


def _number_or_missing(place: Path) -> int | Missing:
    word = read_word(place)
    return int(word) if word.isdigit() else Missing(f"{place} does not tell it")
