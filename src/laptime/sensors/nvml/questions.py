"""What the sensors read of a card: one row per question, each answered by one call of NVML.

Median costs on an H200: utilisation 63 us, memory 31, temperature 7, average power 8, a clock 2, reasons 8; instant
power, which is only in a field, less than 750. A fast reading takes under 1 ms per card, a slow one about 8 ms: total
energy 3.2 (the card updates it ten times a second), the activity counters 2, the fastest clock 1.4, processes 0.1.

`busy_percent` is the share of NVML's own last moments (a sixth of a second to a second) in which at least one kernel
ran: a card can be busy all the time with a small part of itself. `sm_active_percent` is how large that part is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psutil

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, ChannelKind
from laptime.sensors.nvml.library import (
    LOST,
    NO_FUNCTION,
    NO_PERMISSION,
    NOT_SUPPORTED,
    DriverCard,
    ask_memory,
    explain,
    list_processes,
)

Answer = float | Missing | None
"""A figure; or why there is none; or None where there was none this time."""

POWER_AVERAGE_MW, POWER_INSTANT_MW = 185, 186  # numbered fields that kept their meaning in all drivers
TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
GA100 = (8, 0)
SM_CLOCK, DIE = 1, 0
SM_ACTIVE = 2  # NVML's number of the counter
# Any other error may only mean that the first two samples were too close together.
FOR_GOOD = {NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION}
# One context takes more than this; a card without any context holds less (3 MiB on an H200).
A_CONTEXT_BYTES = 64 << 20
HIDDEN = Missing("the card's memory is in use, yet its list of processes is empty, as it can be in a container")


@dataclass(frozen=True, slots=True)
class CardAccess:
    """What a question needs: the library, the card, the heat's first process, and what must be freed at the end."""

    nvml: Any
    card: DriverCard
    pid: int
    closing: ExitStack


Ask = Callable[[], tuple[Answer, ...]]


@dataclass(frozen=True, slots=True)
class CardFigure:
    name: str
    unit: str
    kind: ChannelKind = "gauge"

    def of(self, device: str) -> Channel:
        return Channel(device, self.name, self.unit, self.kind)


@dataclass(frozen=True, slots=True)
class CardQuestion:
    """`begin` returns the call that reads all of `shows`; it raises what NVML raises where there is nothing to read.

    `for_instances`: whether a MIG instance has such figures of its own; the others belong to the whole card.
    """

    shows: tuple[CardFigure, ...]
    begin: Callable[[CardAccess], Ask]
    for_instances: bool = False


def asking(function: str, *arguments: int) -> Callable[[CardAccess], Ask]:
    """Return how to call a function of NVML that returns one number of a card."""

    def begin(at: CardAccess) -> Ask:
        call = getattr(at.nvml, function, None)
        if call is None:
            raise SensorError(f"this nvidia-ml-py has no {function}")
        return lambda: (float(call(at.card.handle, *arguments)),)

    return begin


def asking_field(number: int) -> Callable[[CardAccess], Ask]:
    """Return how to read one of NVML's numbered fields."""
    return lambda at: lambda: (_field(at.nvml, at.nvml.nvmlDeviceGetFieldValues(at.card.handle, [number])[0]),)


def _field(nvml: Any, told: Any) -> Answer:
    if told.nvmlReturn in LOST:
        raise nvml.NVMLError(told.nvmlReturn)
    if told.nvmlReturn:
        return explain(nvml.NVMLError(told.nvmlReturn))
    if told.valueType >= len(TYPES):
        return Missing(f"NVML reports it as a type that is not known here ({told.valueType})")
    return float(getattr(told.value, TYPES[told.valueType]))


def begin_utilisation(at: CardAccess) -> Ask:
    return lambda: (float(at.nvml.nvmlDeviceGetUtilizationRates(at.card.handle).gpu),)


def begin_power_instant(at: CardAccess) -> Ask:
    """Up to GA100 (A100, A30) nvmlDeviceGetPowerUsage is the current power; on all later chips it is a mean."""
    if at.card.capability is not None and at.card.capability <= GA100:
        return asking("nvmlDeviceGetPowerUsage")(at)
    return asking_field(POWER_INSTANT_MW)(at)


def begin_power_average(at: CardAccess) -> Ask:
    """After GA100 nvmlDeviceGetPowerUsage is the mean of the last second, at a hundredth of the field's cost."""
    if at.card.capability is not None and at.card.capability > GA100:
        return asking("nvmlDeviceGetPowerUsage")(at)
    return asking_field(POWER_AVERAGE_MW)(at)


def begin_reasons(at: CardAccess) -> Ask:
    """Drivers before 535 have the same bits under the function's former name."""
    ask = asking("nvmlDeviceGetCurrentClocksEventReasons")(at)
    try:
        ask()
    except at.nvml.NVMLError as error:
        if error.value != NO_FUNCTION:
            raise
        return asking("nvmlDeviceGetCurrentClocksThrottleReasons")(at)
    return ask


def begin_used(at: CardAccess) -> Ask:
    return lambda: (float(ask_memory(at.nvml, at.card.handle).used_bytes),)


def begin_total(at: CardAccess) -> Ask:
    return lambda: (float(ask_memory(at.nvml, at.card.handle).total_bytes),)


