"""Reports in Markdown and CSV, and in a terminal with bars and sparklines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from laptime.drawing.rows import longest_of
from laptime.model.figure import Bar, Bars, Chart, Factors, Figure, Plane, Report, Stack, Table, Turns
from laptime.pages.layout import clean, wrap
from laptime.pages.page import sparkline
from laptime.pages.words import escape_markdown
from laptime.visible import as_cell, cells_wide, visible

BAR, PLAIN_BAR = "█", "#"
NARROWEST = 40

Row = tuple[str, ...]


def as_markdown(reports: Sequence[Report]) -> str:
    """Return reports as Markdown, for a comment or a job's summary."""
    return "\n\n".join("\n".join(_markdown(each)) for each in reports) + "\n"


def _markdown(report: Report) -> list[str]:
    first, *others = report.answer or (report.title,)
    lines = [
        f"## {escape_markdown(first)}",
        "",
        *(f"**{escape_markdown(each)}**\n" for each in report.distrust),
        *(f"{escape_markdown(each)}\n" for each in (*others, *report.notes, report.done) if each),
    ]
    for each in report.figures:
        table = rows_of(each.chart)
        lines += [f"### {escape_markdown(each.title)}", "", *([escape_markdown(each.says), ""] if each.says else [])]
        lines += _markdown_table(table)
    return [
        *lines,
        f"    {' '.join(visible(report.command).split())}",
        "",
        escape_markdown(f"Record {report.id}, {report.started}."),
    ]


def _markdown_table(table: Table) -> list[str]:
    ruler = ["--:" if head.startswith("=") else "---" for head in table.heads]
    rows = [[head.removeprefix("=").removeprefix("`") for head in table.heads], ruler, *table.rows]
    told = [[cell if row is ruler else escape_markdown(cell) for cell in row] for row in rows]
    return [*(f"| {' | '.join(row)} |" for row in told), ""]


def as_csv(reports: Sequence[Report]) -> str:
    """Return every number that the reports draw, one row each: record, figure, curve or bar, and values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("record", "figure", "name", "x", "y", "low", "high", "unit"))
    for report in reports:
        for figure in report.figures:
            writer.writerows((report.id, as_cell(figure.title), *row) for row in _numbers(figure.chart))
    return out.getvalue()


def _numbers(chart: Chart) -> Iterable[tuple[object, ...]]:
    match chart:
        case Bars():
            for bar in (*chart.bars, *chart.reported):
                if bar.value is not None:
                    yield as_cell(bar.label), "", repr(bar.value), _end(bar.low), _end(bar.high), as_cell(chart.unit)
        case Factors():
            for each in chart.factors:
                name = as_cell(each.label)
                yield name, "", repr(each.value), _end(each.low), _end(each.high), "times"
                yield from ((name, number, repr(ratio), "", "", "times") for number, ratio in enumerate(each.rounds, 1))
        case Turns():
            for round_ in chart.rounds:
                for turn in round_.turns:
                    place = f"round {round_.number}: {turn.start_s!r} s"
                    yield as_cell(turn.label), place, repr(turn.ms), "", "", as_cell(chart.unit)
        case Plane():
            for curve in chart.curves:
                name, unit = as_cell(curve.label), as_cell(chart.up.label)
                yield from ((name, repr(x), repr(y), "", "", unit) for x, y in curve.points)
        case Stack():
            for label, parts in chart.rows:
                yield from (
                    (as_cell(f"{label}: {each.label}"), "", repr(each.share), "", "", "share") for each in parts
                )


def _end(value: float | None) -> str:
    return "" if value is None else repr(value)


def rows_of(chart: Chart) -> Table:
    """Return a chart as a table: bars and parts with their values, curves in a few numbers each."""
    match chart:
        case Table():
            return chart
        case Bars():
            rows: list[Row] = [
                (bar.label, "-" if bar.value is None else f"{bar.value:.4g}", _between(bar.low, bar.high), bar.words)
                for bar in (*chart.bars, *chart.reported)
            ]
            return Table(("", f"={chart.unit}", "between", ""), tuple(rows))
        case Factors():
            heads = ("", f"=times as fast as {chart.reference}", "between", "=rounds")
            told = [
                (each.label, f"{each.value:.4g}", _between(each.low, each.high), str(len(each.rounds)))
                for each in chart.factors
            ]
            return Table(heads, tuple(told))
        case Turns():
            return _turns(chart)
        case Stack():
            rows = [(label, each.label, f"{each.share:.1%}") for label, parts in chart.rows for each in parts]
            return Table(("", "part", "=share"), tuple(rows))
        case Plane():
            return _curves(chart)


def _turns(turns: Turns) -> Table:
    """Return a row a round: the middle turn of each lane, and the factors."""
    rows = []
    for each in turns.rounds:
        of = {label: sorted(turn.ms for turn in each.turns if turn.label == label) for label in turns.labels}
        told = [f"{found[len(found) // 2]:.4g}" if found else "-" for found in of.values()]
        factors = dict(each.factors)
        told += [f"{factors[row.label]:.3g}x" if row.label in factors else "-" for row in turns.factors.factors]
        rows.append((str(each.number), *told))
    heads = (
        *(f"={label}, {turns.unit}" for label in turns.labels),
        *(f"={row.label}" for row in turns.factors.factors),
    )
    return Table(("round", *heads), tuple(rows))


def _between(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def _curves(plane: Plane) -> Table:
    rows = []
    for label, curves in plane.by_label().items():
        values = sorted(value for curve in curves for _, value in curve.points)
        if values:
            told = (f"{each:.4g}" for each in (values[0], values[len(values) // 2], values[-1]))
            count = sum(max(curve.of_points, len(curve.points)) for curve in curves)
            rows.append((label, f"{count:,}", *told))
    return Table(("curve", "=points", "=lowest", f"=middle {plane.up.label}", "=highest"), tuple(rows))


def as_charts(report: Report, width: int, *, blocks: bool) -> str:
    """Return a report's charts for a terminal: bars, and a sparkline for each curve. Tables are on the page."""
    width = max(width, NARROWEST)
    lines = [line for each in report.figures for line in _figure(each, width, blocks=blocks)]
    return "\n".join(lines).rstrip("\n")


