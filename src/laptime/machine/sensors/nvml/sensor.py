"""The sensors of the cards: a fast one and a slow one, which differ only in what they ask and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from laptime.machine.sensors.base import PATIENCE_S, PendingAnswer, Sensor
from laptime.machine.sensors.nvml.library import (
    FAST,
    LOST_CODES,
    SLOW_QUESTIONS,
    SM_CLOCK,
    AskCard,
    CardAccess,
    CardAnswer,
    CardQuestion,
    DriverCard,
    UnreadableCard,
    ask_memory,
    close_library,
    decoded,
    find_cards,
    find_named_cards,
    list_processes,
    no_card,
    open_library,
    why_missing,
)
from laptime.model.errors import SensorError
from laptime.model.machine import Card, CardProcess, Device, match_card
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

# A reading may take a tenth of the time between two: many cards are read less often, not without a pause.
RESTS = 10


@dataclass(frozen=True, slots=True)
class _CardReader:
    """A question that a card answers, and which parts of the answer are channels."""

    card: DriverCard
    ask: AskCard
    shown: tuple[int, ...]


class CardSensor:
    """Asks all cards, or those named by UUID or place on the bus, each question of a table.

    A card's channels have its UUID, as NVML writes it, as their device. Each question is asked once when the sensor is
    opened, to find what the card does not report. A figure that fails later is None in that reading. A card that is
    lost is not asked again: its channels stay None, and `lost` says why. When no card is left, `read` raises.

    NVML may hang when a driver is broken. Its calls let other threads run, and nothing is locked here, so a reading
    thread that hangs can be left behind. Do not call `close` in that case: it waits for the same driver.
    """

    name: str
    period_s: float
    _questions: Sequence[CardQuestion]

    def __init__(self, cards: tuple[str, ...] | None = None) -> None:
        self._named = cards
        self._nvml: Any = None
        self._lines: tuple[_CardReader, ...] = ()
        self._lost: dict[str, Missing] = {}
        self._closing = ExitStack()

    @property
    def lost(self) -> tuple[tuple[str, Missing], ...]:
        """The cards that were lost since `open`, by UUID, and how it was noticed."""
        return tuple(self._lost.items())

    def probe(self) -> Missing | None:
        try:
            nvml = open_library()
        except SensorError as error:
            return Missing(error.says)
        try:
            cards, unseen = self._find(nvml)
        except nvml.NVMLError as error:
            return why_missing(error)
        finally:
            close_library(nvml)
        return None if cards else no_card(unseen)

    def open(self, pid: int) -> Opened:
        self._lost = {}
        self._nvml = open_library()
        self._closing.callback(close_library, self._nvml)
        try:
            return self._begin(*self._find(self._nvml), pid)
        except self._nvml.NVMLError as error:
            self.close()
            raise SensorError(why_missing(error).missing) from error
        except SensorError:
            self.close()
            raise

    def read(self) -> tuple[float | None, ...]:
        readings: list[float | None] = []
        for line in self._lines:
            answers = (None,) * len(line.shown) if line.card.uuid in self._lost else self._ask(line)
            readings += [None if isinstance(answer, Missing) else answer for answer in answers]
        if self._lost and {line.card.uuid for line in self._lines} <= self._lost.keys():
            raise SensorError("; ".join(f"{uuid}: {why.missing}" for uuid, why in self._lost.items()))
        return tuple(readings)

    def close(self) -> None:
        self._lines = ()
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):  # the samples of a lost card cannot be freed
                self._closing.close()

    def _find(self, nvml: Any) -> tuple[tuple[DriverCard, ...], tuple[UnreadableCard, ...]]:
        cards, unseen = find_cards(nvml)
        if self._named is None:
            return cards, unseen
        chosen, not_here = find_named_cards(cards, self._named)
        return chosen, (*not_here, *unseen) if not_here else ()

    def _begin(self, cards: tuple[DriverCard, ...], unseen: tuple[UnreadableCard, ...], pid: int) -> Opened:
        if not cards:
            raise SensorError(no_card(unseen).missing)
        channels: list[Channel] = []
        lines: list[_CardReader] = []
        absent = [
            (figure.of(lost.name), lost.reason)
            for lost in unseen
            for question in self._questions
            for figure in question.shows
        ]
        for card in cards:
            for question in self._questions:
                if card.parent is not None and not question.for_instances:
                    continue
                ask, first = self._try(question, CardAccess(self._nvml, card, pid, self._closing))
                shown = [place for place, answer in enumerate(first) if ask and not isinstance(answer, Missing)]
                asked = [figure.of(card.uuid) for figure in question.shows]
                channels += [asked[place] for place in shown]
                absent += [(asked[place], why) for place, why in enumerate(first) if isinstance(why, Missing)]
                lines += [_CardReader(card, ask, tuple(shown))] if ask and shown else []
        self._lines = tuple(lines)
        began = time.perf_counter()
        for line in self._lines:
            self._ask(line)
        self.period_s = max(type(self).period_s, RESTS * (time.perf_counter() - began))
        return Opened(tuple(channels), tuple(absent))

    def _try(self, question: CardQuestion, at: CardAccess) -> tuple[AskCard | None, tuple[CardAnswer, ...]]:
        try:
            ask = question.begin(at)
            return ask, ask()
        except self._nvml.NVMLError as error:
            why = why_missing(error)
        except SensorError as error:
            why = Missing(error.says)
        return None, (why,) * len(question.shows)

    def _ask(self, line: _CardReader) -> tuple[CardAnswer, ...]:
        try:
            answers = line.ask()
        except self._nvml.NVMLError as error:
            if error.value in LOST_CODES:
                self._lost.setdefault(line.card.uuid, why_missing(error))
            return (None,) * len(line.shown)
        return tuple(answers[place] for place in line.shown)


class NvmlSensor(CardSensor):
    """Utilisation, memory, temperature, power and clocks of NVIDIA's cards."""

    name = "nvml"
    period_s = 0.1
    _questions = FAST


