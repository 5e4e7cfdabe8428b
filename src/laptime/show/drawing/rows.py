"""Charts of rows as SVG at any width: bars with whiskers, factors around 1, and the turns of lanes on one clock.

A page has each of them twice, drawn for a wide and for a narrow screen, so that words keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from laptime.model.figure import (
    Bar,
    Bars,
    Factors,
    Gantt,
    RowsChart,
    ShownFactor,
    Stack,
    Turns,
)
from laptime.model.visible import cells_wide
from laptime.show.drawing.svg import SERIES_COLOURS, Scale, linear_ticks, safe
from laptime.show.pages.layout import clean, wrap

CELL = 7.5  # pixels that a letter takes, in words of 14 pixels
WIDE_CELL = 8.6  # at most, in whole sentences: a wide font fits into the page, too
BOLD_CELL = 8.6  # in bold ones
SMALL_CELL = 7.4  # and in those of 12 pixels
LABELS_MOST = 0.28  # share of the width
WORDS_MOST = 0.34
BAR_HEIGHT = 18
ROW_GAP = 10
LINE_HEIGHT = 17
EDGE_PIXELS = 12  # pixels that are left free at both ends of an axis
TICK_UNITS = {"s", "ms", "us", "W", "J", "GB", "%"}  # a unit's first word, if it belongs at each tick
PARTS_ROUNDING = 0.01  # parts of a whole may come to this much more or less
NICE = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
TICK_LEAST = 44  # pixels between the words of two ticks
TURNS_HIGH = 110
FACTORS_HIGH = 64
BETWEEN_ROUNDS = 14
OF_KIND = {"": 1, "kept": 1, "left": 0, "confirmed": 3}  # the colour of a factor that is no lane
TURNS_FAR_APART = 6.0  # times from the fastest to the slowest turn; beyond, turns are on a logarithmic scale
Colours = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """What is inside an SVG of this size."""

    inside: str
    width: int
    height: int


def draw(chart: RowsChart, width: int, colours: Colours) -> Picture:
    """Return a chart at a width; `colours` has the number of each lane's colour."""
    match chart:
        case Bars():
            return _draw_bars(chart, width, colours)
        case Factors():
            return _draw_factors(chart, width, colours)
        case Turns():
            return _draw_turns(chart, width, colours)
        case Stack():
            return _draw_stack(chart, width)
        case Gantt():
            return _draw_gantt(chart, width)


def colour_of(label: str, colours: Colours) -> int:
    """Return the number of a lane's colour; what is no lane has that of the first."""
    return colours.get(label, 0) % SERIES_COLOURS


# Bars: a label, a bar from 0 with its whisker, and its words; where labels are long, these have lines of their own.


