"""The processor's energy, from its own meters (RAPL), as the kernel shows them under powercap, for Intel and AMD.

A meter counts microjoules, is updated about every millisecond, and starts again at 0 when it has reached its range: at
200 W a range of 262 kJ lasts about twenty minutes. A package meter covers its cores and caches; the memory has a
separate meter (dram). The meter of a whole board (psys) and those of parts of a package are left out.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from laptime.machine.sensors.base import OpenFile, read_word
from laptime.model.errors import SensorError
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

NO_RAPL = "no meter of the processor's energy is under /sys/class/powercap, as in most virtual machines"


class RaplSensor:
    """Channels of "package-0" and so on, and of "dram-0" where the memory has a meter: joules since it was opened."""

    name = "rapl"
    period_s = 0.0

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self._meters: list[_Meter] = []

    def probe(self) -> Missing | None:
        zones = find_zones(self._sys)
        reasons = [reason for zone in zones.values() if (reason := _why_not(zone)) is not None]
        if len(reasons) < len(zones):
            return None
        return reasons[0] if reasons else Missing(NO_RAPL)

    def open(self, _pid: int) -> Opened:
        channels: list[Channel] = []
        absent: list[tuple[Channel, Missing]] = []
        for device, zone in find_zones(self._sys).items():
            channel = Channel(device, "energy_j", "J", "counter")
            reason = _why_not(zone)
            if reason is None:
                self._meters.append(_Meter(zone))
                channels.append(channel)
            else:
                absent.append((channel, reason))
        return Opened(tuple(channels), tuple(absent))

    def read(self) -> tuple[float | None, ...]:
        figures = tuple(meter.read_j() for meter in self._meters)
        if figures and all(figure is None for figure in figures):
            raise SensorError("no meter of the processor's energy can be read any more")
        return figures

    def close(self) -> None:
        for meter in self._meters:
            meter.close()
        self._meters = []


class _Meter:
    """One counter, continued past its wrap-around."""

    def __init__(self, zone: Path) -> None:
        self._file = OpenFile(zone / "energy_uj")
        range_uj = read_word(zone / "max_energy_range_uj")
        self._range_uj = int(range_uj) if range_uj.isdigit() else 0
        self._last_uj = int(self._file.read())
        self._sum_uj = 0

    def read_j(self) -> float | None:
        try:
            now_uj = int(self._file.read())
        except (OSError, ValueError):
            return None
        grown_uj = now_uj - self._last_uj
        if grown_uj < 0:
            # Past a wrap-around; a jump of half a range or more is a reset.
            grown_uj += self._range_uj
            grown_uj = grown_uj if 0 <= 2 * grown_uj < self._range_uj else 0
        self._sum_uj += grown_uj
        self._last_uj = now_uj
        return self._sum_uj / 1e6

    def close(self) -> None:
        self._file.close()


def find_zones(sys: Path) -> dict[str, Path]:
    """Return the folders of the meters of packages and memories, by their device names."""
    named = {place: read_word(place / "name") for place in sorted((sys / "class" / "powercap").glob("intel-rapl:*"))}
    found: dict[str, Path] = {}
    for place, name in named.items():
        if name.startswith("package-"):
            found.setdefault(name, place)
        elif name == "dram":
            package = named.get(place.with_name(place.name.rpartition(":")[0]), "")
            found.setdefault(package.replace("package", "dram") or place.name, place)
    return found


def _why_not(zone: Path) -> Missing | None:
    """Return why a meter cannot be read, if so."""
    place = zone / "energy_uj"
    try:
        with contextlib.closing(OpenFile(place)) as file:
            int(file.read())
    except PermissionError:
        return Missing(
            f"only root may read {place} (so since Linux 5.10, for its figures betray secrets); "
            "`sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj` opens it until the next start, "
            "a udev rule with a group of yours for good"
        )
    except OSError as error:
        return Missing(f"{place}: {error.strerror}")
    except ValueError:
        return Missing(f"{place} holds no number")
    return None
