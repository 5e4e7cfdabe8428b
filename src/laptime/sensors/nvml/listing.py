"""Every card with what its driver reports of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from laptime.errors import SensorError
from laptime.model.card import Card, CardProcess
from laptime.model.missing import Missing
from laptime.sensors.nvml.library import (
    DriverCard,
    UnreadableCard,
    ask_memory,
    close_library,
    explain,
    find_cards,
    list_processes,
    no_card,
    open_library,
    text,
)
from laptime.sensors.nvml.questions import SM_CLOCK

Told = TypeVar("Told")

WHOLE = Missing("it is the whole card's affair")


@dataclass(frozen=True, slots=True)
class Survey:
    """The cards that can be read, each followed by its MIG instances; and those that the driver only counts."""

    cards: tuple[Card, ...]
    unseen: tuple[UnreadableCard, ...] = ()


def list_cards() -> tuple[Card, ...] | Missing:
    """Return the cards that can be read, each followed by its MIG instances; or why there is none."""
    told = survey_cards()
    if isinstance(told, Missing):
        return told
    return told.cards or no_card(told.unseen)


def survey_cards() -> Survey | Missing:
    """Return every card that the driver counts; or why NVML cannot be asked."""
    try:
        nvml = open_library()
    except SensorError as error:
        return Missing(error.says)
    try:
        found, unseen = find_cards(nvml)
        return Survey(tuple(_describe(nvml, each) for each in found), unseen)
    except nvml.NVMLError as error:
        return explain(error)
    finally:
        close_library(nvml)


def _describe(nvml: Any, found: DriverCard) -> Card:
    def ask(function: str, convert: Callable[[Any], Told], *arguments: int) -> Told | Missing:
        return _ask(nvml, lambda: convert(getattr(nvml, function)(found.handle, *arguments)))

    def ask_whole(function: str, convert: Callable[[Any], Told], *arguments: int) -> Told | Missing:
        return ask(function, convert, *arguments) if found.parent is None else WHOLE

    memory = _ask(nvml, lambda: ask_memory(nvml, found.handle))
    return Card(
        uuid=found.uuid,
        bus=found.bus,
        name=ask("nvmlDeviceGetName", text),
        driver=_ask(nvml, lambda: text(nvml.nvmlSystemGetDriverVersion())),
        cuda=_ask(nvml, lambda: _cuda_words(nvml.nvmlSystemGetCudaDriverVersion())),
        capability=".".join(map(str, found.capability)) if found.capability else Missing("NVML does not tell"),
        memory_bytes=memory if isinstance(memory, Missing) else memory.total_bytes,
        memory_used_bytes=memory if isinstance(memory, Missing) else memory.used_bytes,
        power_limit_mw=ask_whole("nvmlDeviceGetEnforcedPowerLimit", int),
        pcie_generation=ask_whole("nvmlDeviceGetCurrPcieLinkGeneration", int),
        pcie_generation_most=ask_whole("nvmlDeviceGetMaxPcieLinkGeneration", int),
        pcie_width=ask_whole("nvmlDeviceGetCurrPcieLinkWidth", int),
        pcie_width_most=ask_whole("nvmlDeviceGetMaxPcieLinkWidth", int),
        sm_clock_most_mhz=ask_whole("nvmlDeviceGetMaxClockInfo", int, SM_CLOCK),
        mig=ask_whole("nvmlDeviceGetMigMode", _is_on_now),
        ecc=ask_whole("nvmlDeviceGetEccMode", _is_on_now),
        persistence=ask_whole("nvmlDeviceGetPersistenceMode", bool),
        display=ask_whole("nvmlDeviceGetDisplayActive", bool),
        processes=_ask(nvml, lambda: _list_processes(nvml, found)),
        parent=None if found.parent is None else found.parent.uuid,
        busy_percent=ask_whole("nvmlDeviceGetUtilizationRates", lambda told: float(told.gpu)),
        module="nvidia",
    )


def _ask(nvml: Any, ask: Callable[[], Told]) -> Told | Missing:
    try:
        return ask()
    except nvml.NVMLError as error:
        return explain(error)


def _list_processes(nvml: Any, found: DriverCard) -> tuple[CardProcess, ...]:
    held = list_processes(nvml, found.handle)
    not_told = Missing("NVML does not tell a process's memory here")
    return tuple(CardProcess(pid, not_told if size is None else size) for pid, size in sorted(held.items()))


def _is_on_now(modes: Any) -> bool:
    """Modes come in pairs: the current one, and the one after a reset."""
    return bool(modes[0] == 1)


def _cuda_words(number: int) -> str:
    """Write 13000 as 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"
