"""The cards' sensors: a quick one and a slow one, alike but for what they ask and how often."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened
from laptime.sensors.nvml.finding import Found, Unseen, choose, find_cards, no_card
from laptime.sensors.nvml.question import Answer, Ask, Place, Question
from laptime.sensors.nvml.quick import QUICK
from laptime.sensors.nvml.session import LOST, close_library, explain, open_library
from laptime.sensors.nvml.slow import SLOW

# A reading may take a tenth of the time between two: many cards are read less often rather than without a pause.
RESTS = 10


@dataclass(frozen=True, slots=True)
class _Line:
    """A question that a card answers, and which parts of the answer are shown."""

    card: Found
    ask: Ask
    shown: tuple[int, ...]


class CardSensor:
    """Asks a table of questions of all cards, or of those named by UUID or place on the bus.

    A card's own figures are channels of its UUID, as NVML writes it. What a card does not tell is found by asking once
    as the sensor is opened. A figure that fails later is None in that reading. A card that is lost is not asked again:
    its channels stay None, and `lost` says why; when no card is left, `read` raises.

    NVML may hang when a driver is ill. Its calls let other threads run, and nothing is locked here, so a reading thread
    that hangs can be left behind; then leave `close` too, which waits for the same driver.
    """

    name: str
    period_s: float
    _questions: Sequence[Question]

    def __init__(self, cards: tuple[str, ...] | None = None) -> None:
        self._named = cards
        self._nvml: Any = None
        self._lines: tuple[_Line, ...] = ()
        self._lost: dict[str, Missing] = {}
        self._closing = ExitStack()

    @property
    def lost(self) -> tuple[tuple[str, Missing], ...]:
        """Which cards were lost since `open`, by UUID, and how it was noticed."""
        return tuple(self._lost.items())

    def probe(self) -> Missing | None:
        try:
            nvml = open_library()
        except SensorError as error:
            return Missing(error.says)
        try:
            cards, unseen = self._find(nvml)
        except nvml.NVMLError as error:
            return explain(error)
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
            raise SensorError(explain(error).missing) from error
        except SensorError:
            self.close()
            raise

    def read(self) -> tuple[float | None, ...]:
        readings: list[float | None] = []
        for line in self._lines:
            answers = (None,) * len(line.shown) if line.card.uuid in self._lost else self._ask(line)
            readings += [None if isinstance(each, Missing) else each for each in answers]
        if self._lost and {line.card.uuid for line in self._lines} <= self._lost.keys():
            raise SensorError("; ".join(f"{uuid}: {why.missing}" for uuid, why in self._lost.items()))
        return tuple(readings)

    def close(self) -> None:
        self._lines = ()
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):  # a lost card's samples cannot be given back
                self._closing.close()

    def _find(self, nvml: Any) -> tuple[tuple[Found, ...], tuple[Unseen, ...]]:
        cards, unseen = find_cards(nvml)
        if self._named is None:
            return cards, unseen
        chosen, not_here = choose(cards, self._named)
        return chosen, (*not_here, *unseen) if not_here else ()

    def _begin(self, cards: tuple[Found, ...], unseen: tuple[Unseen, ...], pid: int) -> Opened:
        if not cards:
            raise SensorError(no_card(unseen).missing)
        channels: list[Channel] = []
        lines: list[_Line] = []
        absent = [
            (figure.of(each.name), each.reason)
            for each in unseen
            for question in self._questions
            for figure in question.shows
        ]
        for card in cards:
            for question in self._questions:
                if card.parent is not None and not question.for_instances:
                    continue
                ask, first = self._try(question, Place(self._nvml, card, pid, self._closing))
                shown = [place for place, answer in enumerate(first) if ask and not isinstance(answer, Missing)]
                told = [figure.of(card.uuid) for figure in question.shows]
                channels += [told[place] for place in shown]
                absent += [(told[place], why) for place, why in enumerate(first) if isinstance(why, Missing)]
                lines += [_Line(card, ask, tuple(shown))] if ask and shown else []
        self._lines = tuple(lines)
        self._set_pace()
        return Opened(tuple(channels), tuple(absent))

    def _try(self, question: Question, at: Place) -> tuple[Ask | None, tuple[Answer, ...]]:
        try:
            ask = question.begin(at)
            return ask, ask()
        except self._nvml.NVMLError as error:
            why = explain(error)
        except SensorError as error:
            why = Missing(error.says)
        return None, (why,) * len(question.shows)

    def _set_pace(self) -> None:
        began = time.perf_counter()
        for line in self._lines:
            self._ask(line)
        self.period_s = max(type(self).period_s, RESTS * (time.perf_counter() - began))

    def _ask(self, line: _Line) -> tuple[Answer, ...]:
        try:
            answers = line.ask()
        except self._nvml.NVMLError as error:
            if error.value in LOST:
                self._lost.setdefault(line.card.uuid, explain(error))
            return (None,) * len(line.shown)
        return tuple(answers[place] for place in line.shown)


class NvmlSensor(CardSensor):
    """Use, memory, temperature, power and clocks of NVIDIA's cards."""

    name = "nvml"
    period_s = 0.1
    _questions = QUICK


class SlowNvmlSensor(CardSensor):
    """Energy, activity, link, neighbours and errors of NVIDIA's cards, and their limits."""

    name = "nvml-slow"
    period_s = 1.0
    _questions = SLOW
