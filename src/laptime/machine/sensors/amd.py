"""AMD's graphics cards, as their driver (amdgpu) shows them under /sys: no library, no root.

Written from the kernel's documentation and tested on simulated trees; it has not run on a real card. The driver asks
the card's firmware for most of these figures, so they are read at most four times a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from laptime.machine.sensors.base import OpenFile, read_link_generation, read_number_file, read_word
from laptime.model.errors import SensorError
from laptime.model.machine import Card, Device, card_with, normal_bus
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

VENDOR = "0x1002"
NO_AMD_CARD = "no graphics card of AMD with the driver amdgpu is under /sys/class/drm"
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


@dataclass(frozen=True, slots=True)
class _CardFile:
    """One channel and its file."""

    name: str
    unit: str
    place: Path
    scale: float = 1.0


class AmdSensor:
    """Channels of each card, by its PCI address; or of the one card at `bus`, which may omit the function."""

    name = "amd"
    period_s = 0.25

    def __init__(self, bus: str | None = None, sys: Path = Path("/sys")) -> None:
        self._bus = bus
        self._sys = sys
        self._shown: list[tuple[OpenFile, float]] = []

    def probe(self) -> Missing | None:
        if self._cards():
            return None
        return Missing(NO_AMD_CARD if self._bus is None else f"no card of AMD with the driver amdgpu is at {self._bus}")

    def open(self, _pid: int) -> Opened:
        channels: list[Channel] = []
        absent: list[tuple[Channel, Missing]] = []
        for card in self._cards():
            for figure in _figures_of(card.folder):
                channel = Channel(card.bus, figure.name, figure.unit)
                try:
                    file = OpenFile(figure.place)
                except OSError as error:
                    absent.append((channel, Missing(f"{figure.place}: {error.strerror}")))
                    continue
                if _ask(file, figure.scale) is None:
                    file.close()
                    absent.append((channel, Missing(f"{figure.place} does not tell it")))
                    continue
                channels.append(channel)
                self._shown.append((file, figure.scale))
        return Opened(tuple(channels), tuple(absent))

    def read(self) -> tuple[float | None, ...]:
        figures = tuple(_ask(file, scale) for file, scale in self._shown)
        if figures and all(figure is None for figure in figures):
            raise SensorError("no card of AMD answers any more")
        return figures

    def close(self) -> None:
        for file, _ in self._shown:
            file.close()
        self._shown = []

    def _cards(self) -> list[AmdCard]:
        cards = list_amd_cards(self._sys)
        return [card for card in cards if self._bus is None or normal_bus(card.bus) == normal_bus(self._bus)]


def sensors_of(device: Device) -> list[AmdSensor]:
    """Return the sensor of a framework's device, by its place on the bus."""
    return [AmdSensor(device.details.get("bus"))]


def _figures_of(folder: Path) -> list[_CardFile]:
    monitor = next(iter(sorted((folder / "hwmon").glob("hwmon*"))), folder / "hwmon")
    labels = {read_word(place): place for place in sorted(monitor.glob("*_label"))}
    # Drivers without labels have one temperature only.
    edge = labels["edge"].name.replace("_label", "_input") if "edge" in labels else "temp1_input"
    return [
        _CardFile("busy_percent", "%", folder / "gpu_busy_percent"),
        _CardFile("memory_used_bytes", "bytes", folder / "mem_info_vram_used"),
        _CardFile("memory_total_bytes", "bytes", folder / "mem_info_vram_total"),
        _CardFile("power_average_mw", "mW", monitor / "power1_average", 1e-3),
        _CardFile("power_instant_mw", "mW", monitor / "power1_input", 1e-3),
        _CardFile("temperature_c", "C", monitor / edge, 1e-3),
    ]


def _ask(file: OpenFile, scale: float) -> float | None:
    try:
        return float(file.read()) * scale
    except (OSError, ValueError):
        return None
