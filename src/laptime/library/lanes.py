"""The lanes of a result: their figures as plain numbers, and how they compare with the first lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

from laptime.errors import UsageError
from laptime.model.missing import Missing
from laptime.model.protocol import FullRun, LapFactor
from laptime.model.questions import InferAnswer, TrainingAnswer
from laptime.model.record import Comparison, Estimate, InferFactor, InferLane, LaneResult, Parity, Record

RatioVerdict = Literal["faster", "slower", "not distinguishable"]
NOT_COMPARED = Missing("it is not compared with another lane")
NOT_MEASURED = Missing("not measured")


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
    inference: InferLane | Missing = field(default=NOT_MEASURED, repr=False)


class LaneList(Sequence[LaneFigures]):
    """The lanes in order: `lanes[0]`, `lanes["torch/cpu/best"]` or, if only one can be meant, `lanes["cpu/best"]`."""

    def __init__(self, lanes: Sequence[LaneFigures]) -> None:
        self._lanes = tuple(lanes)

    @overload
    def __getitem__(self, key: int | str) -> LaneFigures: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[LaneFigures, ...]: ...

    def __getitem__(self, key: int | str | slice) -> LaneFigures | tuple[LaneFigures, ...]:
        return self._named(key) if isinstance(key, str) else self._lanes[key]

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[LaneFigures]:
        return iter(self._lanes)

    def __repr__(self) -> str:
        return f"[{', '.join(repr(each.name) for each in self._lanes)}]"

    def _named(self, name: str) -> LaneFigures:
        exact = [each for each in self._lanes if each.name == name]
        found = exact or [each for each in self._lanes if _can_mean(name, each.name)]
        if len(found) == 1:
            return found[0]
        are = f"may be {len(found)} lanes" if found else "is no lane of this result"
        raise UsageError(f"'{name}' {are}", f"lanes: {', '.join(each.name for each in found or self._lanes)}")


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
        found = [each for each in record.answer.factors if each.batch is None]
    return {each.lane: ratio for each in found if (ratio := _ratio(each)) is not None}


def _ratio(found: Comparison | InferFactor | LapFactor) -> Ratio | None:
    if isinstance(found, LapFactor):
        return _ratio_of_laps(found)
    return Ratio(found.lane, found.reference, found.ratio, found.low, found.high, found.verdict, found.same_work)


def _ratio_of_laps(found: LapFactor) -> Ratio | None:
    """Return the ratio of the later laps, or of the first where each lane trained only one."""
    value = found.first_lap if isinstance(found.later_laps, Missing) else found.later_laps
    if isinstance(value, Missing):
        return None
    verdict: RatioVerdict = "not distinguishable"
    if isinstance(found.low, float) and found.low > 1:
        verdict = "faster"
    elif isinstance(found.high, float) and found.high < 1:
        verdict = "slower"
    return Ratio(found.lane, found.reference, value, found.low, found.high, verdict, found.same_work)


def lanes_of(record: Record) -> LaneList:
    """Return the figures of each lane of a record."""
    ratios = ratios_of(record)
    return LaneList([_figures(lane, record, ratios.get(lane.name, NOT_COMPARED)) for lane in record.lanes])


def _figures(lane: LaneResult, record: Record, ratio: Ratio | Missing) -> LaneFigures:
    answer = record.answer
    runs = answer.runs if isinstance(answer, TrainingAnswer) else ()
    trainings = tuple(run for run in runs if run.process.lane == lane.name)
    inferences = answer.lanes if isinstance(answer, InferAnswer) else ()
    return LaneFigures(
        name=lane.name,
        status=lane.status,
        reason=lane.reason,
        ratio=ratio,
        same_work=_is_same(lane.parity),
        step_ms=_median(lane.step_ms, lane),
        lap_s=_median(lane.lap_s, lane, "lap"),
        items_per_s=_median(lane.items_per_s, lane),
        whole_s=_whole_s(lane, trainings),
        first_step_ms=_known(lane.first_step_ms),
        startup_s=_known(lane.startup_s),
        peak_memory_bytes=lane.peak_memory_bytes,
        energy_j_per_lap=lane.energy_j_per_lap,
        accuracy=_accuracy(trainings),
        notes=lane.notes,
        record=lane,
        trainings=trainings,
        inference=next((each for each in inferences if each.lane == lane.name), NOT_MEASURED),
    )


def _is_same(parity: Parity) -> bool | Missing:
    if parity.status == "unproven":
        return Missing(parity.reason or "unproven")
    return parity.status == "same"


def _median(figure: Estimate | None, lane: LaneResult, name: str = "") -> float | Missing:
    if figure is not None:
        return figure.median
    return lane.absent.get(name, Missing(lane.reason or NOT_MEASURED.missing))


def _known(figure: float | None) -> float | Missing:
    return NOT_MEASURED if figure is None else figure


def _whole_s(lane: LaneResult, trainings: Sequence[FullRun]) -> float | Missing:
    if trainings:
        return _mean([run.whole_s for run in trainings if run.process.status == "ok"])
    return NOT_MEASURED if lane.whole is None else lane.whole.whole_s.median


def _accuracy(trainings: Sequence[FullRun]) -> float | Missing:
    found = [run.test.score.accuracy for run in trainings if run.test is not None]
    return _mean([each for each in found if not isinstance(each, Missing)])


def _mean(values: Sequence[float]) -> float | Missing:
    return sum(values) / len(values) if values else NOT_MEASURED