def _figure(figure: Figure, width: int, *, blocks: bool) -> list[str]:
    match figure.chart:
        case Bars():
            lines = _bars(figure.chart, width, blocks=blocks)
        case Factors():
            rows = tuple(Bar(each.label, each.value, each.low, each.high, each.words) for each in figure.chart.factors)
            lines = _bars(Bars("times", rows), width, blocks=blocks)
        case Turns():
            lines = _rounds(figure.chart, width, blocks=blocks)
        case Plane():
            lines = _sparks(figure.chart, width, blocks=blocks)
        case Stack():
            lines = _bars(_parts_as_bars(figure.chart), width, blocks=blocks)
        case Table():
            return []
    return [*wrap(clean(figure.title), width, "  "), *(f"  {line}" for line in lines), ""]


def _rounds(turns: Turns, width: int, *, blocks: bool) -> list[str]:
    """Return a line a lane: its turns in their order, on one scale."""
    told = [(label, [turn.ms for each in turns.rounds for turn in each.turns if turn.label == label])
            for label in turns.labels]  # fmt: skip
    values = [value for _, each in told for value in each]
    if not values:
        return []
    names = min(max(cells_wide(clean(label)) for label, _ in told), width // 3)
    room = max(width - names - 30, 8)
    low, high = min(values), max(values)
    return [f"{_cut(clean(label), names)}  {_spark(each, low, high, room, blocks=blocks)}" for label, each in told]


def _parts_as_bars(stack: Stack) -> Bars:
    several = len(stack.rows) > 1
    return Bars(
        "share",
        tuple(
            Bar(f"{label}: {part.label}" if several else part.label, part.share, words=f"{part.share:.1%}")
            for label, parts in stack.rows
            for part in parts
        ),
    )


def _bars(bars: Bars, width: int, *, blocks: bool) -> list[str]:
    longest, mark = longest_of(bars), BAR if blocks else PLAIN_BAR
    names = max((cells_wide(clean(bar.label)) for bar in bars.bars), default=0)
    names, room = min(names, width // 3), max(width // 3, 8)
    lines = []
    for bar in bars.bars:
        name = _cut(clean(bar.label), names)
        if bar.value is None:
            lines += wrap(f"{name}  {clean(bar.words)}", width - 2, "  ")
            continue
        filled = mark * max(1, round(room * bar.value / longest))
        told = clean(bar.words) or f"{bar.value:.4g} {bars.unit}"
        lines.append(f"{name}  {filled}{' ' * (room - len(filled))}  {_cut(told, width - names - room - 6, pad=False)}")
    return lines


def _sparks(plane: Plane, width: int, *, blocks: bool) -> list[str]:
    """Return a line a curve; those of one plane share their scale."""
    drawn = {
        label: [value for curve in curves for _, value in curve.points] for label, curves in plane.by_label().items()
    }
    drawn = {label: values for label, values in drawn.items() if values}
    values = [value for each in drawn.values() for value in each]
    if not values:
        return []
    low, high = min(values), max(values)
    names = min(max(cells_wide(clean(label)) for label in drawn), width // 3)
    room = max(width - names - 30, 8)
    told = f"{low:.4g} to {high:.4g} {clean(plane.up.label)}, over {clean(plane.across.label)}"
    named = [(_cut(clean(label), names), values) for label, values in drawn.items()]
    lines = [f"{name}  {_spark(values, low, high, room, blocks=blocks)}" for name, values in named]
    return [*lines, *wrap(told, width - 2, "  ")]


def _spark(values: Sequence[float], low: float, high: float, room: int, *, blocks: bool) -> str:
    columns = min(room, len(values))
    cut = [values[len(values) * each // columns : len(values) * (each + 1) // columns] for each in range(columns)]
    middles = [sorted(each)[len(each) // 2] for each in cut]
    span = high - low or 1.0
    return sparkline([(each - low) / span for each in middles], blocks=blocks)


def _cut(told: str, cells: int, *, pad: bool = True) -> str:
    if cells_wide(told) > cells:
        while told and cells_wide(told) > cells - 1:
            told = told[:-1]
        told += "~"
    return told + " " * (cells - cells_wide(told)) if pad else told
