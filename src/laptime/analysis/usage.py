"""The resources that a lane used in heats, whole trainings and answers: cores, memory, card, power, energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from laptime.analysis.heats import middle, quiet_windows, steady_windows
from laptime.analysis.readings import (
    Power,
    Span,
    TimedValue,
    TimelineSpan,
    channel_of,
    make_energy,
    mean_of,
    mean_power,
    most_of,
    name_of,
    pooled_power,
    shown_by,
    shown_growth_per_s,
    shown_within,
    slope_per_min,
    within,
)
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.protocol import FullRun, InferHeat
from laptime.model.record import HeatResult, InferLane, LaneResult
from laptime.model.sample import WATTS, AnswerUsage, CardUsage, Energy, Meaning, Usage, meaning_of, owner_of
from laptime.model.timeline import Timeline, Watched

HOST, HEAT = "host", "heat"
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
    cards = [card for each in devices if (card := watched_card(each, pairs[0][0])) is not None]
    of = " and ".join(cards) or _words(devices[0])
    energy = make_energy(of, _power(pairs, devices[0], cards), lap_s, items_per_s)
    if len(cards) < 2:
        return describe_usage(pairs, devices[0], cores, energy)
    return _joined([describe_usage(pairs, each, cores, energy) for each in devices], pairs, devices)


def describe_usage(
    pairs: Sequence[TimelineSpan], device: Device, cores: int, energy: Energy, warming: Sequence[TimelineSpan] = ()
) -> Usage:
    """Return the usage within some spans; `warming` holds longer ones, for the slope of the temperature."""
    card = watched_card(device, pairs[0][0])
    hot = card or (HOST if device.kind == "cpu" else device.name)
    usual, most = _median(pairs), _most(pairs)
    return Usage(
        processor_percent=usual(lambda line, span: _share(_busy_cores(line, HEAT, span), cores)),
        others_percent=usual(lambda line, span: _others(line, span, cores)),
        memory_most_bytes=most(lambda line, span: most_of(shown_within(line, HEAT, "memory", span))),
        device_percent=usual(_of_card(device, card, "busy", mean_of)),
        active_percent=usual(_of_card(device, card, "active", mean_of)),
        device_memory_most_bytes=most(_of_card(device, card, "memory", most_of)),
        temperature_of=hot,
        temperature_most_c=most(lambda line, span: most_of(shown_within(line, hot, "temperature", span))),
        temperature_slope_c_per_min=_median(warming or pairs)(
            lambda line, span: slope_per_min(shown_within(line, hot, "temperature", span))
        ),
        power_most_w=most(lambda line, span: _most_power(line, device, card, span)),
        energy=energy,
    )


def _joined(usages: Sequence[Usage], pairs: Sequence[TimelineSpan], devices: Sequence[Device]) -> Usage:
    """Return the usage of several devices from that of each."""
    hottest = max(usages, key=lambda each: _or_none(each.temperature_most_c))
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
        device_percent=_mean([each.device_percent for each in usages]),
        active_percent=_mean([each.active_percent for each in usages]),
        device_memory_most_bytes=max((each.device_memory_most_bytes for each in usages), key=_or_none),
        power_most_w=max((each.power_most_w for each in usages), key=_or_none),
        cards=cards,
    )


def _or_none(value: float | Missing) -> float:
    return -math.inf if isinstance(value, Missing) else value


def _mean(values: Sequence[float | Missing]) -> float | Missing:
    known = [each for each in values if not isinstance(each, Missing)]
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
    named = [each.device for each in shown_by(timeline)]
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
    told = [mean_power(line, metered, span) for line, span in pairs]
    known = [each for each in told if isinstance(each, Power)]
    if not known:  # each heat may be too short alone
        return pooled_power(pairs, metered)
    watts = middle(each.watts for each in known)
    assert watts is not None
    return Power(watts, "counted" if all(each.how == "counted" for each in known) else "estimated")


def _metered(timeline: Timeline, device: Device, cards: list[str]) -> list[str] | Missing:
    """Return what has a lane's meters; a processor's meters do not measure a card that was not watched."""
    if not cards and device.kind != "cpu":
        return timeline.why_not(device.name, name_of(timeline, device.name, "energy"))
    return cards or _packages(timeline)


def _packages(timeline: Timeline) -> list[str]:
    """Return the parts of the processor that have a meter."""
    metered = (each.device for each in shown_by(timeline) if meaning_of(each) == "energy")
    return [name for name in dict.fromkeys(metered) if owner_of(name) == "cpu"]


def _median(pairs: Sequence[TimelineSpan]) -> Callable[[Reading], float | Missing]:
    def over(reading: Reading) -> float | Missing:
        told = [reading(timeline, span) for timeline, span in pairs]
        known = middle(None if isinstance(each, Missing) else each for each in told)
        return _reason(told) if known is None else known

    return over


def _most(pairs: Sequence[TimelineSpan]) -> Callable[[Reading], float | Missing]:
    def over(reading: Reading) -> float | Missing:
        told = [reading(timeline, span) for timeline, span in pairs]
        known = [each for each in told if not isinstance(each, Missing)]
        return max(known) if known else _reason(told)

    return over


def _reason(told: Sequence[float | Missing]) -> Missing:
    return next(each for each in told if isinstance(each, Missing))


def _busy_cores(timeline: Timeline, device: str, span: Span) -> float | Missing:
    return shown_growth_per_s(timeline, device, "busy time", span)


def _share(cores_busy: float | Missing, cores: int) -> float | Missing:
    return cores_busy if isinstance(cores_busy, Missing) else 100 * cores_busy / cores


def _others(timeline: Timeline, span: Span, cores: int) -> float | Missing:
    """Return the share of all cores of the machine that others took: a container may only have some of them."""
    total, own = _busy_cores(timeline, HOST, span), _busy_cores(timeline, HEAT, span)
    if isinstance(total, Missing) or isinstance(own, Missing):
        return total if isinstance(total, Missing) else own
    online = mean_of(shown_within(timeline, HOST, "cores", span))
    return max(0.0, 100 * (total - own) / (cores if isinstance(online, Missing) else online))


def _of_card(
    device: Device, card: str | None, means: Meaning, over: Callable[[ShownReading], float | Missing]
) -> Reading:
    """Return a function that reads the lane's card; why a figure is missing depends on whether there is a card."""
    if device.kind == "cpu":
        return lambda _line, _span: NO_CARD
    if card is None:
        return lambda line, _span: line.why_not(device.name, name_of(line, device.name, means))
    return lambda line, span: over(shown_within(line, card, means, span))


