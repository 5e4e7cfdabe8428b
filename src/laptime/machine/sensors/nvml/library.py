"""NVIDIA's management library (NVML): opening, closing, the meaning of its errors, and which cards it shows.

NVML counts its users: each `open_library` needs one `close_library`, and the last one shuts NVML down. So two sensors
share one session. No lock is held here while NVML is called.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psutil

from laptime.model.errors import SensorError
from laptime.model.machine import normal_bus, plain_uuid
from laptime.model.process import Channel, ChannelKind
from laptime.model.quantities import Missing

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NO_FUNCTION = 13
LOST_CODES = {15, 16, 28}  # off the bus, needs a reset, removed
SHUT = {
    2: "this NVML does not know how to be opened by this nvidia-ml-py",
    NO_PERMISSION: "no permission to talk to the NVIDIA driver: this user may not open /dev/nvidia*",
    9: "NVIDIA's library is here, but its kernel module is not loaded: is there a card, and is /dev/nvidiactl here?",
    12: "no NVIDIA driver is installed here, or the container was started without it: libnvidia-ml.so.1 is not found "
    "or cannot be loaded",
    NO_FUNCTION: "the NVIDIA driver is too old for this nvidia-ml-py",
    15: "a card was lost: it does not answer on the bus",
    18: "the NVIDIA driver was changed and not loaded again: its library and its kernel module are of two versions; "
    "restart this computer",
    999: "NVML cannot be opened (Unknown Error); in a container, it often lost its devices: start it again",
}
TOLD = {
    NOT_SUPPORTED: "this card does not tell",
    NO_PERMISSION: "this user may not ask",
    NO_FUNCTION: "this driver cannot be asked",
    15: "the card was lost",
    16: "the card needs a reset",
    28: "the card is gone",
}


def open_library() -> Any:
    """Return NVML, open; SensorError says why it cannot be opened."""
    try:
        import pynvml  # noqa: PLC0415  a race without NVIDIA's cards does not need it
    except ImportError as error:
        raise SensorError(f"nvidia-ml-py cannot be imported: {error}") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SensorError(SHUT.get(error.value, f"NVML cannot be opened: {error}")) from error
    return pynvml


def close_library(nvml: Any) -> None:
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def why_missing(error: Any) -> Missing:
    """Return in words why a figure is missing, followed by NVML's own words."""
    words = TOLD.get(error.value)
    return Missing(f"{words} (NVML: {error})" if words else f"NVML: {error}")


@dataclass(frozen=True, slots=True)
class DriverCard:
    """A card, or a MIG instance of one, and NVML's handle for it."""

    handle: Any
    uuid: str
    bus: str
    capability: tuple[int, int] | None
    parent: DriverCard | None = None


@dataclass(frozen=True, slots=True)
class UnreadableCard:
    """A card that NVML counts but that cannot be read."""

    name: str
    reason: Missing


def find_cards(nvml: Any) -> tuple[tuple[DriverCard, ...], tuple[UnreadableCard, ...]]:
    """Return every card that can be read, each followed by its MIG instances; and the others with the reasons."""
    found: list[DriverCard] = []
    unseen: list[UnreadableCard] = []
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            bus = normal_bus(decoded(nvml.nvmlDeviceGetPciInfo(handle).busId))
            uuid = decoded(nvml.nvmlDeviceGetUUID(handle))
            card = DriverCard(handle, uuid, bus, _ask_capability(nvml, handle))
        except nvml.NVMLError as error:
            unseen.append(UnreadableCard(f"NVML's card {number}", why_missing(error)))
        else:
            found += [card, *_instances(nvml, card)]
    return tuple(found), tuple(unseen)


def find_named_cards(
    cards: tuple[DriverCard, ...], named: tuple[str, ...]
) -> tuple[tuple[DriverCard, ...], tuple[UnreadableCard, ...]]:
    """Return the cards named by UUID or bus, in the order of the names; an instance has no bus of its own."""
    chosen: list[DriverCard] = []
    unseen: list[UnreadableCard] = []
    here = ", ".join(card.uuid for card in cards) or "none"
    for name in named:
        matching = [
            card
            for card in cards
            if (card.parent is None and normal_bus(card.bus) == normal_bus(name))
            or plain_uuid(card.uuid) == plain_uuid(name)
        ]
        if not matching:
            unseen.append(UnreadableCard(name, Missing(f"no card {name} is here; those that are: {here}")))
        elif matching[0] not in chosen:
            chosen.append(matching[0])
    return tuple(chosen), tuple(unseen)


