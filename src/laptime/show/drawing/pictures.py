"""Pictures that stand alone: a chart as an SVG file, a card to share, and a badge. In daylight colours or dark ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from laptime.model.errors import UsageError
from laptime.model.figure import Bars, Chart, Factors, Plane, Report, Stack, Table
from laptime.model.visible import cells_wide
from laptime.show.drawing.rows import draw
from laptime.show.drawing.svg import (
    CHART_HEIGHT,
    CHART_WIDTH,
    LEFT,
    SERIES_COLOURS,
    in_pixels,
    numbers_of,
    plane_inside,
    safe,
)
from laptime.show.pages.layout import clean, wrap

WIDE_CHART = 820  # of charts of rows on a page
NARROW_CHART = 360
CARD_WIDTH = 1200
CARD_HEIGHT = 630
BIG_WIDE = {".": 52, " ": 50, "m": 152, "i": 50, "%": 150}  # pixels of a letter of the number on a card; others 100
CHART_HIGH = 204  # pixels for the chart on a card
SIDE = 70  # what is left free on each side of a card
BIG = "font-size:150px;font-weight:750;letter-spacing:-4px"
FONT = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a picture. Lanes have theirs in a fixed order, which the colour-blind can tell apart."""

    page: str
    ink: str
    soft: str
    grid: str
    bad: str
    lanes: tuple[str, ...]


LIGHT_THEME = Theme("#ffffff", "#1b1b1f", "#5a5a64", "#e2e2e8", "#a3251b",
              ("#6f7887", "#0b62a4", "#b4480f", "#0a7a55", "#8a3f86", "#6b5a00", "#a3324b", "#3d6f8e"))  # fmt: skip
DARK = Theme("#16161a", "#ececf1", "#adadb8", "#2f2f38", "#ff9a8d",
             ("#9aa3b2", "#63b3f5", "#f59b62", "#5fd0a0", "#dc9cd8", "#d8c25a", "#f290a6", "#9cc7e0"))  # fmt: skip


def style_of(theme: Theme) -> str:
    """Return the rules of a picture of its own."""
    lanes = "".join(f".c{number}{{stroke:{lane}}}.f{number}{{fill:{lane}}}" for number, lane in enumerate(theme.lanes))
    return (
        f"text{{font:13px {FONT};fill:{theme.ink}}}text.b{{font-size:14px;paint-order:stroke;stroke:{theme.page};"
        f"stroke-width:4px}}text.v{{font-size:14px;font-weight:600}}"
        f"text.t{{font-size:12px;fill:{theme.soft}}}text.bad{{fill:{theme.bad}}}"
        f".axis{{stroke:{theme.soft};fill:none}}.grid{{stroke:{theme.grid}}}"
        f".one{{stroke:{theme.ink};stroke-dasharray:3 3}}.whisker{{stroke:{theme.ink};stroke-width:1.5;fill:none}}"
        ".curve,.curve-ends{fill:none;stroke-width:1.6}.predicted{opacity:.55}"
        ".curve-ends.predicted{stroke-dasharray:3 3}"
        ".dots{stroke-width:8;stroke-linecap:round}.marks{fill:none;stroke-width:7;stroke-linecap:round}.band{opacity:.5}"
        ".warm-up{fill:#f3e2b8}.disturbed{fill:#f2c9c4}.part,.crossover{fill:#8aa4c4}.of-band{font-weight:600}"
        f"{lanes}.ends{{opacity:.24}}.round{{fill:none;stroke-width:1.5}}.factor{{stroke-width:3}}"
        f".whole{{stroke-width:1.5}}.disturbed-turn{{opacity:.35}}"
        f".reported{{fill:{theme.page};stroke:{theme.soft};stroke-width:1.5}}"
    )


def numbers_by_lane(report: Report) -> dict[str, int]:
    """Return the number of each lane's colour."""
    return {label: number for number, label in enumerate(report.lanes)}


def standalone(chart: Chart, title: str, lanes: Mapping[str, int], theme: Theme = LIGHT_THEME) -> str | None:
    """Return a chart as an SVG file of its own, with its title, or None if it is only words."""
    if isinstance(chart, Table):
        return None
    if isinstance(chart, Plane):
        numbers = numbers_of(chart, lanes)
        inside = plane_inside(chart, in_pixels(chart), numbers)
        for place, (label, number) in enumerate(numbers.items()):
            y = CHART_HEIGHT + 20 * place
            inside += (
                f'<rect class="f{number % SERIES_COLOURS}" x="{LEFT}" y="{y}" width="12" height="12"/>'
                f'<text x="{LEFT + 18}" y="{y + 11}">{safe(label)}</text>'
            )
        width = CHART_WIDTH
        height = CHART_HEIGHT + 20 * len(numbers)
    else:
        picture = draw(chart, WIDE_CHART, lanes)
        inside = picture.inside
        width = picture.width
        height = picture.height
    lines = wrap(clean(title), int(width / 8.5))
    top = 12 + 20 * len(lines)
    titles = "".join(
        f'<text class="v" x="0" y="{18 + 20 * number}">{safe(line)}</text>' for number, line in enumerate(lines)
    )
    return _svg(width + 24, top + height + 12, title, f'<g transform="translate(12 4)">{titles}'
                f'<g transform="translate(0 {top})">{inside}</g></g>', theme)  # fmt: skip


