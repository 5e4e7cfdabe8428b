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
    there is none.
    """

    name: str
    sensor: str
    watches: tuple[DeviceKind, ...] = ()
    of_device: str | None = None


SENSORS = (
    SensorRow("host", "laptime.sensors.host:HostSensor"),
    SensorRow("rapl", "laptime.sensors.rapl:RaplSensor"),
    SensorRow("nvml", "laptime.sensors.nvml:NvmlSensor", ("cuda",), "laptime.sensors.nvml:sensors_of"),
    SensorRow("amd", "laptime.sensors.amd:AmdSensor", ("cuda",), "laptime.sensors.amd:sensors_of"),
    SensorRow("apple", "laptime.sensors.apple:AppleSensor", ("mps",)),
)


@cache
def all_sensors() -> dict[str, SensorRow]:
    """Return every row by its name: those of laptime, and those that installed packages add as entry points."""
    ours = {row.name: row for row in SENSORS}
    added: list[SensorRow] = [each.load() for each in metadata.entry_points(group=ENTRY_POINTS)]
    return ours | {row.name: row for row in added if row.name not in ours}
