"""What sensors showed between two moments, and from that the resources that a lane used in heats, whole trainings and
answers: cores, memory, card, power, energy.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from laptime.analysis.heats import middle, quiet_windows, steady_windows
from laptime.model.hardware import COPY_EXERCISE, DeviceKey, DevicePeaks, Peak, Roofline, StepWork
from laptime.model.machine import Device
from laptime.model.process import Channel, Timeline, Watched
from laptime.model.protocol import FullRun, InferHeat
from laptime.model.quantities import Missing
from laptime.model.record import HeatResult, InferLane, LaneResult
from laptime.model.sample import (
    JOULES,
    WATTS,
    AnswerUsage,
    CardUsage,
    Energy,
    Meaning,
    Usage,
    meaning_of,
    meters_of,
    owner_of,
    preference,
)
from laptime.model.stats import median

# What sensors showed between two moments: means, growth, slopes, power and energy.

TimedValue = tuple[float, float]
"""Seconds on the parent's clock, and the value."""
SLOPE_LEAST_S = 10  # sensors of cards show whole degrees: one more within 2 s looks like 30 a minute
ENERGY_LEAST_S = 2.0
ENERGY_LEAST_READINGS = 10
COUNTER_READINGS = 3
NO_POWER_METER = Missing("no instrument shows the processor's power or energy")


@dataclass(frozen=True, slots=True)
class Span:
    """From the start of the first window that counts to the end of the last."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


TimelineSpan = tuple[Timeline, Span]
"""All readings, and the part of the time that counts."""


def points_of(timeline: Timeline, device: str, name: str) -> tuple[TimedValue, ...] | Missing:
    """Return all readings of a channel, with their times."""
    if timeline.clock is not None:
        return timeline.clock
    found = timeline.find(device, name)
    if found is None:
        return timeline.why_not(device, name)
    track, series = found
    pairs = zip(track.times_ns(), series.values(), strict=True)
    return tuple((time_ns / 1e9, value) for time_ns, value in pairs if value is not None)


def within(timeline: Timeline, device: str, name: str, span: Span) -> tuple[TimedValue, ...] | Missing:
    """Return a channel's readings in a span, or why there are none."""
    points = points_of(timeline, device, name)
    if isinstance(points, Missing):
        return points
    inside = tuple(point for point in points if span.start_s <= point[0] <= span.end_s)
    return inside or Missing(f"no reading fell into the {span.length_s:.1f} s that were timed")


def channel_of(timelines: Iterable[Timeline], device: str, means: Meaning) -> Channel | None:
    """Return the channel that shows this of a device."""
    shown = {channel for timeline in timelines for channel in shown_by(timeline) if channel.device == device}
    return min((channel for channel in shown if meaning_of(channel) == means), key=preference, default=None)


def shown_by(timeline: Timeline) -> tuple[Channel, ...]:
    return tuple(series.channel for track in timeline.tracks for series in track.series)


def channel_name(timeline: Timeline, device: str, means: Meaning) -> str:
    """Return the name of the channel that shows this, or that would show it; empty if no sensor knows it."""
    absent = (channel for track in timeline.tracks for channel, _ in track.absent if channel.device == device)
    shown = channel_of((timeline,), device, means)
    if shown is not None:
        return shown.name
    return next((channel.name for channel in absent if meaning_of(channel) == means), "")


def shown_within(timeline: Timeline, device: str, means: Meaning, span: Span) -> tuple[TimedValue, ...] | Missing:
    """Return the readings in a span of the channel that shows this of a device, or why there are none."""
    return within(timeline, device, channel_name(timeline, device, means), span)


def mean_of(points: tuple[TimedValue, ...] | Missing) -> float | Missing:
    return points if isinstance(points, Missing) else sum(value for _, value in points) / len(points)


def most_of(points: tuple[TimedValue, ...] | Missing) -> float | Missing:
    return points if isinstance(points, Missing) else max(value for _, value in points)


def growth_per_s(timeline: Timeline, device: str, name: str, span: Span) -> float | Missing:
    """Return how fast a counter grew in a span, without pauses; Missing for a counter that was reset."""
    points = within(timeline, device, name, span)
    return points if isinstance(points, Missing) else pooled_growth_per_s(split_at_pauses(timeline, points))


def shown_growth_per_s(timeline: Timeline, device: str, means: Meaning, span: Span) -> float | Missing:
    """Return how fast the counter that shows this of a device grew in a span."""
    return growth_per_s(timeline, device, channel_name(timeline, device, means), span)


