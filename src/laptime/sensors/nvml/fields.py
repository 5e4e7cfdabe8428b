"""NVML's numbered fields, several in one call.

Only numbers that kept their meaning are asked for: those of the newer clock event reasons were given to other fields
between drivers for CUDA 12 and CUDA 13 (251 to 253 became 269 to 271), and nothing in an answer would tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.model.missing import Missing
from laptime.sensors.nvml.question import Answer, Ask, Place
from laptime.sensors.nvml.session import LOST, explain

POWER_VIOLATION_NS, THERMAL_VIOLATION_NS = 74, 75
MEMORY_TEMPERATURE_C = 82
PCIE_REPLAYS = 94
POWER_AVERAGE_MW, POWER_INSTANT_MW = 185, 186
TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def asking_fields(*numbers: int) -> Callable[[Place], Ask]:
    """Give how to ask for these fields; each is told, or not, for itself."""

    def begin(at: Place) -> Ask:
        return lambda: tuple(
            _figure(at.nvml, each) for each in at.nvml.nvmlDeviceGetFieldValues(at.card.handle, list(numbers))
        )

    return begin


def _figure(nvml: Any, told: Any) -> Answer:
    if told.nvmlReturn in LOST:
        raise nvml.NVMLError(told.nvmlReturn)
    if told.nvmlReturn:
        return explain(nvml.NVMLError(told.nvmlReturn))
    if told.valueType >= len(TYPES):
        return Missing(f"NVML tells it as a type that is not known here ({told.valueType})")
    return float(getattr(told.value, TYPES[told.valueType]))
