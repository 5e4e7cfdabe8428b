"""Rows that others reported, and rows that are predicted: shown next to what was measured, and never like it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from laptime.machine.hardware import find_device, known_devices, known_efficiencies, match_label
from laptime.model.errors import RecordError, UsageError
from laptime.model.frameworks import FRAMEWORKS
from laptime.model.hardware import HardwareForecast, KnownDevice
from laptime.model.machine import DeviceKind
from laptime.model.quantities import Missing
from laptime.model.record import Record
from laptime.model.stats import median
from laptime.model.workload import Workload
from laptime.questions.forecast.run import COMMON, make_forecast
from laptime.show.board.row import PREDICTED, ROW_MOST_BYTES, SHORTEST, has_possible_numbers
from laptime.store.disk import read_regular
from laptime.trainings.workloads import CATALOGUE

PREDICTION_SCHEMA = 1
HINT_PREDICT = "Write it again: `laptime board predict ID`."
FOR_THE_BOARD = ("rtx-3060", "rtx-4060", "rtx-4070", "rtx-5090")
"""The cards that many have at home, besides those that a forecast names by default: twelve in all."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One published result: its lap and step as the median of what was published, and every figure that was.

    `figures` are all published numbers in words, and `flaw` is what the authors could not see.
    """

    training: str
    hardware: str
    kind: str
    short: str | None
    lap_s: float | None
    step_ms: float | None
    claim: str
    source: str
    date: str
    flaw: str
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PredictedRow:
    """One device that nobody measured here: the range in which 80 % of measured steps should be."""

    short: str
    hardware: str
    kind: DeviceKind
    step_ms: float
    step_low_ms: float
    step_high_ms: float
    lap_s: float
    lap_low_s: float
    lap_high_s: float
    binds: str


@dataclass(frozen=True, slots=True)
class PredictedFile:
    """The predictions of one training, and the measured lane that they begin with.

    `loader_is_known` is false where the training reads files and its loader was not timed alone: it may bind any card.
    """

    schema: int
    training: str
    lane: str
    preset: str
    record: str
    date: str
    laptime: str
    loader_is_known: bool
    rows: tuple[PredictedRow, ...]


@cache
def _facts() -> dict[str, dict[str, Any]]:
    text = resources.files("laptime.show.board").joinpath("flaws.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def reported_rows(workload: Workload) -> tuple[Reported, ...]:
    """Return a training's published results, each with its claim, source, date and flaw."""
    published = workload.published
    facts = _facts()[workload.name]
    rows = []
    for result in published.results:
        known = match_label(result.device, known_devices())
        lap_s = median(list(result.lap_s)) if result.lap_s else None
        if lap_s is None and result.total_s is not None:
            lap_s = result.total_s / workload.laps
        figures = []
        for name, words in FIGURES.items():
            value = getattr(result, name)
            if value not in {None, ()}:
                values = value if isinstance(value, tuple) else (value,)
                figures.append(words.format(", ".join(f"{number:g}" for number in values)))
        rows.append(
            Reported(
                training=workload.name,
                hardware=result.device,
                kind=result.kind,
                short=None if known is None else known.short,
                lap_s=lap_s,
                step_ms=None if lap_s is None else 1e3 * lap_s / workload.steps_per_lap,
                claim=published.claim,
                source=published.source,
                date=facts["date"],
                flaw=f"{facts['flaw']} Of this row: {result.note}." if result.note else facts["flaw"],
                figures=tuple(figures),
            )
        )
    return tuple(rows)


def describe_training(training: str) -> str:
    """Return what the authors of an experiment could not see, in sentences."""
    return str(_facts()[training]["flaw"])


# How each published figure is written, by its field.
FIGURES = {
    "lap_s": "laps of {} s",
    "step_ms": "steps of {} ms",
    "total_s": "{} s in all",
    "accuracy": "accuracy {}",
    "val_accuracy": "validation accuracy {}",
    "loss": "loss {}",
    "infer_one_s": "{} s to test one image",
    "busy_percent": "{} % busy",
    "memory_gb": "{} GB of memory",
    "power_w": "{} W",
    "temperature_c": "{} degrees Celsius",
    "processes": "{} processes",
    "threads": "{} threads",
}


CARDS_TO_PREDICT = tuple(dict.fromkeys((*COMMON, *FOR_THE_BOARD)))


def as_predictions(found: HardwareForecast, date: str, laptime: str) -> PredictedFile:
    """Return a forecast as the board keeps it."""
    if found.what not in CATALOGUE:
        says = f"{found.what} is no built-in training, and the board has no page of it"
        raise UsageError(says, "predict one that is")
    if found.lane.partition("/")[0] not in {framework.name for framework in FRAMEWORKS if not framework.switch}:
        raise UsageError(f"{found.lane} is a fake, whose figures are made up", "predict from a real lane")
    if found.distrust:
        says = f"{found.record} is NOT RELIABLE: {found.distrust}"
        raise UsageError(says, "race it again while the machine is quiet")
    rows = tuple(
        PredictedRow(
            row.device.short,
            row.device.name,
            row.device.kind,
            row.step_ms.middle,
            row.step_ms.low,
            row.step_ms.high,
            row.lap_s.middle,
            row.lap_s.low,
            row.lap_s.high,
            row.binds,
        )
        for row in found.rows
    )
    preset = found.lane.rpartition("/")[2]
    known = not CATALOGUE[found.what].reads_files or not isinstance(found.loader_items_per_s, Missing)
    return PredictedFile(PREDICTION_SCHEMA, found.what, found.lane, preset, found.record, date, laptime, known, rows)


def predict_again(record: Record, found: PredictedFile) -> PredictedFile:
    """Return what a stripped record predicts of the same devices, from itself and laptime's tables alone."""
    return predict_for_board(record, found.lane, [row.short for row in found.rows], found.date, found.laptime)


def predict_for_board(
    record: Record, lane: str | None, shorts: Sequence[str], date: str, laptime: str
) -> PredictedFile:
    """Return the predictions of a stripped record: those of all who have it are the same."""
    devices = [find_device(short, known_devices()) for short in shorts]
    return as_predictions(make_forecast(record, lane, devices, known_efficiencies()), date, laptime)


def encode_predictions(found: PredictedFile) -> bytes:
    return (json.dumps(msgspec.to_builtins(found), indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def read_predictions(board: Path, training: str) -> PredictedFile | None:
    """Return the predictions of a training, or None where the board has none."""
    place = board / PREDICTED / f"{training}.json"
    if not place.exists():
        return None
    try:
        found = msgspec.json.decode(read_regular(place, ROW_MOST_BYTES), type=PredictedFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{place.name} is no file of predictions: {error}", HINT_PREDICT) from None
    if not has_possible_numbers(found) or any(min(row.step_ms, row.lap_s) < SHORTEST for row in found.rows):
        raise RecordError(f"{place.name} predicts a time that nothing takes", HINT_PREDICT)
    if found.training != training or found.schema != PREDICTION_SCHEMA:
        raise RecordError(f"{place.name} holds predictions of {found.training!a}", HINT_PREDICT)
    return found


@cache
def price_of(short: str | None) -> KnownDevice | None:
    """Return the device whose price of an hour is known, with its date."""
    for device in known_devices():
        if device.short == short:
            return None if device.price_per_hour is None else device
    return None


def also_published(training: str) -> tuple[str, ...]:
    """Return what an experiment stated that is no figure of one device."""
    return tuple(_facts()[training]["also"])
