"""Made data for people: what there is, what was just made, what was removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laptime.report.figures import about, size
from laptime.report.layout import Cell, Column, Row, lay_out, wrap


class MadeRow(Protocol):
    """What is shown of one set; the room that makes them has such rows, and this room does not know it."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def train_items(self) -> int: ...
    @property
    def test_items(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def state(self) -> str: ...


def render_sets(rows: Sequence[MadeRow], width: int) -> str:
    """List the sets in the order given."""
    if not rows:
        return "No data made yet; laptime data make WHAT makes some.\n"
    columns = [
        Column("data"),
        Column("train", right=True),
        Column("test", right=True),
        Column("size", right=True),
        Column("state"),
        Column("folder", least=20),
    ]
    cells = [
        (each.name, f"{each.train_items:,}", f"{each.test_items:,}", size(each.bytes), each.state, each.folder)
        for each in rows
    ]
    lines = lay_out(columns, [Row(tuple(map(Cell, row))) for row in cells], width, color=False)
    if lines is None:
        lines = [line for row in cells for line in wrap(", ".join(row), width, "  ")]
    return "\n".join(lines) + "\n"


def render_made(row: MadeRow, seconds: float, *, was_there: bool) -> str:
    """Say in one line what was made, or that it was there."""
    end = "was there already" if was_there else f"made in {about(seconds)}"
    return f"{row.name}: {_contents(row)}, in {row.folder}, {end}\n"


def render_removed(row: MadeRow) -> str:
    return f"{row.name}: removed {_contents(row)}, from {row.folder}\n"


def _contents(row: MadeRow) -> str:
    return f"{row.train_items:,} train and {row.test_items:,} test items, {size(row.bytes)}"
