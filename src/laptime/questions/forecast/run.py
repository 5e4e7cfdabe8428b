"""What a training would take on devices that are not here, from the record of a lane that was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from laptime.machine.hardware import find_device, known_devices, known_efficiencies
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.hardware import (
    Binds,
    CardFactor,
    CheckedForecast,
    DeviceForecast,
    Efficiencies,
    HardwareForecast,
    KnownDevice,
    PredictedCards,
    Range,
)
from laptime.model.machine import Machine
from laptime.model.options import find_option
from laptime.model.quantities import Missing, plain
from laptime.model.questions import find_question
from laptime.model.record import Record
from laptime.model.stats import median
from laptime.model.workload import Workload
from laptime.planner.lanes import parse_lane
from laptime.questions.asking import means_a_script
from laptime.questions.bounds import Recall
from laptime.questions.compare.run import COMPARING_FAULTS, in_words
from laptime.questions.forecast.lane import (
    MeasuredLane,
    MeasuredLoader,
    find_lane,
    find_processor,
    is_built_in,
    measure_lane,
    nothing_kept,
    refuse,
    training_lanes,
)
from laptime.questions.forecast.memory import fits_in
from laptime.questions.forecast.reduce import (
    MEASURED_CORE_SPREAD,
    UNKNOWN_HOST_SPREAD,
    UNKNOWN_SPREAD,
    ProcessorRate,
    StepForecast,
    forecast_step,
    range_of,
    rate_of,
    seen_regime,
    spread_between,
    spread_of,
    times_as_long,
    times_as_slow,
    with_python,
)
from laptime.questions.forecast.seen import Match, MeasuredStep, learn_from, recorded_steps
from laptime.questions.subject import names_a_file
from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.shapes import list_operators

COMMON = ("t4", "l4", "a10g", "rtx-3090", "rtx-4090", "v100-sxm2-16gb", "a100-40gb", "h100-sxm")
UNMEASURED_KINDS = {
    "tpu": "no step on a TPU was measured",
    "xpu": "no step on an Intel card was measured",
}
UNSCALED = "how much faster or slower the cores of its host are is not known: taken as those that were measured"
HOST_ALONE = 1  # core that a loader leaves to the training's own process
NO_RATE = Missing("the price of an hour of this machine was not given: --rate")
WORTH_SAYING = 0.01  # of a step: the share of operators whose operations nobody can count


@dataclass(frozen=True, slots=True)
class _Predicted:
    """A predicted step: the time in which the device computes, with all waiting, and that of the loader alone."""

    busy_s: float
    step_s: float
    loading_s: float | Missing
    binds: Binds
    spread: float
    notes: tuple[str, ...]


def names_a_training(what: str) -> bool:
    """Whether WHAT is a training to race first, and not a record."""
    return is_built_in(what) or names_a_file(what)


def lanes_to_race(what: str, lane: str | None) -> tuple[str, ...]:
    """Return the lanes of the race that a forecast begins with: the loader alone is one of them if there is one."""
    if means_a_script(Ask(what)):
        return (lane or "cpu",)
    lanes = (("cpu", "cpu/best") if is_built_in(what) else ("cpu",)) if lane is None else (lane,)
    device = parse_lane(lanes[-1]).device
    last = lanes[-1].rpartition("/")[2]
    reads = find_workload(what).reads_files if what in CATALOGUE else names_a_file(what)
    if not reads or "input=" in last or device is None:
        return lanes
    return (*lanes, f"{lanes[-1]}{'/' if last == device else '+'}input=only")


@in_words
def make_forecast(
    record: Record,
    name: str | None,
    devices: Sequence[KnownDevice],
    known: Efficiencies,
    *,
    rate: float | None = None,
    recall: Recall = nothing_kept,
    seen: Sequence[MeasuredStep] = (),
) -> HardwareForecast:
    """Return what the training of a record would take on each device, with the settings of a lane.

    `rate` is the price of an hour of the machine that was measured; without one, that of the race. `recall` returns
    what a processor was measured to do at most. `seen` are other steps, of which those on the same card count.
    """
    rate = record.ask.rate_per_hour if rate is None else rate
    if (refusal := find_option("forecast", "rate").refusal_of(rate)) is not None:
        raise UsageError(*refusal)
    lane = find_lane(record, name)
    measured = measure_lane(record, lane)
    if isinstance(measured, Missing):
        raise refuse(record, lane, measured)
    measured = replace(measured, processor=find_processor(record, lane, recall, devices))
    rows: list[DeviceForecast] = []
    refused: dict[str, str] = {}
    for device in devices:
        found = forecast_device(measured, device, known, seen)
        if isinstance(found, Missing):
            refused[device.short] = found.missing
        else:
            rows.append(found)
    if not rows:
        short, why = next(iter(refused.items()))
        raise UsageError(f"nothing can be said of {short}: {why}", "laptime forecast --all shows what can be predicted")
    loader = measured.loader
    here_s = measured.step_ms / 1e3 * measured.steps * measured.laps
    return HardwareForecast(
        what=measured.what,
        lane=lane.name,
        record=record.id,
        machine=measured.place,
        measured_ms=measured.step_ms,
        laps=measured.laps,
        rows=tuple(sorted(rows, key=lambda row: row.step_ms.middle)),
        refused=refused,
        loader_items_per_s=loader if isinstance(loader, Missing) else loader.items_per_s,
        per=measured.per,
        whole_here_s=here_s,
        cost_here=NO_RATE if rate is None else rate * here_s / 3600,
        notes=measured.notes,
        distrust=record.distrust,
        held=None if isinstance(measured.need, Missing) or measured.need.is_whole else measured.need.held,
        loader_is_known=measured.knows_loader,
    )


def forecast_device(
    measured: MeasuredLane, device: KnownDevice, known: Efficiencies, seen: Sequence[MeasuredStep] = ()
) -> DeviceForecast | Missing:
    """Return what a device would take for the training of a lane, or why that is not known."""
    if device.kind in UNMEASURED_KINDS:
        return Missing(UNMEASURED_KINDS[device.kind])
    found = _on_processor(measured, device) if device.kind == "cpu" else _on_card(measured, device, known, seen)
    if isinstance(found, Missing):
        return found
    step_s = found.step_s
    spread = found.spread
    needed = measured.memory_on(device)
    whole_s = range_of(step_s * measured.steps * measured.laps, spread)
    notes = found.notes
    if device.price_per_hour is not None:
        price = f"{plain(device.price_per_hour)} USD an hour: {device.price_provider}, {device.price_date}"
        notes = (*notes, price)
    return DeviceForecast(
        device=device,
        step_ms=range_of(1e3 * step_s, spread),
        binds=found.binds,
        loader_ms=found.loading_s if isinstance(found.loading_s, Missing) else 1e3 * found.loading_s,
        busy_share=min(1.0, found.busy_s / step_s),
        items_per_s=measured.batch / step_s,
        lap_s=range_of(step_s * measured.steps, spread),
        whole_s=whole_s,
        memory_bytes=needed,
        fits=fits_in(needed, device),
        energy_wh=_per_hour(device.power_w, whole_s, "its power is not known"),
        cost=_per_hour(device.price_per_hour, whole_s, "no price of an hour is known"),
        factor=range_of(measured.step_ms / 1e3 / step_s, math.hypot(spread, measured.spread)),
        notes=notes,
    )


def _on_processor(measured: MeasuredLane, device: KnownDevice) -> _Predicted | Missing:
    """Return the step as it was measured, at the rate of another processor. It has the work of the loader in it."""
    here = measured.processor
    there = rate_of(device, measured.precision)
    if isinstance(here, Missing):
        return here
    if isinstance(there, Missing):
        return there
    alone_s = min(measured.python_s, measured.step_ms / 1e3)  # Python has one core there, too
    alone_there_s = alone_s * times_as_long(measured.core_score, device.core_score)
    step_s = alone_there_s + (measured.step_ms / 1e3 - alone_s) * times_as_slow(there, here)
    reaches = f"large products would reach {there.flops_per_s / 1e9:.0f} GFLOP/s"
    notes = [f"{there.cores:g} cores, as of {device.host or 'one socket'}: {reaches}"]
    if there.is_arm != here.is_arm:
        notes.append("no step was measured on both x86 and ARM")
    loading_s = _loading_s(measured, device)
    spread = spread_between(there, here)
    return _Predicted(step_s, step_s, loading_s, "processor", spread, tuple(notes))


def _on_card(
    measured: MeasuredLane, device: KnownDevice, known: Efficiencies, steps: Sequence[MeasuredStep]
) -> _Predicted | Missing:
    """Return the step as its operators add up and others on the card were off, or the loader's time if it is longer."""
    found = forecast_step(measured.operators, device, measured.precision, measured.execution, known)
    if isinstance(found, Missing):
        return found
    found = with_python(found, measured.python_s * times_as_long(measured.core_score, device.core_score))
    host_binds = found.host_s > found.device_s
    is_guess = host_binds and (device.core_score is None or (measured.python_s > 0 and measured.core_score is None))
    learned = learn_from(steps, device, measured.precision, measured.execution, known)
    device_s = learned.times * found.device_s
    step_s = learned.times * found.step_s
    loading_s = _loading_s(measured, device)
    notes = _notes(device, measured.precision, known, found)
    notes = (*notes, *((UNSCALED,) if is_guess else ()), *learned.notes)
    unknown = UNKNOWN_SPREAD * found.unknown_share
    scaled = MEASURED_CORE_SPREAD if host_binds and measured.python_s else 0.0
    host = UNKNOWN_HOST_SPREAD if is_guess else scaled
    of_card = learned.share * spread_of(device, measured.precision, known)
    spread = math.hypot(of_card, measured.doubt, unknown, host)
    return _with_loader(_Predicted(device_s, step_s, loading_s, found.binds, spread, notes), measured.loader)


