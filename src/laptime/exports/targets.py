"""The table of what a record can be exported to, one row a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laptime.exports.documents import as_csv, as_json, as_parquet, as_pyperf
from laptime.exports.trackers import to_mlflow, to_tensorboard, to_wandb
from laptime.model.record import Record


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


EXPORTS: dict[str, ExportRow] = {
    row.name: row
    for row in (
        ExportRow("csv", ".csv", make=as_csv, is_text=True, has_tables=True),
        ExportRow("json", ".rows.json", make=as_json, is_text=True, has_tables=True),
        ExportRow("parquet", ".parquet", "pyarrow", make=as_parquet, has_tables=True),
        ExportRow("pyperf", ".pyperf.json", make=as_pyperf, is_text=True),
        ExportRow("tensorboard", "-tensorboard", "tensorboardX", fill=to_tensorboard),
        ExportRow("mlflow", ".mlflow.db", "mlflow", fill=to_mlflow),
        ExportRow("wandb", "-wandb", "wandb", fill=to_wandb),
    )
}
