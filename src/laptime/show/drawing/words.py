"""Reports in Markdown and CSV, and in a terminal with bars and sparklines."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest

from laptime.model.figure import (
    Bar,
    Bars,
    Chart,
    Factors,
    Gantt,
    Plane,
    Report,
    Stack,
    Table,
    Turns,
    are_far_apart,
)
from laptime.model.quantities import number
from laptime.model.visible import as_cell, cells_wide, visible
from laptime.show.drawing.rows import longest_of
from laptime.show.drawing.svg import Scale
from laptime.show.pages.layout import clean, padded, wrap
from laptime.show.pages.page import NARROWEST, sparkline
from laptime.show.pages.words import escape_markdown

BLOCK_SIGN = "█"
PLAIN_BAR = "#"
FENCED = 96  # cells of a line in Markdown
TABLE_POINTS_MOST = 40  # of curves, each of which is a line
HAS_ENDS = re.compile(r"±|\d-\d|to -?\d|varies|no interval")  # words that already say how sure a figure is

TextRow = tuple[str, ...]


def as_markdown(reports: Sequence[Report]) -> str:
    """Return reports as Markdown, for a comment or a job's summary."""
    pages = []
    for report in reports:
        first, *others = report.answer or (report.title,)
        lines = [f"## {escape_markdown(first)}", ""]
        lines += [f"**{escape_markdown(why)}**\n" for why in report.distrust]
        lines += [f"{escape_markdown(words)}\n" for words in (*others, *report.notes, report.done) if words]
        for figure in report.figures:
            lines += [f"### {escape_markdown(figure.title)}", ""]
            if figure.says:
                lines += [escape_markdown(figure.says), ""]
            picture = [] if figure.more else _chart(figure.chart, FENCED, blocks=True)
            if picture:  # a block of code, which none of its lines can end
                drawn = [visible(line).rstrip() for line in picture]
                longest = max((len(ticks) for line in drawn for ticks in re.findall("`+", line)), default=0)
                fence = "`" * max(longest + 1, 3)
                lines += [f"{fence}text", *drawn, fence, ""]
            # A sparkline has no figures
            if not picture or (isinstance(figure.chart, Plane) and not _points(figure.chart)):
                table = rows_of(figure.chart)
                heads = [escape_markdown(head.removeprefix("=").removeprefix("`")) for head in table.heads]
                ruler = ["--:" if head.startswith("=") else "---" for head in table.heads]
                rows = [[escape_markdown(cell) for cell in row] for row in table.rows]
                lines += [*(f"| {' | '.join(row)} |" for row in (heads, ruler, *rows)), ""]
        lines += [f"    {visible(report.command)}", "", escape_markdown(f"Record {report.id}, {report.started}.")]
        pages.append("\n".join(lines))
    return "\n\n".join(pages) + "\n"


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
            for factor in chart.factors:
                name = as_cell(factor.label)
                yield name, "", repr(factor.value), _end(factor.low), _end(factor.high), "times"
                yield from (
                    (name, round_, repr(ratio), "", "", "times") for round_, ratio in enumerate(factor.rounds, 1)
                )
        case Turns():
            unit = as_cell(chart.unit)
            yield from (
                (as_cell(turn.label), f"round {round_.number}: {turn.start_s!r} s", repr(turn.ms), "", "", unit)
                for round_ in chart.rounds
                for turn in round_.turns
            )
        case Plane():
            for curve in chart.curves:
                name = as_cell(curve.label)
                unit = as_cell(chart.up.label)
                for (x, y), ends in zip_longest(curve.points, curve.ends[: len(curve.points)]):
                    yield name, repr(x), repr(y), *map(_end, ends or (None, None)), unit
        case Stack():
            for label, parts in chart.rows:
                yield from (
                    (as_cell(f"{label}: {part.label}"), "", repr(part.share), _end(part.low), _end(part.high), "share")
                    for part in parts
                )
        case Gantt():
            unit = as_cell(chart.unit)
            yield from (
                (as_cell(row.label), repr(span.start), repr(span.end - span.start), "", "", unit)
                for row in chart.rows
                for span in row.spans
            )


def _end(value: float | None) -> str:
    return "" if value is None else repr(value)


