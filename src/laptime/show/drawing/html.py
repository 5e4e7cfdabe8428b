"""Reports as one HTML file that asks for nothing: style, script and every number are in it."""

from __future__ import annotations

import base64
import hashlib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Literal

from laptime.model.errors import UsageError
from laptime.model.figure import Bars, Figure, Plane, Report, RowsChart, Table, are_far_apart
from laptime.model.frameworks import install_command
from laptime.model.visible import visible
from laptime.show.drawing.pictures import NARROW_CHART, WIDE_CHART, Theme, badge, card, numbers_by_lane, standalone
from laptime.show.drawing.rows import draw
from laptime.show.drawing.svg import SERIES_COLOURS, curve_labels, numbers_of, plane_svg, safe
from laptime.show.drawing.words import as_csv, as_markdown, rows_of
from laptime.show.figures import thinned_words

PAGE_MOST = 300_000  # bytes of a page with its downloads
AROUND_RECORD_BYTES = 1_500  # bytes around a record, besides what is drawn of it and its downloads
WIDE_TABLE = 5  # columns of a table from which on a narrow screen shows a row as a list
COLUMN_KINDS = {"=": ' class="number"', "`": ' class="code"'}  # of a column, by how its head begins
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
REPORT_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">
<title>{title} - laptime</title><style>{style}</style></head><body><main>
"""


def as_html(reports: Sequence[Report]) -> str:
    """Return a page of one or several reports."""
    title = " and ".join(report.title for report in reports)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = REPORT_POLICY.format(script=f"sha256-{digest}")
    before = REPORT_HEAD.format(policy=policy, title=safe(title), style=_asset("report.css")) + _overview(reports)
    after = f"</main><script>{script}</script></body></html>\n"
    bodies = [_body(report, number) for number, report in enumerate(reports)]
    room = (PAGE_MOST - sum(len(part.encode()) for part in (before, after, *bodies))) // max(len(reports), 1)
    sections = []
    for number, (report, body) in enumerate(zip(reports, bodies, strict=True)):
        links, others = _downloads(report, room - AROUND_RECORD_BYTES)
        # What was asked of which training, where and when, and the files that the page holds
        what = safe(f"{report.question} · {report.title}")
        where = safe(f"{report.machine} · {report.started[:10]} · {report.id}{' ·' * bool(links)}")
        strip = f'<p class="strip"><b>laptime</b> <span>{what}</span> <span class="where">{where} {links}</span></p>'
        begin = f'<section class="record" aria-labelledby="answer-{number}">{strip}'
        sections += [begin, body, *others, "</section>\n"]
    return "".join([before, *sections, after])


def _overview(reports: Sequence[Report]) -> str:
    """Return the lanes of several records of one training on one scale, each with its machine."""
    found = [(report, figure.chart) for report in reports for figure in report.figures
             if isinstance(figure.chart, Bars) and not figure.more]  # fmt: skip
    first = {report.id: chart for report, chart in reversed(found)}
    units = {chart.unit for chart in first.values()}
    if len(first) < 2 or len(units) != 1 or len({report.title for report in reports}) > 1:
        return ""
    bars = []
    colours = {}
    for report in reports:
        numbers = numbers_by_lane(report)
        for bar in first[report.id].bars if report.id in first else ():
            label = f"{bar.label}, {report.machine}, {report.id}"
            bars.append(replace(bar, label=label, of=""))
            colours[label] = numbers.get(bar.lane, 0)
    bars.sort(key=lambda bar: (bar.value is None, bar.value or 0.0))
    is_log = are_far_apart(bars)
    says = "With 95 % intervals. No factor is computed across records: their lanes took no turns with each other."
    figure = Figure("All records", Bars(units.pop(), tuple(bars), is_log=is_log), says)
    return f'<section class="all">{figure_html(figure, "all", colours)}</section>'


@dataclass(frozen=True, slots=True)
class Download:
    """A file that a page holds: its ending and kind, what makes it, and the command that prints the same."""

    ending: str
    says: str
    kind: str
    make: Callable[[Report], str]
    command: str


DOWNLOADS = (
    Download("json", "the record as JSON", "application/json", lambda report: report.record, "laptime show {} --json"),
    Download(
        "csv", "the figures as CSV", "text/csv", lambda report: as_csv([report]), "laptime report {} --format csv"
    ),
    Download(
        "txt",
        "the page as text",
        "text/plain",
        lambda report: "\n".join(map(visible, report.text.splitlines())) + "\n",
        "laptime show {} --details",
    ),
)


def _downloads(report: Report, room: int) -> tuple[str, list[str]]:
    """Return links that hold files as data, with which a page stays in its room; and what to type for the others."""
    links = []
    others = []
    for download in DOWNLOADS:
        name = f"{plain_name(report.id)}.{download.ending}"
        data = base64.b64encode(download.make(report).encode()).decode()
        link = (
            f'<a download="{name}" title="{download.says}" href="data:{download.kind};charset=utf-8;base64,{data}">'
            f"{download.ending.upper()}</a>"
        )
        if len(link) <= room:
            links.append(link)
            room -= len(link)
        else:
            command = safe(download.command.format(plain_name(report.id)))
            others.append(f'<p class="soft">Too large for this page: {download.says}. <code>{command}</code></p>')
    return f'<span class="files">{"".join(links)}</span>' if links else "", others


def _body(report: Report, number: int) -> str:
    """Return the answer first, the charts that show it, and all else folded."""
    lanes = numbers_by_lane(report)
    shown: list[str] = []
    more: list[str] = []
    for place, figure in enumerate(report.figures):
        (more if figure.more else shown).append(figure_html(figure, f"{number}-{place}", lanes))
    return "".join(
        [
            *(f'<p class="chip">{safe(why)}</p>' for why in report.distrust),
            *_answer(report, number),
            *shown,
            *(f'<p class="soft">{safe(note)}</p>' for note in (*report.notes, report.done) if note),
            "<h2>To repeat it</h2>",
            f'<code class="command">{safe(report.command)}</code>',
            *([f"<details><summary>More figures and tables</summary>{''.join(more)}</details>"] if more else []),
            f"<details><summary>All that the record says, as text</summary><pre>{safe(report.text)}</pre></details>",
            f'<p class="soft">{safe(f"Record {report.id}, {report.started}. {thinned_words(report.figures)}")}</p>',
        ]
    )


def as_notebook(report: Report, page: str) -> str:
    """Return the answer and its first chart without scripts or frames; what strips pictures leaves the words."""
    glance = report.glance
    parts = [f"<p><b>{safe(why)}</b></p>" for why in report.distrust]
    if glance is None:
        parts += [f"<p><b>{safe(sentence)}</b></p>" for sentence in report.answer]
    else:
        big = f'<span style="font-size:2.4em;font-weight:700">{safe(glance.number)}</span> {safe(glance.ends)}'
        parts.append(f"<p>{big}<br>{safe(glance.sentence)}</p>")
    for figure in report.figures:
        picture = None if figure.more else standalone(figure.chart, figure.title, numbers_by_lane(report))
        if picture is not None:
            data = base64.b64encode(picture.encode()).decode()
            source = f"data:image/svg+xml;base64,{data}"
            parts.append(f'<img alt="{safe(figure.title)}" style="max-width:100%" src="{source}">')
            break
    return f"{''.join(parts)}<details><summary>The page</summary><pre>{safe(page)}</pre></details>"


def _answer(report: Report, number: int) -> list[str]:
    """Return the answer: a number between its ends, the sentence that it belongs to, and facts; or sentences alone."""
    first, *others = report.answer or (report.title,)
    glance = report.glance
    if glance is None:
        return [f'<h1 id="answer-{number}">{safe(first)}</h1>', *(f"<p>{safe(other)}</p>" for other in others)]
    facts = ""
    for fact in glance.facts:
        tag = "code" if fact.is_command else "span"
        facts += f"<li><b>{safe(fact.title)}</b><{tag}>{safe(fact.says)}</{tag}></li>"
    big = f'<p class="big">{safe(glance.number)}<small>{safe(glance.ends)}</small></p>'
    return [
        f'<div class="glance">{big}<h1 id="answer-{number}">{safe(glance.sentence)}</h1></div>',
        f'<ul class="facts">{facts}</ul>' if facts else "",
        *(f"<p>{safe(other)}</p>" for other in others if other != glance.sentence),
    ]


def figure_html(figure: Figure, key: str, lanes: Mapping[str, int]) -> str:
    """Return a figure with its title, its sentence, and its chart."""
    match figure.chart:
        case Plane():
            inside = _plane(figure.chart, figure, lanes)
        case Table():
            inside = _table(figure.chart)
        case _:
            inside = _rows(figure.chart, figure, lanes)
    kind = f"of-{type(figure.chart).__name__.lower()}"
    says = f"<figcaption>{safe(figure.says)}</figcaption>" if figure.says else ""
    return (
        f'<h2 id="figure-{key}">{safe(figure.title)}</h2><figure class="{kind}" aria-labelledby="figure-{key}">'
        f"{says}{inside}</figure>\n"
    )


def _rows(chart: RowsChart, figure: Figure, lanes: Mapping[str, int]) -> str:
    """Return a chart of rows, drawn for a wide and for a narrow screen; one of them is shown."""
    label = safe(f"{figure.title}. {figure.says}")
    drawn = [(kind, draw(chart, width, lanes)) for kind, width in (("wide", WIDE_CHART), ("narrow", NARROW_CHART))]
    return "".join(
        f'<svg class="rows {kind}" viewBox="0 0 {picture.width} {picture.height}" role="img" aria-label="{label}">'
        f"{picture.inside}</svg>"
        for kind, picture in drawn
    )


def _plane(plane: Plane, figure: Figure, lanes: Mapping[str, int]) -> str:
    numbers = numbers_of(plane, lanes)
    svg = plane_svg(plane, figure.title, figure.says, numbers)
    logs = "".join(name for name, axis in (("x", plane.across), ("y", plane.up)) if axis.is_log)
    data = f'data-across="{safe(plane.across.label)}" data-up="{safe(plane.up.label)}" data-logs="{logs}"'
    labels = curve_labels(plane)
    keys = "".join(
        f'<li><button type="button" aria-pressed="true" data-key="{numbers[label]}" '
        f'class="k{numbers[label] % SERIES_COLOURS}" disabled><span class="swatch"></span>{safe(label)}</button></li>'
        for label in labels
    )
    # Each curve in a few numbers, for those who cannot see it
    in_numbers = f"<details><summary>In numbers ({safe(plane.up.label)})</summary>{_table(rows_of(plane))}</details>"
    return f'{svg.replace("<svg ", f"<svg {data} ", 1)}<ul class="keys">{keys}</ul>{in_numbers}'


def _table(table: Table) -> str:
    columns = [COLUMN_KINDS.get(head[:1], "") for head in table.heads]
    heads = [head.removeprefix("=").removeprefix("`") for head in table.heads]
    kind = ' class="wide"' if len(heads) >= WIDE_TABLE else ""
    top = "".join(f"<th{column}>{safe(head)}</th>" for head, column in zip(heads, columns, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{column} data-head="{safe(head)}">{safe(cell)}</td>'
            for cell, head, column in zip(row, heads, columns, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table{kind}><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


@cache
def _asset(name: str) -> str:
    return resources.files("laptime.show.drawing").joinpath(name).read_text(encoding="utf-8")


# Reports as files: a table with a row for each format, and what each writes.

PNG_SCALE = 2  # pixels for each unit of a picture
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Made:
    """What is to be written: one file, or the `files` of a folder by their names. `name` is where, if none is given."""

    name: str
    files: dict[str, bytes]
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class FormatRow:
    """One format: how its files end, and what makes them of reports. A format of pictures fills a folder.

    A file that `holds_record` has all of it, to be read again by programs.
    """

    name: str
    make: Callable[[Sequence[Report]], bytes | dict[str, bytes]]
    endings: tuple[str, ...]
    holds_record: bool = False


def _pictures(reports: Sequence[Report], ending: str, encode: Callable[[str], bytes]) -> dict[str, bytes]:
    """Return the charts of reports as files, by a name that begins with the record's id. `encode` is given the SVG."""
    pictures = {}
    for report in reports:
        for number, figure in enumerate(report.figures, 1):
            picture = standalone(figure.chart, figure.title, numbers_by_lane(report))
            if picture is not None:
                name = NOT_IN_NAMES.sub("-", f"{report.id}-{number:02}-{figure.title.lower()}").strip("-")
                pictures[f"{name[:100]}.{ending}"] = encode(picture)
    return pictures


