"""Whole trainings as tables for people: every lap, then every lane's total, its factor, and what it ended with."""

from __future__ import annotations

from laptime.model.missing import Missing
from laptime.model.protocol import FullRace, FullRun, LapFactor, LapResult
from laptime.model.record import LaneResult, Record
from laptime.report import afterwords, full_words
from laptime.report.figures import factor, step
from laptime.report.full_words import digits, lap_time
from laptime.report.instruments import instruments
from laptime.report.layout import Cell, Column, Row, lay_out, paint, wrap
from laptime.report.phrases import NOT_SAME, short_name
from laptime.report.published import published_line
from laptime.report.terminal import NARROWEST, closing_lines, header, proof_lines, quiet

LEAST_LANE = 14
LEAST_FACTOR = 12


def render(record: Record, width: int = 100, *, color: bool = False, kept: bool = True) -> str:
    """Give the whole report, at most `width` places wide; one that is `kept` ends with its id."""
    assert record.full is not None
    width = max(width, NARROWEST)
    lines = [*header(record, width, color=color), *_said([full_words.protocol(record)], width)]
    for run in record.full.runs:
        lines += _laps(run, record.full, width, color=color)
    lines += _totals(record, width, color=color)
    lines += instruments(record, width, color=color)
    lines += proof_lines(record, width)
    lines += full_words.failures(record, width)
    lines += _said(full_words.findings(record), width)
    lines += full_words.predictions(record, width)
    lines += _said(afterwords.remarks(record), width)
    lines += quiet([*full_words.beside(record, width), *afterwords.starts(record, width)], color=color)
    lines += full_words.wholes(record, width)
    lines += wrap(published_line(record, width), width, "  ")
    lines += _said([record.full.order + "."], width)
    lines += closing_lines(
        full_words.closing(record), width, full_words.saved(record) if kept else afterwords.NOT_SAVED
    )
    return "\n".join(line for line in lines if line) + "\n"


def _said(sentences: list[str], width: int) -> list[str]:
    return [line for sentence in sentences if sentence for line in wrap(sentence, width, "  ")]


def _laps(run: FullRun, full: FullRace, width: int, *, color: bool) -> list[str]:
    """Show one training lap by lap, or each lap as a sentence where no table fits."""
    title = [paint(line, "strong", color=color) for line in wrap(full_words.title(run, full), width, "  ")]
    if not run.laps:
        return title
    several = any(not isinstance(each.score.whole, Missing) for each in run.laps)
    validated = any(each.validation is not None for each in run.laps)
    columns = [
        Column("lap", right=True),
        Column("time", right=True),
        Column("step", right=True),
        Column("loss", right=True),
        Column("accuracy", right=True),
        *([Column("whole", right=True)] if several else []),
        *([Column("val. loss", right=True), Column("val. accuracy", right=True)] if validated else []),
        *([Column("whole", right=True)] if several and validated else []),
    ]
    rows = [_lap_row(each, several=several, validated=validated) for each in run.laps]
    table = lay_out(columns, rows, width, color=color)
    if table is None:
        table = _said([full_words.lap_words(each, full.protocol.laps) for each in run.laps], width)
    return [*title, *table]


def _lap_row(each: LapResult, *, several: bool, validated: bool) -> Row:
    seen = each.validation.score if each.validation else None
    cells = [
        str(each.number),
        lap_time(each.train_s),
        step(each.train_s * 1e3 / each.steps),
        digits(each.score.loss),
        digits(each.score.accuracy),
        *([digits(each.score.whole)] if several else []),
        *([digits(seen.loss if seen else None), digits(seen.accuracy if seen else None)] if validated else []),
        *([digits(seen.whole if seen else None)] if several and validated else []),
    ]
    return Row(tuple(Cell(text) for text in cells))


def _totals(record: Record, width: int, *, color: bool) -> list[str]:
    """Set the lanes side by side, the mean of their seeds; where there is no room, their losses stand below."""
    ends = full_words.ends(record)
    for with_loss in (True, False):
        columns = [
            Column("lane", least=LEAST_LANE),
            Column("total", right=True),
            Column("first lap", right=True),
            Column("later laps", right=True),
            Column("against first", least=LEAST_FACTOR),
            *([Column(f"{ends} loss", right=True)] if ends and with_loss else []),
            *([Column("accuracy", right=True)] if ends else []),
        ]
        rows = [_total_row(lane, record, ends=ends, with_loss=with_loss) for lane in record.lanes]
        table = lay_out(columns, rows, width, color=color)
        if table is not None:
            return table if with_loss or not ends else [*table, *full_words.losses(record, width)]
    titles = [column.title for column in columns]
    told = [zip(titles, (cell.text for cell in row.cells), strict=False) for row in rows]
    return [*_said([", ".join(f"{title} {text}" for title, text in row) for row in told], width),
            *full_words.losses(record, width)]  # fmt: skip


def _total_row(lane: LaneResult, record: Record, *, ends: str, with_loss: bool) -> Row:
    runs = full_words.trained(record, lane.name)
    name = Cell(short_name(lane.name))
    if not runs:
        return Row((name, Cell("DNF" if lane.status == "dnf" else "not trained", "bad")), spans=True)
    first = full_words.mean([run.laps[0].train_s for run in runs])
    later = full_words.mean([each.train_s for run in runs for each in run.laps if not each.fresh])
    cells = [
        name,
        _total(runs, record),
        Cell("-" if first is None else lap_time(first)),
        Cell("-" if later is None else lap_time(later)),
        _against(lane, record),
    ]
    if ends:
        loss, accuracy = full_words.end_of(record, lane.name) or (None, None)
        cells += [Cell(digits(loss)), Cell(digits(accuracy))] if with_loss else [Cell(digits(accuracy))]
    return Row(tuple(cells))


def _total(runs: list[FullRun], record: Record) -> Cell:
    """Give the time of all laps; a training that is not whole has none."""
    assert record.full is not None
    wanted = record.full.protocol.laps
    short = next((run for run in runs if full_words.kept(run) < wanted), None)
    if short is not None:
        return Cell(f"{full_words.kept(short)} of {wanted} laps", "bad")
    total = full_words.mean([run.train_s for run in runs])
    return Cell("-" if total is None else lap_time(total))


def _against(lane: LaneResult, record: Record) -> Cell:
    """Say by what factor the later laps differ from the first lane's, unless one of the two did other work."""
    assert record.full is not None
    found = next((each for each in record.full.factors if each.lane == lane.name), None)
    first = next((each for each in record.lanes if each.step_ms is not None), lane)
    if "differs" in {lane.parity.status, first.parity.status}:
        return Cell(NOT_SAME, "bad")
    if found is None:
        return Cell("1" if lane.name == first.name and len(record.lanes) > 1 else "-")
    return _factor(found)


def _factor(found: LapFactor) -> Cell:
    ratio, low, high = found.later_laps, found.low, found.high
    if isinstance(ratio, Missing):
        return Cell("-")
    word, size = ("faster", ratio) if ratio >= 1 else ("slower", 1 / ratio)
    if isinstance(low, Missing) or isinstance(high, Missing):
        return Cell(f"{factor(size)}x {word}")
    if low <= 1 <= high:
        return Cell(f"not distinguishable ({factor(low)}-{factor(high)})")
    ends = (low, high) if ratio >= 1 else (1 / high, 1 / low)
    return Cell(
        f"{factor(size)}x {word} ({factor(ends[0], size)}-{factor(ends[1], size)})", "good" if ratio > 1 else "bad"
    )
