"""AMD's cards, by what their driver shows under /sys: a sensor, and a list of what there is."""

from laptime.sensors.amd.cards import list_amd_cards, read_generation
from laptime.sensors.amd.listing import describe_amd_cards
from laptime.sensors.amd.sensor import AmdSensor, read_active_mhz

__all__ = ["AmdSensor", "describe_amd_cards", "list_amd_cards", "read_active_mhz", "read_generation"]
