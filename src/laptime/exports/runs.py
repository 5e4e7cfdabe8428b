"""A record as runs of an experiment tracker: one for each lane, with parameters, metrics over steps, and results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from laptime.exports.tables import NS_PER_MS, Row, plain, table_of
from laptime.model.questions import InferAnswer, TrainingAnswer
from laptime.model.record import LaneResult, Record
from laptime.visible import visible

RESULTS = ("step_ms", "step_ms_low", "step_ms_high", "items_per_s", "lap_s", "first_step_ms", "startup_s",
           "peak_memory_bytes", "device_memory_bytes", "energy_j_per_lap")  # fmt: skip
LAP_METRICS = ("train_s", "loss", "accuracy", "validation_loss", "validation_accuracy")
ANSWER_METRICS = ("items_per_s",)


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a run at a step: a window, a step of training, a lap, or a batch size."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What a tracker keeps of one lane, or of one whole training."""

    name: str
    parameters: dict[str, str]
    metrics: tuple[Metric, ...]
    results: dict[str, float] = field(default_factory=dict)

    def metrics_and_results(self) -> Iterator[Metric]:
        """Yield all figures, for a tracker that has no other place for results."""
        yield from self.metrics
        yield from (Metric(f"result/{name}", 0, value) for name, value in self.results.items())


def runs_of(record: Record) -> list[TrackedRun]:
    """Return a run for each lane; of whole trainings, one for each lane and seed."""
    lanes = {row["lane"]: row for row in table_of(record, "lanes")[1]} if record.lanes else {}
    if isinstance(record.answer, TrainingAnswer):
        keyed = _by_key(table_of(record, "laps")[1] if any(run.laps for run in record.answer.runs) else [])
        return [
            _run(f"{lane} seed {seed}", lanes.get(lane, {}), _over(rows, "lap", LAP_METRICS))
            for (lane, seed), rows in keyed.items()
        ]
    if isinstance(record.answer, InferAnswer):
        return [_answers(lane.lane, lanes, record) for lane in record.answer.lanes]
    return [_run(lane.name, lanes[lane.name], tuple(_heat_metrics(lane))) for lane in record.lanes]


def _by_key(rows: list[Row]) -> dict[tuple[str, int], list[Row]]:
    keyed: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        keyed.setdefault((row["lane"], row["seed"]), []).append(row)
    return keyed


def _answers(lane: str, lanes: dict[str, Row], record: Record) -> TrackedRun:
    rows = [row for row in table_of(record, "answers")[1] if row["lane"] == lane]
    single = {name: value for name, value in rows[0].items() if name in {"p50_ms", "p95_ms", "p99_ms"}}
    batches = [row for row in rows if row["batch"] is not None]
    return _run(lane, {**lanes.get(lane, {}), **single}, _over(batches, "batch", ANSWER_METRICS), tuple(single))


def _run(name: str, row: Row, metrics: tuple[Metric, ...], more: tuple[str, ...] = ()) -> TrackedRun:
    results = {key: float(row[key]) for key in (*RESULTS, *more) if _is_figure(row.get(key))}
    held = {key: plain(value) for key, value in row.items() if key not in (*RESULTS, *more)}
    parameters = {key: visible(str(value)) for key, value in held.items() if value is not None}
    return TrackedRun(visible(name), parameters, metrics, results)


def _over(rows: list[Row], step: str, names: tuple[str, ...]) -> tuple[Metric, ...]:
    return tuple(Metric(name, row[step], row[name]) for row in rows for name in names if _is_figure(row[name]))


def _heat_metrics(lane: LaneResult) -> Iterator[Metric]:
    """Yield the windows' mean steps, on and on through all heats, and the losses of the first heat."""
    windows = [window for heat in lane.heats for window in heat.windows]
    for number, window in enumerate(windows):
        yield Metric("window_step_ms", number, (window.end_ns - window.start_ns) / window.steps / NS_PER_MS)
    for step, loss in enumerate(lane.heats[0].losses if lane.heats else ()):
        if _is_figure(loss):
            yield Metric("loss", step, loss)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)
