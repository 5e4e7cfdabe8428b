"""What a record can be exported to, one row a target, and the tables of plain values that most of them write: lanes,
heats, windows, steps, laps and answers.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import msgspec

from laptime.model.errors import UsageError
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import HeatResult, InferAnswer, LaneResult, Record, TrainingAnswer
from laptime.model.visible import as_cell, encodable, visible
from laptime.model.watched import WatchAnswer
from laptime.questions.compare.nouns import Compared, History, LaneChange

# The tables of a record: rows of plain values for lanes, heats, windows, steps, laps and answers.
#
# A comparison and a history have one table each.

NS_PER_MS = 1e6
SCRIPT_PARTS = ("data", "copy", "forward_backward", "no_grad", "optimizer", "checkpoint", "outside")
ExportedRow = dict[str, Any]


def table_of(record: Record, what: str | None) -> tuple[str, list[ExportedRow]]:
    """Return a table's name and its rows: the one that is asked for, or the first of TABLES that has any."""
    held = {name: rows for name, make in TABLES.items() if (rows := list(make(record)))}
    if what is None and not held:
        way = f"`laptime show {record.id} --json` has what it holds."
        raise UsageError(f"{record.id} has no rows for a table", way)
    if what is None:
        return next(iter(held.items()))
    if what not in held:
        raise UsageError(f"{record.id} has no {what}", f"It has: {', '.join(held) or 'no rows at all'}.")
    return what, held[what]


def _heats(record: Record) -> Iterator[ExportedRow]:
    for lane, result in _all_heats(record):
        per_s = lane.items_per_step * 1e3 / result.step_ms if lane.items_per_step and result.step_ms else None
        yield {
            **_begin(record, lane),
            "heat": result.heat.order,
            "round": result.heat.round,
            "status": result.heat.process.status,
            "steady": result.steady,
            "step_ms": result.step_ms,
            "items_per_s": per_s,
            "first_step_ms": result.first_step_ms,
            "windows": len(result.heat.windows),
            "last_loss": result.heat.losses[-1] if result.heat.losses else None,
            "peak_memory_bytes": result.heat.process.peak_memory_bytes,
            "device_memory_bytes": result.heat.process.device_memory_bytes,
            **_settings(lane),
        }


def _laps(record: Record) -> Iterator[ExportedRow]:
    lanes = {lane.name: lane for lane in record.lanes}
    for run in record.answer.runs if isinstance(record.answer, TrainingAnswer) else ():
        lane = lanes.get(run.process.lane)
        for lap in run.laps:
            score = lap.validation.score if lap.validation else None
            yield {
                "record": record.id,
                "workload": record.workload.name,
                "lane": run.process.lane,
                "seed": run.seed,
                "lap": lap.number,
                "steps": lap.steps,
                "train_s": lap.train_s,
                "loss": lap.score.loss,
                "accuracy": lap.score.accuracy,
                "validation_loss": score.loss if score else None,
                "validation_accuracy": score.accuracy if score else None,
                "validation_s": lap.validation.seconds if lap.validation else None,
                **(_settings(lane) if lane else {}),
            }


def _answers(record: Record) -> Iterator[ExportedRow]:
    """Yield a row for the single calls of a lane (no batch), and one for each batch size."""
    for lane in record.answer.lanes if isinstance(record.answer, InferAnswer) else ():
        begin = {"record": record.id, "workload": record.workload.name, "lane": lane.lane}
        single = {name: _median(getattr(lane, name)) for name in ("p50_ms", "p95_ms", "p99_ms")}
        yield {**begin, "batch": None, "calls": lane.calls, **single, **_estimate("items_per_s", None)}
        for batch in lane.batches:
            rate = _estimate("items_per_s", batch.items_per_s)
            yield {**begin, "batch": batch.batch, "calls": None, **dict.fromkeys(single), **rate}


def _lanes(record: Record) -> Iterator[ExportedRow]:
    for lane in record.lanes:
        yield {
            **_begin(record, lane),
            "status": lane.status,
            "reliable": record.distrust is None,
            "reason": lane.reason,
            "same_work": lane.parity.status,
            **_estimate("step_ms", lane.step_ms),
            **_estimate("lap_s", lane.lap_s),
            **_estimate("items_per_s", lane.items_per_s),
            "first_step_ms": lane.first_step_ms,
            "startup_s": lane.startup_s,
            "peak_memory_bytes": lane.peak_memory_bytes,
            "device_memory_bytes": lane.device_memory_bytes,
            "energy_j_per_lap": lane.energy_j_per_lap,
            **_settings(lane),
        }


def _windows(record: Record) -> Iterator[ExportedRow]:
    """Yield the windows of heats; or, of a watched script, some iterations in a row of each process, with its parts."""
    if isinstance(record.answer, WatchAnswer):
        yield from _script_windows(record.id, record.answer)
    for lane, result in _all_heats(record):
        of_old = range(result.steady_from, len(result.heat.windows))  # before the windows that count were kept
        counted = of_old if result.counted is None else result.counted
        for number, window in enumerate(result.heat.windows):
            yield {
                "record": record.id,
                "lane": lane.name,
                "heat": result.heat.order,
                "window": number,
                "counts": number in counted,
                "start_ns": window.start_ns,
                "end_ns": window.end_ns,
                "first_step": window.first_step,
                "steps": window.steps,
                "step_ms": (window.end_ns - window.start_ns) / window.steps / NS_PER_MS,
                "turn": window.turn,
                "flag": window.flag,
                "other_cores": window.noise.other_cores if window.noise else None,
            }