def rows_of(chart: Chart) -> Table:
    """Return a chart as a table: bars and parts with their values, curves in a few numbers each."""
    match chart:
        case Table():
            return chart
        case Bars():
            rows: list[TextRow] = [
                (bar.label, "-" if bar.value is None else f"{bar.value:.4g}", _between(bar.low, bar.high), bar.words)
                for bar in (*chart.bars, *chart.reported)
            ]
            return Table(("", f"={chart.unit}", "between", ""), tuple(rows))
        case Factors():
            heads = ("", f"=times as fast as {chart.reference}", "between", "=rounds")
            rows = [
                (factor.label, f"{factor.value:.4g}", _between(factor.low, factor.high), str(len(factor.rounds)))
                for factor in chart.factors
            ]
            return Table(heads, tuple(rows))
        case Turns():
            return _turns(chart)
        case Stack():
            rows = [
                (label, part.label, f"{part.share:.1%}", _between(part.low, part.high))
                for label, parts in chart.rows
                for part in parts
            ]
            return Table(("", "part", "=share", "between"), tuple(rows))
        case Gantt():
            heads = ("", f"=from {chart.unit}", f"=to {chart.unit}", f"={chart.unit}")
            rows = [
                (row.label, f"{span.start:.4g}", f"{span.end:.4g}", f"{span.end - span.start:.4g}")
                for row in chart.rows
                for span in row.spans
            ]
            return Table(heads, tuple(rows))
        case Plane():
            rows = []
            for label, curves in chart.by_label().items():
                values = sorted(value for curve in curves for _, value in curve.points)
                if values:
                    count = sum(max(curve.of_points, len(curve.points)) for curve in curves)
                    shown = (values[0], values[len(values) // 2], values[-1])
                    rows.append((label, f"{count:,}", *(f"{value:.4g}" for value in shown)))
            return Table(("curve", "=points", "=lowest", f"=middle {chart.up.label}", "=highest"), tuple(rows))


def _turns(turns: Turns) -> Table:
    """Return a row a round: the middle turn of each lane, and the factors."""
    rows = []
    for round_ in turns.rounds:
        of = {label: sorted(turn.ms for turn in round_.turns if turn.label == label) for label in turns.labels}
        cells = [f"{found[len(found) // 2]:.4g}" if found else "-" for found in of.values()]
        factors = dict(round_.factors)
        cells += [f"{factors[row.label]:.3g}x" if row.label in factors else "-" for row in turns.factors.factors]
        rows.append((str(round_.number), *cells))
    heads = (
        *(f"={label}, {turns.unit}" for label in turns.labels),
        *(f"={row.label}" for row in turns.factors.factors),
    )
    return Table(("round", *heads), tuple(rows))


def _between(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def as_charts(report: Report, width: int, *, blocks: bool) -> str:
    """Return a report's charts for a terminal: bars, and a sparkline for each curve. Tables are on the page."""
    width = max(width, NARROWEST)
    lines = []
    for figure in report.figures:
        if not isinstance(figure.chart, Table):
            lines += wrap(clean(figure.title), width, "  ")
            lines += [f"  {line}" for line in _chart(figure.chart, width, blocks=blocks)]
            lines.append("")
    return "\n".join(lines).rstrip("\n")


def _chart(chart: Chart, width: int, *, blocks: bool) -> list[str]:
    """Return a chart in lines of words and blocks; none for a table."""
    match chart:
        case Bars():
            return _bars(chart, width, blocks=blocks)
        case Factors():
            rows = [Bar(factor.label, factor.value, factor.low, factor.high, factor.words) for factor in chart.factors]
            return _around_one(rows, width, blocks=blocks)
        case Turns():
            turns = [turn for round_ in chart.rounds for turn in round_.turns]
            of_lanes = {label: [turn.ms for turn in turns if turn.label == label] for label in chart.labels}
            return _sparks(of_lanes, width, blocks=blocks)
        case Plane():
            points = _points(chart)
            if points and chart.at == 1.0:
                return _around_one(points, width, blocks=blocks)
            unit = chart.up.label
            if points:
                bars = Bars(unit, tuple(points), is_log=chart.up.is_log and are_far_apart(points))
                return [*_bars(bars, width, blocks=blocks), *wrap(f"in {clean(unit)}", width - 2, "  ")]
            return _curves_as_sparks(chart, width, blocks=blocks)
        case Stack():
            several = len(chart.rows) > 1
            shares = [
                Bar(f"{label}: {part.label}" if several else part.label, part.share, part.low, part.high, part.words)
                for label, parts in chart.rows
                for part in parts
            ]
            return _bars(Bars("share", tuple(shares)), width, blocks=blocks)
        case Gantt():
            return _gantt(chart, width, blocks=blocks)
        case Table():
            return []


def _gantt(chart: Gantt, width: int, *, blocks: bool) -> list[str]:
    """Return a line a row: blocks where it was done, on one clock."""
    names = min(max((cells_wide(clean(row.label)) for row in chart.rows), default=0), width // 3)
    room = max(width - names - 30, 8)
    mark = BLOCK_SIGN if blocks else PLAIN_BAR
    words_most = min(24, max(width - names - room - 8, 8))
    lines = []
    for row in chart.rows:
        cells = [" "] * room
        for span in row.spans:
            first = min(int(room * span.start / chart.length), room - 1)
            last = max(round(room * span.end / chart.length), first + 1)
            cells[first:last] = mark * (min(last, room) - first)
        head, *rest = wrap(clean(row.words), words_most) or [""]
        drawn = [f"{''.join(cells)}  {head}", *(" " * (room + 2) + line for line in rest)]
        lines += _named(clean(row.label), names, drawn, width)
    return lines


def _points(plane: Plane) -> list[Bar]:
    """Return the points of a plane as bars, where they are few and have intervals; else none."""
    if (
        not any(curve.ends for curve in plane.curves)
        or sum(len(curve.points) for curve in plane.curves) > TABLE_POINTS_MOST
    ):
        return []
    found = []
    for curve in plane.curves:
        for (x, y), ends in zip_longest(curve.points, curve.ends[: len(curve.points)]):
            low, high = ends or (None, None)
            found.append(Bar(f"{curve.label}, {plane.across.label} {x:g}", y, low, high, number(y)))
    return found


def _around_one(rows: Sequence[Bar], width: int, *, blocks: bool) -> list[str]:
    """Return factors on one logarithmic scale: the estimate, its interval around it, and a line at 1."""
    known = [(row, row.value) for row in rows if row.value is not None and 0 < row.value < math.inf]
    if not known:
        return []
    ends = [end for row, value in known for end in (1.0, value, row.low, row.high) if end and 0 < end < math.inf]
    scale = Scale(math.log10(min(ends)), math.log10(max(ends)) + 1e-9, is_log=True)
    mark, band, one = ("█", "─", "│") if blocks else ("#", "-", "|")

    def picture(row: Bar, room: int) -> str:
        cells = [" "] * room

        def place(value: float) -> int:
            return min(max(int(room * scale.share(value)), 0), room - 1)

        if row.low and row.high:
            first = place(row.low)
            last = place(min(row.high, max(ends)))
            cells[first : last + 1] = band * (last + 1 - first)
        cells[place(1.0)] = one
        cells[place(row.value or 1.0)] = mark
        return "".join(cells)

    return _lines([(row, picture) for row, _ in known], "times", width)


def _bars(bars: Bars, width: int, *, blocks: bool) -> list[str]:
    longest = longest_of(bars)
    mark = BLOCK_SIGN if blocks else PLAIN_BAR
    shortest = min((bar.value for bar in bars.bars if bar.value is not None and bar.value > 0), default=longest) / 3

    def picture(bar: Bar, room: int) -> str:
        value = bar.value or 0.0
        if bars.is_log and 0 < shortest < longest:
            share = math.log(max(value, shortest) / shortest) / math.log(longest / shortest)
        else:
            share = value / longest
        return mark * max(1, round(room * share))

    return _lines([(bar, picture) for bar in bars.bars], bars.unit, width)


def _lines(rows: Sequence[tuple[Bar, Callable[[Bar, int], str]]], unit: str, width: int) -> list[str]:
    """Return a line a row: its label, its picture, its words. A label that is too long has a line of its own."""
    most = width // 3
    room = max(most, 8)
    names = max((wide for bar, _ in rows if (wide := cells_wide(clean(bar.label))) <= most), default=0)
    lines = []
    for bar, picture in rows:
        if bar.value is None:
            lines += wrap(f"{padded(clean(bar.label), names)}  {clean(bar.words)}", width - 2, "  ")
            continue
        words = clean(bar.words) or f"{bar.value:.4g} {unit}"
        if bar.low is not None and bar.high is not None and not HAS_ENDS.search(words):
            words += f" ({number(bar.low)}-{number(bar.high)})"
        first, *rest = wrap(words, width - names - room - 6)
        drawn = [f"{picture(bar, room).ljust(room)}  {first}", *(" " * (room + 2) + line for line in rest)]
        lines += _named(clean(bar.label), names, drawn, width)
    return lines


def _curves_as_sparks(plane: Plane, width: int, *, blocks: bool) -> list[str]:
    """Return a line a curve, and the range of their scale."""
    drawn = {
        label: [value for curve in curves for _, value in curve.points] for label, curves in plane.by_label().items()
    }
    drawn = {label: values for label, values in drawn.items() if values}
    everything = [value for values in drawn.values() for value in values]
    if not everything:
        return []
    extent = f"{min(everything):.4g} to {max(everything):.4g} {clean(plane.up.label)}, over {clean(plane.across.label)}"
    return [*_sparks(drawn, width, blocks=blocks), *wrap(extent, width - 2, "  ")]


def _sparks(rows: Mapping[str, Sequence[float]], width: int, *, blocks: bool) -> list[str]:
    """Return a line a name with its values in their order, all on one scale; none where no name has a value."""
    everything = [value for values in rows.values() for value in values]
    if not everything:
        return []
    low = min(everything)
    span = max(everything) - low or 1.0
    names = min(max(cells_wide(clean(label)) for label in rows), width // 3)
    room = max(width - names - 30, 8)
    lines = []
    for label, values in rows.items():
        columns = min(room, len(values))
        cuts = [len(values) * column // columns for column in range(columns)] + [len(values)]
        middles = [sorted(values[begin:end])[(end - begin) // 2] for begin, end in pairwise(cuts)]
        spark = sparkline([(middle - low) / span for middle in middles], blocks=blocks)
        lines += _named(clean(label), names, [spark], width)
    return lines


def _named(name: str, cells: int, lines: Sequence[str], width: int) -> list[str]:
    """Put a name of at most N cells before the first of these lines, or a longer one on lines above them."""
    if cells_wide(name) <= cells:
        return [f"{padded(name if number == 0 else '', cells)}  {line}".rstrip() for number, line in enumerate(lines)]
    return [*wrap(name, width - 2, "  "), *(f"{'':{cells}}  {line}".rstrip() for line in lines)]
