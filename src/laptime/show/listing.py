"""What `laptime list` and a shell that completes need of saved records.

It imports no room that a record needs, and so is fast: nouns, questions and pages take 0.3 s.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import msgspec

from laptime.model.rows import RecordRow
from laptime.show.pages.rows import render_fields, render_records
from laptime.store.index import kept_rows
from laptime.store.plain_json import indented, to_json

WIDTH_OFF_TERMINAL = 100


def records() -> tuple[RecordRow, ...]:
    """Return a row for each saved record, the newest first. What reads records is imported if one has to be read."""
    rows = kept_rows()
    if rows is None:
        rows = tuple(importlib.import_module("laptime.store.files").list_records())
    return rows


def records_as_text(rows: Sequence[RecordRow], width: int, *, left_out: int = 0, is_chosen: bool = False) -> str:
    """Return a list of records. `left_out` is how many more there are, and `is_chosen` whether options chose them."""
    return render_records(rows, width, left_out=left_out, is_chosen=is_chosen).rstrip("\n")


def rows_as_json(rows: Sequence[RecordRow]) -> str:
    """Return a list of records as JSON. It holds texts and no figures, so only a name that is not UTF-8 needs care."""
    try:
        return indented(msgspec.json.encode(rows))
    except UnicodeEncodeError:
        return to_json(rows)


def fields_as_text(values: object, width: int) -> str:
    """Return all fields of what `to_json` prints, in words."""
    return render_fields(msgspec.json.decode(to_json(values)), width).rstrip("\n")