def _script_windows(identity: str, answer: WatchAnswer) -> Iterator[ExportedRow]:
    for process in answer.processes:
        for number, window in enumerate(process.loop.windows if process.loop else ()):
            per_ms = NS_PER_MS * max(window.iterations, 1)
            yield {
                "record": identity,
                "process": process.pid,
                "rank": process.rank,
                "window": number,
                "counts": process.loop is not None and number >= process.loop.steady_from,
                "start_ns": window.start_ns,
                "end_ns": window.end_ns,
                "iterations": window.iterations,
                "items": window.items,
                "step_ms": window.wall_ns / per_ms,
                **{f"{name}_ms": getattr(window, f"{name}_ns") / per_ms for name in SCRIPT_PARTS},
            }


def _steps(record: Record) -> Iterator[ExportedRow]:
    """Yield the single steps that windows kept; a window of thousands of steps keeps the first only."""
    for lane, result in _all_heats(record):
        for number, window in enumerate(result.heat.windows):
            for step, taken_ns in enumerate(window.step_ns):
                yield {
                    "record": record.id,
                    "lane": lane.name,
                    "heat": result.heat.order,
                    "window": number,
                    "step": step,
                    "step_ms": taken_ns / NS_PER_MS,
                }


def _all_heats(record: Record) -> Iterator[tuple[LaneResult, HeatResult]]:
    return ((lane, heat) for lane in record.lanes for heat in lane.heats)


def _begin(record: Record, lane: LaneResult) -> ExportedRow:
    return {
        "record": record.id,
        "started": record.started,
        "workload": lane.training or record.workload.name,
        "lane": lane.name,
        "device": lane.device.label,
        "framework": " ".join(f"{name} {version}" for name, version in lane.framework.items()),
    }


def _settings(lane: LaneResult) -> ExportedRow:
    held = asdict(lane.settings)
    extra = held.pop("extra")
    return {f"setting_{name}": value for name, value in {**held, **extra}.items()}


def _estimate(name: str, figure: Estimate | None) -> ExportedRow:
    return {
        name: _median(figure),
        f"{name}_low": figure.low if figure else None,
        f"{name}_high": figure.high if figure else None,
    }


def _median(figure: Estimate | None) -> float | None:
    return figure.median if figure else None


def compared_rows(found: Compared) -> Iterator[ExportedRow]:
    """Yield a row for each lane of a comparison: its rates before and after, and the ratio."""
    for lane in found.lanes:
        yield {
            "lane": lane.lane,
            "training": lane.training,
            "before": found.before.id,
            "after": found.after.id,
            **_estimate("before_items_per_s", lane.before),
            **_estimate("after_items_per_s", lane.after),
            **_change(lane),
            "same_work": lane.same_work,
            "fails": lane.lane in found.failing,
        }


def history_rows(found: History) -> Iterator[ExportedRow]:
    """Yield a row for each point of a history, the oldest first. The ratio is against the last on its machine."""
    for point in found.points:
        yield {
            "record": point.id,
            "started": point.started,
            "label": point.label,
            "machine": point.machine,
            "lane": found.lane,
            **_estimate("items_per_s", point.items_per_s),
            "heats": point.heats,
            **_change(point.change),
            "marks": ", ".join(point.marks),
        }


def _change(change: LaneChange | None) -> ExportedRow:
    """Return how a lane changed; where there is nothing to compare with, all is missing."""
    return {
        "ratio": change.ratio if change else None,
        "ratio_low": change.low if change else None,
        "ratio_high": change.high if change else None,
        "verdict": change.verdict if change else None,
    }


def value_or_none(value: Any) -> Any:
    """Return a value for a table that has no place for a reason: nothing where it is missing."""
    return None if isinstance(value, Missing) else value


TABLES: dict[str, Callable[[Record], Iterator[ExportedRow]]] = {
    "heats": _heats,
    "laps": _laps,
    "answers": _answers,
    "lanes": _lanes,
    "windows": _windows,
    "steps": _steps,
}
"""By name; the first that has rows is what is exported by default."""


# Exports that are one file: CSV, JSON, Parquet, and a benchmark file that pyperf reads.

PYPERF_VERSION = "1.0"
MS_PER_S = 1e3


def as_csv(record: Record, what: str | None) -> bytes:
    """Return a table with a head. Where a figure is missing, the cell is empty."""
    _, rows = table_of(record, what)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _columns(rows)
    writer.writerow(columns)
    for row in rows:
        values = [value_or_none(row.get(name)) for name in columns]
        writer.writerow([as_cell(_line(value)) if isinstance(value, str) else value for value in values])
    return text.getvalue().encode()


