"""Apple's graphics processor, without root: how busy it is and the memory it uses, from `ioreg`.

Power, energy, clocks and temperatures need root (`powermetrics`), so they are reported as missing. Each reading starts
a program of the system, so readings are two seconds apart. Written from what `ioreg` prints, and tested with a fake
program that prints such text; it has not run on a Mac.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from laptime.model.errors import SensorError
from laptime.model.machine import Card, card_with
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

IOREG = Path("/usr/sbin/ioreg")
QUESTION = ("-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
IOREG_PATIENCE_S = 5.0
APPLE_GPU = "apple-gpu"
BUSY_CHANNEL = Channel(APPLE_GPU, "busy_percent", "%")
MEMORY_CHANNEL = Channel(APPLE_GPU, "memory_used_bytes", "bytes")
IOREG_WORDS = {BUSY_CHANNEL: "Device Utilization %", MEMORY_CHANNEL: "In use system memory"}
ROOT_ONLY = Missing("only root may ask for it here (powermetrics)")
ON_CHIP = Missing("it is part of the chip, on no such link")
ABSENT_FOR_USERS = tuple(
    (Channel(APPLE_GPU, name, unit), ROOT_ONLY)
    for name, unit in (("power_instant_mw", "mW"), ("energy_mj", "mJ"), ("temperature_c", "C"), ("clock_mhz", "MHz"))
)


class AppleSensor:
    """Channels of "apple-gpu". The memory is the machine's own, which the graphics processor shares."""

    name = "apple"
    period_s = 2.0

    def __init__(self, ioreg: Path = IOREG) -> None:
        self._ioreg = ioreg
        self._words: tuple[str, ...] = ()

    def probe(self) -> Missing | None:
        if not self._ioreg.exists():
            return Missing(f"{self._ioreg} is not there: this is no Mac")
        try:
            figures = self._ask()
        except SensorError as error:
            return Missing(error.says)
        if any(word in figures for word in IOREG_WORDS.values()):
            return None
        return Missing("ioreg shows no graphics processor")

    def open(self, _pid: int) -> Opened:
        figures = self._ask()
        shown = {channel: word for channel, word in IOREG_WORDS.items() if word in figures}
        self._words = tuple(shown.values())
        silent = [(channel, Missing("ioreg does not tell it")) for channel in IOREG_WORDS if channel not in shown]
        return Opened(tuple(shown), (*silent, *ABSENT_FOR_USERS))

    def read(self) -> tuple[float | None, ...]:
        figures = self._ask()
        return tuple(figures.get(word) for word in self._words)

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self) -> dict[str, int]:
        return read_statistics(_ask_ioreg(self._ioreg))


def describe_apple_cards(ioreg: Path = IOREG) -> tuple[Card, ...] | Missing:
    """Return the graphics processor of a Mac; the memory that it uses is the machine's own."""
    if not ioreg.exists():
        return Missing("this is no Mac")
    try:
        text = _ask_ioreg(ioreg)
    except SensorError as error:
        return Missing(error.says)
    figures = read_statistics(text)
    if not figures:
        return Missing("ioreg shows no graphics processor")
    name = re.search(r'"model"\s*=\s*<?"([^"]+)"', text)
    silent = Missing("ioreg does not tell it")
    used = figures.get(IOREG_WORDS[MEMORY_CHANNEL])
    busy = figures.get(IOREG_WORDS[BUSY_CHANNEL])
    card = card_with(
        silent,
        name=silent if name is None else name[1],
        memory_bytes=Missing("it is the machine's memory, which the graphics processor shares"),
        memory_used_bytes=silent if used is None else used,
        power_limit_mw=ROOT_ONLY,
        sm_clock_most_mhz=ROOT_ONLY,
        **dict.fromkeys(("pcie_generation", "pcie_generation_most", "pcie_width", "pcie_width_most"), ON_CHIP),
        maker="Apple",
        busy_percent=silent if busy is None else float(busy),
    )
    return (card,)


def _ask_ioreg(ioreg: Path) -> str:
    try:
        ended = subprocess.run([ioreg, *QUESTION], capture_output=True, text=True, check=True, timeout=IOREG_PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise SensorError(f"{ioreg} gave no answer: {error}") from error
    return ended.stdout


def read_statistics(text: str) -> dict[str, int]:
    """Return the first graphics processor's figures, from "PerformanceStatistics" = {"Device Utilization %"=5,...}."""
    found = re.search(r'"PerformanceStatistics"\s*=\s*\{([^}]*)\}', text)
    return {} if found is None else {name: int(figure) for name, figure in re.findall(r'"([^"]+)"=(\d+)', found[1])}
