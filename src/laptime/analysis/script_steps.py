"""The batches of `laptime.steps` -> iterations, where nothing that computes was seen: a loop of JAX or of NumPy."""

from __future__ import annotations

from collections.abc import Callable

from laptime.analysis.script_units import Unit
from laptime.attach import kinds
from laptime.model.script import GapKind


class StepsBuilder:
    """Cuts the fetches of `laptime.steps` into iterations, from each fetch to the next one of the same loader."""

    def __init__(self, emit: Callable[[Unit], None], gap: Callable[[GapKind, int, int], None]) -> None:
        self._emit, self._gap = emit, gap
        self._open: Unit | None = None
        self._loader = 0  # whose fetches begin iterations now
        self._opening: tuple[int, int] | None = None
        self._ended = 0
        self._is_new_pass = False
        self.epochs = 0

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take the next event of a loader that `laptime.steps` goes through."""
        if kind == kinds.FETCH:
            self._fetch(begin, end, value >> kinds.ITEMS_SHIFT, value & kinds.ITEMS_MASK)
        elif kind == kinds.OPEN and self._open is None:
            self._opening = (begin, end)
            self._is_new_pass = True
        elif kind == kinds.END and value == self._loader:
            self._close(begin)

    def skip(self) -> None:
        """Leave out the last iteration: events follow that are not known."""
        self._open, self._opening, self._ended, self._is_new_pass = None, None, 0, False

    def _fetch(self, begin: int, end: int, loader: int, items: int) -> None:
        unit = self._open
        if unit is not None and loader != self._loader:  # a second loader, in the same iteration
            unit.data += end - begin
            unit.fetches += 1
            unit.mark = end
            return
        self._close(begin)
        if self._is_new_pass:
            self.epochs += 1
            self._is_new_pass = False
            self._note_gaps(begin)
        self._loader = loader
        self._open = Unit(begin=begin, data=end - begin, fetches=1, items=items, mark=end)

    def _note_gaps(self, at: int) -> None:
        if not self._ended or self._opening is None:
            return
        first, last = self._opening
        self._gap("loader start", first, last)
        self._gap("between epochs", self._ended + last - first, at)

    def _close(self, at: int) -> None:
        unit = self._open
        if unit is None:
            return
        unit.end = self._ended = at
        unit.forward_backward = at - unit.begin - unit.data
        self._emit(unit)
        self._open = None
