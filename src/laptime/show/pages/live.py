"""The lines that are redrawn while lanes are raced."""

from __future__ import annotations

from laptime.model.quantities import step
from laptime.model.record import (
    LaneResult,
    Progress,
    Record,
)
from laptime.model.stats import FIRST_LOOK
from laptime.show.pages.lanes import (
    row_name,
)
from laptime.show.pages.layout import Cell
from laptime.show.pages.page import (
    Row,
    View,
    live_page,
)
from laptime.show.pages.words import (
    factor,
    failure_words,
    joined,
    over,
)

# What a page says of a race on several types of nodes: how these differ, what a lap costs on each, and the nodes.

LIVE_ROWS = 12  # rows


def live_lanes(record: Record, progress: Progress, view: View) -> list[str]:
    """Return a running record: a row a lane with its step, its factor by the last look, and what it does now."""
    known = {lane.name: lane for lane in record.lanes}
    names = list(dict.fromkeys([*known, *progress.lanes]))
    if len(names) > LIVE_ROWS:  # of those that are tried one after another, the ones of this round
        names = [*progress.lanes][:LIVE_ROWS]
    rows: list[Row] = []
    for name in names:
        lane, doing = known.get(name), Cell(progress.lanes.get(name, ""), "quiet")
        if lane is None:
            rows.append(Row(row_name(name, record), None, (Cell(""), Cell(""), doing)))
            continue
        length = None if lane.items_per_s is None else over(1, lane.items_per_s.median)
        is_first = not any(row.length for row in rows)
        step_ = "" if lane.step_ms is None else step(lane.step_ms.median) + " a step" * is_first
        figures = (Cell(step_), Cell(_factor_so_far(lane, record)), doing)
        rows.append(Row(row_name(name, record), length, figures, failure_words(lane)))
    return live_page(joined([*record.trainings]), progress, rows, view)


def _factor_so_far(lane: LaneResult, record: Record) -> str:
    """Return a factor with the interval of the last look, but no verdict; before the first look, nothing."""
    found = next((comparison for comparison in record.answer.comparisons if comparison.lane == lane.name), None)
    if found is None or found.ends is None or found.pairs < FIRST_LOOK or found.same_work is False:
        return ""
    low, high = found.ends
    return f"{factor(found.ratio)}x ({factor(low, found.ratio)}-{factor(high, found.ratio)})"