def begin_foreign(at: CardAccess) -> Ask:
    """Count the processes on a card that are neither of the heat's tree nor of another heat's, which waits meanwhile.

    Some containers see an empty list: it counts only while the card's memory is empty too. A process that is not found
    here has just ended, or is in another container.
    """

    def ask() -> tuple[Answer, Answer]:
        held = list_processes(at.nvml, at.card.handle)
        if not held:
            used = ask_memory(at.nvml, at.card.handle).used_bytes
            return (0.0, 0.0) if used < A_CONTEXT_BYTES else (HIDDEN, HIDDEN)
        try:
            foreign = {pid: held_bytes for pid, held_bytes in held.items() if not is_ours(pid, at.pid)}
        except ProcessLookupError:
            return None, None
        known = [each for each in foreign.values() if each is not None]
        memory = float(sum(known)) if len(known) == len(foreign) else Missing("NVML does not tell a process's memory")
        return float(len(foreign)), memory

    return ask


def is_ours(pid: int, heat: int) -> bool:
    """Whether a process is the heat, or descends from it or from this process, or is in a session that one leads.

    This process itself may be a notebook that holds arrays of its own. Raises ProcessLookupError where there is no such
    process.
    """
    roots = {heat, os.getpid()}
    if pid in roots:
        return pid == heat
    try:
        os.kill(pid, 0)
        return os.getsid(pid) in roots or any(each.pid in roots for each in psutil.Process(pid).parents())
    except (PermissionError, psutil.AccessDenied):
        return False  # a process of another user; those of the heat are our own
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(pid) from error


def begin_activity(at: CardAccess) -> Ask:
    """The card itself counts how large a part of it works (GPM), on Hopper and later."""
    whole = at.card.parent or at.card
    try:
        has_counters = bool(at.nvml.nvmlGpmQueryDeviceSupport(whole.handle).isSupportedDevice)
    except at.nvml.NVMLError as error:
        if error.value not in {NO_FUNCTION, NOT_SUPPORTED}:
            raise
        has_counters = False
    if not has_counters:
        raise SensorError("cards before Hopper have no such counters (NVML's GPM)")
    return _Activity(at).ask


class _Activity:
    """Two samples, of which the older one is replaced each time. A MIG instance uses those of its GPU instance."""

    def __init__(self, at: CardAccess) -> None:
        self._at = at
        self._wanted = at.nvml.c_nvmlGpmMetricsGet_t()
        self._wanted.version = at.nvml.NVML_GPM_METRICS_GET_VERSION
        self._wanted.numMetrics = 1
        self._wanted.metrics[0].metricId = SM_ACTIVE
        self._instance = 0 if at.card.parent is None else int(at.nvml.nvmlDeviceGetGpuInstanceId(at.card.handle))
        self._older, self._newer = self._make_sample(), self._make_sample()
        self._take(self._newer)

    def _make_sample(self) -> Any:
        sample = self._at.nvml.nvmlGpmSampleAlloc()
        self._at.closing.callback(self._at.nvml.nvmlGpmSampleFree, sample)
        return sample

    def _take(self, sample: Any) -> None:
        nvml, card = self._at.nvml, self._at.card
        if card.parent is None:
            nvml.nvmlGpmSampleGet(card.handle, sample)
        else:
            nvml.nvmlGpmMigSampleGet(card.parent.handle, self._instance, sample)

    def ask(self) -> tuple[Answer, ...]:
        self._take(self._older)
        self._older, self._newer = self._newer, self._older
        self._wanted.sample1, self._wanted.sample2 = self._older, self._newer
        try:
            told = self._at.nvml.nvmlGpmMetricsGet(self._wanted)
        except self._at.nvml.NVMLError as error:
            if error.value in LOST | FOR_GOOD:
                raise
            return (None,)
        active = told.metrics[0]
        if active.nvmlReturn in FOR_GOOD:
            return (explain(self._at.nvml.NVMLError(active.nvmlReturn)),)
        return (float(active.value) if not active.nvmlReturn and math.isfinite(active.value) else None,)


FAST = (
    CardQuestion((CardFigure("busy_percent", "%"),), begin_utilisation),
    CardQuestion((CardFigure("memory_used_bytes", "bytes"),), begin_used, for_instances=True),
    CardQuestion((CardFigure("temperature_c", "C"),), asking("nvmlDeviceGetTemperature", DIE)),
    CardQuestion((CardFigure("power_instant_mw", "mW"),), begin_power_instant),
    CardQuestion((CardFigure("power_average_mw", "mW"),), begin_power_average),
    CardQuestion((CardFigure("sm_clock_mhz", "MHz"),), asking("nvmlDeviceGetClockInfo", SM_CLOCK)),
    CardQuestion((CardFigure("clock_reasons", "bits"),), begin_reasons),
)
"""Read ten times a second."""

SLOW = (
    CardQuestion((CardFigure("energy_mj", "mJ", "counter"),), asking("nvmlDeviceGetTotalEnergyConsumption")),
    CardQuestion((CardFigure("sm_active_percent", "%"),), begin_activity, for_instances=True),
    CardQuestion((CardFigure("memory_total_bytes", "bytes"),), begin_total, for_instances=True),
    CardQuestion(
        (CardFigure("foreign_processes", "processes"), CardFigure("foreign_memory_bytes", "bytes")),
        begin_foreign,
        for_instances=True,
    ),
    CardQuestion((CardFigure("sm_clock_most_mhz", "MHz"),), asking("nvmlDeviceGetMaxClockInfo", SM_CLOCK)),
)
"""Read once a second: what costs milliseconds, or rarely changes."""