def _with_loader(found: _Predicted, loader: MeasuredLoader | Missing) -> _Predicted:
    """Return a card's step with its loader: after it, if the step itself makes its batch, else the longer of both."""
    if isinstance(loader, Missing) or isinstance(found.loading_s, Missing):
        return found
    binds = "loader" if found.loading_s > found.step_s else found.binds
    if loader.is_in_step:
        whole_s = found.step_s + found.loading_s
        spread = math.hypot(found.step_s * found.spread, found.loading_s * loader.spread) / whole_s
        return replace(found, step_s=whole_s, binds=binds, spread=spread)
    return replace(found, step_s=found.loading_s, binds=binds, spread=loader.spread) if binds == "loader" else found


def _loading_s(measured: MeasuredLane, device: KnownDevice) -> float | Missing:
    """Return how long the loader takes for a batch there. The authors' takes one core, ours all but one of a host.

    A core there loads as many items as one here, times as fast as it is.
    """
    if isinstance(measured.loader, Missing):
        return measured.loader
    cores = 1
    if measured.lane.settings.input == "fast":
        cores = max(1, (device.host_cores or 1) - HOST_ALONE)
    return (
        measured.batch / (measured.loader.items_per_s * cores) * times_as_long(measured.core_score, device.core_score)
    )


