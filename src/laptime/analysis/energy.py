"""Energy of a lane's device: from its own meter where it has one, else from its power, sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from laptime.analysis.readings import (
    ENERGY_LEAST_READINGS,
    Span,
    growth_per_s,
    trapezoid_mean,
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
    """Add up the meters of all devices that a lane computes on; where one has none, its sampled power stands in."""
    if not devices:
        return next((Missing(f"{name}: {why.missing}") for name, why in timeline.absent if name == METERS), NO_METER)
    parts = [_one(timeline, device, span) for device in devices]
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


def _one(timeline: Timeline, device: str, span: Span) -> Power | Missing:
    counted = _counted(timeline, device, span)
    if isinstance(counted, Power):
        return counted
    sampled = _sampled(timeline, device, span)
    return counted if sampled == NO_POWER else sampled


def _counted(timeline: Timeline, device: str, span: Span) -> Power | Missing:
    meters = (each for each in _series_of(timeline, device) if each.channel.kind == "counter" and _is(each, JOULES))
    meter = next(meters, None)
    if meter is None:
        return timeline.why_not(device, METER)
    points = within(timeline, device, meter.channel.name, span)
    refused = points if isinstance(points, Missing) else why_no_energy(points, COUNTER_READINGS)
    if refused is not None:
        return refused
    rate = growth_per_s(points)
    return rate if isinstance(rate, Missing) else Power(rate * JOULES[meter.channel.unit], "counted")


def _sampled(timeline: Timeline, device: str, span: Span) -> Power | Missing:
    shown = find_power(timeline, device)
    if shown is None:
        return NO_POWER
    points = within(timeline, device, shown.name, span)
    refused = points if isinstance(points, Missing) else why_no_energy(points, ENERGY_LEAST_READINGS)
    if refused is not None:
        return refused
    assert not isinstance(points, Missing)
    return Power(trapezoid_mean(points) * WATTS[shown.unit], "estimated")


def find_power(timeline: Timeline, device: str) -> Channel | None:
    """Give the channel that tells a device's power, instant power first: a mean over the last second still holds what
    came before the heat.
    """
    shown = {each.channel.name: each.channel for each in _series_of(timeline, device) if _is(each, WATTS)}
    return next((shown[name] for wanted in SAMPLED for name in sorted(shown) if name.startswith(wanted)), None)


def _series_of(timeline: Timeline, device: str) -> list[Series]:
    return [each for track in timeline.tracks for each in track.series if each.channel.device == device]


def _is(series: Series, units: dict[str, float]) -> bool:
    return series.channel.unit in units