def split_at_pauses(timeline: Timeline, points: tuple[TimedValue, ...]) -> list[tuple[TimedValue, ...]]:
    """Return the stretches between pauses: while another heat has its turn, nothing is read."""
    begins_s = [end_ns / 1e9 for _, end_ns in timeline.pauses_ns]
    stretches: dict[int, list[TimedValue]] = {}
    for point in points:
        stretches.setdefault(bisect(begins_s, point[0]), []).append(point)
    return [tuple(stretch) for stretch in stretches.values()]


def pooled_growth_per_s(stretches: Sequence[tuple[TimedValue, ...]]) -> float | Missing:
    """Return how fast a counter grew within all stretches together; its growth between them is left out."""
    long = [points for points in stretches if len(points) > 1]
    if not long:
        return Missing("a single reading of a counter shows no growth")
    if any(after[1] < before[1] for points in long for before, after in pairwise(points)):
        return Missing("the counter was set back meanwhile")
    return sum(points[-1][1] - points[0][1] for points in long) / lasted_s(long)


def lasted_s(stretches: Sequence[tuple[TimedValue, ...]]) -> float:
    """Return the sum of the times between the first and last reading of each stretch."""
    return sum(points[-1][0] - points[0][0] for points in stretches if points)


def slope_per_min(points: tuple[TimedValue, ...] | Missing) -> float | Missing:
    """Return the slope of the straight line through the readings."""
    if isinstance(points, Missing):
        return points
    if len(points) < 3 or points[-1][0] - points[0][0] < SLOPE_LEAST_S:
        return Missing(f"a slope needs {SLOPE_LEAST_S} s of readings")
    middle_s = sum(time_s for time_s, _ in points) / len(points)
    middle = sum(value for _, value in points) / len(points)
    spread = sum((time_s - middle_s) ** 2 for time_s, _ in points)
    return 60 * sum((time_s - middle_s) * (value - middle) for time_s, value in points) / spread


def trapezoid_mean(stretches: Sequence[tuple[TimedValue, ...]]) -> float:
    """Return the mean of samples over the time of all stretches; readings are not evenly spaced."""
    area = sum(
        (after[0] - before[0]) * (before[1] + after[1]) / 2
        for points in stretches
        for before, after in pairwise(points)
    )
    return area / lasted_s(stretches)


def why_no_energy(stretches: Sequence[tuple[TimedValue, ...]], readings: int) -> Missing | None:
    """Return why the readings are too few for energy, or None; meters are updated ten times a second."""
    spent_s = lasted_s(stretches)
    count = sum(map(len, stretches))
    if spent_s < ENERGY_LEAST_S:
        return Missing(f"{spent_s:.1f} s between its first and last reading, and energy needs {ENERGY_LEAST_S:g} s")
    if count < readings:
        return Missing(f"{count} readings, and energy needs {readings}")
    return None


@dataclass(frozen=True, slots=True)
class Power:
    """The mean power over a heat's timed part."""

    watts: float
    how: Literal["counted", "estimated"]


def mean_power(timeline: Timeline, devices: Sequence[str], span: Span) -> Power | Missing:
    """Return the mean power of a lane's devices over one span."""
    return pooled_power(((timeline, span),), devices)


def pooled_power(pairs: Sequence[TimelineSpan], devices: Sequence[str]) -> Power | Missing:
    """Return the mean power over all spans together, each of which may be too short for a figure of its own.

    The meters of all devices that a lane computes on are added up; a device without a meter counts with its sampled
    power.
    """
    if not devices:
        meters = meters_of("cpu")
        absent = ((name, why) for timeline, _ in pairs for name, why in timeline.absent if name in meters)
        return next((Missing(f"{name}: {why.missing}") for name, why in absent), NO_POWER_METER)
    powers: list[Power] = []
    for device in devices:
        power = _power_of_device(pairs, device)
        if isinstance(power, Missing):
            return power
        powers.append(power)
    how: Literal["counted", "estimated"] = "counted" if all(power.how == "counted" for power in powers) else "estimated"
    return Power(sum(power.watts for power in powers), how)


