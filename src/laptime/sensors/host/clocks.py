"""How fast the cores run and how hot the processor is; virtual machines mostly tell neither."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened
from laptime.sensors.files import OpenFile, read_word
from laptime.sensors.host.source import Figures

# Enough to see a machine slow down; on 256 cores all of them would take milliseconds a reading.
CORES_MOST = 32
FREQUENCY = (Channel("host", "frequency_mean_mhz", "MHz"), Channel("host", "frequency_least_mhz", "MHz"))
TEMPERATURE = (Channel("host", "temperature_c", "C"),)
DRIVERS = {"coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal", "cpu0_thermal", "scpi_sensors"}
# What the processor itself gives as its hottest place; Tctl is Tdie with an offset on some, so it comes after it.
WHOLE = ("Package id", "Tdie", "Tctl")
ZONES = ("x86_pkg_temp", "cpu", "soc")


class ManyFiles:
    """One number from each of many files of /sys, made into a few figures; a file that went away is left out."""

    def __init__(
        self,
        find: Callable[[], list[Path]],
        channels: tuple[Channel, ...],
        join: Callable[[list[int]], Figures],
        otherwise: str,
    ) -> None:
        self._find, self._channels, self._join, self._otherwise = find, channels, join, otherwise
        self._files: list[OpenFile] = []

    def open(self, _pid: int) -> Opened:
        for place in self._find():
            with contextlib.suppress(OSError):
                self._files.append(OpenFile(place))
        if not self._numbers():
            self.close()
            return Opened((), tuple((channel, Missing(self._otherwise)) for channel in self._channels))
        return Opened(self._channels)

    def read(self) -> Figures:
        if not self._files:
            return ()
        numbers = self._numbers()
        return self._join(numbers) if numbers else (None,) * len(self._channels)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files = []

    def _numbers(self) -> list[int]:
        numbers = []
        for file in self._files:
            with contextlib.suppress(OSError, ValueError):
                numbers.append(int(file.read()))
        return numbers


def frequency(sys: Path) -> ManyFiles:
    """Give mean and least frequency, of at most 32 cores that lie evenly among all."""
    reason = "no core tells its frequency under /sys/devices/system/cpu, as in most virtual machines"
    return ManyFiles(lambda: _cores(sys), FREQUENCY, lambda khz: [sum(khz) / len(khz) / 1e3, min(khz) / 1e3], reason)


def mean_frequency(sys: Path = Path("/sys")) -> float | Missing:
    """Give the mean of the cores' clocks as they are now, in MHz."""
    files = frequency(sys)
    absent = files.open(0).absent
    try:
        mean = next(iter(files.read()), None)
    finally:
        files.close()
    if mean is None:
        return absent[0][1] if absent else Missing("the cores' clocks cannot be read any more")
    return mean


def temperature(sys: Path) -> ManyFiles:
    """Give the temperature of the processor's hottest place."""
    reason = "no sensor of the processor's temperature is under /sys/class/hwmon or thermal, as in virtual machines"
    return ManyFiles(
        lambda: _monitors(sys) or _zones(sys), TEMPERATURE, lambda thousandths: [max(thousandths) / 1e3], reason
    )


def _cores(sys: Path) -> list[Path]:
    found = sorted((sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return found[:: -(-len(found) // CORES_MOST) or 1]


def _monitors(sys: Path) -> list[Path]:
    inputs = [
        place
        for monitor in sorted((sys / "class" / "hwmon").glob("hwmon*"))
        if read_word(monitor / "name") in DRIVERS
        for place in sorted(monitor.glob("temp*_input"))
    ]
    labels = {place: read_word(place.with_name(place.name.replace("_input", "_label"))) for place in inputs}
    for word in WHOLE:
        whole = [place for place in inputs if labels[place].startswith(word)]
        if whole:
            return whole
    return inputs


def _zones(sys: Path) -> list[Path]:
    zones = sorted((sys / "class" / "thermal").glob("thermal_zone*"))
    return [zone / "temp" for zone in zones if read_word(zone / "type").startswith(ZONES)]
