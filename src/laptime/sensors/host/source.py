"""The channels that one file tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened
from laptime.sensors.files import OpenFile

Figures = Sequence[float | None]


class Source:
    """The channels that one file tells; of several places the first that tells any of them.

    `parse` gives one figure a channel; a file that is not what it should be makes it raise ValueError or IndexError.
    """

    def __init__(
        self,
        places: Path | Sequence[Path],
        channels: Sequence[Channel],
        parse: Callable[[bytes], Figures],
        otherwise: str = "",
    ) -> None:
        self._places = [places] if isinstance(places, Path) else list(places)
        self._channels, self._parse, self._otherwise = tuple(channels), parse, otherwise
        self._file: OpenFile | None = None
        self._shown: list[int] = []
        self._most: list[float] = []

    def open(self, _pid: int) -> Opened:
        """Say what the file tells at this moment; what it does not tell now, it is not asked for again."""
        reason, figures = self._find()
        self._shown = [number for number, figure in enumerate(figures) if figure is not None]
        self._most = [0.0 for _ in self._channels]
        absent = [
            (each, Missing(reason)) for each, figure in zip(self._channels, figures, strict=True) if figure is None
        ]
        return Opened(tuple(self._channels[number] for number in self._shown), tuple(absent))

    def read(self) -> Figures:
        if self._file is None:
            return [None] * len(self._shown)
        try:
            figures = self._parse(self._file.read())
        except (OSError, ValueError, IndexError):
            return [None] * len(self._shown)
        return [self._risen(number, figures[number]) for number in self._shown]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _find(self) -> tuple[str, Figures]:
        reason = self._otherwise
        for place in self._places:
            try:
                file = OpenFile(place)
            except OSError as error:
                reason = self._otherwise or f"{place}: {error.strerror}"
                continue
            try:
                figures = self._parse(file.read())
            except (OSError, ValueError, IndexError):
                figures = [None] * len(self._channels)
            if any(figure is not None for figure in figures):
                self._file = file
                return f"{place} does not tell it", figures
            file.close()
            reason = self._otherwise or f"{place} does not tell it"
        return reason, [None] * len(self._channels)

    def _risen(self, number: int, figure: float | None) -> float | None:
        """Keep a counter from falling: the kernel's count of waiting does, by a tick, when a core comes or goes."""
        if figure is None or self._channels[number].kind == "gauge":
            return figure
        self._most[number] = max(self._most[number], figure)
        return self._most[number]