def pixels(picture: str, zoom: int) -> bytes:
    """Return a picture as PNG, by a library that is asked for only here."""
    try:
        resvg = importlib.import_module("resvg_py")
    except ImportError:
        raise UsageError(
            "PNG needs resvg-py, which is not installed", f"{install_command('png')}, or use svg"
        ) from None
    return bytes(resvg.svg_to_bytes(svg_string=picture, zoom=zoom, background="#ffffff"))


FORMATS: dict[str, FormatRow] = {
    row.name: row
    for row in (
        FormatRow("html", lambda reports: as_html(reports).encode(), (".html", ".htm"), holds_record=True),
        FormatRow("md", lambda reports: as_markdown(reports).encode(), (".md",)),
        FormatRow("csv", lambda reports: as_csv(reports).encode(), (".csv",)),
        FormatRow("svg", lambda reports: _pictures(reports, "svg", str.encode), ()),
        FormatRow("png", lambda reports: _pictures(reports, "png", lambda picture: pixels(picture, PNG_SCALE)), ()),
    )
}


def make_files(reports: Sequence[Report], form: str) -> Made:
    """Return the files of a format. The name is that of the first record, with nothing in it that leaves a folder."""
    made = FORMATS[form].make(reports)
    name = plain_name(reports[0].id)
    if isinstance(made, dict):
        return Made(f"{name}-{form}", made, is_folder=True)
    return one_file(f"{name}.{form}", made)