class SlowNvmlSensor(CardSensor):
    """Energy, activity, other processes and limits of NVIDIA's cards."""

    name = "nvml-slow"
    period_s = 1.0
    _questions = SLOW_QUESTIONS


def sensors_of(device: Device) -> list[Sensor] | Missing:
    """Return both sensors for a framework's device, which is matched with a card of the driver."""
    cards = PendingAnswer("NVIDIA's library (NVML)", list_cards).answer(PATIENCE_S)
    card = cards if isinstance(cards, Missing) else match_card(device, cards)
    uuid = card if isinstance(card, Missing) else card.uuid
    return uuid if isinstance(uuid, Missing) else [NvmlSensor((uuid,)), SlowNvmlSensor((uuid,))]


# Every card with what its driver reports of it.

ToldByCard = TypeVar("ToldByCard")

WHOLE_CARD_ONLY = Missing("it is the whole card's affair")


@dataclass(frozen=True, slots=True)
class Survey:
    """The cards that can be read, each followed by its MIG instances; and those that the driver only counts."""

    cards: tuple[Card, ...]
    unseen: tuple[UnreadableCard, ...] = ()


def list_cards() -> tuple[Card, ...] | Missing:
    """Return the cards that can be read, each followed by its MIG instances; or why there is none."""
    survey = survey_cards()
    if isinstance(survey, Missing):
        return survey
    return survey.cards or no_card(survey.unseen)


def survey_cards() -> Survey | Missing:
    """Return every card that the driver counts; or why NVML cannot be asked."""
    try:
        nvml = open_library()
    except SensorError as error:
        return Missing(error.says)
    try:
        found, unseen = find_cards(nvml)
        return Survey(tuple(_describe(nvml, card) for card in found), unseen)
    except nvml.NVMLError as error:
        return why_missing(error)
    finally:
        close_library(nvml)


def _describe(nvml: Any, found: DriverCard) -> Card:
    def ask(function: str, convert: Callable[[Any], ToldByCard], *arguments: int) -> ToldByCard | Missing:
        return _ask(nvml, lambda: convert(getattr(nvml, function)(found.handle, *arguments)))

    def ask_whole(function: str, convert: Callable[[Any], ToldByCard], *arguments: int) -> ToldByCard | Missing:
        return ask(function, convert, *arguments) if found.parent is None else WHOLE_CARD_ONLY

    memory = _ask(nvml, lambda: ask_memory(nvml, found.handle))
    return Card(
        uuid=found.uuid,
        bus=found.bus,
        name=ask("nvmlDeviceGetName", decoded),
        driver=_ask(nvml, lambda: decoded(nvml.nvmlSystemGetDriverVersion())),
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
        busy_percent=ask_whole("nvmlDeviceGetUtilizationRates", lambda rates: float(rates.gpu)),
        module="nvidia",
    )


def _ask(nvml: Any, ask: Callable[[], ToldByCard]) -> ToldByCard | Missing:
    try:
        return ask()
    except nvml.NVMLError as error:
        return why_missing(error)


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