def as_json(record: Record, what: str | None) -> bytes:
    """Return a table as a list of objects. Where a figure is missing, its reason is there."""
    name, rows = table_of(record, what)
    exported = {
        "record": record.id,
        "table": name,
        "rows": [{key: _held(part) for key, part in row.items()} for row in rows],
    }
    return (json.dumps(exported, indent=1, allow_nan=False) + "\n").encode()


def as_parquet(record: Record, what: str | None) -> bytes:
    """Return a table whose metadata has the record's id. Where a figure is missing, the cell is null."""
    pyarrow = import_client("pyarrow")
    parquet = import_client("pyarrow.parquet", "pyarrow")
    name, rows = table_of(record, what)
    columns = {
        column: [
            encodable(value) if isinstance(value, str) else value
            for value in (value_or_none(row.get(column)) for row in rows)
        ]
        for column in _columns(rows)
    }
    table = pyarrow.table(columns).replace_schema_metadata({"laptime.record": record.id, "laptime.table": name})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def as_pyperf(record: Record, _what: str | None) -> bytes:
    """Return a suite with a benchmark for each lane and a run for each heat; a value is a window's mean step in s."""
    lanes = [lane for lane in record.lanes if any(result.heat.windows for result in lane.heats)]
    benchmarks = [
        {"metadata": {"name": _line(lane.name)}, "runs": [_run(result) for result in lane.heats if result.heat.windows]}
        for lane in lanes
    ]
    metadata = {
        "unit": "second",
        "date": record.started.replace("T", " ")[:19],
        "cpu_model_name": _line(str(value_or_none(record.machine.processor.name) or "unknown")),
        "platform": _line(record.machine.system) or "unknown",
        "laptime_record": record.id,
        "laptime_workload": _line(record.workload.name) or "unknown",
    }
    suite = {"version": PYPERF_VERSION, "metadata": metadata, "benchmarks": benchmarks}
    return (json.dumps(suite, indent=1) + "\n").encode()


def _run(result: HeatResult) -> dict[str, Any]:
    """Return a heat. Windows before the steady state are warm-ups."""
    steps_s = [
        (window.end_ns - window.start_ns) / window.steps / NS_PER_MS / MS_PER_S for window in result.heat.windows
    ]
    start = result.steady_from if result.steady_from < len(steps_s) else 0
    return {
        "warmups": [[1, value] for value in steps_s[:start]],
        "values": [value for value in steps_s[start:] if value > 0],
    }


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _columns(rows: Sequence[ExportedRow]) -> list[str]:
    return list(dict.fromkeys(encodable(name) for row in rows for name in row))


def _held(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"missing": f"not a finite number: {value}"}
    if isinstance(value, Missing):
        return msgspec.to_builtins(value)
    return encodable(value) if isinstance(value, str) else value


# Tables as pandas DataFrames, for a notebook. pandas is imported when one is made.


def record_frame(record: Record, table: str) -> Any:
    """Return one of TABLES of a record."""
    return _frame(table_of(record, table)[1])


def compared_frame(found: Compared) -> Any:
    """Return a row for each lane of a comparison."""
    return _frame(compared_rows(found))


def history_frame(found: History) -> Any:
    """Return a row for each point of a history."""
    return _frame(history_rows(found))


def _frame(rows: Iterable[ExportedRow]) -> Any:
    """Return a DataFrame. Where a figure is missing, the cell is empty."""
    pandas = import_client("pandas")
    return pandas.DataFrame([{name: value_or_none(value) for name, value in row.items()} for row in rows])


# The clients of other tools, imported when an export needs them.


def import_client(module: str, package: str | None = None) -> Any:
    """Import a client's module; a UsageError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        named = package or module
        is_absent = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == named
        says = (
            f"this export needs {named}, which is not installed" if is_absent else f"{named} fails to import: {error}"
        )
        raise UsageError(says, f"pip install {named}") from None


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


def all_exports() -> dict[str, ExportRow]:
    """Return every row by its name: those of laptime, and those that installed packages add as entry points."""
    return _all_rows()[0]


@cache
def _all_rows() -> tuple[dict[str, ExportRow], dict[str, str]]:
    """Return every row by its name, and why entry points cannot be loaded: one bad package must not take the others."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and only an export needs it

    rows = {row.name: row for row in EXPORTS}
    broken: dict[str, str] = {}
    for point in metadata.entry_points(group=EXPORT_ENTRY_POINTS):
        try:
            added: ExportRow = point.load()
        except (ImportError, AttributeError, SyntaxError) as error:
            broken[point.name] = str(error)
        else:
            rows.setdefault(added.name, added)
    return rows, broken


def find_export(name: str) -> ExportRow:
    """Return the row of a target; a UsageError names those that there are."""
    rows, broken = _all_rows()
    if name in rows:
        return rows[name]
    if name in broken:
        raise UsageError(f"--to {name}: its package cannot be loaded: {broken[name]}", WITH_TRACKERS)
    hint = WITH_TRACKERS if name in TRACKERS else f"targets: {', '.join(rows)}"
    raise UsageError(f"--to {name}: there is no such target here", hint)
