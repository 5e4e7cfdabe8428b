"""A report of records as a file or a folder, as `laptime report` writes it."""

from __future__ import annotations

import os
import warnings
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from laptime import api, showing
from laptime.errors import UsageError
from laptime.model.record import Record

TO_STDOUT = "-"


def write_report(
    records: Sequence[Record], output: str | os.PathLike[str] | None, form: str | None, *, opens: bool
) -> Path:
    """Write the report of these records and return where. If it `opens`, a browser shows it then."""
    given = None if output is None else os.fspath(output)
    if given == TO_STDOUT:
        raise UsageError("output='-' prints on the command line only", "Use print(result.to_html()), or name a file.")
    made = showing.as_files(records, showing.format_of(form, given))
    place = Path(given or made.name)
    api.write_files(place, made.files, is_folder=made.is_folder)
    address = place.resolve().as_uri()
    if opens and not webbrowser.open(address):
        warnings.warn(f"no browser was found; open {address}", RuntimeWarning, stacklevel=3)
    return place
