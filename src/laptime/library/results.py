"""What the functions of the library return. Each prints as its page, and has what it found as typed attributes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

from laptime import api
from laptime.api import showing
from laptime.library.notebook import Shown, write_report
from laptime.model.errors import RecordError, UsageError
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan, FullRun, InferPlan, LapFactor
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import (
    Comparison,
    InferAnswer,
    InferFactor,
    InferLane,
    LaneResult,
    Record,
    TrainingAnswer,
)
from laptime.questions.doctor.nouns import Checkup, Problem
from laptime.questions.doctor.run import DeviceLimits


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """The answer to a question. `record` is all that was measured, `is_saved` whether it was saved to the end."""

    record: Record
    is_saved: bool = True

    @property
    def id(self) -> str:
        """What `laptime.load` and `laptime show` find it by."""
        return self.record.id

    @property
    def status(self) -> str:
        """Finished, interrupted, running or ended."""
        return self.record.status

    @property
    def lanes(self) -> LaneList:
        """The figures of each lane, in order: `lanes[0]`, `lanes["cuda/best"]`."""
        return lanes_of(self.record)

    @property
    def ratios(self) -> dict[str, Ratio]:
        """How each lane compares with the first, by its name."""
        return ratios_of(self.record)

    @property
    def ratio(self) -> Ratio:
        """How the second of two lanes compares with the first."""
        if (count := len(self.record.lanes)) != 2:
            hint = "Use .ratios, or .lanes['...'].ratio." if count > 2 else "Race it with another lane."
            raise UsageError(f"this result has {count} lane{'s' * (count != 1)}, and .ratio compares two", hint)
        found = [*self.ratios.values()]
        if not found:
            failed = [f"{lane.name}: {lane.reason or lane.status}" for lane in self.record.lanes if lane.status != "ok"]
            says = f"the lanes could not be compared: {'; '.join(failed) or self.status}"
            raise RecordError(says, "The page says what was measured: print the result.")
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.as_json(self.record))
        return found

    def to_html(self) -> str:
        """Return the report as one HTML page that needs no network."""
        return showing.as_html(self.record)

    def to_pandas(self, table: str = "lanes") -> Any:
        """Return a pandas DataFrame: a row for each lane, or of another table as `laptime export --what` has it.

        Tables: heats, laps, answers, lanes, windows, steps. Where a figure is missing, the cell is empty.
        """
        return api.record_frame(self.record, table)

    def report(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        format: str | None = None,  # noqa: A002  the command's option
        card: bool = False,
        badge: bool = False,
        dark: bool = False,
        open: bool = False,  # noqa: A002  the command's option
    ) -> Path:
        """Write the report, and return where: by default as HTML next to you, or in the format that `output` ends with.

        `format` is one of html, md, csv, svg, png and json. Pictures fill a folder. A `card` is one picture with the
        answer to share, `dark` or light, and a `badge` a small one. With `open`, a browser shows it.
        """
        return write_report([self.record], output, format, card=card, badge=badge, dark=dark, opens=open)

    def _repr_html_(self) -> str:
        """Return the answer, its first chart and, folded, the page for a notebook."""
        return showing.as_notebook(self.record)

    def _page(self, width: int, *, details: bool) -> str:
        return showing.as_text(self.record, showing.View(width, kept=self.is_saved, details=details))


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(Shown):
    """What would run; nothing has run yet."""

    outline: Plan | FullPlan | InferPlan

    @property
    def plan(self) -> Plan:
        return self.outline if isinstance(self.outline, Plan) else self.outline.plan

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes."""
        return tuple(lane.name for lane in self.plan.lanes)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.outline))
        return found

    def _page(self, width: int, *, details: bool) -> str:  # noqa: ARG002  it has no details
        return showing.plan_as_text(self.outline, width)


