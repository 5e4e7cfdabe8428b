"""NVIDIA's cards, through the driver's own library (NVML, by nvidia-ml-py): two sensors and a list of cards.

The library is imported when it is first used. Both sensors watch whole cards and MIG instances, each by its UUID;
`model.card.match_card` finds which of them a framework's cuda:1 is.
"""

from laptime.machine.sensors.nvml.sensor import NvmlSensor, SlowNvmlSensor, Survey, list_cards, sensors_of, survey_cards

__all__ = ["NvmlSensor", "SlowNvmlSensor", "Survey", "list_cards", "sensors_of", "survey_cards"]
