"""Predictions of devices, held against what was published of them and against saved races."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from laptime.analysis.forecasting import forecast_step, range_of, spread_of
from laptime.model.forecasting import CheckedForecast, Efficiencies, Range, StepOperator
from laptime.model.hardware import KnownDevice
from laptime.model.missing import Missing
from laptime.model.record import Record
from laptime.model.workload import Workload
from laptime.questions.comparing import in_words
from laptime.questions.forecast_lane import measure_lane, training_lanes
from laptime.questions.forecasting import NOT_MEASURED
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
def check_forecasts(records: Sequence[Record], match: Match, known: Efficiencies) -> tuple[CheckedForecast, ...]:
    """Hold predictions against what was published of the built-in trainings, and against saved records."""
    recorded = [each for record in records for each in _recorded_steps(record, match)]
    found = [each for each in (_check(step, known) for step in recorded) if each is not None]
    return (*_check_published(match, known), *found)


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
    return step.device.kind not in NOT_MEASURED


def _flops(step: _Step) -> float:
    return sum(each.calls * each.flops for each in step.operators)


def _peak(device: KnownDevice) -> float:
    """Return the operations a second of a device at its best: of a processor, at the clock that it may boost to."""
    faster = device.boost_ghz / device.base_ghz if device.boost_ghz and device.base_ghz else 1.0
    return faster * (device.peak_flops("fp32") or device.peak_flops("bf16") or 0.0)


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
            yield _Step(found.what, found.operators, found.precision, found.execution, device, found.step_ms, record.id)


def _check(step: _Step, known: Efficiencies) -> CheckedForecast | None:
    if not _is_modelled(step):
        return None
    found = forecast_step(step.operators, step.device, step.precision, step.execution, known)
    if isinstance(found, Missing):
        return None
    predicted = range_of(1e3 * found.step_s, spread_of(step.device, step.precision, known))
    return CheckedForecast(step.what, step.device.name, step.source, step.ms, predicted)
