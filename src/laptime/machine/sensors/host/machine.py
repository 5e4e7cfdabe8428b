"""The state of the whole machine: processor time, memory, clocks, temperature, and the control group's limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from laptime.machine.sensors import cgroup
from laptime.machine.sensors.base import OpenFile, read_word
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

Figures = Sequence[float | None]

TICK_S = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
# Enough to see a machine slow down; a reading of all 256 cores would take milliseconds.
CORES_MOST = 32
STAT = (Channel("host", "busy_s", "s", "counter"), Channel("host", "cores_online", "cores"))
MEMORY_CHANNELS = (Channel("host", "memory_available_bytes", "bytes"), Channel("host", "swap_used_bytes", "bytes"))
GROUP_USED = (Channel("host", "cgroup_memory_bytes", "bytes"),)
GROUP_CACHE = (Channel("host", "cgroup_cache_bytes", "bytes"),)
GROUP_THROTTLED = (Channel("host", "cgroup_throttled_s", "s", "counter"),)
GROUP_BUSY = (Channel("host", "cgroup_busy_s", "s", "counter"),)
FREQUENCY = (Channel("host", "frequency_mean_mhz", "MHz"),)
TEMPERATURE = (Channel("host", "temperature_c", "C"),)
DRIVERS = {"coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal", "cpu0_thermal", "scpi_sensors"}
# The processor's own hottest place; on some processors Tctl is Tdie with an offset, so Tdie comes first.
PACKAGE_PLACES = ("Package id", "Tdie", "Tctl")
ZONES = ("x86_pkg_temp", "cpu", "soc")


class FileSource:
    """The channels of one file; of several places, the first that has any of them.

    `parse` returns one figure per channel, and raises ValueError or IndexError for an unexpected file.
    """

    def __init__(
        self,
        places: Path | Sequence[Path],
        channels: Sequence[Channel],
        parse: Callable[[bytes], Figures],
        otherwise: str = "",
    ) -> None:
        self._places = [places] if isinstance(places, Path) else list(places)
        self._channels = tuple(channels)
        self._parse = parse
        self._otherwise = otherwise
        self._file: OpenFile | None = None
        self._shown: list[int] = []
        self._most: list[float] = []

    def open(self, _pid: int) -> Opened:
        """Find the channels that the file has now; the others are not looked for again."""
        reason, figures = self._find()
        self._shown = [number for number, figure in enumerate(figures) if figure is not None]
        self._most = [0.0 for _ in self._channels]
        absent = [
            (channel, Missing(reason))
            for channel, figure in zip(self._channels, figures, strict=True)
            if figure is None
        ]
        return Opened(tuple(self._channels[number] for number in self._shown), tuple(absent))

    def read(self) -> Figures:
        if self._file is None:
            return [None] * len(self._shown)
        try:
            figures = self._parse(self._file.read())
        except (OSError, ValueError, IndexError):
            return [None] * len(self._shown)
        shown: list[float | None] = []
        for number in self._shown:
            figure = figures[number]
            # The kernel's counters fall, by a tick, when a core goes on- or offline.
            if figure is not None and self._channels[number].kind != "gauge":
                figure = self._most[number] = max(self._most[number], figure)
            shown.append(figure)
        return shown

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _find(self) -> tuple[str, Figures]:
        reason = self._otherwise
        for place in self._places:
            try:
                file = OpenFile(place)
            except OSError as error:
                reason = self._otherwise or f"{place}: {error.strerror}"
                continue
            try:
                figures = self._parse(file.read())
            except (OSError, ValueError, IndexError):
                figures = [None] * len(self._channels)
            if any(figure is not None for figure in figures):
                self._file = file
                return f"{place} does not tell it", figures
            file.close()
            reason = self._otherwise or f"{place} does not tell it"
        return reason, [None] * len(self._channels)


class ManyFilesSource:
    """One figure from the numbers in many files of /sys; a file that has gone is left out."""

    def __init__(
        self,
        find: Callable[[], list[Path]],
        channels: tuple[Channel, ...],
        join: Callable[[list[int]], float],
        otherwise: str,
    ) -> None:
        self._find = find
        self._channels = channels
        self._join = join
        self._otherwise = otherwise
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
        return (self._join(numbers) if numbers else None,)

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


def quick_source(proc: Path) -> FileSource:
    """Return the source of processor time, for every reading."""
    return FileSource(proc / "stat", STAT, read_stat)


def slow_sources(proc: Path, sys: Path) -> tuple[FileSource | ManyFilesSource, ...]:
    """Return the sources that change slowly, or that the kernel adds up over all cores for each reading."""
    groups = sys / "fs" / "cgroup"
    used = cgroup.memory_used_files(groups, proc)
    held = cgroup.memory_stat_files(groups, proc)
    return (
        FileSource(proc / "meminfo", MEMORY_CHANNELS, read_meminfo),
        FileSource(used, GROUP_USED, lambda data: [int(data)], "no control group counts memory here"),
        FileSource(held, GROUP_CACHE, read_cache, "no control group reports its cache"),
        throttling_source(groups, proc),
    )


def throttling_source(groups: Path, proc: Path) -> FileSource:
    """Return the source of how long the quota has held this group back."""
    files = cgroup.throttling_files(groups, proc)
    return FileSource(files, GROUP_THROTTLED, read_throttled, "no control group counts throttling here")


def quota_source(groups: Path, proc: Path) -> FileSource:
    """Return the source of the processor time of all processes under this process's quota."""
    files = cgroup.quota_used_files(groups, proc)
    return FileSource(files, GROUP_BUSY, read_used, "no control group counts processor time here")