def make_energy(of: str, power: Power | Missing, lap_s: float | None, items_per_s: float | None) -> Energy:
    """Return the energy of a lap and of a thousand items at this power and pace."""
    if isinstance(power, Missing):
        return Energy(of, power, power, power, power, power)
    no_lap = Missing("how long a lap is was not told")
    no_items = Missing("how many items a step has was not told")
    return Energy(
        of=of,
        how=power.how,
        power_w=power.watts,
        j_per_lap=no_lap if lap_s is None else power.watts * lap_s,
        j_per_1000_items=no_items if not items_per_s else 1000 * power.watts / items_per_s,
        items_per_j=no_items if not items_per_s or not power.watts else items_per_s / power.watts,
    )


def _power_of_device(pairs: Sequence[TimelineSpan], device: str) -> Power | Missing:
    """Return the power that a meter counted or, where none did, the mean of its readings."""
    meter = channel_of((timeline for timeline, _ in pairs), device, "energy")
    if meter is None:
        why_not = pairs[0][0].why_not(device, channel_name(pairs[0][0], device, "energy"))
    else:
        stretches = _stretches(pairs, device, meter.name, COUNTER_READINGS)
        rate = stretches if isinstance(stretches, Missing) else pooled_growth_per_s(stretches)
        if not isinstance(rate, Missing):
            return Power(rate * JOULES[meter.unit], "counted")
        why_not = rate
    shown = channel_of((timeline for timeline, _ in pairs), device, "power")
    if shown is None:
        return why_not
    stretches = _stretches(pairs, device, shown.name, ENERGY_LEAST_READINGS)
    if isinstance(stretches, Missing):
        return stretches
    return Power(trapezoid_mean(stretches) * WATTS[shown.unit], "estimated")


def _stretches(
    pairs: Sequence[TimelineSpan], device: str, name: str, readings: int
) -> list[tuple[TimedValue, ...]] | Missing:
    """Return a channel's readings in each span, or why these are too few for energy."""
    found = [within(timeline, device, name, span) for timeline, span in pairs]
    known = [
        stretch
        for (timeline, _), points in zip(pairs, found, strict=True)
        if not isinstance(points, Missing)
        for stretch in split_at_pauses(timeline, points)
    ]
    if not known:
        return next(points for points in found if isinstance(points, Missing))
    refused = why_no_energy(known, readings)
    return known if refused is None else refused


# The measured limits of a device, from what several frameworks reached; and how close a lane comes to them.

ToldPeaks = Mapping[str, "Peak | Missing"]


def join_peaks(key: DeviceKey, measured: str, found: Mapping[str, ToldPeaks]) -> DevicePeaks:
    """Take the best of all frameworks for each limit: what one of them reaches, the device can do.

    `found` holds, by framework, what it reached. Where none reached a limit, the reason of each is kept.
    """
    limits = dict.fromkeys(limit for mapping in found.values() for limit in mapping)
    peaks: dict[str, Peak] = {}
    absent: dict[str, Missing] = {}
    for limit in limits:
        by = {framework: mapping[limit] for framework, mapping in found.items() if limit in mapping}
        reached = [peak for peak in by.values() if isinstance(peak, Peak)]
        if reached:
            peaks[limit] = max(reached, key=lambda peak: peak.best_per_s)
        else:
            reasons = ((framework, reason.missing) for framework, reason in by.items() if isinstance(reason, Missing))
            absent[limit] = Missing("; ".join(f"{framework}: {reason}" for framework, reason in reasons))
    return DevicePeaks(key.device, key.label, key.driver, measured, peaks, absent)


def place_under_roof(step_ms: float, precision: str, work: StepWork, peaks: DevicePeaks) -> Roofline | Missing:
    """Compare a step with its device's measured peaks; the limit that would take longer at its peak binds."""
    product = peaks.peaks.get(precision)
    copy = peaks.peaks.get(COPY_EXERCISE)
    if product is None or copy is None:
        lacks = precision if product is None else COPY_EXERCISE
        reason = peaks.absent.get(lacks, Missing("it was not tried"))
        what = "a copy" if lacks == COPY_EXERCISE else f"products in {lacks}"
        return Missing(f"what {peaks.label} can do at most in {what} is not known: {reason.missing}")
    seconds = step_ms / 1e3
    flops_per_s = work.flops / seconds
    bytes_per_s = work.bytes / seconds
    product_share = flops_per_s / product.best_per_s
    copy_share = bytes_per_s / copy.best_per_s
    return Roofline(
        precision=precision,
        work=work,
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        product_share=product_share,
        copy_share=copy_share,
        binds="products" if product_share >= copy_share else "memory",
        share=max(product_share, copy_share),
        peaks=peaks,
    )


