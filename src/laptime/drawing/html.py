"""Reports as one HTML file that asks for nothing: style, script and every number are in it."""

from __future__ import annotations

import base64
import hashlib
import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePath

from laptime.drawing.svg import COLOURS, labels_of, longest_of, plane_svg, standalone, text
from laptime.drawing.words import as_csv, as_markdown, rows_of
from laptime.errors import UsageError
from laptime.figures.steps import thinned_words
from laptime.model.figure import Bar, Bars, Figure, Part, Plane, Report, Stack, Table
from laptime.model.installation import install_command

WIDE = 5  # columns of a table from which on a narrow screen shows a row as a list
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">
<title>{title} - laptime</title><style>{style}</style></head><body><main>
"""


def as_html(reports: Sequence[Report]) -> str:
    """Return a page of one or several reports."""
    title = " and ".join(each.title for each in reports)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = POLICY.format(script=f"sha256-{digest}")
    return "".join(
        [
            HEAD.format(policy=policy, title=text(title), style=_asset("report.css")),
            *(section(each, number) for number, each in enumerate(reports)),
            f"</main><script>{script}</script></body></html>\n",
        ]
    )


def section(report: Report, number: int = 0) -> str:
    """Return one record as a part of a page."""
    first, *others = report.answer or (report.title,)
    return "".join(
        [
            f'<section class="record" aria-labelledby="answer-{number}"><h1 id="answer-{number}">{text(first)}</h1>',
            *(f"<p>{text(each)}</p>" for each in others),
            *(f'<p class="soft">{text(each)}</p>' for each in (*report.notes, report.done) if each),
            *(figure_html(each, f"{number}-{place}") for place, each in enumerate(report.figures)),
            "<h2>To repeat it</h2>",
            f'<code class="command">{text(report.command)}</code>',
            f'<p class="soft">{text(f"Record {report.id}, {report.started}. {thinned_words(report.figures)}")}</p>',
            f"<details><summary>All that the record says, as text</summary><pre>{text(report.text)}</pre></details>",
            "</section>\n",
        ]
    )


def figure_html(figure: Figure, key: str) -> str:
    """Return a figure with its title, its sentence, and its chart."""
    match figure.chart:
        case Bars():
            kind, inside = "of-bars", _bars(figure.chart)
        case Plane():
            kind, inside = "of-plane", _plane(figure.chart, figure)
        case Stack():
            kind, inside = "of-stack", _stack(figure.chart)
        case Table():
            kind, inside = "of-table", _table(figure.chart)
    said = f"<figcaption>{text(figure.says)}</figcaption>" if figure.says else ""
    return (
        f'<h2 id="figure-{key}">{text(figure.title)}</h2><figure class="{kind}" aria-labelledby="figure-{key}">'
        f"{said}{inside}</figure>\n"
    )


def _bars(bars: Bars) -> str:
    longest = longest_of(bars)
    return f'<dl class="bars">{"".join(_bar(bar, longest, bars.unit) for bar in bars.bars)}</dl>'


def _bar(bar: Bar, longest: float, unit: str) -> str:
    if bar.value is None:
        return f'<dt>{text(bar.label)}</dt><dd><span class="words bad">{text(bar.words)}</span></dd>'
    low, high = (None if end is None else min(100 * end / longest, 100.0) for end in (bar.low, bar.high))
    whisker = "" if low is None or high is None else f'<path class="whisker" d="M{low:.2f} 8H{high:.2f}"/>'
    data = f'data-value="{bar.value!r}"' + "".join(
        f' data-{name}="{end!r}"' for name, end in (("low", bar.low), ("high", bar.high)) if end is not None
    )
    told = bar.words or f"{bar.value:.4g} {unit}"
    return (
        f'<dt>{text(bar.label)}</dt><dd><svg viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{bar.kind}" {data} width="{100 * bar.value / longest:.3f}" height="16"/>{whisker}</svg>'
        f'<span class="words">{text(told)}</span></dd>'
    )


def _plane(plane: Plane, figure: Figure) -> str:
    svg = plane_svg(plane, figure.title, figure.says)
    logs = "".join(name for name, axis in (("x", plane.across), ("y", plane.up)) if axis.is_log)
    data = f'data-across="{text(plane.across.label)}" data-up="{text(plane.up.label)}" data-logs="{logs}"'
    labels = labels_of(plane)
    keys = "".join(
        f'<li><button type="button" aria-pressed="true" data-key="{number}" class="k{number % COLOURS}" disabled>'
        f'<span class="swatch"></span>{text(label)}</button></li>'
        for number, label in enumerate(labels)
    )
    return f'{svg.replace("<svg ", f"<svg {data} ", 1)}<ul class="keys">{keys}</ul>{_in_numbers(plane)}'


def _in_numbers(plane: Plane) -> str:
    """Return each curve in a few numbers, for those who cannot see it."""
    return f"<details><summary>In numbers ({text(plane.up.label)})</summary>{_table(rows_of(plane))}</details>"


def _stack(stack: Stack) -> str:
    return "".join(_stack_row(label, stack.rows[number][1]) for number, (label, _) in enumerate(stack.rows))


def _stack_row(label: str, parts: Sequence[Part]) -> str:
    rects, keys, at = [], [], 0.0
    for place, part in enumerate(parts):
        share = part.share
        rects.append(
            f'<rect class="f{place % COLOURS}" data-value="{share!r}" x="{100 * at:.3f}" width="{100 * share:.3f}" '
            'height="26"/>'
        )
        keys.append(f'<li class="k{place % COLOURS}"><span class="swatch"></span>{text(part.label)} {share:.0%}</li>')
        at += share
    return (
        f'<p>{text(label)}</p><div class="stack"><svg viewBox="0 0 100 26" preserveAspectRatio="none" '
        f'aria-hidden="true">{"".join(rects)}</svg></div><ul class="keys">{"".join(keys)}</ul>'
    )


def _table(table: Table) -> str:
    numbers = [head.startswith("=") for head in table.heads]
    heads = [head.removeprefix("=") for head in table.heads]
    kind = ' class="wide"' if len(heads) >= WIDE else ""
    top = "".join(f"<th{_number(is_number)}>{text(head)}</th>" for head, is_number in zip(heads, numbers, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{_number(is_number)} data-head="{text(head)}">{text(cell)}</td>'
            for cell, head, is_number in zip(row, heads, numbers, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table{kind}><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


def _number(is_number: bool) -> str:  # noqa: FBT001  a column's kind
    return ' class="number"' if is_number else ""


@cache
def _asset(name: str) -> str:
    return resources.files("laptime.drawing").joinpath(name).read_text(encoding="utf-8")


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
    """One format: how its files end, and what makes them of reports. A format of pictures fills a folder."""

    name: str
    make: Callable[[Sequence[Report]], bytes | dict[str, bytes]]
    endings: tuple[str, ...]


def _pictures(reports: Sequence[Report]) -> dict[str, str]:
    """Return the charts of reports as SVG, by a name that begins with the record's id."""
    figures = [(report.id, number, each) for report in reports for number, each in enumerate(report.figures, 1)]
    drawn = ((_file_name(record, number, figure), standalone(figure.chart, figure.title))
             for record, number, figure in figures)  # fmt: skip
    return {name: picture for name, picture in drawn if picture is not None}