def read_stat(data: bytes) -> Figures:
    """Read /proc/stat. Busy is all except idle and waiting; it includes time stolen by a hypervisor."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, data[: data.index(b"\n")].split()[1:9])
    return [(user + nice + system + irq + softirq + steal) * TICK_S, data.count(b"\ncpu") or None]


def read_meminfo(data: bytes) -> Figures:
    available = _find_kb(data, b"\nMemAvailable:")
    swap = _find_kb(data, b"\nSwapTotal:")
    free = _find_kb(data, b"\nSwapFree:")
    return [
        None if available is None else available * 1024,
        None if swap is None or free is None else (swap - free) * 1024,
    ]


def read_cache(data: bytes) -> Figures:
    return [cgroup.read_cache_bytes(data.decode())]


def read_throttled(data: bytes) -> Figures:
    throttled_ns = cgroup.read_throttled_ns(data.decode())
    return [None if throttled_ns is None else throttled_ns / 1e9]


def read_used(data: bytes) -> Figures:
    used_ns = cgroup.read_used_ns(data.decode())
    return [None if used_ns is None else used_ns / 1e9]


def frequency(sys: Path) -> ManyFilesSource:
    """Return the source of the mean frequency, from at most 32 cores spread evenly over all."""
    reason = "no core reports its frequency under /sys/devices/system/cpu, as in most virtual machines"
    return ManyFilesSource(lambda: _cores(sys), FREQUENCY, lambda khz: sum(khz) / len(khz) / 1e3, reason)


def mean_frequency(sys: Path = Path("/sys")) -> float | Missing:
    """Return the current mean of the cores' clocks, in MHz."""
    files = frequency(sys)
    absent = files.open(0).absent
    try:
        mean = next(iter(files.read()), None)
    finally:
        files.close()
    if mean is None:
        return absent[0][1] if absent else Missing("the cores' clocks cannot be read any more")
    return mean


def temperature(sys: Path) -> ManyFilesSource:
    """Return the source of the temperature of the processor's hottest place."""
    reason = "no sensor of the processor's temperature is under /sys/class/hwmon or thermal, as in virtual machines"
    return ManyFilesSource(lambda: _find_temperatures(sys), TEMPERATURE, lambda mc: max(mc) / 1e3, reason)


def _cores(sys: Path) -> list[Path]:
    found = sorted((sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return found[:: -(-len(found) // CORES_MOST) or 1]


def _find_temperatures(sys: Path) -> list[Path]:
    """Return the files of the processor's monitors; where there is none, those of thermal zones."""
    inputs = [
        place
        for monitor in sorted((sys / "class" / "hwmon").glob("hwmon*"))
        if read_word(monitor / "name") in DRIVERS
        for place in sorted(monitor.glob("temp*_input"))
    ]
    labels = {place: read_word(place.with_name(place.name.replace("_input", "_label"))) for place in inputs}
    for word in PACKAGE_PLACES:
        whole = [place for place in inputs if labels[place].startswith(word)]
        if whole:
            return whole
    if inputs:
        return inputs
    zones = sorted((sys / "class" / "thermal").glob("thermal_zone*"))
    return [zone / "temp" for zone in zones if read_word(zone / "type").startswith(ZONES)]


def _find_kb(data: bytes, word: bytes) -> int | None:
    """Return the number after a word."""
    place = data.find(word)
    return None if place < 0 else int(data[place + len(word) : place + len(word) + 32].split(maxsplit=1)[0])