HOST = "host"
HEAT = "heat"
PROCESSOR_WORDS = "the processor"
Reading = Callable[[Timeline, Span], "float | Missing"]
ShownReading = tuple[TimedValue, ...] | Missing
NO_CARD = Missing("this lane computes on the processor")
TIMED_PHASES = ("lap ", "validation ", "test")
CALLS_PHASE = "single calls"
# A gap up to this long between two timed parts (a checkpoint) is not left out: readings are a second apart.
GAP_S = 1.0
NO_LAPS = Missing("answers have no laps")


def summarise_usage(
    heats: Sequence[HeatResult], devices: Sequence[Device], cores: int, lap_s: float | None, items_per_s: float | None
) -> Usage | None:
    """Return the usage of the finished heats; None if no heat was watched."""
    timed = [result for result in heats if result.heat.process.status == "ok" and result.heat.windows]
    pairs = [
        (result.heat.process.timeline, span_of(result)) for result in timed if result.heat.process.timeline is not None
    ]
    if not pairs:
        return None
    cards = [card for device in devices if (card := watched_card(device, pairs[0][0])) is not None]
    of = " and ".join(cards) or _words(devices[0])
    energy = make_energy(of, _power(pairs, devices[0], cards), lap_s, items_per_s)
    if len(cards) < 2:
        return describe_usage(pairs, devices[0], cores, energy)
    return _joined([describe_usage(pairs, device, cores, energy) for device in devices], pairs, devices)


def describe_usage(
    pairs: Sequence[TimelineSpan], device: Device, cores: int, energy: Energy, warming: Sequence[TimelineSpan] = ()
) -> Usage:
    """Return the usage within some spans; `warming` holds longer ones, for the slope of the temperature."""
    card = watched_card(device, pairs[0][0])
    hot = card or (HOST if device.kind == "cpu" else device.name)
    usual = _over(pairs, median)
    most = _over(pairs, max)
    return Usage(
        processor_percent=usual(lambda line, span: _share(_busy_cores(line, HEAT, span), cores)),
        others_percent=usual(lambda line, span: _others(line, span, cores)),
        memory_most_bytes=most(lambda line, span: most_of(shown_within(line, HEAT, "memory", span))),
        device_percent=usual(_of_card(device, card, "busy", mean_of)),
        active_percent=usual(_of_card(device, card, "active", mean_of)),
        device_memory_most_bytes=most(_of_card(device, card, "memory", most_of)),
        temperature_of=hot,
        temperature_most_c=most(lambda line, span: most_of(shown_within(line, hot, "temperature", span))),
        temperature_slope_c_per_min=_over(warming or pairs, median)(
            lambda line, span: slope_per_min(shown_within(line, hot, "temperature", span))
        ),
        power_most_w=most(lambda line, span: _most_power(line, device, card, span)),
        energy=energy,
    )


def _joined(usages: Sequence[Usage], pairs: Sequence[TimelineSpan], devices: Sequence[Device]) -> Usage:
    """Return the usage of several devices from that of each."""
    hottest = max(usages, key=lambda usage: _or_none(usage.temperature_most_c))
    cards = tuple(
        CardUsage(
            device.name,
            usage.device_percent,
            usage.device_memory_most_bytes,
            usage.temperature_most_c,
            power if isinstance(power, Missing) else power.watts,
        )
        for device, usage in zip(devices, usages, strict=True)
        for _, power in [power_of(pairs, device)]
    )
    return replace(
        hottest,
        device_percent=_mean([usage.device_percent for usage in usages]),
        active_percent=_mean([usage.active_percent for usage in usages]),
        device_memory_most_bytes=max((usage.device_memory_most_bytes for usage in usages), key=_or_none),
        power_most_w=max((usage.power_most_w for usage in usages), key=_or_none),
        cards=cards,
    )


def _or_none(value: float | Missing) -> float:
    return -math.inf if isinstance(value, Missing) else value


def _mean(values: Sequence[float | Missing]) -> float | Missing:
    known = [value for value in values if not isinstance(value, Missing)]
    return sum(known) / len(known) if len(known) == len(values) else _reason(values)


def power_of(pairs: Sequence[TimelineSpan], device: Device) -> tuple[str, Power | Missing]:
    """Return the device whose power it is, and its mean power over all spans together."""
    card = watched_card(device, pairs[0][0])
    metered = _metered(pairs[0][0], device, [card] if card else [])
    return card or _words(device), metered if isinstance(metered, Missing) else pooled_power(pairs, metered)


