"""Progress of a call: one line that is updated in place, in a notebook by default, elsewhere with `progress=True`."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from laptime import showing
from laptime.library.notebook import is_notebook
from laptime.model.protocol import Moment
from laptime.model.record import Record
from laptime.visible import visible

FROM_THE_LEFT, TO_THE_END = "\r", "\x1b[K"


class ProgressLine:
    """Where notes on progress go. This one shows nothing."""

    def write(self, note: str) -> None:
        """Show a note in place of the last one."""

    def end(self) -> None:
        """Remove the last note, where it can be removed."""

    def show(self, _record: Record, note: str) -> None:
        self.write(note)

    def tell(self, moment: Moment) -> None:
        """Show a moment of a whole training."""
        steps = f", step {moment.step:,} of {moment.steps:,}" if moment.steps and moment.lap is None else ""
        self.write(showing.moment_words(moment) + steps)


class NotebookLine(ProgressLine):
    """A display of the notebook, which is updated."""

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display").display
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def write(self, note: str) -> None:
        self._handle.update({"text/plain": visible(note)}, raw=True)

    def end(self) -> None:
        self.write("")


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
    return NotebookLine() if in_notebook else TerminalLine()
