"""Apple's graphics processor by what anybody may ask: how busy it is and the memory it uses, from `ioreg`.

Power, energy, clocks and temperatures need root (`powermetrics`), so they are told to be missing. A question starts a
program of the system, so it is asked every two seconds. Written from what `ioreg` prints, and tested on such text with
a program in its place; it has not run on a Mac.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened

IOREG = Path("/usr/sbin/ioreg")
QUESTION = ("-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
PATIENCE_S = 5.0
DEVICE = "apple-gpu"
WORDS = {
    Channel(DEVICE, "busy_percent", "%"): "Device Utilization %",
    Channel(DEVICE, "memory_used_bytes", "bytes"): "In use system memory",
}
ROOT_ONLY = Missing("only root may ask for it here (powermetrics)")
ABSENT = tuple(
    (Channel(DEVICE, name, unit), ROOT_ONLY)
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
            told = self._ask()
        except SensorError as error:
            return Missing(error.says)
        return None if any(word in told for word in WORDS.values()) else Missing("ioreg shows no graphics processor")

    def open(self, _pid: int) -> Opened:
        told = self._ask()
        shown = {channel: word for channel, word in WORDS.items() if word in told}
        self._words = tuple(shown.values())
        silent = [(channel, Missing("ioreg does not tell it")) for channel in WORDS if channel not in shown]
        return Opened(tuple(shown), (*silent, *ABSENT))

    def read(self) -> tuple[float | None, ...]:
        told = self._ask()
        return tuple(told.get(word) for word in self._words)

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self) -> dict[str, int]:
        try:
            ended = subprocess.run(
                [self._ioreg, *QUESTION], capture_output=True, text=True, check=True, timeout=PATIENCE_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SensorError(f"{self._ioreg} gave no answer: {error}") from error
        return read_statistics(ended.stdout)


def read_statistics(text: str) -> dict[str, int]:
    """Find the first graphics processor's figures: "PerformanceStatistics" = {"Device Utilization %"=5,...}."""
    found = re.search(r'"PerformanceStatistics"\s*=\s*\{([^}]*)\}', text)
    return {} if found is None else {name: int(figure) for name, figure in re.findall(r'"([^"]+)"=(\d+)', found[1])}
