"""What sensors showed between two moments: means, growth, slopes, power and energy."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from laptime.model.limits import COPY_EXERCISE, DeviceKey, DevicePeaks, Peak, Roofline, StepWork
from laptime.model.missing import Missing
from laptime.model.sample import JOULES, WATTS, Energy, Meaning, meaning_of, meters_of, preference
from laptime.model.timeline import Channel, Timeline

TimedValue = tuple[float, float]
"""Seconds on the parent's clock, and the value."""
SLOPE_LEAST_S = 10  # sensors of cards show whole degrees: one more within 2 s looks like 30 a minute
ENERGY_LEAST_S = 2.0
ENERGY_LEAST_READINGS = 10
COUNTER_READINGS = 3
NO_POWER_METER = Missing("no instrument shows the processor's power or energy")
NO_POWER = Missing("no power is reported")


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
    return min((each for each in shown if meaning_of(each) == means), key=preference, default=None)


def shown_by(timeline: Timeline) -> tuple[Channel, ...]:
    return tuple(series.channel for track in timeline.tracks for series in track.series)


def name_of(timeline: Timeline, device: str, means: Meaning) -> str:
    """Return the name of the channel that shows this, or that would show it; empty if no sensor knows it."""
    absent = (channel for track in timeline.tracks for channel, _ in track.absent if channel.device == device)
    channel = channel_of((timeline,), device, means) or next(
        (each for each in absent if meaning_of(each) == means), None
    )
    return "" if channel is None else channel.name


def shown_within(timeline: Timeline, device: str, means: Meaning, span: Span) -> tuple[TimedValue, ...] | Missing:
    """Return the readings in a span of the channel that shows this of a device, or why there are none."""
    return within(timeline, device, name_of(timeline, device, means), span)


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
    return growth_per_s(timeline, device, name_of(timeline, device, means), span)


def split_at_pauses(timeline: Timeline, points: tuple[TimedValue, ...]) -> list[tuple[TimedValue, ...]]:
    """Return the stretches between pauses: while another heat has its turn, nothing is read."""
    begins_s = [end_ns / 1e9 for _, end_ns in timeline.pauses_ns]
    stretches: dict[int, list[TimedValue]] = {}
    for point in points:
        stretches.setdefault(bisect(begins_s, point[0]), []).append(point)
    return [tuple(each) for each in stretches.values()]


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
    spent_s, count = lasted_s(stretches), sum(map(len, stretches))
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
    parts = [_one(pairs, device) for device in devices]
    missing = next((part for part in parts if isinstance(part, Missing)), None)
    if missing is not None:
        return missing
    powers = [part for part in parts if isinstance(part, Power)]
    how: Literal["counted", "estimated"] = "counted" if all(each.how == "counted" for each in powers) else "estimated"
    return Power(sum(each.watts for each in powers), how)


def make_energy(of: str, power: Power | Missing, lap_s: float | None, items_per_s: float | None) -> Energy:
    """Return the energy of a lap and of a thousand items at this power and pace."""
    if isinstance(power, Missing):
        return Energy(of, power, power, power, power, power)
    no_lap, no_items = Missing("how long a lap is was not told"), Missing("how many items a step has was not told")
    return Energy(
        of=of,
        how=power.how,
        power_w=power.watts,
        j_per_lap=no_lap if lap_s is None else power.watts * lap_s,
        j_per_1000_items=no_items if not items_per_s else 1000 * power.watts / items_per_s,
        items_per_j=no_items if not items_per_s or not power.watts else items_per_s / power.watts,
    )


def _one(pairs: Sequence[TimelineSpan], device: str) -> Power | Missing:
    counted = _counted(pairs, device)
    if isinstance(counted, Power):
        return counted
    sampled = _sampled(pairs, device)
    return counted if sampled == NO_POWER else sampled


def _counted(pairs: Sequence[TimelineSpan], device: str) -> Power | Missing:
    meter = channel_of((timeline for timeline, _ in pairs), device, "energy")
    if meter is None:
        return pairs[0][0].why_not(device, name_of(pairs[0][0], device, "energy"))
    stretches = _stretches(pairs, device, meter.name)
    refused = stretches if isinstance(stretches, Missing) else why_no_energy(stretches, COUNTER_READINGS)
    if refused is not None:
        return refused
    assert not isinstance(stretches, Missing)
    rate = pooled_growth_per_s(stretches)
    return rate if isinstance(rate, Missing) else Power(rate * JOULES[meter.unit], "counted")


def _sampled(pairs: Sequence[TimelineSpan], device: str) -> Power | Missing:
    shown = channel_of((timeline for timeline, _ in pairs), device, "power")
    if shown is None:
        return NO_POWER
    stretches = _stretches(pairs, device, shown.name)
    refused = stretches if isinstance(stretches, Missing) else why_no_energy(stretches, ENERGY_LEAST_READINGS)
    if refused is not None:
        return refused
    assert not isinstance(stretches, Missing)
    return Power(trapezoid_mean(stretches) * WATTS[shown.unit], "estimated")


def _stretches(pairs: Sequence[TimelineSpan], device: str, name: str) -> list[tuple[TimedValue, ...]] | Missing:
    """Return a channel's readings in each span, or why there are none in any."""
    told = [within(timeline, device, name, span) for timeline, span in pairs]
    known = [
        stretch
        for (timeline, _), points in zip(pairs, told, strict=True)
        if not isinstance(points, Missing)
        for stretch in split_at_pauses(timeline, points)
    ]
    return known or next(each for each in told if isinstance(each, Missing))


# The measured limits of a device, from what several frameworks reached; and how close a lane comes to them.

ToldPeaks = Mapping[str, "Peak | Missing"]


def join_peaks(key: DeviceKey, measured: str, told: Mapping[str, ToldPeaks]) -> DevicePeaks:
    """Take the best of all frameworks for each limit: what one of them reaches, the device can do.

    `told` holds, by framework, what it reached. Where none reached a limit, the reason of each is kept.
    """
    limits = dict.fromkeys(limit for each in told.values() for limit in each)
    peaks: dict[str, Peak] = {}
    absent: dict[str, Missing] = {}
    for limit in limits:
        by = {framework: each[limit] for framework, each in told.items() if limit in each}
        reached = [each for each in by.values() if isinstance(each, Peak)]
        if reached:
            peaks[limit] = max(reached, key=lambda peak: peak.best_per_s)
        else:
            absent[limit] = _why_not({name: each for name, each in by.items() if isinstance(each, Missing)})
    return DevicePeaks(key.device, key.label, key.driver, measured, peaks, absent)


def _why_not(reasons: Mapping[str, Missing]) -> Missing:
    return Missing("; ".join(f"{framework}: {each.missing}" for framework, each in reasons.items()))


def place_under_roof(step_ms: float, precision: str, work: StepWork, peaks: DevicePeaks) -> Roofline | Missing:
    """Compare a step with its device's measured peaks; the limit that would take longer at its peak binds."""
    product, copy = peaks.peaks.get(precision), peaks.peaks.get(COPY_EXERCISE)
    if product is None or copy is None:
        lacks = precision if product is None else COPY_EXERCISE
        reason = peaks.absent.get(lacks, Missing("it was not tried"))
        what = "a copy" if lacks == COPY_EXERCISE else f"products in {lacks}"
        return Missing(f"what {peaks.label} can do at most in {what} is not known: {reason.missing}")
    seconds = step_ms / 1e3
    flops_per_s, bytes_per_s = work.flops / seconds, work.bytes / seconds
    product_share, copy_share = flops_per_s / product.best_per_s, bytes_per_s / copy.best_per_s
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
