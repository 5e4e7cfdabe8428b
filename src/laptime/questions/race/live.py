"""The display while lanes race, whatever the question: the words and figures of the page, without a verdict."""

from __future__ import annotations

from laptime.model.progress import Progress
from laptime.model.quantities import step
from laptime.model.record import LaneResult, Record
from laptime.pages.layout import Cell
from laptime.pages.live import live_page
from laptime.pages.page import Row, View
from laptime.pages.words import factor, failure_words, joined, over, short_name
from laptime.stats import FIRST_LOOK

LIVE_ROWS = 12  # rows


def live_lines(record: Record, progress: Progress, view: View) -> list[str]:
    """Return a running record: a row a lane with its step, its factor by the last look, and what it does now."""
    known = {lane.name: lane for lane in record.lanes}
    names = list(dict.fromkeys([*known, *progress.lanes]))
    if len(names) > LIVE_ROWS:  # of those that are tried one after another, the ones of this round
        names = [*progress.lanes][:LIVE_ROWS]
    rows: list[Row] = []
    for name in names:
        lane, doing = known.get(name), Cell(progress.lanes.get(name, ""), "quiet")
        if lane is None:
            rows.append(Row(short_name(name), None, (Cell(""), Cell(""), doing)))
            continue
        length = None if lane.items_per_s is None else over(1, lane.items_per_s.median)
        is_first = not any(row.length for row in rows)
        step_ = "" if lane.step_ms is None else step(lane.step_ms.median) + " a step" * is_first
        figures = (Cell(step_), Cell(factor_so_far(lane, record)), doing)
        rows.append(Row(short_name(name), length, figures, failure_words(lane)))
    return live_page(joined([*record.trainings]), progress, rows, view)


def factor_so_far(lane: LaneResult, record: Record) -> str:
    """Return a factor with the interval of the last look, but no verdict; before the first look, nothing."""
    found = next((each for each in record.answer.comparisons if each.lane == lane.name), None)
    if found is None or found.ends is None or found.pairs < FIRST_LOOK or found.same_work is False:
        return ""
    low, high = found.ends
    return f"{factor(found.ratio)}x ({factor(low, found.ratio)}-{factor(high, found.ratio)})"
