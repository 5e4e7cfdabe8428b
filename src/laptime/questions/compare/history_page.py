"""The page of a history: the newest figure, a line of all figures, and a row a record, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

from laptime.model.missing import Missing
from laptime.pages.bars import sparkline
from laptime.pages.layout import Cell, Column, painted, table_or_sentences, wrap
from laptime.pages.numbers import number, spread
from laptime.pages.page import INDENT, NARROWEST, View
from laptime.pages.words import joined, short_name, times
from laptime.questions.compare.history_nouns import History, HistoryPoint
from laptime.questions.compare.page import change_cell

LINES_MOST = 40
ALIKE = 0.4  # of the height, where all values are alike
FLAT = 0.02  # as a difference of logarithms: smaller ones would look like mountains
SEVERAL_MACHINES = "Points of different machines are not compared with each other."


def render_history(found: History, view: View, *, lines_most: int | None = LINES_MOST) -> str:
    """Return the page. Where there are more lines than it may have, the oldest records are left out."""
    view = replace(view, width=max(view.width, NARROWEST))
    for count in range(len(found.points), 0, -1):
        lines = _lines(found, view, count)
        if lines_most is None or len(lines) <= lines_most:
            break
    return "\n".join(lines) + "\n"


def _lines(found: History, view: View, count: int) -> list[str]:
    """Return the page with this many of the newest points in its table."""
    shown = found.points[-count:][::-1]
    rates = [each.items_per_s.median for each in found.points][-view.inner.width :]
    line = line_of(rates, blocks=view.blocks)
    table = table_or_sentences(_columns(found), shown, view.inner.width, color=view.color)
    notes = _notes(found, len(found.points) - count)
    return [
        *(each for text in _answer(found) for each in painted(text, view.width, "strong", color=view.color)),
        "",
        f"{INDENT}{line}",
        *(INDENT + each for each in table),
        *(["", *(each for note in notes for each in wrap(note, view.width, INDENT))] if notes else []),
    ]


def _answer(found: History) -> list[str]:
    """Return the newest figure, and when it last changed beyond noise."""
    newest, count = found.points[-1], len(found.points)
    records = f"the newest of {count} records" if count > 1 else "the only record"
    said = [f"{found.what} on {short_name(found.lane)}: {number(newest.items_per_s.median)}/s in {records}."]
    changed = [each for each in found.points if is_changed(each)]
    if not changed:
        return [*said, "No change beyond noise."] if count > 1 else said
    last = changed[-1]
    assert last.change is not None
    since = f", with {joined(last.marks)}" if last.marks else ""
    more = f"; {len(changed)} changes in all" if len(changed) > 1 else ""
    return [*said, f"Last change beyond noise: {times(last.change.ratio)} on {_day(last)} ({last.id}){since}{more}."]


def is_changed(point: HistoryPoint) -> bool:
    """Whether a lane changed by more than its heats vary."""
    return point.change is not None and point.change.verdict != "not distinguishable"


def _columns(found: History) -> list[Column[HistoryPoint]]:
    has_labels = any(each.label is not None for each in found.points)
    has_marks = any(each.marks for each in found.points)
    labels: list[Column[HistoryPoint]] = [Column("label", lambda each: f"@{each.label}" if each.label else "", least=8)]
    marks: list[Column[HistoryPoint]] = [Column("what changed", lambda each: ", ".join(each.marks), least=12)]
    return [
        Column("started", lambda each: each.started[:16].replace("T", " ")),
        Column("record", lambda each: each.id),
        *(labels if has_labels else []),
        Column("items/s", _rate, right=True),
        Column("against the last", _change, least=12),
        *(marks if has_marks else []),
    ]


def _rate(point: HistoryPoint) -> str:
    return f"{number(point.items_per_s.median)} {spread(point.items_per_s)}".rstrip()


def _change(point: HistoryPoint) -> Cell:
    """Return how a point compares with the last on its machine; what is beyond noise has a star."""
    if point.change is None:
        return Cell("first on its machine", "quiet")
    if isinstance(point.change.low, Missing):
        return Cell("no interval", "quiet")
    if not is_changed(point):
        return Cell("within noise", "quiet")
    cell = change_cell(point.change)
    return replace(cell, text=f"* {cell.text}")


def _notes(found: History, hidden: int) -> list[str]:
    """Return what the table leaves out, and what one must know to read it."""
    older = found.older + hidden
    machines = {each.machine for each in found.points}
    apart = "Records are measured at different times: what else the machine did then is in each change."
    notes = [
        apart if len(found.points) > 1 else "",
        f"{SEVERAL_MACHINES} There are {len(machines)}." if len(machines) > 1 else "",
        f"{older} older record{'s' * (older != 1)} not shown: --limit 0 shows all." if older else "",
        f"Without a result: {'; '.join(found.left_out)}." if found.left_out else "",
        f"Other lanes: {', '.join(map(short_name, found.others))}." if found.others else "",
    ]
    return [*filter(None, notes)]


def _day(point: HistoryPoint) -> str:
    return point.started[:10]


def line_of(values: Sequence[float], *, blocks: bool) -> str:
    """Return a sign a value, the highest for the largest; alike where all differ by next to nothing."""
    logs = [log(each) for each in values]
    low, high = min(logs), max(logs)
    if high - low < FLAT:
        return sparkline([ALIKE] * len(logs), blocks=blocks)
    return sparkline([(each - low) / (high - low) for each in logs], blocks=blocks)
