"""What a training would take on devices that are not here, from the record of a lane that was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from laptime.analysis.forecasting import StepForecast, forecast_step, range_of, seen_regime, spread_of
from laptime.errors import RecordError, UsageError
from laptime.model.forecasting import (
    CheckedForecast,
    DeviceForecast,
    Efficiencies,
    HardwareForecast,
    Range,
)
from laptime.model.hardware import KnownDevice
from laptime.model.lane import AS_WRITTEN, NO_TRAINING, Settings
from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.model.selection import is_exactly, is_lane
from laptime.model.workload import AT_WIDTH, Workload
from laptime.planner.lanes import parse_lane
from laptime.questions.comparing import in_words
from laptime.questions.subject import names_a_file
from laptime.stats import median
from laptime.workloads import CATALOGUE, find_workload
from laptime.workloads.memory import count_heat_memory
from laptime.workloads.operators import list_operators

COMMON = ("t4", "l4", "a10g", "rtx-3090", "rtx-4090", "v100-sxm2-16gb", "a100-40gb", "h100-sxm")
FRAMEWORK_BYTES = 600_000_000  # what CUDA and its libraries take of a card
FULL = 0.95  # of a card's memory
LOADER_SPREAD = 0.25  # of a loader on another processor, as a logarithm
NOT_MEASURED = {
    "cpu": "what a framework reaches on a processor depends on its build: race it there",
    "tpu": "no step on a TPU was measured",
    "xpu": "no step on an Intel card was measured",
}
LEAST_TO_COMPARE = 3  # devices of a published experiment
HOST_ALONE = 1  # core that a loader leaves to the training's own process
Match = Callable[[str], KnownDevice | None]
"""Returns the device that a label means, if it is known."""
NO_LOADER, NO_FILES = Missing("it was not timed alone"), Missing("this training reads no files")


@dataclass(frozen=True, slots=True)
class _Measured:
    """The lane that a forecast begins with, and how fast its loader is alone, in items a second on one core."""

    record: Record
    lane: LaneResult
    workload: Workload
    step_ms: float
    loader: float | Missing

    @property
    def batch(self) -> int:
        return self.lane.settings.batch or self.workload.batch


def names_a_training(what: str) -> bool:
    """Whether WHAT is a training to race first, and not a record."""
    return what.partition(AT_WIDTH)[0] in CATALOGUE or names_a_file(what)


def lanes_to_race(what: str, lane: str | None) -> tuple[str, ...]:
    """Return the lanes of the race that a forecast begins with: the loader alone is one of them if there is one."""
    _refuse_own(what)
    lanes = ("cpu", "cpu/best") if lane is None else (lane,)
    device, last = parse_lane(lanes[-1]).device, lanes[-1].rpartition("/")[2]
    if what not in CATALOGUE or not find_workload(what).reads_files or "input=" in last or device is None:
        return lanes
    return (*lanes, f"{lanes[-1]}{'/' if last == device else '+'}input=only")


@in_words
def make_forecast(
    record: Record, lane: str | None, devices: Sequence[KnownDevice], known: Efficiencies
) -> HardwareForecast:
    """Return what the training of a record would take on each device, with the settings of a lane."""
    measured = _find_measured(record, lane)
    rows: list[DeviceForecast] = []
    refused: dict[str, str] = {}
    for device in devices:
        found = _forecast(measured, device, known)
        if isinstance(found, Missing):
            refused[device.short] = found.missing
        else:
            rows.append(found)
    if not rows:
        short, why = next(iter(refused.items()))
        raise UsageError(f"nothing can be said of {short}: {why}", "laptime forecast --all shows what can be predicted")
    return HardwareForecast(
        what=measured.workload.name,
        lane=measured.lane.name,
        record=record.id,
        machine=_place_of(measured),
        measured_ms=measured.step_ms,
        laps=measured.workload.laps,
        rows=tuple(sorted(rows, key=lambda each: each.step_ms.middle)),
        refused=refused,
        loader_items_per_s=measured.loader,
    )


def _place_of(measured: _Measured) -> str:
    device = measured.lane.device
    return measured.record.machine.processor.name if device.kind == "cpu" else device.label


def _find_measured(record: Record, name: str | None) -> _Measured:
    """Return the lane that is meant: by its name, or else the last that trains, which is the best one of a race."""
    done = [each for each in record.lanes if each.status == "ok" and each.step_ms is not None]
    training = [each for each in done if each.settings.input not in NO_TRAINING and not each.devices]
    meant = training if name is None else [each for each in training if is_exactly(each.name, name)]
    meant = meant or [each for each in training if name is not None and is_lane(each.name, name)]
    if not meant:
        lanes = ", ".join(each.name for each in training) or "none"
        raise RecordError(f"{record.id} has no measured lane {name or 'that trains'}", f"it has: {lanes}")
    lane = meant[-1]
    subject = lane.training or record.workload.name
    _refuse_own(subject)
    assert lane.step_ms is not None
    cores = max(1, record.machine.processor.cores_usable)
    workload = find_workload(subject)
    rate = next((_rate(each) for each in done if _is_loader_of(each.settings, lane.settings)), None)
    spreads = lane.settings.input == "fast"
    loader = NO_LOADER if rate is None else rate / cores if spreads else rate
    return _Measured(record, lane, workload, lane.step_ms.median, loader if workload.reads_files else NO_FILES)


def _refuse_own(subject: str) -> None:
    if subject.partition(AT_WIDTH)[0] not in CATALOGUE:
        says = f"{subject} is a training of your own, and a forecast knows the layers of built-in ones alone so far"
        raise UsageError(says, f"one of {', '.join(CATALOGUE)}; or rent the device for an hour: laptime race")


def _is_loader_of(alone: Settings, lane: Settings) -> bool:
    """Whether it is the loader of a lane, alone: the authors' as written, else ours. Kept batches have none."""
    is_ours = alone.preset != AS_WRITTEN
    return alone.input == "only" and lane.input == ("fast" if is_ours else "published")