def no_card(unseen: tuple[UnreadableCard, ...]) -> Missing:
    """Return why there is no card to read."""
    if unseen:
        return Missing("; ".join(f"{card.name}: {card.reason.missing}" for card in unseen))
    return Missing("the NVIDIA driver is here, but it shows no card")


def _ask_capability(nvml: Any, handle: Any) -> tuple[int, int] | None:
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        return None
    return int(major), int(minor)


def _instances(nvml: Any, card: DriverCard) -> Iterator[DriverCard]:
    """Yield a card's MIG instances; their numbers have gaps where an instance was destroyed."""
    try:
        is_on = nvml.nvmlDeviceGetMigMode(card.handle)[0] == 1
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle) if is_on else 0
    except nvml.NVMLError:
        return
    for number in range(most):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, number)
            yield DriverCard(handle, decoded(nvml.nvmlDeviceGetUUID(handle)), card.bus, card.capability, card)
        except nvml.NVMLError:
            continue


def decoded(text: Any) -> str:
    """Older versions of nvidia-ml-py return bytes."""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


@dataclass(frozen=True, slots=True)
class CardMemory:
    """How much of a card's memory programs hold."""

    used_bytes: int
    total_bytes: int


def ask_memory(nvml: Any, handle: Any) -> CardMemory:
    """Return a card's memory. Older drivers count their own reserve (0.6 GB on an H200) as used; newer ones do not."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if error.value not in {NO_FUNCTION, NOT_SUPPORTED}:
            raise
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return CardMemory(int(memory.used), int(memory.total))


def list_processes(nvml: Any, handle: Any) -> dict[int, int | None]:
    """Return the memory of each process on a card; a process that computes and draws is in both of NVML's lists."""
    processes = list(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))
    try:
        processes += nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle)
    except nvml.NVMLError as error:
        if error.value != NOT_SUPPORTED:  # cards that only compute have no such list
            raise
    held: dict[int, int | None] = {}
    for process in processes:
        size = None if process.usedGpuMemory is None else int(process.usedGpuMemory)
        before = held.get(int(process.pid))
        held[int(process.pid)] = size if before is None else max(before, size or 0)
    return held


# What the sensors read of a card: one row per question, each answered by one call of NVML.
#
# Median costs on an H200: utilisation 63 us, memory 31, temperature 7, average power 8, a clock 2, reasons 8; instant
# power, which is only in a field, less than 750. A fast reading takes under 1 ms per card, a slow one about 8 ms: total
# energy 3.2 (the card updates it ten times a second), the activity counters 2, the fastest clock 1.4, processes 0.1.
#
# `busy_percent` is the share of NVML's own last moments (a sixth of a second to a second) in which at least one kernel
# ran: a card can be busy all the time with a small part of itself. `sm_active_percent` is how large that part is.

CardAnswer = float | Missing | None
"""A figure; or why there is none; or None where there was none this time."""

# Numbered fields that kept their meaning in all drivers
POWER_AVERAGE_MW = 185
POWER_INSTANT_MW = 186
VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
GA100 = (8, 0)
SM_CLOCK = 1
DIE = 0
SM_ACTIVE = 2  # NVML's number of the counter
# Any other error may only mean that the first two samples were too close together.
FOR_GOOD = {NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION}
# One context takes more than this; a card without any context holds less (3 MiB on an H200).
A_CONTEXT_BYTES = 64 << 20
PROCESSES_HIDDEN = Missing(
    "the card's memory is in use, yet its list of processes is empty, as it can be in a container"
)


@dataclass(frozen=True, slots=True)
class CardAccess:
    """What a question needs: the library, the card, the heat's first process, and what must be freed at the end."""

    nvml: Any
    card: DriverCard
    pid: int
    closing: ExitStack


AskCard = Callable[[], tuple[CardAnswer, ...]]


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
    begin: Callable[[CardAccess], AskCard]
    for_instances: bool = False


def asking(function: str, *arguments: int) -> Callable[[CardAccess], AskCard]:
    """Return how to call a function of NVML that returns one number of a card."""

    def begin(at: CardAccess) -> AskCard:
        call = getattr(at.nvml, function, None)
        if call is None:
            raise SensorError(f"this nvidia-ml-py has no {function}")
        return lambda: (float(call(at.card.handle, *arguments)),)

    return begin


def asking_field(number: int) -> Callable[[CardAccess], AskCard]:
    """Return how to read one of NVML's numbered fields."""
    return lambda at: lambda: (_field(at.nvml, at.nvml.nvmlDeviceGetFieldValues(at.card.handle, [number])[0]),)


