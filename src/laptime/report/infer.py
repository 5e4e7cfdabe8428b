"""Inference as tables for people: one item's latency, throughput by batch, and what the first answer is made of."""

from __future__ import annotations

from laptime.model.missing import Missing
from laptime.model.record import InferLane, Record
from laptime.report import afterwords, infer_words
from laptime.report.figures import number, step
from laptime.report.infer_words import answers_of, latency_words, part_words
from laptime.report.instruments import instruments
from laptime.report.layout import Cell, Column, Row, lay_out, wrap
from laptime.report.phrases import short_name
from laptime.report.terminal import NARROWEST, closing_lines, header, quiet

LEAST_LANE = 14
LEAST_FACTOR = 12


def render(record: Record, width: int = 100, *, color: bool = False, kept: bool = True) -> str:
    """Give the whole report, at most `width` places wide; one that is `kept` ends with its id."""
    width = max(width, NARROWEST)
    lines = [*header(record, width, color=color), *wrap(infer_words.HOW, width, "  ")]
    lines += _latency(record, width, color=color)
    lines += _throughput(record, width, color=color)
    lines += infer_words.batch_factors(record, width)
    lines += _waits(record, width, color=color)
    lines += instruments(record, width, color=color)
    lines += infer_words.same_answers(record, width)
    lines += infer_words.failures(record, width)
    lines += infer_words.left_out(record, width)
    lines += [line for said in infer_words.remarks(record) for line in wrap(said, width, "  ")]
    lines += quiet(wrap(infer_words.published(record), width, "  "), color=color)
    saved = afterwords.saved(record) if kept else afterwords.NOT_SAVED
    lines += closing_lines(infer_words.closing(record), width, saved)
    return "\n".join(line for line in lines if line) + "\n"


def _latency(record: Record, width: int, *, color: bool) -> list[str]:
    """Show the percentiles of single calls, and the factor between their medians."""
    columns = [
        Column("lane", least=LEAST_LANE),
        Column("p50", right=True),
        Column("p95", right=True),
        Column("p99", right=True),
        Column("against first", least=LEAST_FACTOR),
    ]
    rows = []
    for lane in answers_of(record).lanes:
        figures = [latency_words(lane.p50_ms), latency_words(lane.p95_ms), latency_words(lane.p99_ms)]
        rows.append(_row(lane, [*map(Cell, figures), infer_words.against(record, lane.lane, None)]))
    return _table("latency of one call", columns, rows, width, color=color)


def _throughput(record: Record, width: int, *, color: bool) -> list[str]:
    """Show items per second by batch size."""
    lanes = answers_of(record).lanes
    sizes = sorted({each.batch for lane in lanes for each in lane.batches})
    if not sizes:
        return []
    columns = [Column("lane", least=LEAST_LANE), *(Column(f"batch {size}", right=True) for size in sizes)]
    rows = [_row(lane, [_rate(lane, size) for size in sizes]) for lane in lanes]
    return _table(f"{record.workload.items}/s", columns, rows, width, color=color)


def _rate(lane: InferLane, size: int) -> Cell:
    found = next((each for each in lane.batches if each.batch == size), None)
    if found is None:
        return Cell("-")
    if found.items_per_s is not None:
        return Cell(number(found.items_per_s.median))
    return Cell("left out" if (found.reason or "").startswith(("left out", "not tried")) else "DNF", "bad")


def _waits(record: Record, width: int, *, color: bool) -> list[str]:
    """Show what one who starts a program for one answer waits for, and for each answer after it."""
    columns = [
        Column("lane", least=LEAST_LANE),
        Column("process", right=True),
        Column("import", right=True),
        Column("network", right=True),
        Column("first call", right=True),
        Column("first answer", right=True),
        Column("a further one", right=True),
    ]
    rows = []
    for lane in answers_of(record).lanes:
        wait = lane.wait
        if wait is not None:
            parts = [wait.process_s, wait.import_s, wait.network_s, wait.first_call_s, wait.first_answer_s]
            further = wait.further_call_s
            last = "-" if isinstance(further, Missing) else step(further * 1e3)
            rows.append(_row(lane, [*(Cell(part_words(each)) for each in parts), Cell(last)]))
    return _table("who starts a program for one answer waits", columns, rows, width, color=color) if rows else []


def _row(lane: InferLane, cells: list[Cell]) -> Row:
    name = Cell(short_name(lane.lane))
    if not infer_words.has_answers(lane.heats) and lane.wait is None:
        return Row((name, Cell("DNF" if lane.heats else "not asked yet", "bad")), spans=True)
    return Row((name, *cells))


def _table(title: str, columns: list[Column], rows: list[Row], width: int, *, color: bool) -> list[str]:
    """Set a table below its title, or each row as a sentence where no table fits."""
    lines = lay_out(columns, rows, width, color=color)
    if lines is None:
        titles = [column.title for column in columns]
        told = [zip(titles, (cell.text for cell in row.cells), strict=False) for row in rows]
        said = [", ".join(text if name == "lane" else f"{name} {text}" for name, text in row) for row in told]
        lines = [line for sentence in said for line in wrap(sentence, width, "  ")]
    return [*wrap(f"{title}:", width, "  "), *lines]
