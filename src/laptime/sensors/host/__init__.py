"""The machine and the heat's processes: one sensor made of parts, each of which reads some files."""

from laptime.sensors.host.clocks import mean_frequency
from laptime.sensors.host.sensor import HostSensor

__all__ = ["HostSensor", "mean_frequency"]