PictureKind = Literal["card", "badge"]


def make_picture(report: Report, kind: PictureKind, theme: Theme) -> Made:
    """Return the answer of a report as one SVG to share."""
    picture = card(report, theme) if kind == "card" else badge(report)
    return one_file(f"{plain_name(report.id)}-{kind}.svg", picture.encode())


def as_pixels(made: Made) -> Made:
    """Return the picture of one file as PNG, at the size that it says."""
    ((name, data),) = made.files.items()
    return one_file(str(PurePath(name).with_suffix(".png")), pixels(data.decode(), 1))


def one_file(name: str, data: bytes) -> Made:
    return Made(name, {name: data})


def plain_name(identity: str) -> str:
    """Return a record's id as a part of a file's name: ids in records may be anything."""
    return NOT_IN_NAMES.sub("-", identity).strip("-")[:100] or "record"


def format_of(form: str | None, output: str | None) -> str:
    """Return the format that was asked for, or that a file's name ends with; html where it ends with nothing."""
    if form is not None or output is None:
        return form or "html"
    ending = PurePath(output).suffix.lower()
    if not ending:
        return "html"
    of_endings = {known_ending: row.name for row in FORMATS.values() for known_ending in row.endings}
    known = of_endings | {f".{name}": name for name in (*FORMATS, "json")}
    if ending not in known:
        says = f"'{output}' ends with {ending}, and no report does"
        raise UsageError(says, f"Name a file that ends with {', '.join(known)}, or say --format.")
    return known[ending]
