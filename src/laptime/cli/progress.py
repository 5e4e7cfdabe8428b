"""How a page looks on this terminal, and how progress is shown while a race runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from math import ceil
from types import TracebackType
from typing import Self

from laptime.api import showing
from laptime.cli.output import asked_for, knows_colours, may_colour, may_draw, page_width
from laptime.cli.printing import MESSAGES, printable, say, spelt
from laptime.model.errors import RecordError
from laptime.model.protocol import Moment
from laptime.model.record import Progress, Record
from laptime.model.visible import cells_wide, visible
from laptime.show.listing import WIDTH_OFF_TERMINAL

UP, ERASE_ROW = "\x1b[{}A", "\r\x1b[K"
SILENT_LEAST_S, SILENT_MOST_S = 5.0, 60.0  # between signs of life where there is no terminal


def page_view(*, details: bool = False) -> showing.View:
    """Return how a page is shown on stdout."""
    return showing.View(page_width(), color=may_colour(), blocks=may_draw(), details=details)


def message_width() -> int:
    """Return the width for a page on stderr."""
    return asked_for("COLUMNS") or (LiveView().width() if MESSAGES.isatty() else WIDTH_OFF_TERMINAL)


class LiveView:
    """Lines at the end of stderr's terminal that are redrawn in place, and never fill its screen.

    Each drawing is a single write: move up over the last lines, erase them row by row, print the new ones. The cursor
    stays visible and ends on a new line, so a killed process leaves the terminal intact. The screen is never erased as
    a whole: tmux moves into its history what is erased from the first row on.
    """

    def __init__(self) -> None:
        self.color = knows_colours()
        self._drawn: list[int] = []  # how wide each line is

    def width(self) -> int:
        return asked_for("COLUMNS") or self._screen().columns

    def view(self) -> showing.View:
        return showing.View(self.width(), color=self.color, blocks=may_draw(MESSAGES.encoding))

    def draw(self, lines: Sequence[str]) -> None:
        """Draw the lines. Where the screen has no room for all, the first and the last one stay."""
        room = self._screen().lines - 2
        sent = [spelt(printable(line, color=self.color), MESSAGES.encoding) for line in lines]
        wides = [cells_wide(visible(line)) for line in sent]
        while len(sent) > 1 and self._rows(wides) > room:
            del sent[-2 if len(sent) > 2 else -1], wides[-2 if len(wides) > 2 else -1]
        MESSAGES.write(self._back() + "".join(f"{line}\n" for line in sent))
        self._drawn = wides

    def erase(self) -> None:
        if self._drawn:
            MESSAGES.write(self._back())
            self._drawn = []

    def _back(self) -> str:
        """Return what erases the last drawing, and what the terminal echoed below it, such as ^C.

        A terminal that became narrower has wrapped its lines; one that became lower has moved some of them away.
        """
        rows = min(self._rows(self._drawn), self._screen().lines - 1)
        if not rows:
            return ""
        return ERASE_ROW + UP.format(rows) + f"{ERASE_ROW}\n" * rows + UP.format(rows)

    def _rows(self, wides: Sequence[int]) -> int:
        width = self._screen().columns
        return sum(max(1, ceil(wide / width)) for wide in wides)

    def _screen(self) -> os.terminal_size:
        """Return the real size of stderr's terminal, or what the environment says if the terminal does not know it."""
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(sys.stderr.fileno())
            if size.columns and size.lines:
                return size
        return shutil.get_terminal_size()


class Display:
    """Progress: redrawn in place on a terminal, a line for what is news elsewhere. It is drawn when a question calls.

    Elsewhere, what a whole training does between its laps has a line after 5 s of silence, then ever more rarely.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live: LiveView | None = None
        self._last = ""
        self._told_s, self._silent_s = time.monotonic(), SILENT_LEAST_S

    def __enter__(self) -> Self:
        if not self._quiet and MESSAGES.isatty() and os.environ.get("TERM") != "dumb":
            self._live = LiveView()
        return self

    def show(self, record: Record | None, progress: Progress) -> None:
        live = self._live
        if live is not None and progress.stays:
            live.erase()
            say(showing.progress_line(progress))
        elif live is not None:
            self._draw(live, lambda: showing.live_lines(record, progress, live.view()))
        elif not self._quiet and progress.is_news and progress.doing != self._last:
            self._last = progress.doing
            say(showing.progress_line(progress))

    def tell(self, moment: Moment) -> None:
        """Show a moment of a whole training: a bar for the current lap, and a line for each finished lap."""
        live = self._live
        if live is None:
            if not self._quiet:
                self._tell_line(moment)
            return
        if moment.lap is not None:
            live.erase()
            say(showing.moment_words(moment))
            return
        self._draw(live, lambda: showing.lap_lines(moment, live.view()))

    def _tell_line(self, moment: Moment) -> None:
        """Print a moment that is news, and any other as a sign of life after a silence."""
        now_s, line = time.monotonic(), showing.lap_step_words(moment)
        if line == self._last:
            return
        if not moment.is_news:
            if now_s - self._told_s < self._silent_s:
                return
            self._silent_s = min(2 * self._silent_s, SILENT_MOST_S)
        self._told_s, self._last = now_s, line
        say(line)

    def _draw(self, live: LiveView, make: Callable[[], Sequence[str]]) -> None:
        """Draw the progress. A table that cannot be made is left out, and the run goes on."""
        with contextlib.suppress(RecordError):
            live.draw(make())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.erase()