def span_of(heat: HeatResult) -> Span:
    windows = steady_windows(heat)
    return Span(windows[0].start_ns / 1e9, windows[-1].end_ns / 1e9)


def watched_card(device: Device, timeline: Timeline) -> str | None:
    """Return the sensors' name of the lane's card, if one was watched."""
    if device.kind == "cpu":
        return None
    if timeline.cards:
        return dict(timeline.cards).get(device.name)
    named = [channel.device for channel in shown_by(timeline)]
    named += [channel.device for track in timeline.tracks for channel, _ in track.absent]
    cards = [name for name in dict.fromkeys(named) if owner_of(name) == "card"]
    return cards[0] if len(cards) == 1 else None


def _words(device: Device) -> str:
    return PROCESSOR_WORDS if device.kind == "cpu" else device.name


def _power(pairs: Sequence[TimelineSpan], device: Device, cards: list[str]) -> Power | Missing:
    """Return the median of the spans' powers."""
    metered = _metered(pairs[0][0], device, cards)
    if isinstance(metered, Missing):
        return metered
    powers = [mean_power(timeline, metered, span) for timeline, span in pairs]
    known = [power for power in powers if isinstance(power, Power)]
    if not known:  # each heat may be too short alone
        return pooled_power(pairs, metered)
    watts = middle(power.watts for power in known)
    assert watts is not None
    return Power(watts, "counted" if all(power.how == "counted" for power in known) else "estimated")


def _metered(timeline: Timeline, device: Device, cards: list[str]) -> list[str] | Missing:
    """Return what has a lane's meters; a processor's meters do not measure a card that was not watched."""
    if not cards and device.kind != "cpu":
        return timeline.why_not(device.name, channel_name(timeline, device.name, "energy"))
    if cards:
        return cards
    # The parts of the processor that have a meter.
    parts = dict.fromkeys(channel.device for channel in shown_by(timeline) if meaning_of(channel) == "energy")
    return [name for name in parts if owner_of(name) == "cpu"]


def _over(
    pairs: Sequence[TimelineSpan], join: Callable[[Sequence[float]], float]
) -> Callable[[Reading], float | Missing]:
    """Return a function that joins the readings of all spans; why there is none where none has it."""

    def over(reading: Reading) -> float | Missing:
        values = [reading(timeline, span) for timeline, span in pairs]
        known = [value for value in values if not isinstance(value, Missing)]
        return join(known) if known else _reason(values)

    return over


def _reason(values: Sequence[float | Missing]) -> Missing:
    return next(value for value in values if isinstance(value, Missing))


def _busy_cores(timeline: Timeline, device: str, span: Span) -> float | Missing:
    return shown_growth_per_s(timeline, device, "busy time", span)


def _share(cores_busy: float | Missing, cores: int) -> float | Missing:
    return cores_busy if isinstance(cores_busy, Missing) else 100 * cores_busy / cores


def _others(timeline: Timeline, span: Span, cores: int) -> float | Missing:
    """Return the share of all cores of the machine that others took: a container may only have some of them."""
    total = _busy_cores(timeline, HOST, span)
    if isinstance(total, Missing):
        return total
    own = _busy_cores(timeline, HEAT, span)
    if isinstance(own, Missing):
        return own
    online = mean_of(shown_within(timeline, HOST, "cores", span))
    return max(0.0, 100 * (total - own) / (cores if isinstance(online, Missing) else online))


def _of_card(
    device: Device, card: str | None, means: Meaning, over: Callable[[ShownReading], float | Missing]
) -> Reading:
    """Return a function that reads the lane's card; why a figure is missing depends on whether there is a card."""
    if device.kind == "cpu":
        return lambda _line, _span: NO_CARD
    if card is None:
        return lambda line, _span: line.why_not(device.name, channel_name(line, device.name, means))
    return lambda line, span: over(shown_within(line, card, means, span))


def _most_power(timeline: Timeline, device: Device, card: str | None, span: Span) -> float | Missing:
    if device.kind == "cpu":
        return Missing("a processor's meter counts energy, and reports no power of a moment")
    if card is None:
        return timeline.why_not(device.name, channel_name(timeline, device.name, "energy"))
    shown = channel_of((timeline,), card, "power")
    if shown is None:
        return timeline.why_not(card, channel_name(timeline, card, "energy"))
    most = most_of(within(timeline, card, shown.name, span))
    return most if isinstance(most, Missing) else WATTS[shown.unit] * most


