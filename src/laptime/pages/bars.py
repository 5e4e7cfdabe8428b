"""Bars, one row a lane: the longest is the slowest. Where bars have no room, the figures stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from laptime.pages.layout import Cell, Column, clean, lay_out, table_or_sentences
from laptime.pages.page import View
from laptime.visible import cells_wide

LEAST_BAR, MOST_BAR = 10, 40
GAP = 2
SIGNS, LETTERS = "▁▂▃▄▅▆▇█", "_.-=+*#@"  # of a sparkline; letters where a terminal cannot show blocks
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Row:
    """A lane's name, how long its bar is (None: it has none), and its figures; or, in place of both, its failure."""

    name: str
    length: float | None
    figures: tuple[Cell, ...]
    failed: str = ""


def bar_rows(rows: Sequence[Row], view: View) -> list[str]:
    """Return the rows as lines of name, bar and figures. Columns without any figure are left out."""
    count = max((len(row.figures) for row in rows), default=0)
    shown = [place for place in range(count) if any(_figure(row, place).text for row in rows)]
    names: Column[Row] = Column("", lambda row: row.name, least=14)
    figures = [_column(place) for place in shown]
    longest = max((row.length for row in rows if row.length), default=0.0)
    taken = max((cells_wide(clean(row.name)) for row in rows), default=0) + sum(
        GAP + max(cells_wide(_figure(row, place).text) for row in rows) for place in shown
    )
    room = min(view.width - taken - GAP, MOST_BAR)
    bars: list[Column[Row]] = [Column("", lambda row: bar(row.length, longest, room, blocks=view.blocks))]
    columns = [names, *(bars if room >= LEAST_BAR and len(rows) > 1 else []), *figures]
    lines = lay_out(columns, rows, view.width, color=view.color, failed=lambda row: row.failed)
    if lines is not None:
        return lines[1:]  # no column has a title
    return table_or_sentences([names, *figures], rows, view.width, color=view.color, failed=lambda row: row.failed)


def bar(length: float | None, longest: float, room: int, *, blocks: bool) -> str:
    """Return a bar whose share of the room is that of the longest; every bar has at least a part of a cell."""
    if not length or not longest or not isfinite(length / longest):
        return ""
    eighths = max(round(8 * room * length / longest), 1)
    if not blocks:
        return "#" * max(round(eighths / 8), 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + EIGHTHS[rest].strip()


def _figure(row: Row, place: int) -> Cell:
    return row.figures[place] if place < len(row.figures) and not row.failed else Cell("")


def _column(place: int) -> Column[Row]:
    return Column("", lambda row: _figure(row, place), right=False)


def sparkline(shares: Sequence[float], *, blocks: bool) -> str:
    """Return a sign a value, from 0 (the lowest) to 1 (the highest)."""
    signs = SIGNS if blocks else LETTERS
    return "".join(signs[min(int(len(signs) * share), len(signs) - 1)] for share in shares)
