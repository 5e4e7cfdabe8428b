"""What a record can be exported to, one row a target: those of laptime, and those that packages add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from laptime.errors import UsageError
from laptime.exports.tables import as_csv, as_json, as_parquet, as_pyperf
from laptime.model.record import Record

EXPORT_ENTRY_POINTS = "laptime.exports"
TRACKERS = ("tensorboard", "mlflow", "wandb")
WITH_TRACKERS = "It comes with the package laptime-trackers: pip install ./extras/trackers, in a clone of laptime."


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One target. `make` returns the bytes of a file; `fill` writes a folder, a database, or to a server.

    `needs` is the package of its client, `ending` how the file or folder is called after the record's id. `is_text`
    says whether it can be printed, `has_tables` whether `--what` chooses the table.
    """

    name: str
    ending: str
    needs: str | None = None
    make: Callable[[Record, str | None], bytes] | None = None
    fill: Callable[[Record, str], None] | None = None
    is_text: bool = False
    has_tables: bool = False


EXPORTS = (
    ExportRow("csv", ".csv", make=as_csv, is_text=True, has_tables=True),
    ExportRow("json", ".rows.json", make=as_json, is_text=True, has_tables=True),
    ExportRow("parquet", ".parquet", "pyarrow", make=as_parquet, has_tables=True),
    ExportRow("pyperf", ".pyperf.json", make=as_pyperf, is_text=True),
)


@cache
def all_exports() -> dict[str, ExportRow]:
    """Return every row by its name: those of laptime, and those that installed packages add as entry points."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and only an export needs it

    ours = {row.name: row for row in EXPORTS}
    added: list[ExportRow] = [each.load() for each in metadata.entry_points(group=EXPORT_ENTRY_POINTS)]
    return ours | {row.name: row for row in added if row.name not in ours}


def find_export(name: str) -> ExportRow:
    """Return the row of a target; a UsageError names those that there are."""
    rows = all_exports()
    if name in rows:
        return rows[name]
    hint = WITH_TRACKERS if name in TRACKERS else f"targets: {', '.join(rows)}"
    raise UsageError(f"--to {name}: there is no such target here", hint)
