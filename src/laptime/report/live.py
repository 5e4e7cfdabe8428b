"""The race while it runs: the same words as the final table, as far as they are known."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laptime.model.record import LaneResult, Record
from laptime.report.layout import Cell, Style, clean
from laptime.report.phrases import (
    against_first,
    against_title,
    failure_words,
    lap_words,
    rate_words,
    short_name,
    step_words,
    subject_words,
)

STYLES: dict[Style, str] = {"strong": "bold", "good": "green", "bad": "red", "quiet": "dim"}


def live_table(record: Record, note: str) -> RenderableType:
    """Show a running record and, below it, what is being done just now."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("lane", overflow="fold")
    table.add_column("heats", justify="right")
    table.add_column("a lap", no_wrap=True)
    table.add_column("step", no_wrap=True)
    table.add_column(_text(Cell(f"{record.workload.items}/s")), justify="right", no_wrap=True)
    table.add_column(_text(Cell(against_title(record))), overflow="fold")
    for lane in record.lanes:
        table.add_row(*(_text(cell) for cell in _cells(lane, record)))
    return Group(_text(Cell(subject_words(record.workload), "strong")), table, _text(Cell(note, "quiet")))


def _cells(lane: LaneResult, record: Record) -> list[Cell]:
    """Put a lane's failure where its factor would stand."""
    failed = failure_words(lane)
    return [
        Cell(short_name(lane.name)),
        Cell(str(sum(heat.status == "ok" for heat in lane.heats))),
        Cell(lap_words(lane)),
        Cell(step_words(lane)),
        Cell(rate_words(lane)),
        Cell(failed, "bad") if failed else against_first(lane, record),
    ]


def _text(cell: Cell) -> Text:
    """Hand rich a text that it takes as it is: square brackets in a name are no markup."""
    return Text(clean(cell.text), style=STYLES.get(cell.style, ""))
