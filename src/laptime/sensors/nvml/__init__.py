"""NVIDIA's cards, through the driver's own library (NVML, by nvidia-ml-py): two sensors and a list of what there is.

The library is imported when it is first asked. Both sensors watch whole cards and MIG instances, each by its UUID;
which of them a framework's cuda:1 is, `model.card.match_card` tells.
"""

from laptime.sensors.nvml.listing import Survey, list_cards, survey_cards
from laptime.sensors.nvml.reasons import name_reasons
from laptime.sensors.nvml.sensor import NvmlSensor, SlowNvmlSensor

__all__ = ["NvmlSensor", "SlowNvmlSensor", "Survey", "list_cards", "name_reasons", "survey_cards"]