def _field(nvml: Any, field: Any) -> CardAnswer:
    if field.nvmlReturn in LOST_CODES:
        raise nvml.NVMLError(field.nvmlReturn)
    if field.nvmlReturn:
        return why_missing(nvml.NVMLError(field.nvmlReturn))
    if field.valueType >= len(VALUE_FIELDS):
        return Missing(f"NVML reports it as a type that is not known here ({field.valueType})")
    return float(getattr(field.value, VALUE_FIELDS[field.valueType]))


def begin_utilisation(at: CardAccess) -> AskCard:
    return lambda: (float(at.nvml.nvmlDeviceGetUtilizationRates(at.card.handle).gpu),)


def begin_power_instant(at: CardAccess) -> AskCard:
    """Up to GA100 (A100, A30) nvmlDeviceGetPowerUsage is the current power; on all later chips it is a mean."""
    if at.card.capability is not None and at.card.capability <= GA100:
        return asking("nvmlDeviceGetPowerUsage")(at)
    return asking_field(POWER_INSTANT_MW)(at)


def begin_power_average(at: CardAccess) -> AskCard:
    """After GA100 nvmlDeviceGetPowerUsage is the mean of the last second, at a hundredth of the field's cost."""
    if at.card.capability is not None and at.card.capability > GA100:
        return asking("nvmlDeviceGetPowerUsage")(at)
    return asking_field(POWER_AVERAGE_MW)(at)


def begin_reasons(at: CardAccess) -> AskCard:
    """Drivers before 535 have the same bits under the function's former name."""
    ask = asking("nvmlDeviceGetCurrentClocksEventReasons")(at)
    try:
        ask()
    except at.nvml.NVMLError as error:
        if error.value != NO_FUNCTION:
            raise
        return asking("nvmlDeviceGetCurrentClocksThrottleReasons")(at)
    return ask


def begin_used(at: CardAccess) -> AskCard:
    return lambda: (float(ask_memory(at.nvml, at.card.handle).used_bytes),)


def begin_total(at: CardAccess) -> AskCard:
    return lambda: (float(ask_memory(at.nvml, at.card.handle).total_bytes),)


def begin_foreign(at: CardAccess) -> AskCard:
    """Count the processes on a card that are neither of the heat's tree nor of another heat's, which waits meanwhile.

    Some containers see an empty list: it counts only while the card's memory is empty too. A process that is not found
    here has just ended, or is in another container.
    """

    def ask() -> tuple[CardAnswer, CardAnswer]:
        held = list_processes(at.nvml, at.card.handle)
        if not held:
            used = ask_memory(at.nvml, at.card.handle).used_bytes
            return (0.0, 0.0) if used < A_CONTEXT_BYTES else (PROCESSES_HIDDEN, PROCESSES_HIDDEN)
        try:
            foreign = {pid: held_bytes for pid, held_bytes in held.items() if not is_ours(pid, at.pid)}
        except ProcessLookupError:
            return None, None
        known = [held_bytes for held_bytes in foreign.values() if held_bytes is not None]
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
        return os.getsid(pid) in roots or any(parent.pid in roots for parent in psutil.Process(pid).parents())
    except (PermissionError, psutil.AccessDenied):
        return False  # a process of another user; those of the heat are our own
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(pid) from error


def begin_activity(at: CardAccess) -> AskCard:
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
        self._older = self._make_sample()
        self._newer = self._make_sample()
        self._take(self._newer)

    def _make_sample(self) -> Any:
        sample = self._at.nvml.nvmlGpmSampleAlloc()
        self._at.closing.callback(self._at.nvml.nvmlGpmSampleFree, sample)
        return sample

    def _take(self, sample: Any) -> None:
        nvml = self._at.nvml
        card = self._at.card
        if card.parent is None:
            nvml.nvmlGpmSampleGet(card.handle, sample)
        else:
            nvml.nvmlGpmMigSampleGet(card.parent.handle, self._instance, sample)

    def ask(self) -> tuple[CardAnswer, ...]:
        self._take(self._older)
        self._older, self._newer = self._newer, self._older
        self._wanted.sample1 = self._older
        self._wanted.sample2 = self._newer
        try:
            answer = self._at.nvml.nvmlGpmMetricsGet(self._wanted)
        except self._at.nvml.NVMLError as error:
            if error.value in LOST_CODES | FOR_GOOD:
                raise
            return (None,)
        active = answer.metrics[0]
        if active.nvmlReturn in FOR_GOOD:
            return (why_missing(self._at.nvml.NVMLError(active.nvmlReturn)),)
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

SLOW_QUESTIONS = (
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
