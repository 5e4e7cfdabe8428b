"""All fields of what a page shows, in words: what `--details` prints below a page that is not a question's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laptime.model import digits
from laptime.pages.layout import wrap
from laptime.pages.page import INDENT

NAMES = ("name", "id", "file")  # which field names a row, the first that it has


def render_fields(values: object, width: int) -> str:
    """Return a line for each field of plain values, as JSON has them. A part with fields of its own is indented."""
    parts = values if isinstance(values, list) else [values]
    sections = ["\n".join(_lines(part, width, "")) for part in parts]
    return "\n\n".join(filter(None, sections)) + "\n"


def _lines(value: object, width: int, indent: str) -> Iterator[str]:
    """Yield the fields of an object. Below the root, its name is on the line above."""
    if not isinstance(value, dict):
        yield from wrap(indent + _words(value), width, indent + INDENT)
        return
    for name, part in value.items():
        said = f"{indent}{str(name).replace('_', ' ')}:"
        if part in (None, "", [], {}):  # there is nothing to say
            continue
        if _is_plain(part):
            yield from wrap(f"{said} {_words(part)}", width, indent + INDENT)
        elif isinstance(part, dict):
            below = [*_lines(part, width, indent + INDENT)]
            yield from [*wrap(said, width, indent + INDENT), *below] if below else []
        else:
            yield from _rows(said, part, width, indent)


def _rows(said: str, rows: Sequence[object], width: int, indent: str) -> Iterator[str]:
    """Yield a list of objects, each below its name or its number."""
    for number, row in enumerate(rows, start=1):
        name = next((row[each] for each in NAMES if row.get(each)), number) if isinstance(row, dict) else number
        yield from wrap(f"{said} {name}", width, indent + INDENT)
        yield from _lines(row, width, indent + INDENT)


def _is_plain(value: object) -> bool:
    """Whether a value fits on the line of its name: a figure, a text, a reason, or a list of such."""
    if isinstance(value, dict):
        return not value or value.keys() == {"missing"}
    return all(map(_is_plain, value)) if isinstance(value, list) else True


def _words(value: object) -> str:
    """Return a plain value in words; a missing one with its reason."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return digits.plain(float(f"{value:.6g}"))
        case {"missing": reason}:
            return f"- ({reason})"
        case list():
            return ", ".join(map(_words, value))
        case _:
            return "-" if value in (None, "", {}) else str(value)