def training_usage(runs: Sequence[FullRun], device: Device, cores: int, lane: LaneResult) -> Usage | None:
    """Return the usage of a lane's trainings while they trained, validated and tested; None if none was watched."""
    pairs = [pair for run in runs for pair in timed_pairs(run)]
    if not pairs:
        return None
    of, power = power_of(pairs, device)
    lap_s = None if lane.lap_s is None else lane.lap_s.median
    pace = None if lane.items_per_s is None else lane.items_per_s.median
    energy = replace(make_energy(of, power, lap_s, pace), j_whole=_whole_energy(runs, device))
    whole = [
        (watched.timeline, Span(spans[0].start_s, spans[-1].end_s))
        for run in runs
        for watched in run.watched
        if (spans := timed_spans(watched))
    ]
    return describe_usage(pairs, device, cores, energy, whole)


def timed_pairs(run: FullRun) -> list[TimelineSpan]:
    """Return the timed stretches of all processes of a training."""
    return [(watched.timeline, span) for watched in run.watched for span in timed_spans(watched)]


def timed_spans(watched: Watched) -> tuple[Span, ...]:
    """Return the finished stretches that were timed, from mark to mark: laps, validations, the test."""
    spans: list[Span] = []
    for begin, end in pairwise(watched.marks):
        if not begin.name.startswith(TIMED_PHASES):
            continue
        start_s = begin.at_ns / 1e9
        end_s = end.at_ns / 1e9
        if spans and start_s - spans[-1].end_s <= GAP_S:
            spans[-1] = Span(spans[-1].start_s, end_s)
        else:
            spans.append(Span(start_s, end_s))
    return tuple(spans)


def _whole_energy(runs: Sequence[FullRun], device: Device) -> float | Missing:
    """Return the median of the whole trainings: mean power, times the time of all laps, validations and the test."""
    joules: list[float] = []
    reasons: list[Missing] = []
    for run in runs:
        if run.process.status != "ok":
            continue
        pairs = timed_pairs(run)
        power = power_of(pairs, device)[1] if pairs else Missing("no instrument was read")
        if isinstance(power, Missing):
            reasons.append(power)
        else:
            joules.append(power.watts * (run.whole_s - run.ready_s))
    if joules:
        return median(joules)
    return reasons[0] if reasons else Missing("no training was whole")


def answer_usages(lane: InferLane, device: Device, cores: int) -> tuple[AnswerUsage, ...]:
    """Return the usage of single calls, then of each batch size; without those that were not watched."""
    call_pace = (
        None if lane.p50_ms is None or lane.items_a_call is None else 1e3 * lane.items_a_call / lane.p50_ms.median
    )
    sizes: list[tuple[int | None, float | None]] = [(None, call_pace)]
    sizes += [(batch.batch, batch.items_per_s.median if batch.items_per_s else None) for batch in lane.batches]
    usages: list[AnswerUsage] = []
    for batch, pace in sizes:
        pairs = answer_pairs(lane.heats, batch)
        if not pairs:
            continue
        of, power = power_of(pairs, device)
        energy = make_energy(of, power, None, pace)
        energy = replace(energy, j_per_lap=NO_LAPS, j_whole=Missing("answers are no training"))
        usages.append(AnswerUsage(batch, describe_usage(pairs, device, cores, energy)))
    return tuple(usages)


def answer_pairs(heats: Sequence[InferHeat], batch: int | None) -> list[TimelineSpan]:
    """Return the timed stretch of each heat that was watched, at one batch size or in single calls."""
    pairs: list[TimelineSpan] = []
    for heat in heats:
        if batch is None:  # single calls are between two marks, and have no times of their own
            marks = [(begin, end) for begin, end in pairwise(heat.marks) if begin.name == CALLS_PHASE]
            spans = [Span(begin.at_ns / 1e9, end.at_ns / 1e9) for begin, end in marks[:1]]
        else:
            runs = [quiet_windows(run.windows) for run in heat.batches if run.batch == batch and not run.reason]
            spans = [Span(run[0].start_ns / 1e9, run[-1].end_ns / 1e9) for run in runs[:1] if run]
        if heat.process.timeline is not None:
            pairs += [(heat.process.timeline, span) for span in spans]
    return pairs
