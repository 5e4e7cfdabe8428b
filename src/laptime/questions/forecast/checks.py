"""Predictions of devices, held against what was published of them and against saved races."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from laptime.model.forecasting import CheckedForecast, Efficiencies, Range, StepOperator
from laptime.model.hardware import KnownDevice
from laptime.model.missing import Missing
from laptime.model.record import Record
from laptime.model.workload import Workload
from laptime.questions.compare.run import in_words
from laptime.questions.forecast.lane import MeasuredLane, Recall, find_processor, measure_lane, training_lanes
from laptime.questions.forecast.processors import ProcessorRate, spread_between, times_as_slow
from laptime.questions.forecast.reduce import forecast_step, range_of, spread_of
from laptime.questions.forecast.run import NOT_MEASURED
from laptime.stats import median
from laptime.workloads import CATALOGUE
from laptime.workloads.operators import list_operators

LEAST_TO_COMPARE = 3  # devices of a published experiment
Match = Callable[[str], KnownDevice | None]
"""Returns the device that a label means, if it is known."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A measured step on a known device, and where it was measured."""

    what: str
    operators: tuple[StepOperator, ...]
    precision: str
    execution: str
    device: KnownDevice
    ms: float
    source: str


@in_words
def check_forecasts(
    records: Sequence[Record], match: Match, known: Efficiencies, recall: Recall
) -> tuple[CheckedForecast, ...]:
    """Hold predictions against what was published of the built-in trainings, and against saved records.

    A step on a processor is predicted from the same step on each other one, where records have two.
    """
    recorded = [each for record in records for each in _recorded_steps(record, match)]
    found = [each for each in (_check(step, known) for step in recorded) if each is not None]
    return (*_check_published(match, known), *found, *_check_processors(records, recall))


def _check_published(match: Match, known: Efficiencies) -> Iterator[CheckedForecast]:
    """Yield the published steps of each experiment. What all its cards have in common is its software, and no error."""
    for workload in CATALOGUE.values():
        steps = list(_published_steps(workload, match))
        found = [each for each in (_check(step, known) for step in steps) if each is not None]
        if len(found) < LEAST_TO_COMPARE:
            continue
        slower = median([each.measured_ms / each.predicted_ms.middle for each in found])
        for each in found:
            told = each.predicted_ms
            predicted = Range(slower * told.middle, slower * told.low, slower * told.high)
            yield replace(each, predicted_ms=predicted, software=slower)
        share = median([_flops(each) / (each.ms / 1e3) / _peak(each.device) for each in steps if _is_modelled(each)])
        yield from (_check_by_peak(each, share, known) for each in steps if not _is_modelled(each))


def _check_by_peak(step: _Step, share: float, known: Efficiencies) -> CheckedForecast:
    """Return the check of a processor or a TPU, as if it reached the share of its peak that the cards did."""
    predicted = range_of(1e3 * _flops(step) / (share * _peak(step.device)), known.spread["unseen"])
    return CheckedForecast(step.what, step.device.name, step.source, step.ms, predicted, share=share)


def _is_modelled(step: _Step) -> bool:
    """Whether the model of operators knows such a device: it is a card."""
    return step.device.kind not in {"cpu", *NOT_MEASURED}


def _flops(step: _Step) -> float:
    return sum(each.calls * each.flops for each in step.operators)


def _peak(device: KnownDevice) -> float:
    """Return the operations a second of a device at its best."""
    return device.boosted_flops("fp32") or device.boosted_flops("bf16") or 0.0


def _published_steps(workload: Workload, match: Match) -> Iterator[_Step]:
    operators = list_operators(workload, workload.batch)
    for result in workload.published.results:
        device = match(result.device)
        if device is not None and result.lap_s and _peak(device):
            ms = 1e3 * median(list(result.lap_s)) / workload.steps_per_lap
            yield _Step(workload.name, operators, "fp32", "graph", device, ms, "published")


def _recorded_steps(record: Record, match: Match) -> Iterator[_Step]:
    for lane in training_lanes(record):
        device, found = match(lane.device.label), measure_lane(record, lane)
        if device is not None and not isinstance(found, Missing):
            device = replace(device, core_score=found.core_score)
            yield _Step(found.what, found.operators, found.precision, found.execution, device, found.step_ms, record.id)


def _check_processors(records: Sequence[Record], recall: Recall) -> Iterator[CheckedForecast]:
    """Yield the newest step of each lane on each processor, as it is predicted from that on each other one."""
    newest: dict[tuple[str, str], dict[str, tuple[str, MeasuredLane, ProcessorRate]]] = {}
    for record in sorted(records, key=lambda each: each.started):
        for lane in training_lanes(record):
            measured, rate = measure_lane(record, lane), find_processor(record, lane, recall)
            if not isinstance(measured, Missing) and not isinstance(rate, Missing):
                place = f"{measured.place} ({record.machine.processor.cores_usable} cores)"
                newest.setdefault((measured.what, lane.name), {})[place] = record.id, measured, rate
    for (what, lane_name), places in newest.items():
        for (place, there), (_, here) in permutations(places.items(), 2):
            ratio, spread = times_as_slow(there[2], here[2]), spread_between(there[2], here[2])
            predicted = range_of(ratio * here[1].step_ms, spread)
            source = f"{there[0]}; from {here[0]}"
            yield CheckedForecast(f"{what}, {lane_name}", place, source, there[1].step_ms, predicted)


def _check(step: _Step, known: Efficiencies) -> CheckedForecast | None:
    if not _is_modelled(step):
        return None
    found = forecast_step(step.operators, step.device, step.precision, step.execution, known)
    if isinstance(found, Missing):
        return None
    predicted = range_of(1e3 * found.step_s, spread_of(step.device, step.precision, known))
    return CheckedForecast(step.what, step.device.name, step.source, step.ms, predicted)
