"""The machine and the heat's processes: one sensor of several sources, each of which reads some files."""

from laptime.machine.sensors.host.machine import mean_frequency
from laptime.machine.sensors.host.sensor import HostSensor

__all__ = ["HostSensor", "mean_frequency"]