def _draw_bars(bars: Bars, width: int, colours: Colours) -> Picture:
    labels, right = _columns([(bar.label, bar.words) for bar in bars.bars], width)
    left = labels or 0
    scale = _length_scale(bars, width - left - (right if labels else EDGE_PIXELS))
    top = 4
    y = top
    inside: list[str] = []
    for bar in bars.bars:
        if not labels:  # label and words above the bar
            lines = _lines(f"{bar.label}: {bar.words}" if bar.words else bar.label, width, WIDE_CELL)
            inside += _stacked(0, y + 13, lines, "b")
            y += LINE_HEIGHT * len(lines) + 2
        elif bar.value is None:
            lines = _lines(bar.words, width - left, BOLD_CELL)
            inside += [_text(0, y + 14, bar.label, "b"), *_stacked(left, y + 14, lines, "v bad")]
            y += max(LINE_HEIGHT * (len(lines) - 1), 0)
        if bar.value is None:
            y += (BAR_HEIGHT + ROW_GAP) if labels else ROW_GAP
            continue
        end, shapes = _bar(bar, left, y, scale.length, f"f{colour_of(bar.lane, colours)}")
        if labels:
            lines = _lines(bar.words, int(width - end - 8), BOLD_CELL)
            inside += [_text(0, y + 14, bar.label, "b"), shapes, *_stacked(end + 8, y + 14, lines, "v")]
            y += LINE_HEIGHT * (len(lines) - 1 if lines else 0)
        else:
            inside.append(shapes)
        y += BAR_HEIGHT + ROW_GAP
    if all(bar.value is None for bar in bars.bars) and not bars.reported:
        return Picture("".join(inside), width, y)  # words alone: a scale would be of nothing
    unit = bars.unit.split(" ")[0] if bars.unit.split(" ")[0] in TICK_UNITS else ""
    ticks = [(left + length, f"{words} {unit}".rstrip()) for length, words in scale.ticks]
    inside = [*_grid(ticks, top, y - 6), *inside, *_tick_words(ticks, y + 10, width)]
    y += 18
    if bars.is_log:
        inside.append(_scale_words(bars.unit, y + 7, width))
        y += 14
    if bars.reported:
        strip = _draw_reported(bars, width, colours, y)
        return Picture("".join(inside) + strip.inside, width, strip.height)
    return Picture("".join(inside), width, y)


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long the bar of a value is, and where the ticks are."""

    length: Callable[[float], float]
    ticks: list[tuple[float, str]]


def _length_scale(bars: Bars, space: float) -> Lengths:
    """Return the scale of bars: from 0, or from a third of the shortest where it is logarithmic."""
    longest = longest_of(bars)
    values = [bar.value for bar in bars.bars if bar.value is not None and bar.value > 0]
    if not bars.is_log or not values:
        ticks = [(space * place / longest, words) for place, words in linear_ticks(0.0, longest) if place <= longest]
        return Lengths(lambda value: space * value / longest, ticks)
    scale = Scale(math.log10(min(values) / 3), math.log10(longest), is_log=True)
    ticks = [(space * (place - scale.low) / (scale.high - scale.low), words) for place, words in scale.ticks()]
    return Lengths(lambda value: space * max(scale.share(value), 0.0) if value > 0 else 0.0, ticks)


def longest_of(bars: Bars) -> float:
    """Return the value that takes the whole width."""
    ends = [end for bar in bars.bars for end in (bar.value, bar.high) if end is not None and math.isfinite(end)]
    return max(ends, default=1.0) or 1.0


def _bar(bar: Bar, left: float, y: float, length: Callable[[float], float], kind: str) -> tuple[float, str]:
    """Return where the bar and its whisker end, and both."""
    assert bar.value is not None
    end = left + length(bar.value)
    whisker = ""
    data = f'data-value="{bar.value!r}"'
    if bar.low is not None and bar.high is not None:
        low = left + length(max(bar.low, 0.0))
        high = left + length(bar.high)
        whisker = (
            f'<path class="whisker" d="M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 4}v10M{high:.1f} {y + 4}v10"/>'
        )
        data += f' data-low="{bar.low!r}" data-high="{bar.high!r}"'
        end = max(end, high)
    place = f'x="{left:g}" y="{y}" width="{length(bar.value):.2f}" height="{BAR_HEIGHT}"'
    title = safe(f"{bar.label}: {bar.words}")
    return end, f'<rect class="bar {kind} {bar.kind}" {data} {place}><title>{title}</title></rect>{whisker}'


def _columns(rows: Iterable[tuple[str, str]], width: int) -> tuple[int, int]:
    """Return how wide labels and words are; 0 for both where lines of their own are better."""
    rows = list(rows)
    labels = max((cells_wide(clean(label)) for label, _ in rows), default=0) * CELL + 14
    right = max((cells_wide(clean(words)) for _, words in rows), default=0) * BOLD_CELL + 20
    if labels > LABELS_MOST * width or width < 500:
        return 0, 0
    return int(labels), int(min(right, WORDS_MOST * width))


def _draw_reported(bars: Bars, width: int, colours: Colours, top: int) -> Picture:
    """Return what others reported as hollow dots on a logarithmic strip, with the measured ones filled."""
    reported = sorted((bar.value, bar.label, bar.words) for bar in bars.reported if bar.value)
    measured = [(bar.value, bar.lane) for bar in bars.bars if bar.value]
    scale = _log_scale([value for value, *_ in reported] + [value for value, _ in measured], 0.06)
    inside = [_text(0, top + 14, "others reported, on a logarithmic scale:", "t")]
    rows: list[float] = []  # where the words in each row end
    placed = []
    for value, label, words in reported:
        brief = f"{label} {words}"
        half = cells_wide(brief) * SMALL_CELL / 2
        x = EDGE_PIXELS + (width - 2 * EDGE_PIXELS) * scale.share(value)
        begin = min(max(x - half, 0.0), max(width - 2 * half, 0.0))
        row = 0
        while row < len(rows) and rows[row] + 8 >= begin:
            row += 1
        rows[row : row + 1] = [begin + 2 * half]
        placed.append((x, begin, row, brief, value, label))
    line = top + 26 + 15 * len(rows)
    inside.append(f'<path class="grid" d="M0 {line}H{width}"/>')
    for x, begin, row, brief, value, label in placed:
        y = line - 10 - 15 * row
        cut = brief if cells_wide(brief) * SMALL_CELL <= width else brief[: int(width / SMALL_CELL) - 1] + "~"
        inside.append(_text(begin, y, cut, "t"))
        inside.append(f'<path class="grid" d="M{x:.1f} {y + 3}V{line}"/>')
        inside.append(
            f'<circle class="reported" data-value="{value!r}" cx="{x:.1f}" cy="{line}" r="4">'
            f"<title>{safe(label)}</title></circle>"
        )
    for value, label in measured:
        x = EDGE_PIXELS + (width - 2 * EDGE_PIXELS) * scale.share(value)
        inside.append(f'<circle class="f{colour_of(label, colours)}" cx="{x:.1f}" cy="{line}" r="4"/>')
    return Picture("".join(inside), width, line + 12)


# Factors: a row a lane, around a line at 1.


def _draw_factors(factors: Factors, width: int, colours: Colours) -> Picture:
    rows = factors.factors
    labels, right = _columns([(row.label, row.words) for row in rows], width)
    left = labels or EDGE_PIXELS
    space = width - left - (right if labels else EDGE_PIXELS) - (EDGE_PIXELS if labels else 0)
    ends = [end for row in rows for end in (row.value, row.low, row.high, *row.rounds) if end]
    scale = _log_scale([1.0, *ends], 0.08)
    ticks = [(left + space * scale.share(mark), f"{mark:g}x") for mark in _log_marks(scale, space)]
    one = left + space * scale.share(1.0)
    inside = []
    y = 24
    for row in rows:
        if not labels:
            lines = _lines(f"{row.label}: {row.words}", width, WIDE_CELL)
            inside += _stacked(0, y + 10, lines, "b")
            y += LINE_HEIGHT * len(lines)
        else:
            inside.append(_text(0, y + 16, row.label, "b"))
        inside.append(_factor(row, lambda value: left + space * scale.share(value), y + 11, colours))
        if labels:
            high = max(row.high or 0.0, row.value, *row.rounds, 0.0)
            inside.append(_text(left + space * scale.share(high) + 12, y + 16, row.words, "v"))
        y += 32
    around = [*_grid([tick for tick in ticks if tick[0] != one], 18, y), f'<path class="one" d="M{one:.1f} 4V{y}"/>']
    # What the sides of the line at 1 mean, where there is room for the words
    if one > 6 * SMALL_CELL + 8:
        around.append(_text(one - 6, 14, "slower", "t", "end"))
    faster = f"faster than {factors.reference}"
    has_room = one + 8 + cells_wide(faster) * SMALL_CELL <= width
    around.append(_text(one + 6, 14, faster if has_room else "faster", "t"))
    inside += [*_tick_words(ticks, y + 14, width), _scale_words("factor", y + 29, width)]
    return Picture("".join([*around, *inside]), width, y + 36)


def _factor(factor: ShownFactor, place: Callable[[float], float], y: float, colours: Colours) -> str:
    """Return the band of the interval, a circle for each round, and a line at the factor."""
    colour = colours.get(factor.lane, OF_KIND[factor.kind]) % SERIES_COLOURS
    band = ""
    data = f'data-value="{factor.value!r}"'
    if factor.low and factor.high:
        low = place(factor.low)
        size = f'x="{low:.1f}" y="{y - 7}" width="{max(place(factor.high) - low, 1):.1f}" height="14" rx="7"'
        band = f'<rect class="ends f{colour}" {size}/>'
        data += f' data-low="{factor.low!r}" data-high="{factor.high!r}"'
    dots = "".join(
        f'<circle class="round c{colour}" data-value="{ratio!r}" cx="{place(ratio):.1f}" cy="{y}" r="3.5">'
        f"<title>round {number}: {ratio:.3g}x</title></circle>"
        for number, ratio in enumerate(factor.rounds, 1)
        if ratio > 0
    )
    mark = f'<path class="factor c{colour}" {data} d="M{place(factor.value):.1f} {y - 11}v22"/>'
    return f"{band}{dots}{mark}"


# Turns: what ran when, a bar a turn. Between rounds the clock is cut.


def _draw_turns(turns: Turns, width: int, colours: Colours) -> Picture:
    left = 46
    space = width - left - EDGE_PIXELS
    lasted = [max((turn.end_s for turn in round_.turns), default=0.0) for round_ in turns.rounds]
    scale_s = (space - BETWEEN_ROUNDS * (len(lasted) - 1)) / (sum(lasted) or 1.0)
    begins = [left + sum(lasted[:number]) * scale_s + BETWEEN_ROUNDS * number for number in range(len(lasted))]
    keys, top = _keys(turns.labels, width, colours)
    # The scale of turns: from 0, or logarithmic where they are far apart
    values = [turn.ms for round_ in turns.rounds for turn in round_.turns]
    least = min(values, default=1.0)
    most = max(values, default=1.0)
    if least > 0 and most / least > TURNS_FAR_APART:
        up = Scale(math.log10(least) - 0.3, math.log10(most) + 0.05, is_log=True)
    else:
        up = Scale(0.0, most * 1.05 or 1.0, is_log=False)
    bottom = top + TURNS_HIGH
    inside = [*keys, _text(0, top - 8, f"{turns.unit}, logarithmic" if up.is_log else turns.unit, "t")]
    for place, words in up.ticks():
        y = bottom - TURNS_HIGH * (place - up.low) / (up.high - up.low)
        inside.append(f'<path class="grid" d="M{left} {y:.1f}H{width - EDGE_PIXELS}"/>')
        inside.append(_text(left - 6, y + 4, words, "t", "end"))
    ends = 0.0
    for round_, begin in zip(turns.rounds, begins, strict=True):
        for turn in round_.turns:
            wide = max((turn.end_s - turn.start_s) * scale_s - 0.8, 0.8)
            high = max(TURNS_HIGH * up.share(turn.ms), 1.0) if turn.ms > 0 else 1.0
            x = begin + turn.start_s * scale_s
            size = f'x="{x:.1f}" y="{bottom - high:.1f}" width="{wide:.1f}" height="{high:.1f}"'
            kind = f"{'disturbed-turn' if turn.flag else 'turn'} f{colour_of(turn.label, colours)}"
            title = safe(f"{turn.label}: {turn.ms:.4g} ms" + (f", {turn.flag}" if turn.flag else ""))
            inside.append(f'<rect class="{kind}" data-value="{turn.ms!r}" {size}><title>{title}</title></rect>')
        name = f"round {round_.number}" if width >= 500 else str(round_.number)
        if begin >= ends:  # words of short rounds would lie on each other
            inside.append(_text(begin, bottom + 15, name, "t"))
            ends = begin + cells_wide(name) * SMALL_CELL + 6
    middles = [begin + duration_s * scale_s / 2 for begin, duration_s in zip(begins, lasted, strict=True)]
    below, height = _factors_below(turns, middles, (left, width), bottom + 30, colours)
    return Picture("".join([*inside, *below]), width, height)


def _keys(labels: Sequence[str], width: int, colours: Colours) -> tuple[list[str], int]:
    """Return the lanes with their colours, and where the chart below them begins."""
    found = []
    x = 0.0
    y = 14
    for label in labels:
        wide = 20 + cells_wide(clean(label)) * CELL + 14
        if x and x + wide > width:
            x = 0.0
            y += LINE_HEIGHT
        found.append(f'<rect class="f{colour_of(label, colours)}" x="{x:.0f}" y="{y - 11}" width="12" height="12"/>')
        found.append(_text(x + 18, y, label, "b"))
        x += wide
    return found, y + 34


def _factors_below(
    turns: Turns, middles: Sequence[float], sides: tuple[int, int], top: float, colours: Colours
) -> tuple[list[str], int]:
    """Return the factor of each round below it, around the whole one and its interval; and where all ends."""
    left, width = sides
    rows = turns.factors.factors
    ratios = [ratio for round_ in turns.rounds for _, ratio in round_.factors if ratio > 0]
    if not rows or not ratios:
        return [], int(top)
    scale = _log_scale([1.0, *ratios, *(end for row in rows for end in (row.value, row.low, row.high) if end)], 0.1)
    bottom = top + 14 + FACTORS_HIGH

    def place(ratio: float) -> float:
        return bottom - FACTORS_HIGH * scale.share(ratio)

    title = f"factor of each round against {turns.factors.reference}, logarithmic"
    if cells_wide(clean(title)) * SMALL_CELL > width:
        title = "factor of each round, logarithmic"
    inside = [_text(0, top + 6, title, "t")]
    for mark in _log_marks(scale, 2 * FACTORS_HIGH):
        y = place(mark)
        kind = "one" if mark == 1 else "grid"
        inside.append(f'<path class="{kind}" d="M{left} {y:.1f}H{width - EDGE_PIXELS}"/>')
        inside.append(_text(left - 6, y + 4, f"{mark:g}x", "t", "end"))
    for row in rows:
        colour = colour_of(row.label, colours)
        if row.low and row.high:
            high = place(row.low) - place(row.high)
            size = f'x="{left}" y="{place(row.high):.1f}" width="{width - EDGE_PIXELS - left}" height="{high:.1f}"'
            inside.append(f'<rect class="ends f{colour}" {size}/>')
        inside.append(f'<path class="whole c{colour}" d="M{left} {place(row.value):.1f}H{width - EDGE_PIXELS}"/>')
    inside += [
        f'<circle class="f{colour_of(label, colours)}" data-value="{ratio!r}" cx="{x:.1f}" '
        f'cy="{place(ratio):.1f}" r="3.5">'
        f"<title>{safe(label)}, round {round_.number}: {ratio:.3g}x</title></circle>"
        for round_, x in zip(turns.rounds, middles, strict=True)
        for label, ratio in round_.factors
        if ratio > 0
    ]
    return inside, int(bottom + 12)


# Parts of a whole: a strip a row, and its parts in words below.


def _draw_stack(stack: Stack, width: int) -> Picture:
    inside: list[str] = []
    y = 4
    for label, parts in stack.rows:
        whole = sum(part.share for part in parts)
        if abs(whole - 1) > PARTS_ROUNDING:
            raise ValueError(f"the parts of {label} come to {whole:.0%} of it".replace("%", " %"))
        lines = _lines(label, width, WIDE_CELL)
        inside += _stacked(0, y + 13, lines, "b")
        y += LINE_HEIGHT * len(lines) + 2
        at = 0.0
        for place, part in enumerate(parts):
            inside.append(
                f'<rect class="f{place % SERIES_COLOURS}" data-value="{part.share!r}" x="{at * width:.1f}" y="{y}" '
                f'width="{part.share * width:.1f}" height="26">'
                f"<title>{safe(f'{part.label} {part.words}')}</title></rect>"
            )
            at += part.share
        y += 44
        x = 0.0
        for place, part in enumerate(parts):
            key = f"{part.label} {part.words}"
            wide = 20 + cells_wide(clean(key)) * CELL + 10
            if x and x + wide > width:
                x = 0.0
                y += LINE_HEIGHT
            inside.append(f'<rect class="f{place % SERIES_COLOURS}" x="{x:.0f}" y="{y - 11}" width="12" height="12"/>')
            inside += [_text(x + 18, y, line, "t") for line in _lines(key, int(width - x - 18), SMALL_CELL)[:1]]
            x += wide
        y += LINE_HEIGHT + 12
    return Picture("".join(inside), width, y)


# A Gantt chart: a row for each thing, and on it when that was done.


def _draw_gantt(chart: Gantt, width: int) -> Picture:
    labels, right = _columns([(row.label, row.words) for row in chart.rows], width)
    left = labels or EDGE_PIXELS
    space = width - left - (right if labels else EDGE_PIXELS)
    inside = []
    y = 6
    for row in chart.rows:
        if labels:
            inside += [_text(0, y + 14, row.label, "b"), _text(left + space + 8, y + 14, row.words, "v")]
        else:
            lines = _lines(f"{row.label}: {row.words}", width, WIDE_CELL)
            inside += _stacked(0, y + 12, lines, "b")
            y += LINE_HEIGHT * len(lines) + 1
        for span in row.spans:
            x = left + space * span.start / chart.length
            wide = space * (span.end - span.start) / chart.length
            title = safe(f"{row.label}: {span.start:.4g} to {span.end:.4g} {chart.unit}")
            inside.append(
                f'<rect class="span f{row.part % SERIES_COLOURS}" data-low="{span.start!r}" data-high="{span.end!r}" '
                f'x="{x:.1f}" y="{y}" width="{max(wide, 1):.1f}" height="{BAR_HEIGHT}"><title>{title}</title></rect>'
            )
        y += BAR_HEIGHT + ROW_GAP
    ticks = [(left + space * place / chart.length, f"{words} {chart.unit}")
             for place, words in linear_ticks(0.0, chart.length)]  # fmt: skip
    return Picture("".join([*_grid(ticks, 4, y - 6), *inside, *_tick_words(ticks, y + 10, width)]), width, y + 18)


# Words, grids and logarithmic scales.


def _text(x: float, y: float, words: str, kind: str, anchor: str = "") -> str:
    side = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{side}>{safe(words)}</text>'


def _stacked(x: float, y: float, lines: Sequence[str], kind: str) -> list[str]:
    """Return lines below each other, the first at this place."""
    return [_text(x, y + LINE_HEIGHT * number, line, kind) for number, line in enumerate(lines)]


def _lines(words: str, width: int, cell: float) -> list[str]:
    """Break words into lines that fit, at most four: the whole of a long reason is in the table below."""
    lines = [line for line in wrap(clean(words), max(int(width / cell), 8)) if line]
    return lines if len(lines) <= 4 else [*lines[:3], lines[3].rstrip() + " ~"]


def _grid(ticks: Iterable[tuple[float, str]], top: float, bottom: float) -> list[str]:
    return [f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>' for x, _ in ticks]


def _tick_words(ticks: Sequence[tuple[float, str]], y: float, width: int) -> list[str]:
    """Return the words below ticks, without those that would lie on the one before."""
    found = []
    end = -1e9
    for x, words in sorted(ticks):
        half = cells_wide(words) * SMALL_CELL / 2
        middle = min(max(x, half), width - half)
        if middle - half > end + 6:
            found.append(_text(middle, y, words, "t", "middle"))
            end = middle + half
    return found


def _scale_words(unit: str, y: float, width: int) -> str:
    """Return the words below a logarithmic axis."""
    return _text(width, y, f"{unit}, logarithmic", "t", "end")


def _log_scale(values: Iterable[float], free: float) -> Scale:
    places = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [0.0]
    low = min(places)
    high = max(places)
    room = max((high - low) * free, 0.02)
    return Scale(low - room, high + room, is_log=True)


def _log_marks(scale: Scale, pixels: float) -> list[float]:
    """Return round values on a logarithmic scale, 1 always, with room for their words."""
    decades = range(math.floor(scale.low) - 1, math.ceil(scale.high) + 1)
    nice = sorted({float(f"{leading * 10**power:.3g}") for power in decades for leading in NICE})
    inside = [mark for mark in nice if scale.low <= math.log10(mark) <= scale.high]
    for every in (NICE, (1.0, 1.5, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0,)):
        kept = [
            mark for mark in inside if mark == 1.0 or float(f"{mark / 10 ** math.floor(math.log10(mark)):.3g}") in every
        ]
        apart = [pixels * (scale.share(later) - scale.share(before)) for before, later in pairwise(kept)]
        if all(distance >= TICK_LEAST for distance in apart):
            break
    return kept
