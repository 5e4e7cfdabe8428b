"""Tables as pandas DataFrames, for a notebook. pandas is imported when one is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from laptime.exports.clients import import_client
from laptime.exports.tables import Row, compared_rows, history_rows, plain, table_of
from laptime.model.record import Record
from laptime.questions.compare.history_nouns import History
from laptime.questions.compare.nouns import Compared


def record_frame(record: Record, table: str) -> Any:
    """Return one of TABLES of a record."""
    return _frame(table_of(record, table)[1])


def compared_frame(found: Compared) -> Any:
    """Return a row for each lane of a comparison."""
    return _frame(compared_rows(found))


def history_frame(found: History) -> Any:
    """Return a row for each point of a history."""
    return _frame(history_rows(found))


def _frame(rows: Iterable[Row]) -> Any:
    """Return a DataFrame. Where a figure is missing, the cell is empty."""
    pandas = import_client("pandas")
    return pandas.DataFrame([{name: plain(value) for name, value in row.items()} for row in rows])
