"""Lists of saved records and of files, and all fields of a value. It imports no noun of a record: a list is fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from laptime.model import quantities
from laptime.model.rows import FileCheck, Imported, RecordRow
from laptime.show.pages.layout import FIELD_INDENT, Column, Item, table_or_sentences, wrap

NONE_FITS = "No record fits all of these options; laptime list shows all records.\n"


def render_records(rows: Sequence[RecordRow], width: int, *, left_out: int = 0, is_chosen: bool = False) -> str:
    """List saved records in the given order. One that cannot be read has the reason.

    `left_out` is how many more there are, and `is_chosen` whether options chose among all records.
    """
    if not rows:
        return NONE_FITS if is_chosen else "No records yet; laptime race makes one.\n"
    columns: list[Column[RecordRow]] = [
        Column("record", lambda row: row.id),
        Column("started", lambda row: row.started[:16].replace("T", " ")),
        Column("workload", lambda row: f"{row.workload} (fake)" if row.is_fake else row.workload, least=10),
        Column("status", lambda row: row.status),
        Column("label", lambda row: "" if row.label is None else f"@{row.label}", least=8),
        Column("result", lambda row: row.summary, least=20),
    ]
    if not any(row.label for row in rows):
        columns = [column for column in columns if column.title != "label"]
    page = table_page(
        columns, rows, width, lambda row: "" if row.unreadable is None else f"unreadable: {row.unreadable}"
    )
    more = f"{left_out:,} older record{'s' * (left_out != 1)} not shown: --limit 0 shows all."
    return page + "".join(f"{line}\n" for line in wrap(more, width, "  ")) if left_out else page


def render_checks(rows: Sequence[FileCheck], width: int) -> str:
    """Return a line or two for each file: which record it is, or what is wrong with it and what to do."""
    lines: list[str] = []
    for row in rows:
        if row.valid:
            lines += wrap(f"{row.file}: valid, {row.id}, {row.question}, schema {row.schema}", width, "  ")
        else:
            lines += wrap(f"NOT VALID: {row.why}", width, "  ")
            lines += wrap(f"  {row.hint}", width, "  ") if row.hint else []
    return "\n".join(lines) + "\n"


def render_imports(rows: Sequence[Imported], width: int) -> str:
    """Return a line for each file of an import."""
    return "\n".join(line for row in rows for line in wrap(f"{row.id} {row.status}", width, "  ")) + "\n"


def table_page(
    columns: Sequence[Column[Item]], items: Sequence[Item], width: int, failed: Callable[[Item], str] | None = None
) -> str:
    """Return a table of items, or sentences where it has no room."""
    return "\n".join(table_or_sentences(columns, items, width, failed=failed)) + "\n"


# All fields of what a page shows, in words: what `--details` prints below a page that is not a question's.

NAMING_FIELDS = ("name", "id", "file")  # which field names a row, the first that it has


def render_fields(values: object, width: int) -> str:
    """Return a line for each field of plain values, as JSON has them. A part with fields of its own is indented."""
    parts = values if isinstance(values, list) else [values]
    sections = ["\n".join(_lines(part, width, "")) for part in parts]
    return "\n\n".join(filter(None, sections)) + "\n"


def _lines(value: object, width: int, indent: str) -> Iterator[str]:
    """Yield the fields of an object. Below the root, its name is on the line above."""
    if not isinstance(value, dict):
        yield from wrap(indent + _words(value), width, indent + FIELD_INDENT)
        return
    for name, part in value.items():
        title = f"{indent}{str(name).replace('_', ' ')}:"
        if part in (None, "", [], {}):  # there is nothing to say
            continue
        if _is_plain(part):
            yield from wrap(f"{title} {_words(part)}", width, indent + FIELD_INDENT)
        elif isinstance(part, dict):
            below = [*_lines(part, width, indent + FIELD_INDENT)]
            yield from [*wrap(title, width, indent + FIELD_INDENT), *below] if below else []
        else:
            yield from _rows(title, part, width, indent)


def _rows(title: str, rows: Sequence[object], width: int, indent: str) -> Iterator[str]:
    """Yield a list of objects, each below its name or its number."""
    for number, row in enumerate(rows, start=1):
        names = [row[field] for field in NAMING_FIELDS if row.get(field)] if isinstance(row, dict) else []
        yield from wrap(f"{title} {names[0] if names else number}", width, indent + FIELD_INDENT)
        yield from _lines(row, width, indent + FIELD_INDENT)


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
            return quantities.plain(float(f"{value:.6g}"))
        case {"missing": reason}:
            return f"- ({reason})"
        case list():
            return ", ".join(map(_words, value))
        case _:
            return "-" if value in (None, "", {}) else str(value)