def _file_name(record: str, number: int, figure: Figure) -> str:
    plain = NOT_IN_NAMES.sub("-", f"{record}-{number:02}-{figure.title.lower()}").strip("-")
    return plain[:100]


def _as_svg(reports: Sequence[Report]) -> dict[str, bytes]:
    return {f"{name}.svg": picture.encode() for name, picture in _pictures(reports).items()}


def _as_png(reports: Sequence[Report]) -> dict[str, bytes]:
    """Return the charts as pixels, by a library that is asked for only here."""
    try:
        resvg = importlib.import_module("resvg_py")
    except ImportError:
        raise UsageError(
            "PNG needs resvg-py, which is not installed", f"{install_command('png')}, or use svg"
        ) from None
    return {
        f"{name}.png": bytes(resvg.svg_to_bytes(svg_string=picture, zoom=PNG_SCALE, background="#ffffff"))
        for name, picture in _pictures(reports).items()
    }


FORMATS: dict[str, FormatRow] = {
    row.name: row
    for row in (
        FormatRow("html", lambda reports: as_html(reports).encode(), (".html", ".htm")),
        FormatRow("md", lambda reports: as_markdown(reports).encode(), (".md",)),
        FormatRow("csv", lambda reports: as_csv(reports).encode(), (".csv",)),
        FormatRow("svg", _as_svg, ()),
        FormatRow("png", _as_png, ()),
    )
}


def make_files(reports: Sequence[Report], form: str) -> Made:
    """Return the files of a format. The name is that of the first record, with nothing in it that leaves a folder."""
    made, name = FORMATS[form].make(reports), plain_name(reports[0].id)
    if isinstance(made, dict):
        return Made(f"{name}-{form}", made, is_folder=True)
    return one_file(f"{name}.{form}", made)


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
    of_endings = {each: row.name for row in FORMATS.values() for each in row.endings}
    known = of_endings | {f".{name}": name for name in (*FORMATS, "json")}
    if ending not in known:
        says = f"'{output}' ends with {ending}, and no report does"
        raise UsageError(says, f"Name a file that ends with {', '.join(known)}, or say --format.")
    return known[ending]
