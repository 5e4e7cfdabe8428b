"""What costs milliseconds to ask, or seldom changes; read once a second.

Costs on an H200, medians: total energy 3.2 ms (the card brings it up to date ten times a second), the activity counters
2, the most a clock can do 1.4 each, the fields together 1, the power limit 0.6, the link's width 0.1, processes 0.1,
events 0.03: about 10 ms a card and reading. Cards before Hopper add 42 ms for their link's traffic.
"""

from __future__ import annotations

from laptime.sensors.nvml.activity import SHOWS, begin_activity
from laptime.sensors.nvml.fields import (
    MEMORY_TEMPERATURE_C,
    PCIE_REPLAYS,
    POWER_VIOLATION_NS,
    THERMAL_VIOLATION_NS,
    asking_fields,
)
from laptime.sensors.nvml.memory import begin_total
from laptime.sensors.nvml.processes import begin_foreign
from laptime.sensors.nvml.question import Figure, Question, asking
from laptime.sensors.nvml.quick import MEMORY_CLOCK, SM_CLOCK
from laptime.sensors.nvml.xid import begin_xid

SLOW = (
    Question((Figure("energy_mj", "mJ", "counter"),), asking("nvmlDeviceGetTotalEnergyConsumption")),
    Question(SHOWS, begin_activity, for_instances=True),
    Question((Figure("memory_total_bytes", "bytes"),), begin_total, for_instances=True),
    Question(
        (Figure("foreign_processes", "processes"), Figure("foreign_memory_bytes", "bytes")),
        begin_foreign,
        for_instances=True,
    ),
    Question(
        (
            Figure("memory_temperature_c", "C"),
            Figure("power_capped_ns", "ns", "counter"),
            Figure("heat_capped_ns", "ns", "counter"),
            Figure("pcie_replays", "packets", "counter"),
        ),
        asking_fields(MEMORY_TEMPERATURE_C, POWER_VIOLATION_NS, THERMAL_VIOLATION_NS, PCIE_REPLAYS),
    ),
    Question((Figure("xid_errors", "errors", "counter"), Figure("xid_last", "number")), begin_xid),
    Question((Figure("power_limit_mw", "mW"),), asking("nvmlDeviceGetEnforcedPowerLimit")),
    Question((Figure("sm_clock_most_mhz", "MHz"),), asking("nvmlDeviceGetMaxClockInfo", SM_CLOCK)),
    Question((Figure("memory_clock_most_mhz", "MHz"),), asking("nvmlDeviceGetMaxClockInfo", MEMORY_CLOCK)),
    Question((Figure("pcie_generation", "generation"),), asking("nvmlDeviceGetCurrPcieLinkGeneration")),
    Question((Figure("pcie_width", "lanes"),), asking("nvmlDeviceGetCurrPcieLinkWidth")),
    Question((Figure("fan_percent", "%"),), asking("nvmlDeviceGetFanSpeed")),
)
