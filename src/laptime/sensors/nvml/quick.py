"""What costs little to ask and changes from step to step; read ten times a second.

Costs on an H200, the median of 600 readings each: utilisation 63 us, memory 31, temperature 7, average power 8, a clock
2, reasons 8; instant power, which only a field tells, less than 750. Together under 1 ms a card and reading.

`busy_percent` is the share of NVML's own last moments (a sixth of a second to a second) in which at least one kernel
ran: a card can be busy all the time with a small part of itself. How large a part, `sm_active_percent` tells.
"""

from __future__ import annotations

from laptime.sensors.nvml.fields import POWER_AVERAGE_MW, POWER_INSTANT_MW, asking_fields
from laptime.sensors.nvml.memory import begin_used
from laptime.sensors.nvml.question import Ask, Figure, Place, Question, asking
from laptime.sensors.nvml.session import NO_FUNCTION

GA100 = (8, 0)
SM_CLOCK, MEMORY_CLOCK = 1, 2
DIE = 0


def begin_utilisation(at: Place) -> Ask:
    def ask() -> tuple[float, float]:
        told = at.nvml.nvmlDeviceGetUtilizationRates(at.card.handle)
        return float(told.gpu), float(told.memory)

    return ask


def begin_power_instant(at: Place) -> Ask:
    """Up to GA100 (A100, A30) nvmlDeviceGetPowerUsage tells the moment's power; on all later chips it is a mean."""
    if at.card.capability is not None and at.card.capability <= GA100:
        return asking("nvmlDeviceGetPowerUsage")(at)
    return asking_fields(POWER_INSTANT_MW)(at)


def begin_power_average(at: Place) -> Ask:
    """After GA100 nvmlDeviceGetPowerUsage is the mean of the last second, a hundredth of what the field costs."""
    if at.card.capability is not None and at.card.capability > GA100:
        return asking("nvmlDeviceGetPowerUsage")(at)
    return asking_fields(POWER_AVERAGE_MW)(at)


def begin_reasons(at: Place) -> Ask:
    """Drivers before 535 know the same bits by the function's former name."""
    ask = asking("nvmlDeviceGetCurrentClocksEventReasons")(at)
    try:
        ask()
    except at.nvml.NVMLError as error:
        if error.value != NO_FUNCTION:
            raise
        return asking("nvmlDeviceGetCurrentClocksThrottleReasons")(at)
    return ask


QUICK = (
    Question((Figure("busy_percent", "%"), Figure("memory_busy_percent", "%")), begin_utilisation),
    Question((Figure("memory_used_bytes", "bytes"),), begin_used, for_instances=True),
    Question((Figure("temperature_c", "C"),), asking("nvmlDeviceGetTemperature", DIE)),
    Question((Figure("power_instant_mw", "mW"),), begin_power_instant),
    Question((Figure("power_average_mw", "mW"),), begin_power_average),
    Question((Figure("sm_clock_mhz", "MHz"),), asking("nvmlDeviceGetClockInfo", SM_CLOCK)),
    Question((Figure("memory_clock_mhz", "MHz"),), asking("nvmlDeviceGetClockInfo", MEMORY_CLOCK)),
    Question((Figure("clock_reasons", "bits"),), begin_reasons),
)
