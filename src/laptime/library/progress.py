"""Progress of a call: a live table in a notebook, by default; elsewhere one line, with `progress=True`."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from laptime import showing
from laptime.errors import RecordError
from laptime.library.notebook import is_notebook
from laptime.library.shown import WIDTH_OFF_TERMINAL, as_block
from laptime.model.protocol import Moment
from laptime.model.record import Record
from laptime.visible import visible

UPDATES_MOST = 4  # a second
LAPS_MOST = 20  # finished laps above that which runs
NOTHING = {"text/plain": "", "text/html": ""}
FROM_THE_LEFT, TO_THE_END = "\r", "\x1b[K"


class ProgressLine:
    """Where notes on progress go. This one shows nothing."""

    def write(self, note: str) -> None:
        """Show a note in place of the last one."""

    def end(self) -> None:
        """Remove the last note, where it can be removed."""

    def show(self, _record: Record | None, note: str) -> None:
        self.write(note)

    def tell(self, moment: Moment) -> None:
        """Show a moment of a whole training."""
        self.write(showing.step_words(moment))


class NotebookTable(ProgressLine):
    """A display of the notebook that is updated: the lines that the command shows while it runs.

    It changes on news only, never by a timer, so that nothing wakes while a heat runs. Of news that come faster than
    `UPDATES_MOST` a second, the next that is in time shows all.
    """

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display").display
        self._handle: Any = display(NOTHING, raw=True, display_id=True)
        self._sent: deque[float] = deque(maxlen=UPDATES_MOST)
        self._laps: deque[str] = deque(maxlen=LAPS_MOST)

    def write(self, note: str) -> None:
        self._update(lambda: [note])

    def show(self, record: Record | None, note: str) -> None:
        self._update(lambda: [note] if record is None else showing.live_lines(record, note, WIDTH_OFF_TERMINAL))

    def tell(self, moment: Moment) -> None:
        if moment.lap is not None:
            self._laps.append(showing.moment_words(moment))
            self._update(lambda: [*self._laps])
        else:
            self._update(lambda: [*self._laps, *showing.lap_lines(moment, WIDTH_OFF_TERMINAL)])

    def end(self) -> None:
        """Remove the table: the cell shows its value, the result."""
        self._handle.update(NOTHING, raw=True)

    def _update(self, make: Callable[[], Sequence[str]]) -> None:
        """Show the lines, if the last updates are long enough ago. A table that cannot be made is left out."""
        now = time.monotonic()
        if len(self._sent) == UPDATES_MOST and now - self._sent[0] < 1:
            return
        self._sent.append(now)
        with contextlib.suppress(RecordError):
            text = visible("\n".join(make()))
            self._handle.update({"text/plain": text, "text/html": as_block(text)}, raw=True)


class TerminalLine(ProgressLine):
    """A line of stderr that is written over; where stderr is no terminal, a line for each note."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last = ""

    def write(self, note: str) -> None:
        if note != self._last:
            shown = " ".join(visible(note).splitlines())
            columns = shutil.get_terminal_size().columns - 1  # a line that wraps could not be written over
            self._send(f"{FROM_THE_LEFT}{shown[:columns]}{TO_THE_END}" if self._is_terminal else f"{shown}\n")
        self._last = note

    def end(self) -> None:
        if self._is_terminal:
            self._send(f"{FROM_THE_LEFT}{TO_THE_END}")

    def _send(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            encoding = sys.stderr.encoding or "ascii"
            sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
            sys.stderr.flush()


@contextlib.contextmanager
def progress_shown(*, wanted: bool | None) -> Iterator[ProgressLine]:
    """Return where progress goes. By default only a notebook shows it."""
    line = _open(wanted=wanted)
    try:
        yield line
    finally:
        line.end()


def _open(*, wanted: bool | None) -> ProgressLine:
    in_notebook = is_notebook()
    if wanted is False or (wanted is None and not in_notebook):
        return ProgressLine()
    return NotebookTable() if in_notebook else TerminalLine()
