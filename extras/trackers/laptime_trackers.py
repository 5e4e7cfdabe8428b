"""Records of laptime in experiment trackers, by their own clients: TensorBoard, MLflow, Weights & Biases offline.

Each target is a row that laptime finds by the entry point of its name.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import isfinite
from pathlib import Path
from threading import Thread
from typing import Any

from laptime.model.errors import StoreError, UsageError
from laptime.model.record import InferAnswer, LaneResult, Record, TrainingAnswer
from laptime.model.visible import visible
from laptime.store.exports import NS_PER_MS, ExportedRow, ExportRow, import_client, table_of, value_or_none

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._=-]+")
EXPERIMENT = "laptime"
MLFLOW_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
MLFLOW_HINT = (
    "Check that it runs there, or name a file with -o. MLFLOW_HTTP_REQUEST_TIMEOUT is how many seconds to wait for it."
)
LONGEST_PARAMETER = 6000  # characters; MLflow refuses longer ones
BATCH = 1000  # metrics; MLflow refuses more at once
REMOTE = re.compile(r"[a-z][a-z0-9+]*://")


def to_tensorboard(record: Record, place: str) -> None:
    """Write a folder of event files, one run a lane.

    The client's SummaryWriter writes in a thread, which loses the events or stops where the disk is full. So each event
    is written here, by the class that it uses.
    """
    import_client("tensorboardX")
    writer_class = import_client("tensorboardX.event_file_writer", "tensorboardX").EventsWriter
    event_class = import_client("tensorboardX.proto.event_pb2", "tensorboardX").Event
    summary = import_client("tensorboardX.summary", "tensorboardX")
    seconds = _seconds(record)

    def write(folder: Path) -> None:
        for run in _named_apart(runs_of(record)):
            (folder / run.name).mkdir()
            writer = writer_class(str(folder / run.name / "events"))
            told = "\n".join(f"    {key}: {value}" for key, value in run.parameters.items())
            made = [(summary.scalar(each.name, each.value), each.step) for each in run.metrics_and_results()]
            for said, step in [*made, (summary.text("parameters", told), 0)]:
                writer.write_event(event_class(wall_time=seconds, step=step, summary=said))
            writer.flush()
            writer.close()

    _whole_folder(place, write)


def to_wandb(record: Record, place: str) -> None:
    """Write a folder of offline runs, which `wandb sync` uploads. Nothing is sent."""
    wandb = import_client("wandb")
    quiet = wandb.Settings(
        silent=True, console="off", disable_git=True, x_disable_stats=True, x_disable_machine_info=True
    )

    def write(folder: Path) -> None:
        for run in runs_of(record):
            config = {**run.parameters, "record": record.id}
            made = wandb.init(
                mode="offline", dir=str(folder), project=EXPERIMENT, name=run.name, config=config, settings=quiet
            )
            for metric in run.metrics:
                made.log({metric.name: metric.value, f"{metric.name}_at": metric.step})
            made.summary.update(run.results)
            made.finish()

    with _quiet_logging():
        _whole_folder(place, write)


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Print no traceback where a client's own log cannot be written: its folder is what is being written."""
    before = logging.raiseExceptions
    logging.raiseExceptions = False
    try:
        yield
    finally:
        logging.raiseExceptions = before


def to_mlflow(record: Record, place: str) -> None:
    """Add a run for each lane to a tracking server (a URL), or to a SQLite file, which is made if it does not exist."""
    for name, value in MLFLOW_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    client_class = import_client("mlflow.tracking", "mlflow").MlflowClient
    entities = import_client("mlflow.entities", "mlflow")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    is_remote = REMOTE.match(place) is not None
    is_new = not is_remote and not Path(place).exists()
    try:
        client = client_class(tracking_uri=place if is_remote else f"sqlite:///{Path(place).absolute()}")
        client = _Answering(client, _patience_s()) if is_remote else client
        found = client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
        _add_runs(client, entities, experiment, record)
    except Exception as error:
        if is_new:
            Path(place).unlink(missing_ok=True)
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise StoreError(f"MLflow at {place} did not take the record: {first}", MLFLOW_HINT) from error


class _Answering:
    """A client whose calls end in time, whatever the server does.

    The client's own limit is for each wait on the network: a server that sends a byte a second never reaches it. Each
    call runs in a thread. One that does not return is left behind, and ends with this process.
    """

    def __init__(self, client: Any, longest_s: float) -> None:
        self._client, self._longest_s = client, longest_s

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, getattr(self._client, name))

    def _call(self, ask: Callable[..., Any], *given: Any, **named: Any) -> Any:
        answered: Future[Any] = Future()

        def work() -> None:
            try:
                answered.set_result(ask(*given, **named))
            except BaseException as error:  # noqa: BLE001  the caller raises it
                answered.set_exception(error)

        Thread(target=work, daemon=True).start()
        try:
            return answered.result(self._longest_s)
        except TimeoutError:
            if answered.done():
                raise
            raise TimeoutError(f"it did not answer within {self._longest_s:g} s") from None