def _per_hour(rate: float | None, whole_s: Range, why_not: str) -> float | Missing:
    return Missing(why_not) if rate is None else rate * whole_s.middle / 3600


def _notes(device: KnownDevice, precision: str, known: Efficiencies, found: StepForecast) -> tuple[str, ...]:
    notes = []
    if seen_regime(device, precision, known) is None:
        notes.append(f"no {device.architecture} device was measured in such arithmetic")
    if found.binds == "python":
        notes.append("the Python of your step would take longer than its operators")
    elif found.host_s > found.device_s:
        notes.append("its host launches operators more slowly than it computes them")
    if found.unknown_share > WORTH_SAYING:
        share = f"{100 * found.unknown_share:.0f} %"
        notes.append(f"{share} of its time is operators that nobody can count, taken by their bytes alone")
    return tuple(notes)


# Predictions of devices, held against what was published of them and against saved races.

LEAST_TO_COMPARE = 3  # devices of a published experiment


@in_words
def check_forecasts(
    records: Sequence[Record], match: Match, known: Efficiencies, recall: Recall
) -> tuple[CheckedForecast, ...]:
    """Hold predictions against what was published of the built-in trainings, and against saved records.

    A step on a processor is predicted from the same step on each other one, where records have two.
    """
    recorded = [measured_step for record in records for measured_step in recorded_steps(record, match)]
    found = [forecast for forecast in (_check(step, known) for step in recorded) if forecast is not None]
    return (*_check_published(match, known), *found, *_check_processors(records, recall))


def _check_published(match: Match, known: Efficiencies) -> Iterator[CheckedForecast]:
    """Yield the published steps of each experiment. What all its cards have in common is its software, and no error."""
    for workload in CATALOGUE.values():
        steps = list(_published_steps(workload, match))
        found = [forecast for forecast in (_check(step, known) for step in steps) if forecast is not None]
        if len(found) < LEAST_TO_COMPARE:
            continue
        slower = median([forecast.measured_ms / forecast.predicted_ms.middle for forecast in found])
        for forecast in found:
            predicted_ms = forecast.predicted_ms
            predicted = Range(slower * predicted_ms.middle, slower * predicted_ms.low, slower * predicted_ms.high)
            yield replace(forecast, predicted_ms=predicted, software=slower)
        share = median([_flops(step) / (step.ms / 1e3) / _peak(step.device) for step in steps if _is_modelled(step)])
        yield from (_check_by_peak(step, share, known) for step in steps if not _is_modelled(step))