def _most_power(timeline: Timeline, device: Device, card: str | None, span: Span) -> float | Missing:
    if device.kind == "cpu":
        return Missing("a processor's meter counts energy, and reports no power of a moment")
    if card is None:
        return timeline.why_not(device.name, name_of(timeline, device.name, "energy"))
    shown = channel_of((timeline,), card, "power")
    if shown is None:
        return timeline.why_not(card, name_of(timeline, card, "energy"))
    told = most_of(within(timeline, card, shown.name, span))
    return told if isinstance(told, Missing) else WATTS[shown.unit] * told


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
        (each.timeline, Span(spans[0].start_s, spans[-1].end_s))
        for run in runs
        for each in run.watched
        if (spans := timed_spans(each))
    ]
    return describe_usage(pairs, device, cores, energy, whole)


def timed_pairs(run: FullRun) -> list[TimelineSpan]:
    """Return the timed stretches of all processes of a training."""
    return [(each.timeline, span) for each in run.watched for span in timed_spans(each)]


def timed_spans(watched: Watched) -> tuple[Span, ...]:
    """Return the finished stretches that were timed, from mark to mark: laps, validations, the test."""
    told = [(begin, end) for begin, end in pairwise(watched.marks) if begin.name.startswith(TIMED_PHASES)]
    spans: list[Span] = []
    for begin, end in told:
        start_s, end_s = begin.at_ns / 1e9, end.at_ns / 1e9
        if spans and start_s - spans[-1].end_s <= GAP_S:
            spans[-1] = Span(spans[-1].start_s, end_s)
        else:
            spans.append(Span(start_s, end_s))
    return tuple(spans)


def _whole_energy(runs: Sequence[FullRun], device: Device) -> float | Missing:
    """Return the median of the whole trainings: mean power, times the time of all laps, validations and the test."""
    told = [_energy_of(run, device) for run in runs if run.process.status == "ok"]
    known = middle(None if isinstance(each, Missing) else each for each in told)
    if known is not None:
        return known
    return next((each for each in told if isinstance(each, Missing)), Missing("no training was whole"))


def _energy_of(run: FullRun, device: Device) -> float | Missing:
    pairs = timed_pairs(run)
    if not pairs:
        return Missing("no instrument was read")
    _, power = power_of(pairs, device)
    return power if isinstance(power, Missing) else power.watts * (run.whole_s - run.ready_s)


def answer_usages(lane: InferLane, device: Device, cores: int) -> tuple[AnswerUsage, ...]:
    """Return the usage of single calls, then of each batch size; without those that were not watched."""
    sizes: list[tuple[int | None, float | None]] = [(None, _call_pace(lane))]
    sizes += [(each.batch, each.items_per_s.median if each.items_per_s else None) for each in lane.batches]
    told = [(batch, answer_pairs(lane.heats, batch), pace) for batch, pace in sizes]
    return tuple(AnswerUsage(batch, _usage(pairs, device, cores, pace)) for batch, pairs, pace in told if pairs)


def answer_pairs(heats: Sequence[InferHeat], batch: int | None) -> list[TimelineSpan]:
    """Return the timed stretch of each heat that was watched, at one batch size or in single calls."""
    spans = [
        (heat.process.timeline, _calls_span(heat) if batch is None else _batch_span(heat, batch)) for heat in heats
    ]
    return [(timeline, span) for timeline, span in spans if timeline is not None and span is not None]


def _usage(pairs: Sequence[TimelineSpan], device: Device, cores: int, pace: float | None) -> Usage:
    of, power = power_of(pairs, device)
    energy = make_energy(of, power, None, pace)
    no_whole = Missing("answers are no training")
    return describe_usage(pairs, device, cores, replace(energy, j_per_lap=NO_LAPS, j_whole=no_whole))


def _call_pace(lane: InferLane) -> float | None:
    return None if lane.p50_ms is None or lane.items_a_call is None else 1e3 * lane.items_a_call / lane.p50_ms.median


def _calls_span(heat: InferHeat) -> Span | None:
    """Return the span of the single calls, which are between two marks and have no times of their own."""
    found = next((pair for pair in pairwise(heat.marks) if pair[0].name == CALLS_PHASE), None)
    return None if found is None else Span(found[0].at_ns / 1e9, found[1].at_ns / 1e9)


def _batch_span(heat: InferHeat, batch: int) -> Span | None:
    run = next((each for each in heat.batches if each.batch == batch and not each.reason), None)
    windows = quiet_windows(run.windows) if run else ()
    return Span(windows[0].start_ns / 1e9, windows[-1].end_ns / 1e9) if windows else None