def _patience_s() -> float:
    """Return how long the client itself may wait for a server that is silent."""
    tries = int(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) + 1
    return max(tries, 1) * float(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"])


def _add_runs(client: Any, entities: Any, experiment: str, record: Record) -> None:
    """Add all runs, or none: what was begun is deleted after an error, if the server still answers."""
    at_ms, begun = int(_seconds(record) * 1e3), []
    try:
        for run in runs_of(record):
            made = client.create_run(
                experiment, start_time=at_ms, run_name=run.name, tags={"laptime.record": record.id}
            )
            begun.append(made.info.run_id)
            told = [*run.metrics_and_results()]
            metrics = [entities.Metric(_key(each.name), each.value, at_ms, each.step) for each in told]
            parameters = [entities.Param(_key(key), value[:LONGEST_PARAMETER]) for key, value in run.parameters.items()]
            client.log_batch(begun[-1], params=parameters)
            for start in range(0, len(metrics), BATCH):
                client.log_batch(begun[-1], metrics=metrics[start : start + BATCH])
            client.set_terminated(begun[-1])
    except BaseException:
        with suppress(Exception):
            for run_id in begun:
                client.delete_run(run_id)
        raise


def _key(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_./ -]", "_", name)[:250]


def _seconds(record: Record) -> float:
    try:
        return datetime.fromisoformat(record.started).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _named_apart(runs: list[TrackedRun]) -> list[TrackedRun]:
    """Return the runs under names that a folder may have, no two alike."""
    named: dict[str, TrackedRun] = {}
    for run in runs:
        name = NOT_IN_NAMES.sub("-", run.name).strip("-.")[:100] or "lane"
        while name in named:
            name += "-again"
        named[name] = TrackedRun(name, run.parameters, run.metrics, run.results)
    return list(named.values())


def _whole_folder(place: str, write: Callable[[Path], None]) -> None:
    """Fill a folder next to its place, and then give it its name: nothing half-written is left."""
    target = Path(place)
    if target.exists():
        raise UsageError(f"{target} exists already", "Name another folder with -o, or remove it.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".laptime-export-", dir=target.parent))
        try:
            write(folder)
            folder.chmod(0o755)
            folder.rename(target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        says = f"{target} could not be written: {error.strerror or error}"
        raise StoreError(says, "Make room there, or name another place with -o.") from error


# A record as runs of an experiment tracker: one for each lane, with parameters, metrics over steps, and results.

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


def _by_key(rows: list[ExportedRow]) -> dict[tuple[str, int], list[ExportedRow]]:
    keyed: dict[tuple[str, int], list[ExportedRow]] = {}
    for row in rows:
        keyed.setdefault((row["lane"], row["seed"]), []).append(row)
    return keyed


def _answers(lane: str, lanes: dict[str, ExportedRow], record: Record) -> TrackedRun:
    rows = [row for row in table_of(record, "answers")[1] if row["lane"] == lane]
    single = {name: value for name, value in rows[0].items() if name in {"p50_ms", "p95_ms", "p99_ms"}}
    batches = [row for row in rows if row["batch"] is not None]
    return _run(lane, {**lanes.get(lane, {}), **single}, _over(batches, "batch", ANSWER_METRICS), tuple(single))


def _run(name: str, row: ExportedRow, metrics: tuple[Metric, ...], more: tuple[str, ...] = ()) -> TrackedRun:
    results = {key: float(row[key]) for key in (*RESULTS, *more) if _is_figure(row.get(key))}
    held = {key: value_or_none(value) for key, value in row.items() if key not in (*RESULTS, *more)}
    parameters = {key: visible(str(value)) for key, value in held.items() if value is not None}
    return TrackedRun(visible(name), parameters, metrics, results)


def _over(rows: list[ExportedRow], step: str, names: tuple[str, ...]) -> tuple[Metric, ...]:
    return tuple(Metric(name, row[step], row[name]) for row in rows for name in names if _is_figure(row[name]))


def _heat_metrics(lane: LaneResult) -> Iterator[Metric]:
    """Yield the windows' mean steps, on and on through all heats, and the losses of the first heat."""
    windows = [window for result in lane.heats for window in result.heat.windows]
    for number, window in enumerate(windows):
        yield Metric("window_step_ms", number, (window.end_ns - window.start_ns) / window.steps / NS_PER_MS)
    for step, loss in enumerate(lane.heats[0].heat.losses if lane.heats else ()):
        if _is_figure(loss):
            yield Metric("loss", step, loss)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


TENSORBOARD = ExportRow("tensorboard", "-tensorboard", "tensorboardX", fill=to_tensorboard)
MLFLOW = ExportRow("mlflow", ".mlflow.db", "mlflow", fill=to_mlflow)
WANDB = ExportRow("wandb", "-wandb", "wandb", fill=to_wandb)
