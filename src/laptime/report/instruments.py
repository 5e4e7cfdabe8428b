"""What each lane took of the machine: a table below the question's own, and once the reasons for what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.model.usage import Usage
from laptime.report.layout import Cell, Column, Row, flow, lay_out, wrap
from laptime.report.phrases import short_name
from laptime.report.usage_columns import NONE, UsageColumn, columns_of

Seen = tuple[LaneResult, Usage]


def instruments(record: Record, width: int, *, color: bool) -> list[str]:
    """Give the table, with the columns in which any lane has a figure."""
    lanes = watched_answers(record) if record.infer is not None else _watched(record)
    if not lanes:
        return []
    columns = [each for each in columns_of(record) if _is_told_by_any(each, lanes, record)]
    shown = [[_cell(each.figure(lane, usage, record)) for each in columns] for lane, usage in lanes]
    if not columns:
        return []
    reasons = [line for sentence in _reasons(record, lanes) for line in wrap(sentence, width, "  ")]
    rows = [
        Row((Cell(short_name(lane.name)), *map(Cell, cells))) for (lane, _), cells in zip(lanes, shown, strict=True)
    ]
    heads = [Column("while timed", least=14), *(Column(each.title) for each in columns)]
    table = lay_out(heads, rows, width, color=color)
    return [*(table or _as_sentences(columns, lanes, shown, width)), *reasons]


def _watched(record: Record) -> list[Seen]:
    return [(lane, lane.usage) for lane in record.lanes if lane.usage is not None]


def watched_answers(record: Record) -> list[Seen]:
    """Give each lane's single calls, and the batch size at which it answers most; memory is then that part's own."""
    assert record.infer is not None
    lanes = {lane.name: lane for lane in record.lanes}
    seen: list[Seen] = []
    for answers in record.infer.lanes:
        lane = replace(lanes[answers.lane], peak_memory_bytes=NONE, device_memory_bytes=NONE, lap_s=None)
        rates = {each.batch: each.items_per_s for each in answers.batches if each.items_per_s is not None}
        quickest = max(rates, key=lambda batch: rates[batch].median, default=None)
        for each in answers.usages:
            if each.batch is None:
                seen.append((replace(lane, name=f"{short_name(lane.name)}, single calls"), each.usage))
            elif each.batch == quickest:
                name = f"{short_name(lane.name)}, batch {each.batch}"
                seen.append((replace(lane, name=name, items_per_s=rates[each.batch]), each.usage))
    return seen


def _as_sentences(
    columns: Sequence[UsageColumn],
    lanes: Sequence[Seen],
    shown: Sequence[Sequence[str]],
    width: int,
) -> list[str]:
    lines: list[str] = []
    for (lane, _), cells in zip(lanes, shown, strict=True):
        parts = [f"{each.title} {cell}" for each, cell in zip(columns, cells, strict=True) if cell != "-"]
        lines += flow(parts, width, f"{short_name(lane.name)} while timed: ")
    return lines


def _reasons(record: Record, lanes: Sequence[Seen]) -> list[str]:
    """Say once why a column is empty everywhere that one would look for."""
    told: dict[str, list[str]] = {}
    for each in columns_of(record):
        figures = [each.figure(lane, usage, record) for lane, usage in lanes]
        missing = [figure for figure in figures if isinstance(figure, Missing)]
        if each.of and len(missing) == len(figures) and missing[0] != NONE:
            what = told.setdefault(missing[0].missing, [])
            what += [each.of] if each.of not in what else []
    return [f"- ({', '.join(what)}: {reason})" for reason, what in told.items()]


def _cell(figure: str | Missing) -> str:
    return "-" if isinstance(figure, Missing) else figure


def _is_told_by_any(column: UsageColumn, lanes: Sequence[Seen], record: Record) -> bool:
    return any(not isinstance(column.figure(lane, usage, record), Missing) for lane, usage in lanes)
