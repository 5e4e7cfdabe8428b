"""Reports as files: a table with a row for each format, and what each writes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from laptime.drawing.html import as_html
from laptime.drawing.svg import standalone
from laptime.drawing.words import as_csv, as_markdown
from laptime.errors import UsageError
from laptime.model.figure import Figure, Report
from laptime.model.installation import install_command

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