def _check_by_peak(step: MeasuredStep, share: float, known: Efficiencies) -> CheckedForecast:
    """Return the check of a processor or a TPU, as if it reached the share of its peak that the cards did."""
    predicted = range_of(1e3 * _flops(step) / (share * _peak(step.device)), known.spread["unseen"])
    return CheckedForecast(step.what, step.device.name, step.source, step.ms, predicted, share=share)


def _is_modelled(step: MeasuredStep) -> bool:
    """Whether the model of operators knows such a device: it is a card."""
    return step.device.kind not in {"cpu", *UNMEASURED_KINDS}


def _flops(step: MeasuredStep) -> float:
    return sum(operator.calls * operator.flops for operator in step.operators)


def _peak(device: KnownDevice) -> float:
    """Return the operations a second of a device at its best."""
    return device.boosted_flops("fp32") or device.boosted_flops("bf16") or 0.0


def _published_steps(workload: Workload, match: Match) -> Iterator[MeasuredStep]:
    operators = list_operators(workload, workload.batch)
    for result in workload.published.results:
        device = match(result.device)
        if device is not None and result.lap_s and _peak(device):
            ms = 1e3 * median(list(result.lap_s)) / workload.steps_per_lap
            yield MeasuredStep(workload.name, operators, "fp32", "graph", device, ms, "published")


def _check_processors(records: Sequence[Record], recall: Recall) -> Iterator[CheckedForecast]:
    """Yield the newest step of each lane on each processor, as it is predicted from that on each other one."""
    newest: dict[tuple[str, str], dict[str, tuple[str, MeasuredLane, ProcessorRate]]] = {}
    for record in sorted(records, key=lambda record: record.started):
        for lane in training_lanes(record):
            measured = measure_lane(record, lane)
            rate = find_processor(record, lane, recall)
            if not isinstance(measured, Missing) and not isinstance(rate, Missing):
                place = f"{measured.place} ({record.machine.processor.cores_usable} cores)"
                newest.setdefault((measured.what, lane.name), {})[place] = record.id, measured, rate
    for (what, lane_name), places in newest.items():
        for (place, there), (_, here) in permutations(places.items(), 2):
            ratio = times_as_slow(there[2], here[2])
            spread = spread_between(there[2], here[2])
            predicted = range_of(ratio * here[1].step_ms, spread)
            source = f"{there[0]}; from {here[0]}"
            yield CheckedForecast(f"{what}, {lane_name}", place, source, there[1].step_ms, predicted)


def _check(step: MeasuredStep, known: Efficiencies) -> CheckedForecast | None:
    if not _is_modelled(step):
        return None
    found = forecast_step(step.operators, step.device, step.precision, step.execution, known)
    if isinstance(found, Missing):
        return None
    predicted = range_of(1e3 * found.step_s, spread_of(step.device, step.precision, known))
    return CheckedForecast(step.what, step.device.name, step.source, step.ms, predicted)


# What a card would bring, predicted at the end of a race or a `why` on a machine that has none.

THREE = ("t4", "rtx-4090", "h100-sxm")  # the cheapest to rent, one under a desk, and one of the fastest


def with_cards(record: Record) -> Record:
    """Return a finished record with what common cards would bring, if that can be predicted.

    A prediction that fails must not cost a race its record. A disturbed step predicts nothing.
    """
    if (
        not find_question(record.question).predicts_cards
        or has_card(record.machine)
        or record.ask.on
        or record.distrust
    ):
        return record
    try:
        return replace(record, cards=predict_cards(record))
    except COMPARING_FAULTS:
        return record


def predict_cards(record: Record) -> PredictedCards | None:
    lanes = [lane_result for lane_result in training_lanes(record) if lane_result.device.kind == "cpu"]
    if record.question == "why":
        lane = lanes[0] if lanes and lanes[0] == record.lanes[0] else None
    else:
        lane = max(lanes, key=lambda lane: lane.items_per_s.median if lane.items_per_s else 0.0, default=None)
    measured = None if lane is None else measure_lane(record, lane)
    if measured is None or isinstance(measured, Missing):
        return None
    found = [forecast_device(measured, find_device(name, known_devices()), known_efficiencies()) for name in THREE]
    rows = tuple(
        CardFactor(forecast.device.name, forecast.factor, forecast.binds)
        for forecast in found
        if not isinstance(forecast, Missing) and forecast.fits != "does not fit"
    )
    return PredictedCards(measured.lane.name, rows, loader_is_known=measured.knows_loader) if rows else None


def has_card(machine: Machine) -> bool:
    """Whether this machine has anything faster than its processor, used or not."""
    return bool(machine.cards) or any(
        device.usable and device.kind != "cpu" for framework in machine.frameworks for device in framework.devices
    )
