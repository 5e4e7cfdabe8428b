"""Energy of a lane's device: from its own meter where it has one, else from its power, sampled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from laptime.analysis.readings import (
    ENERGY_LEAST_READINGS,
    Pair,
    Point,
    Span,
    pooled_growth_per_s,
    pooled_trapezoid_mean,
    why_no_energy,
    within,
)
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Series, Timeline
from laptime.model.usage import Energy

COUNTER_READINGS = 3
JOULES = {"uJ": 1e-6, "mJ": 1e-3, "J": 1.0}
WATTS = {"uW": 1e-6, "mW": 1e-3, "W": 1.0}
METER = "energy_mj"
METERS = "rapl"
NO_METER = Missing("no instrument shows the processor's power or energy")
NO_POWER = Missing("no power is told")
SAMPLED = ("power_instant", "power_average")


@dataclass(frozen=True, slots=True)
class Power:
    """The mean over a heat's timed part."""

    watts: float
    how: Literal["counted", "estimated"]


def mean_power(timeline: Timeline, devices: Sequence[str], span: Span) -> Power | Missing:
    """Give the mean power of a lane's devices over one span."""
    return pooled_power(((timeline, span),), devices)


def pooled_power(pairs: Sequence[Pair], devices: Sequence[str]) -> Power | Missing:
    """Give the mean power over all spans together, each too short perhaps to tell any by itself.

    The meters of all devices that a lane computes on are added up; where one has none, its sampled power stands in.
    """
    if not devices:
        absent = (why for timeline, _ in pairs for name, why in timeline.absent if name == METERS)
        return next((Missing(f"{METERS}: {why.missing}") for why in absent), NO_METER)
    parts = [_one(pairs, device) for device in devices]
    missing = next((part for part in parts if isinstance(part, Missing)), None)
    if missing is not None:
        return missing
    powers = [part for part in parts if isinstance(part, Power)]
    how: Literal["counted", "estimated"] = "counted" if all(each.how == "counted" for each in powers) else "estimated"
    return Power(sum(each.watts for each in powers), how)


def make_energy(of: str, power: Power | Missing, lap_s: float | None, items_per_s: float | None) -> Energy:
    """Give what a lap and a thousand items take at this power and pace."""
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


def _one(pairs: Sequence[Pair], device: str) -> Power | Missing:
    counted = _counted(pairs, device)
    if isinstance(counted, Power):
        return counted
    sampled = _sampled(pairs, device)
    return counted if sampled == NO_POWER else sampled


def _counted(pairs: Sequence[Pair], device: str) -> Power | Missing:
    shown = (each for timeline, _ in pairs for each in _series_of(timeline, device))
    meter = next((each for each in shown if each.channel.kind == "counter" and _is(each, JOULES)), None)
    if meter is None:
        return pairs[0][0].why_not(device, METER)
    stretches = _stretches(pairs, device, meter.channel.name)
    refused = stretches if isinstance(stretches, Missing) else why_no_energy(stretches, COUNTER_READINGS)
    if refused is not None:
        return refused
    assert not isinstance(stretches, Missing)
    rate = pooled_growth_per_s(stretches)
    return rate if isinstance(rate, Missing) else Power(rate * JOULES[meter.channel.unit], "counted")


def _sampled(pairs: Sequence[Pair], device: str) -> Power | Missing:
    shown = find_power((timeline for timeline, _ in pairs), device)
    if shown is None:
        return NO_POWER
    stretches = _stretches(pairs, device, shown.name)
    refused = stretches if isinstance(stretches, Missing) else why_no_energy(stretches, ENERGY_LEAST_READINGS)
    if refused is not None:
        return refused
    assert not isinstance(stretches, Missing)
    return Power(pooled_trapezoid_mean(stretches) * WATTS[shown.unit], "estimated")


def find_power(timelines: Iterable[Timeline], device: str) -> Channel | None:
    """Give the channel that tells a device's power, instant power first: a mean over the last second still holds what
    came before the heat.
    """
    all_ = (each for timeline in timelines for each in _series_of(timeline, device))
    shown = {each.channel.name: each.channel for each in all_ if _is(each, WATTS)}
    return next((shown[name] for wanted in SAMPLED for name in sorted(shown) if name.startswith(wanted)), None)


def _stretches(pairs: Sequence[Pair], device: str, name: str) -> list[tuple[Point, ...]] | Missing:
    """Give what a channel told in each span; or why it told nothing in any."""
    told = [within(timeline, device, name, span) for timeline, span in pairs]
    known = [each for each in told if not isinstance(each, Missing)]
    return known or next(each for each in told if isinstance(each, Missing))


def _series_of(timeline: Timeline, device: str) -> list[Series]:
    return [each for track in timeline.tracks for each in track.series if each.channel.device == device]


def _is(series: Series, units: dict[str, float]) -> bool:
    return series.channel.unit in units
