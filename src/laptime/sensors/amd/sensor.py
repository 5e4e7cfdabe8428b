"""AMD's graphics cards, by what their driver (amdgpu) shows under /sys: no library, no root.

Written from the kernel's documentation and tested on made-up trees; it has not run on a card. The driver asks the
card's firmware for most of these figures, so they are read no more often than every quarter of a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from laptime.errors import SensorError
from laptime.model.card import normal_bus
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened
from laptime.sensors.amd.cards import AmdCard, list_amd_cards, read_generation
from laptime.sensors.files import OpenFile, read_word

NO_CARD = "no graphics card of AMD with the driver amdgpu is under /sys/class/drm"
Read = Callable[[bytes], "float | None"]


@dataclass(frozen=True, slots=True)
class _Figure:
    """One channel, and the file that tells it, if the card has one."""

    name: str
    unit: str
    place: Path | None
    read: Read


class AmdSensor:
    """Channels of each card, by its PCI address; or of the one at a place on the bus, with or without its function."""

    name = "amd"
    period_s = 0.25

    def __init__(self, bus: str | None = None, sys: Path = Path("/sys")) -> None:
        self._bus, self._sys = bus, sys
        self._shown: list[tuple[OpenFile, Read]] = []

    def probe(self) -> Missing | None:
        if self._cards():
            return None
        return Missing(NO_CARD if self._bus is None else f"no card of AMD with the driver amdgpu is at {self._bus}")

    def open(self, _pid: int) -> Opened:
        channels, absent = [], []
        for card in self._cards():
            for figure in _figures_of(card.folder):
                channel = Channel(card.bus, figure.name, figure.unit)
                file = _open(figure)
                if isinstance(file, Missing):
                    absent.append((channel, file))
                else:
                    channels.append(channel)
                    self._shown.append((file, figure.read))
        return Opened(tuple(channels), tuple(absent))

    def read(self) -> tuple[float | None, ...]:
        figures = tuple(_ask(file, read) for file, read in self._shown)
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


def read_active_mhz(data: bytes) -> float | None:
    """Find the frequency that is marked in a table of lines such as "1: 2100Mhz *"."""
    found = re.search(rb":\s*(\d+(?:\.\d+)?)\s*MHz\s*\*", data, re.IGNORECASE)
    return None if found is None else float(found[1])


def _figures_of(folder: Path) -> list[_Figure]:
    monitor = next(iter(sorted((folder / "hwmon").glob("hwmon*"))), folder / "hwmon")
    inputs = {read_word(place): place.with_name(place.name.replace("_label", "_input")) for place in _labels(monitor)}
    # Before it had labels, the driver knew one temperature only.
    edge = inputs.get("edge") if inputs else monitor / "temp1_input"
    return [
        _Figure("busy_percent", "%", folder / "gpu_busy_percent", float),
        _Figure("memory_busy_percent", "%", folder / "mem_busy_percent", float),
        _Figure("memory_used_bytes", "bytes", folder / "mem_info_vram_used", float),
        _Figure("memory_total_bytes", "bytes", folder / "mem_info_vram_total", float),
        _Figure("power_average_mw", "mW", monitor / "power1_average", _thousandth),
        _Figure("power_instant_mw", "mW", monitor / "power1_input", _thousandth),
        _Figure("temperature_c", "C", edge, _thousandth),
        _Figure("junction_temperature_c", "C", inputs.get("junction"), _thousandth),
        _Figure("memory_temperature_c", "C", inputs.get("mem"), _thousandth),
        _clock("graphics_clock_mhz", inputs.get("sclk"), folder / "pp_dpm_sclk"),
        _clock("memory_clock_mhz", inputs.get("mclk"), folder / "pp_dpm_mclk"),
        _Figure("pcie_generation", "generation", folder / "current_link_speed", read_generation),
        _Figure("pcie_width", "lanes", folder / "current_link_width", float),
    ]


def _labels(monitor: Path) -> list[Path]:
    return sorted(monitor.glob("*_label"))


def _clock(name: str, measured: Path | None, table: Path) -> _Figure:
    """Take a clock as it was measured; else the step that the card has chosen from its table."""
    if measured is None:
        return _Figure(name, "MHz", table, read_active_mhz)
    return _Figure(name, "MHz", measured, lambda data: float(data) / 1e6)


def _open(figure: _Figure) -> OpenFile | Missing:
    if figure.place is None:
        return Missing("this card has no such sensor")
    try:
        file = OpenFile(figure.place)
    except OSError as error:
        return Missing(f"{figure.place}: {error.strerror}")
    if _ask(file, figure.read) is None:
        file.close()
        return Missing(f"{figure.place} does not tell it")
    return file


def _ask(file: OpenFile, read: Read) -> float | None:
    try:
        return read(file.read())
    except (OSError, ValueError, IndexError):
        return None


def _thousandth(data: bytes) -> float:
    return float(data) / 1e3
