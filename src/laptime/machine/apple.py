"""Apple's graphics processor, without root: what it is, how busy it is and the memory it uses, from `ioreg`.

Power and clocks need root (`powermetrics`), so they are reported as missing. Written from what `ioreg` prints; it has
not run on a Mac.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from laptime.model.errors import SensorError
from laptime.model.machine import Card, card_with
from laptime.model.quantities import Missing

IOREG = Path("/usr/sbin/ioreg")
QUESTION = ("-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
IOREG_PATIENCE_S = 5.0
BUSY_IN_IOREG = "Device Utilization %"
MEMORY_IN_IOREG = "In use system memory"
ROOT_ONLY = Missing("only root may ask for it here (powermetrics)")
ON_CHIP = Missing("it is part of the chip, on no such link")


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
    used = figures.get(MEMORY_IN_IOREG)
    busy = figures.get(BUSY_IN_IOREG)
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
