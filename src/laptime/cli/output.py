"""How wide a page is, whether it may have colour, and how progress is shown while a race runs."""

from __future__ import annotations

import os
import shutil
import sys
from types import TracebackType
from typing import Any, Self

import click

from laptime import pages
from laptime.model.protocol import Moment
from laptime.model.record import Record

WIDTH_OFF_TERMINAL = 100
BLOCKS = "█▓▒░▚"


def page_width() -> int:
    """Give the terminal's width, or one that reads well in a file."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return shutil.get_terminal_size().columns if _is_terminal() else WIDTH_OFF_TERMINAL


def may_colour() -> bool:
    return _is_terminal() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def may_draw() -> bool:
    """Tell whether blocks can be printed: some terminals and files have letters only."""
    try:
        BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


class Progress:
    """A live table on a terminal, a line a heat elsewhere; drawn only when a heat changes phase, never by a timer."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live: Any = None
        self._last = ""

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  60 ms that only a terminal needs
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def show(self, record: Record, note: str) -> None:
        if self._live is not None:
            self._live.update(pages.live_table(record, note), refresh=True)
        elif not self._quiet and note != self._last:
            click.echo(note, err=True)
        self._last = note

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


class Trainings(Progress):
    """Whole trainings on the way: a bar for the lap under way on a terminal, a line a lap there and elsewhere."""

    def tell(self, moment: Moment) -> None:
        if self._live is None:
            if moment.is_news and not self._quiet:
                click.echo(pages.moment_words(moment), err=True)
            return
        if moment.lap is not None:
            self._live.console.print(pages.moment_words(moment), markup=False, highlight=False, soft_wrap=True)
        self._live.update(pages.lap_bar(moment), refresh=True)
