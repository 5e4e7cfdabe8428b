"""The display while a question runs: what is done, how much of the time is gone, a row a lane. All is drawn here."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.progress import Progress
from laptime.pages.layout import flow, paint, painted, wrap
from laptime.pages.page import FIELD_INDENT, LEAST_BAR, MOST_BAR, Row, View, bar_rows
from laptime.pages.words import duration
from laptime.visible import cells_wide

WORDS_GAP = "   "


def live_page(what: str, progress: Progress, rows: Sequence[Row], view: View) -> list[str]:
    """Return what is trained and done with the bar of its time, a row a lane, and notes."""
    said = WORDS_GAP.join(filter(None, [what, progress.doing]))
    clock = clock_words(progress)
    room = view.width - cells_wide(said) - cells_wide(clock) - len(WORDS_GAP) - 2
    if progress.share is None:
        clock = clock if progress.elapsed_s else ""
        head = painted(WORDS_GAP.join(filter(None, [said, clock])), view.width, "strong", color=view.color)
    elif room >= LEAST_BAR:
        head = [f"{paint(said, 'strong', color=view.color)}{WORDS_GAP}{time_bar(progress.share, room, view)}  {clock}"]
    else:
        head = painted(said, view.width, "strong", color=view.color)
        room = view.width - cells_wide(clock) - 2
        drawn = f"{time_bar(progress.share, room, view)}  " if room >= LEAST_BAR else ""
        head += wrap(f"{drawn}{clock}", view.width, FIELD_INDENT)
    lanes = [FIELD_INDENT + line for line in bar_rows(rows, view.inner)] if rows else []
    notes = flow(progress.notes, view.width, FIELD_INDENT) if progress.notes else []
    return [*head, *lanes, *(paint(line, "quiet", color=view.color) for line in notes)]


def time_bar(share: float, room: int, view: View) -> str:
    """Return a bar of the time: what is gone, and what is still to come."""
    wide = min(room, MOST_BAR)
    full, empty = ("━", "─") if view.blocks else ("=", "-")
    gone = min(max(round(wide * share), 0), wide)
    return full * gone + empty * (wide - gone)


def clock_words(progress: Progress) -> str:
    """Return how long it takes so far, and how long it goes on."""
    spent, left_s = duration(progress.elapsed_s), progress.left_s
    if left_s is None:
        return spent
    if left_s < 1:
        return f"{spent}, the budget is used up"
    return f"{spent}, {'at most' if progress.is_most else 'about'} {duration(left_s)} more"


def progress_line(progress: Progress) -> str:
    """Return the progress in one line, for a file."""
    return progress.doing if progress.left_s is None else f"{progress.doing}; {clock_words(progress)}"
