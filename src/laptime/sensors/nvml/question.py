"""What can be asked of a card: some figures that one call answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, ChannelKind
from laptime.sensors.nvml.finding import Found

Answer = float | Missing | None
"""A figure; or why there is none; or None where there was nothing to tell this time."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question is asked: the library, the card, the heat's first process, and what is let go at the end."""

    nvml: Any
    card: Found
    pid: int
    closing: ExitStack


Ask = Callable[[], tuple[Answer, ...]]


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    kind: ChannelKind = "gauge"

    def of(self, device: str) -> Channel:
        return Channel(device, self.name, self.unit, self.kind)


@dataclass(frozen=True, slots=True)
class Question:
    """`begin` gives what asks for all of `shows` at once; it raises what NVML raises where there is nothing to ask.

    `for_instances`: whether a MIG instance has such figures of its own; the others are the whole card's affair.
    """

    shows: tuple[Figure, ...]
    begin: Callable[[Place], Ask]
    for_instances: bool = False


def asking(function: str, *arguments: int, scale: float = 1.0) -> Callable[[Place], Ask]:
    """Give how to ask a function of NVML that tells one number of a card."""

    def begin(at: Place) -> Ask:
        call = getattr(at.nvml, function, None)
        if call is None:
            raise SensorError(f"this nvidia-ml-py has no {function}")
        return lambda: (float(call(at.card.handle, *arguments)) * scale,)

    return begin
