"""The sensors that a race can read: one row per sensor; installed packages may add rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata

from laptime.model.device import DeviceKind

ENTRY_POINTS = "laptime.sensors"


@dataclass(frozen=True, slots=True)
class SensorRow:
    """One sensor. `name` is its name in `--sensors`; `sensor` names its class, as "module:Class".

    `watches` are the kinds of devices whose lanes it sees; empty where it sees every lane. `of_device` names a
    function, as "module:function", that takes a lane's device and returns the sensors of that device alone, or why
    there is none. `powers` are the kinds of devices whose power or energy it reads; None where that is not known.
    """

    name: str
    sensor: str
    watches: tuple[DeviceKind, ...] = ()
    of_device: str | None = None
    powers: tuple[DeviceKind, ...] | None = None


SENSORS = (
    SensorRow("host", "laptime.sensors.host:HostSensor", powers=()),
    SensorRow("rapl", "laptime.sensors.rapl:RaplSensor", powers=("cpu",)),
    SensorRow("nvml", "laptime.sensors.nvml:NvmlSensor", ("cuda",), "laptime.sensors.nvml:sensors_of", ("cuda",)),
    SensorRow("amd", "laptime.sensors.amd:AmdSensor", ("cuda",), "laptime.sensors.amd:sensors_of", ("cuda",)),
    SensorRow("apple", "laptime.sensors.apple:AppleSensor", ("mps",), powers=()),
)


@cache
def all_sensors() -> dict[str, SensorRow]:
    """Return every row by its name: those of laptime, and those that installed packages add as entry points."""
    ours = {row.name: row for row in SENSORS}
    added: list[SensorRow] = [each.load() for each in metadata.entry_points(group=ENTRY_POINTS)]
    return ours | {row.name: row for row in added if row.name not in ours}
