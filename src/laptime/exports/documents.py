"""Exports that are one file: CSV, JSON, Parquet, and a benchmark file that pyperf reads."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from laptime.exports.clients import import_client
from laptime.exports.tables import NS_PER_MS, Row, plain, table_of
from laptime.model.missing import Missing
from laptime.model.record import HeatResult, Record
from laptime.visible import as_cell, encodable, visible

PYPERF_VERSION = "1.0"
MS_PER_S = 1e3


def as_csv(record: Record, what: str | None) -> bytes:
    """Return a table with a head. Where a figure is missing, the cell is empty."""
    _, rows = table_of(record, what)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _columns(rows)
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode()


def as_json(record: Record, what: str | None) -> bytes:
    """Return a table as a list of objects. Where a figure is missing, its reason is there."""
    name, rows = table_of(record, what)
    told = {
        "record": record.id,
        "table": name,
        "rows": [{key: _held(part) for key, part in row.items()} for row in rows],
    }
    return (json.dumps(told, indent=1, allow_nan=False) + "\n").encode()


def as_parquet(record: Record, what: str | None) -> bytes:
    """Return a table whose metadata has the record's id. Where a figure is missing, the cell is null."""
    pyarrow, parquet = import_client("pyarrow"), import_client("pyarrow.parquet", "pyarrow")
    name, rows = table_of(record, what)
    columns = {column: [_typed(plain(row.get(column))) for row in rows] for column in _columns(rows)}
    table = pyarrow.table(columns).replace_schema_metadata({"laptime.record": record.id, "laptime.table": name})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def as_pyperf(record: Record, _what: str | None) -> bytes:
    """Return a suite with a benchmark for each lane and a run for each heat; a value is a window's mean step in s."""
    lanes = [lane for lane in record.lanes if any(heat.windows for heat in lane.heats)]
    benchmarks = [
        {"metadata": {"name": _line(lane.name)}, "runs": [_run(heat) for heat in lane.heats if heat.windows]}
        for lane in lanes
    ]
    metadata = {
        "unit": "second",
        "date": _local_date(record.started),
        "cpu_model_name": _line(str(plain(record.machine.processor.name) or "unknown")),
        "platform": _line(record.machine.system) or "unknown",
        "laptime_record": record.id,
        "laptime_workload": _line(record.workload.name) or "unknown",
    }
    told = {"version": PYPERF_VERSION, "metadata": metadata, "benchmarks": benchmarks}
    return (json.dumps(told, indent=1) + "\n").encode()


def _run(heat: HeatResult) -> dict[str, Any]:
    """Return a heat. Windows before the steady state are warm-ups."""
    steps_s = [(each.end_ns - each.start_ns) / each.steps / NS_PER_MS / MS_PER_S for each in heat.windows]
    start = heat.steady_from if heat.steady_from < len(steps_s) else 0
    return {
        "warmups": [[1, value] for value in steps_s[:start]],
        "values": [value for value in steps_s[start:] if value > 0],
    }


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _local_date(started: str) -> str:
    return started.replace("T", " ")[:19]


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(encodable(name) for row in rows for name in row))


def _cell(value: Any) -> Any:
    value = plain(value)
    if not isinstance(value, str):
        return value
    return as_cell(_line(value))


def _held(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"missing": f"not a finite number: {value}"}
    if isinstance(value, Missing):
        return msgspec.to_builtins(value)
    return encodable(value) if isinstance(value, str) else value


def _typed(value: Any) -> Any:
    return encodable(value) if isinstance(value, str) else value