@dataclass(frozen=True, slots=True, repr=False)
class DevicesResult(Shown):
    """The devices of this machine, and what was measured of each."""

    machine: Machine
    limits: DeviceLimits = ()

    @property
    def usable(self) -> tuple[str, ...]:
        """The devices that can be raced, as lanes name them: torch/cpu, torch/cuda:0."""
        return tuple(
            f"{framework.name}/{device.name}"
            for framework in self.machine.frameworks
            for device in framework.devices
            if device.usable
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a row for each device, as `--json` prints them."""
        rows = api.add_limits(showing.device_rows(self.machine), self.machine, self.limits)
        found: list[dict[str, Any]] = json.loads(showing.to_json(rows))
        return found

    def _page(self, width: int, *, details: bool) -> str:  # noqa: ARG002  it has no details
        parts = (showing.devices_as_text(self.machine, width), showing.peaks_as_text(self.limits, width))
        return "\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True, repr=False)
class DoctorResult(Shown):
    """Whether each framework can use each device."""

    checkup: Checkup

    @property
    def is_well(self) -> bool:
        """Whether every device can be used by every framework that has a build for it."""
        return self.checkup.is_well

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, each with its cause and the command that fixes it."""
        return (*self.checkup.unused, *self.checkup.around)

    def to_dict(self) -> dict[str, Any]:
        """Return the checkup as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.checkup))
        return found

    def _page(self, width: int, *, details: bool) -> str:  # noqa: ARG002  it has no details
        return showing.checkup_as_text(self.checkup, width)


# The lanes of a result: their figures as plain numbers, and how they compare with the first lane.

RatioVerdict = Literal["faster", "slower", "not distinguishable"]
WITHOUT_COMPARISON = Missing("it is not compared with another lane")
ATTRIBUTE_NOT_MEASURED = Missing("not measured")


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast a lane is as the reference: above 1 it is faster. `low` and `high` bound it.

    For `laptime.train` it is of the laps after the first, for `laptime.infer` of one answer.
    """

    lane: str
    reference: str
    value: float
    low: float | Missing
    high: float | Missing
    verdict: RatioVerdict
    same_work: bool | Missing

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """One lane of a result. A figure is a median; `record` has its interval, every heat and all else.

    `whole_s` is the whole training: predicted by a race, measured by `laptime.train`, whose runs are in `trainings`.
    `accuracy` is that of the test. `inference` has the latencies and batches of `laptime.infer`.
    """

    name: str
    status: Literal["ok", "dnf", "unusable"]
    reason: str | None
    ratio: Ratio | Missing
    same_work: bool | Missing
    step_ms: float | Missing
    lap_s: float | Missing
    items_per_s: float | Missing
    whole_s: float | Missing
    first_step_ms: float | Missing
    startup_s: float | Missing
    peak_memory_bytes: int | Missing
    energy_j_per_lap: float | Missing
    accuracy: float | Missing
    notes: tuple[str, ...]
    record: LaneResult = field(repr=False)
    trainings: tuple[FullRun, ...] = field(default=(), repr=False)
    inference: InferLane | Missing = field(default=ATTRIBUTE_NOT_MEASURED, repr=False)


class LaneList(Sequence[LaneFigures]):
    """The lanes in order: `lanes[0]`, `lanes["torch/cpu/best"]` or, if only one can be meant, `lanes["cpu/best"]`."""

    def __init__(self, lanes: Sequence[LaneFigures]) -> None:
        self._lanes = tuple(lanes)

    @overload
    def __getitem__(self, key: int | str) -> LaneFigures: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[LaneFigures, ...]: ...

    def __getitem__(self, key: int | str | slice) -> LaneFigures | tuple[LaneFigures, ...]:
        if not isinstance(key, str):
            return self._lanes[key]
        exact = [lane for lane in self._lanes if lane.name == key]
        found = exact or [lane for lane in self._lanes if _can_mean(key, lane.name)]
        if len(found) == 1:
            return found[0]
        are = f"may be {len(found)} lanes" if found else "is no lane of this result"
        raise UsageError(f"'{key}' {are}", f"lanes: {', '.join(lane.name for lane in found or self._lanes)}")

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[LaneFigures]:
        return iter(self._lanes)

    def __repr__(self) -> str:
        return f"[{', '.join(repr(lane.name) for lane in self._lanes)}]"


def _can_mean(written: str, name: str) -> bool:
    """Whether a lane may have been written so: `cuda` for `torch/cuda:0/as-written`."""
    framework, device, settings = (*name.split("/", 2), "", "")[:3]
    parts = written.split("/")
    if parts[0] == framework:
        parts = parts[1:]
    rest = parts[1:] or ["as-written"]
    kinds = {device, device.split(":")[0], "cpu" if device == "cpu" else "gpu"}
    return not parts or (parts[0] in kinds and rest == [settings])


def ratios_of(record: Record) -> dict[str, Ratio]:
    """Return how each lane compares with the reference, by the lane's name."""
    found: Sequence[Comparison | InferFactor | LapFactor] = record.answer.comparisons
    if isinstance(record.answer, TrainingAnswer):
        found = record.answer.factors
    elif isinstance(record.answer, InferAnswer):
        found = [factor for factor in record.answer.factors if factor.batch is None]
    return {factor.lane: ratio for factor in found if (ratio := _ratio(factor)) is not None}


def _ratio(found: Comparison | InferFactor | LapFactor) -> Ratio | None:
    if not isinstance(found, LapFactor):
        return Ratio(found.lane, found.reference, found.ratio, found.low, found.high, found.verdict, found.same_work)
    # Of whole trainings it is that of the later laps, or of the first where each lane trained only one.
    value = found.first_lap if isinstance(found.later_laps, Missing) else found.later_laps
    if isinstance(value, Missing):
        return None
    verdict: RatioVerdict = "not distinguishable"
    if found.is_above(1):
        verdict = "faster"
    elif found.is_below(1):
        verdict = "slower"
    return Ratio(found.lane, found.reference, value, found.low, found.high, verdict, found.same_work)


def lanes_of(record: Record) -> LaneList:
    """Return the figures of each lane of a record."""
    ratios = ratios_of(record)
    return LaneList([_figures(lane, record, ratios.get(lane.name, WITHOUT_COMPARISON)) for lane in record.lanes])


def _figures(lane: LaneResult, record: Record, ratio: Ratio | Missing) -> LaneFigures:
    answer = record.answer
    runs = answer.runs if isinstance(answer, TrainingAnswer) else ()
    trainings = tuple(run for run in runs if run.process.lane == lane.name)
    inferences = answer.lanes if isinstance(answer, InferAnswer) else ()
    same_work: bool | Missing = lane.parity.status == "same"
    if lane.parity.status == "unproven":
        same_work = Missing(lane.parity.reason or "unproven")
    whole_s = ATTRIBUTE_NOT_MEASURED if lane.whole is None else lane.whole.whole_s.median
    if trainings:
        whole_s = _mean([run.whole_s for run in trainings if run.process.status == "ok"])
    accuracies = [run.test.score.accuracy for run in trainings if run.test is not None]
    return LaneFigures(
        name=lane.name,
        status=lane.status,
        reason=lane.reason,
        ratio=ratio,
        same_work=same_work,
        step_ms=_median(lane.step_ms, lane),
        lap_s=_median(lane.lap_s, lane, "lap"),
        items_per_s=_median(lane.items_per_s, lane),
        whole_s=whole_s,
        first_step_ms=_known(lane.first_step_ms),
        startup_s=_known(lane.startup_s),
        peak_memory_bytes=lane.peak_memory_bytes,
        energy_j_per_lap=lane.energy_j_per_lap,
        accuracy=_mean([accuracy for accuracy in accuracies if not isinstance(accuracy, Missing)]),
        notes=lane.notes,
        record=lane,
        trainings=trainings,
        inference=next((inference for inference in inferences if inference.lane == lane.name), ATTRIBUTE_NOT_MEASURED),
    )


def _median(figure: Estimate | None, lane: LaneResult, name: str = "") -> float | Missing:
    if figure is not None:
        return figure.median
    return lane.absent.get(name, Missing(lane.reason or ATTRIBUTE_NOT_MEASURED.missing))


def _known(figure: float | None) -> float | Missing:
    return ATTRIBUTE_NOT_MEASURED if figure is None else figure


def _mean(values: Sequence[float]) -> float | Missing:
    return sum(values) / len(values) if values else ATTRIBUTE_NOT_MEASURED


@dataclass(frozen=True, slots=True)
class QuestionCall:
    """What `call.py` of a question holds: its function in `import laptime`, and the class for its records."""

    FILE: ClassVar[str] = "call"

    ask: Callable[..., Result]
    result: Callable[[Record], Result]