def _svg(width: float, height: float, title: str, inside: str, theme: Theme) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{safe(title)}</title><style>{style_of(theme)}</style>'
        f'<rect width="{width}" height="{height}" fill="{theme.page}"/>{inside}</svg>\n'
    )


# A card: the answer as a picture of the size that social pages and chats show, opaque and titled.


def card(report: Report, theme: Theme = LIGHT_THEME) -> str:
    """Return the answer of a report as an SVG of 1200 x 630."""
    glance = report.glance
    if glance is None:
        says = f"a {report.question} has no single number to show on a card"
        raise UsageError(says, "laptime report shows it whole.")
    what = _fit(f"{report.question} of {report.title}", CARD_WIDTH - 2 * SIDE - 148, 16)
    inside = [
        f'<text x="{SIDE}" y="88" style="font-size:30px;font-weight:700">laptime</text>',
        _words(SIDE + 148, 88, what, 28, soft=True),
        f'<text x="{SIDE}" y="268" style="{BIG}">{safe(glance.number)}</text>',
        _words(SIDE + 4, 318, glance.ends, 30, soft=True),
    ]
    left = SIDE + max(sum(BIG_WIDE.get(letter, 100) for letter in glance.number), 17 * len(glance.ends)) + 40
    lines = wrap(clean(glance.sentence), max(int((CARD_WIDTH - left - SIDE) / 19), 12))[:5]
    inside += [_words(left, 178 + 44 * number, line, 34) for number, line in enumerate(lines)]
    if report.distrust:
        inside.append(_words(SIDE, 128, _fit(report.distrust[0], CARD_WIDTH - 2 * SIDE, 13), 24, bad=theme.bad))
    scale = (CARD_WIDTH - 2 * SIDE) / WIDE_CHART
    for chart in _few_rows(report):
        picture = draw(chart, WIDE_CHART, numbers_by_lane(report))
        if picture.height * scale <= CHART_HIGH:
            inside.append(f'<g transform="translate({SIDE} 366) scale({scale:.3f})">{picture.inside}</g>')
            break
    foot = f"{report.machine}, {report.started[:10]}, {report.id}"
    inside.append(_words(SIDE, CARD_HEIGHT - 36, _fit(foot, CARD_WIDTH - 2 * SIDE, 12.5), 24, soft=True))
    return _svg(CARD_WIDTH, CARD_HEIGHT, f"{glance.number}: {glance.sentence}", "".join(inside), theme)


def _few_rows(report: Report) -> Iterator[Factors | Bars | Stack]:
    """Yield the first factors of a report, else its first bars or parts, with ever fewer rows."""
    first = [figure.chart for figure in report.figures if not figure.more]
    for kind in (Factors, Stack, Bars):
        for chart in first:
            if not isinstance(chart, kind):
                continue
            for rows in (3, 2, 1):
                match chart:
                    case Factors():
                        # Of a search, its end
                        kept = [factor for factor in chart.factors if factor.kind in {"kept", "confirmed"}]
                        yield Factors(chart.reference, tuple(kept[-rows:]) or chart.factors[:rows])
                    case Stack():
                        yield Stack(chart.rows[:rows])
                    case Bars():
                        yield replace(chart, bars=chart.bars[:rows], reported=())


def _words(x: float, y: float, words: str, size: int, *, soft: bool = False, bad: str = "") -> str:
    kind = ' class="t"' if soft else ""
    ink = f";fill:{bad}" if bad else ""
    return f'<text{kind} x="{x}" y="{y}" style="font-size:{size}px{ink}">{safe(words)}</text>'


def _fit(words: str, width: float, cell: float) -> str:
    """Return the words, cut where they would leave the card."""
    words = clean(words)
    most = int(width / cell)
    return words if cells_wide(words) <= most else words[: most - 1].rstrip() + "~"


# A badge, as README files have them: two words next to each other.

BADGE_HIGH = 20
BADGE_CELL = 6.9
GOOD = "#0b62a4"
BAD = "#8f1d14"


def badge(report: Report) -> str:
    """Return the answer of a report as a badge."""
    if report.glance is None:
        says = f"a {report.question} has no single number to show on a badge"
        raise UsageError(says, "laptime report shows it whole.")
    left = "laptime"
    right = f"{report.glance.number} ({report.glance.ends})" if report.glance.ends else report.glance.number
    right = f"not reliable: {right}" if report.distrust else right
    wide = [round(cells_wide(words) * BADGE_CELL + 14) for words in (left, right)]
    title = f"{left}: {right}. {report.glance.sentence}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sum(wide)}" height="{BADGE_HIGH}" role="img">'
        f"<title>{safe(title)}</title><style>text{{font:11px Verdana,{FONT};fill:#fff}}</style>"
        f'<rect width="{wide[0]}" height="{BADGE_HIGH}" fill="#3a3a44"/>'
        f'<rect x="{wide[0]}" width="{wide[1]}" height="{BADGE_HIGH}" fill="{BAD if report.distrust else GOOD}"/>'
        f'<text x="7" y="14">{safe(left)}</text><text x="{wide[0] + 7}" y="14">{safe(right)}</text></svg>\n'
    )