def _rate(lane: LaneResult) -> float | None:
    return None if lane.items_per_s is None else lane.items_per_s.median


def _forecast(measured: _Measured, device: KnownDevice, known: Efficiencies) -> DeviceForecast | Missing:
    if device.kind in NOT_MEASURED:
        return Missing(NOT_MEASURED[device.kind])
    workload, settings, batch = measured.workload, measured.lane.settings, measured.batch
    precision = "bf16" if settings.preset == "fastest" else settings.precision
    operators = list_operators(workload, batch, precision)
    found = forecast_step(operators, device, precision, _execution(measured.lane), known)
    if isinstance(found, Missing):
        return found
    loading_s = _loading_s(measured, device)
    step_s, binds = found.step_s, found.binds
    spread = spread_of(device, precision, known)
    if loading_s > step_s:
        step_s, binds, spread = loading_s, "loader", LOADER_SPREAD
    needed = _memory_of(measured)
    steps = workload.steps_per_lap * workload.batch / batch
    lap_s = range_of(step_s * steps, spread)
    whole_s = range_of(step_s * steps * workload.laps, spread)
    room = None if device.memory_gb is None else FULL * device.memory_gb * 1e9
    return DeviceForecast(
        device=device,
        step_ms=range_of(1e3 * step_s, spread),
        binds=binds,
        busy_share=min(1.0, found.device_s / step_s),
        items_per_s=batch / step_s,
        lap_s=lap_s,
        whole_s=whole_s,
        memory_bytes=needed,
        fits=room is None or needed <= room,
        energy_wh=_per_hour(device.power_w, whole_s, "its power is not known"),
        cost=_per_hour(device.price_per_hour, whole_s, "no price of an hour is known"),
        factor=range_of(measured.step_ms / 1e3 / step_s, spread),
        notes=_notes(device, precision, known, found),
    )


def _execution(lane: LaneResult) -> str:
    """Return who launches operators: PyTorch as written one by one, all others whole steps."""
    is_eager = lane.name.startswith("torch/") and lane.settings.preset == AS_WRITTEN
    return "eager" if is_eager and lane.settings.execution == "eager" else "graph"


def _loading_s(measured: _Measured, device: KnownDevice) -> float:
    """Return how long the loader takes for a batch there. The authors' takes one core, ours all but one of a host."""
    if isinstance(measured.loader, Missing):
        return 0.0
    cores = 1
    if measured.lane.settings.input == "fast":
        cores = max(1, (device.host_cores or 1) - HOST_ALONE)
    return measured.batch / (measured.loader * cores)


def _memory_of(measured: _Measured) -> int:
    settings = replace(measured.lane.settings, batch=measured.batch)
    return FRAMEWORK_BYTES + count_heat_memory(measured.workload, settings, "cuda")


def _per_hour(rate: float | None, whole_s: Range, why_not: str) -> float | Missing:
    return Missing(why_not) if rate is None else rate * whole_s.middle / 3600


def _notes(device: KnownDevice, precision: str, known: Efficiencies, found: StepForecast) -> tuple[str, ...]:
    told = []
    if seen_regime(device, precision, known) is None:
        told.append(f"no {device.architecture} device was measured in such arithmetic")
    if device.price_per_hour is not None:
        told.append(f"{device.price_per_hour:g} USD an hour: {device.price_provider}, {device.price_date}")
    if found.host_s > found.device_s:
        told.append("its host launches operators more slowly than it computes them")
    return tuple(told)


@dataclass(frozen=True, slots=True)
class _Step:
    """A measured step of a built-in training on a known device, and where it was measured."""

    workload: Workload
    batch: int
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
        found = [
            each for each in (_check(step, known) for step in _published_steps(workload, match)) if each is not None
        ]
        if len(found) < LEAST_TO_COMPARE:
            continue
        slower = median([each.measured_ms / each.predicted_ms.middle for each in found])
        for each in found:
            predicted = Range(
                *(slower * end for end in (each.predicted_ms.middle, each.predicted_ms.low, each.predicted_ms.high))
            )
            yield replace(each, predicted_ms=predicted, software=slower)


def _published_steps(workload: Workload, match: Match) -> Iterator[_Step]:
    for result in workload.published.results:
        device = match(result.device)
        if device is not None and result.lap_s and device.kind not in NOT_MEASURED:
            ms = 1e3 * median(list(result.lap_s)) / workload.steps_per_lap
            yield _Step(workload, workload.batch, "fp32", "graph", device, ms, "published")


def _recorded_steps(record: Record, match: Match) -> Iterator[_Step]:
    for lane in record.lanes:
        device, subject = match(lane.device.label), lane.training or record.workload.name
        if device is None or lane.step_ms is None or subject.partition("@")[0] not in CATALOGUE or lane.devices:
            continue
        if lane.settings.input in NO_TRAINING:
            continue
        workload, settings = find_workload(subject), lane.settings
        batch = settings.batch or workload.batch
        yield _Step(workload, batch, settings.precision, _execution(lane), device, lane.step_ms.median, record.id)


def _check(step: _Step, known: Efficiencies) -> CheckedForecast | None:
    operators = list_operators(step.workload, step.batch, step.precision)
    found = forecast_step(operators, step.device, step.precision, step.execution, known)
    if isinstance(found, Missing):
        return None
    predicted = range_of(1e3 * found.step_s, spread_of(step.device, step.precision, known))
    return CheckedForecast(step.workload.name, step.device.name, step.source, step.ms, predicted)
