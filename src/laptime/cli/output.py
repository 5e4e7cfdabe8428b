"""The width of a page, whether it may have colour, and a page with all its fields below it."""

from __future__ import annotations

import os
import shutil
import sys

import click

from laptime.cli.printing import emit
from laptime.show import listing
from laptime.show.listing import WIDTH_OFF_TERMINAL

BLOCK_CHARACTERS = "█▓▒░▚━─"


MOST_DIGITS = 5  # of a width
ALL_FIELDS = click.option("--details", is_flag=True, help="Print all fields below the page.")


def page_width() -> int:
    """Return the terminal's width, or a width that reads well in a file. COLUMNS overrides both."""
    return asked_for("COLUMNS") or (shutil.get_terminal_size().columns if is_terminal() else WIDTH_OFF_TERMINAL)


def may_colour() -> bool:
    return is_terminal() and knows_colours()


def may_draw(encoding: str | None = None) -> bool:
    """Whether block characters can be printed: the encodings of some terminals and files lack them."""
    try:
        BLOCK_CHARACTERS.encode(encoding or getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def emit_page(page: str, values: object, *, details: bool, color: bool = False) -> None:
    """Print a page that is not a question's. With `details`, all fields of what it shows are below it."""
    emit(page, color=color)
    if details:
        emit(f"\n{listing.fields_as_text(values, page_width())}")


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def knows_colours() -> bool:
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def asked_for(name: str) -> int:
    """Return the number in an environment variable, or 0 where it has none that a terminal may have."""
    asked = os.environ.get(name, "")
    return int(asked) if asked.isdecimal() and len(asked) <= MOST_DIGITS else 0
