"""Every card of AMD's with what its driver tells of it, for whoever wants to know what there is."""

from __future__ import annotations

from pathlib import Path

from laptime.model.card import Card, normal_bus
from laptime.model.missing import Missing
from laptime.sensors.amd.cards import AmdCard, list_amd_cards, read_generation
from laptime.sensors.files import read_word

NOT_HERE = Missing("amdgpu does not tell it under /sys")
OF_NVIDIA = Missing("it is a notion of NVIDIA's")


def describe_amd_cards(sys: Path = Path("/sys")) -> tuple[Card, ...]:
    """Give the cards that amdgpu drives. Who computes on them, only its own tools tell (rocm-smi)."""
    driver = read_word(sys / "module" / "amdgpu" / "version") or _kernel(sys)
    return tuple(_describe(card, driver) for card in list_amd_cards(sys))


def _describe(card: AmdCard, driver: str | Missing) -> Card:
    folder = card.folder
    power = next(iter(sorted((folder / "hwmon").glob("hwmon*/power1_cap"))), folder / "hwmon" / "power1_cap")
    return Card(
        uuid=card.unique_id,
        bus=normal_bus(card.bus),
        name=read_word(folder / "product_name") or NOT_HERE,
        driver=driver,
        cuda=OF_NVIDIA,
        capability=OF_NVIDIA,
        memory_bytes=card.memory_total_bytes,
        memory_used_bytes=_number(folder / "mem_info_vram_used"),
        power_limit_mw=_number(power, 1e-3),
        pcie_generation=_generation(folder / "current_link_speed"),
        pcie_generation_most=_generation(folder / "max_link_speed"),
        pcie_width=_number(folder / "current_link_width"),
        pcie_width_most=_number(folder / "max_link_width"),
        sm_clock_most_mhz=NOT_HERE,
        mig=OF_NVIDIA,
        ecc=NOT_HERE,
        persistence=OF_NVIDIA,
        display=NOT_HERE,
        processes=NOT_HERE,
        maker="AMD",
        busy_percent=_number(folder / "gpu_busy_percent"),
        module="amdgpu",
    )


def _kernel(sys: Path) -> str | Missing:
    """A driver that is part of the kernel has the kernel's version."""
    release = read_word(sys.parent / "proc" / "sys" / "kernel" / "osrelease")
    return f"of Linux {release}" if release else NOT_HERE


def _number(place: Path, scale: float = 1) -> int | Missing:
    word = read_word(place)
    return round(int(word) * scale) if word.lstrip("-").isdigit() else Missing(f"{place} does not tell it")


def _generation(place: Path) -> int | Missing:
    """Read a link's speed; the words of an absent link ("Unknown") are none."""
    word = read_word(place)
    try:
        found = read_generation(word.encode()) if word else None
    except ValueError:
        found = None
    return Missing(f"{place} does not tell it") if found is None else round(found)
