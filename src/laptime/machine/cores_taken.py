"""How many cores do other processes fill while laptime prepares a question? It scouts for some seconds anyway."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from laptime.model.missing import Missing
from laptime.sensors.host.noise import NoiseReader

LEAST_S = 0.5  # the kernel counts in ticks of 10 ms, and what ran for a moment is no neighbour
NEARLY = 0.7  # of a core: the rest of it is of no use to a thread that the others wait for


class CoresTaken:
    """Counts from its making on. The process `own` (by default this one) and its children are not among the others."""

    def __init__(self, own: int | None = None) -> None:
        self._reader = NoiseReader()
        self._is_known = self._reader.probe() is None
        if self._is_known:
            self._reader.open(os.getpid() if own is None else own)
            self._began = self._reader.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._reader.close()

    def count(self) -> int:
        """Return how many cores were filled; 0 where that cannot be read, or was read for less than half a second."""
        if not self._is_known:
            return 0
        began, now = self._began, self._reader.read()
        passed_s = (now.at_ns - began.at_ns) / 1e9
        figures = (began.busy_s, now.busy_s, began.tree_s, now.tree_s)
        if passed_s < LEAST_S or any(isinstance(each, Missing) for each in figures):
            return 0
        before, after, own_before, own_after = (0.0 if isinstance(each, Missing) else each for each in figures)
        others = ((after - before) - (own_after - own_before)) / passed_s
        return max(0, int(others + 1 - NEARLY))
